"""Wrong trees: as many nodes moved as asked for, the same shape and leaves, and the seed decides."""

from collections import Counter

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from labeltree.taxonomy import Taxonomy, TaxonomyError
from labeltree.taxonomy.wrong_trees import perturb

pytestmark = pytest.mark.slow


@st.composite
def trees(draw):
    size = draw(st.integers(2, 40))
    parents = [-1] + [draw(st.integers(0, i - 1)) for i in range(1, size)]
    return Taxonomy([f"n{i}" for i in range(size)], parents)


def moved(tree: Taxonomy, wrong: Taxonomy, mapping: torch.Tensor) -> torch.Tensor:
    """Which nodes have another parent."""
    old = mapping[tree.parent[1:]]
    return (wrong.parent[mapping[1:]] != old).nonzero()[:, 0] + 1


@settings(max_examples=150)
@given(trees(), st.floats(0.01, 1.0), st.integers(0, 5))
def test_shape_leaves_and_counts(tree, share, seed):
    by_depth = {d: (tree.depth == d).nonzero()[:, 0].tolist() for d in range(2, tree.max_depth + 1)}
    expected = {}
    for depth, nodes in by_depth.items():
        groups = Counter(tree.parent[nodes].tolist()).values()
        count = min(max(2, round(share * len(nodes))), len(nodes), 2 * (len(nodes) - max(groups)))
        count -= sum(min(group, count // 2) for group in groups) < count
        expected[depth] = count if count >= 2 else 0
    if not any(expected.values()):
        with pytest.raises(TaxonomyError, match="no node of this taxonomy can move"):
            perturb(tree, share, seed)
        return
    wrong, mapping = perturb(tree, share, seed)
    assert sorted(mapping.tolist()) == list(range(tree.num_nodes))
    assert [wrong.names[i] for i in mapping.tolist()] == tree.names
    assert torch.equal(wrong.depth[mapping], tree.depth)
    children = [len(tree.children(i)) for i in range(tree.num_nodes)]
    assert [len(wrong.children(i)) for i in mapping.tolist()] == children
    found = moved(tree, wrong, mapping)
    assert {d: int((tree.depth[found] == d).sum()) for d in by_depth} == expected


def test_the_seed_decides_and_nothing_moves_at_share_zero():
    tree = Taxonomy.from_paths([(a, f"{a}{b}", f"{a}{b}{c}") for a in "xyz" for b in "123" for c in "45"])
    first, again, other = perturb(tree, 0.5, 1)[0], perturb(tree, 0.5, 1)[0], perturb(tree, 0.5, 2)[0]
    assert first == again
    assert first != other
    same, mapping = perturb(tree, 0.0, 1)
    assert same == tree
    assert torch.equal(mapping, torch.arange(tree.num_nodes))
    with pytest.raises(ValueError, match=r"share is 1\.5"):
        perturb(tree, 1.5, 0)


def test_siblings_never_share_a_name(monkeypatch):
    tree = Taxonomy.from_paths([("a", "x"), ("a", "y"), ("b", "x"), ("b", "z")])
    for seed in range(20):
        wrong, mapping = perturb(tree, 0.5, seed)
        assert len(moved(tree, wrong, mapping)) == 2
    monkeypatch.setattr("labeltree.taxonomy.wrong_trees._DRAWS", 1)
    failed = 0
    for seed in range(20):
        try:
            perturb(tree, 0.5, seed)
        except TaxonomyError as error:
            assert "two nodes with the same name under one parent" in str(error)  # noqa: PT017
            failed += 1
    assert 0 < failed < 20

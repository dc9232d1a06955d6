"""Cross-validated node probabilities: no leakage, groups, rare, inner-node and missing labels."""

from __future__ import annotations

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from labeltree.curation import out_of_fold
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(
    [("animal", "mammal", "dog"), ("animal", "mammal", "cat"), ("animal", "fish", "trout"), ("plant", "oak")]
)


def clusters(names: list[str | None], seed: int = 0, noise: float = 0.1) -> tuple[torch.Tensor, torch.Tensor]:
    """Vectors (n, 6) near a point of each name, and the labels."""
    nodes = TREE.encode(names)
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(TREE.num_nodes + 1, 6, generator=generator)
    return centres[nodes] + noise * torch.randn(len(nodes), 6, generator=generator), nodes


def test_probabilities_are_of_every_node_and_sum_up_the_tree() -> None:
    vectors, nodes = clusters(["dog", "cat", "trout", "oak"] * 6)
    found = out_of_fold(vectors, nodes, TREE)
    assert found.probabilities.shape == (24, 4)
    assert torch.allclose(found.probabilities.sum(1), torch.ones(24))
    over = found.node_probabilities()
    mammal, dog, cat = (TREE.find(name) for name in ("mammal", "dog", "cat"))
    assert torch.allclose(over[:, mammal], over[:, dog] + over[:, cat])
    assert torch.allclose(over[:, 0], torch.ones(24, dtype=torch.float64))
    assert torch.equal(found.judged, nodes)
    assert torch.allclose(found.of_nodes(nodes), over[torch.arange(24), nodes])
    assert float(found.of_nodes(nodes).min()) > 0.5
    assert found.sentence() == ""


def test_a_sample_is_judged_without_itself_and_its_group() -> None:
    """A group that is alone with a label in its place would confirm itself if it were learned from."""
    vectors, nodes = clusters(["dog", "cat"] * 9)
    odd = torch.tensor([[30.0, 0, 0, 0, 0, 0]]).repeat(3, 1) + 0.01 * torch.eye(3, 6)
    vectors = torch.cat([vectors, odd])
    nodes = torch.cat([nodes, TREE.encode(["dog"] * 3)])
    groups = torch.cat([torch.full((18,), -1), torch.full((3,), 7)])
    found = out_of_fold(vectors, nodes, TREE, groups=groups, penalty=0.05)
    assert len(found.folds[-3:].unique()) == 1
    for fold in found.folds.unique().tolist():  # the oracle: scikit-learn on the other folds
        outside, inside = found.folds != fold, found.folds == fold
        mean, std = vectors[outside].mean(0), vectors[outside].std(0, correction=0)
        oracle = LogisticRegression(C=1 / (0.05 * int(outside.sum())), max_iter=2000, tol=1e-8)
        oracle.fit(((vectors - mean) / std)[outside].numpy(), nodes[outside].numpy())
        wanted = oracle.predict_proba(((vectors - mean) / std)[inside].numpy())
        columns = found.classes.place[torch.from_numpy(oracle.classes_)]
        got = found.probabilities[inside][:, columns]
        assert torch.allclose(got, torch.from_numpy(wanted).float(), atol=2e-3)


def test_rare_labels_are_judged_at_a_coarser_node_and_named() -> None:
    vectors, nodes = clusters(["dog"] * 8 + ["cat"] + ["trout"] + ["oak"] * 8)
    found = out_of_fold(vectors, nodes, TREE)
    # cat and trout, one sample each, are not enough together at 'animal' either
    assert found.rare == {TREE.find("cat"): -1, TREE.find("trout"): -1}
    assert found.judged[8:10].tolist() == [-1, -1]
    assert "2 labels" in found.sentence()
    assert "cat" in found.sentence()
    vectors, nodes = clusters(["dog"] * 8 + ["cat", "cat", "trout"] + ["oak"] * 8)
    found = out_of_fold(vectors, nodes, TREE)
    animal = TREE.find("animal")
    assert set(found.rare.values()) == {animal}
    assert found.judged[8:11].tolist() == [animal] * 3
    assert animal in found.classes.nodes.tolist()
    assert "judged at a coarser node" in found.sentence()


def test_inner_labels_teach_nothing_and_are_judged_by_the_sum_below() -> None:
    vectors, nodes = clusters(["dog", "cat", "oak"] * 6 + ["mammal"] * 4 + [None] * 2)
    found = out_of_fold(vectors, nodes, TREE)
    assert TREE.find("mammal") not in found.classes.nodes.tolist()
    assert found.judged[18:22].tolist() == [TREE.find("mammal")] * 4
    assert found.judged[22:].tolist() == [-1, -1]
    assert torch.allclose(found.probabilities[22:].sum(1), torch.ones(2))
    # where nothing below it is a label, it is a class like any other
    vectors, nodes = clusters(["mammal", "oak"] * 5)
    assert TREE.find("mammal") in out_of_fold(vectors, nodes, TREE).classes.nodes.tolist()


def test_a_class_within_one_fold_is_judged_where_its_classifier_has_seen_something() -> None:
    names = ["dog"] * 8 + ["cat"] * 8 + ["oak"] * 8
    vectors, nodes = clusters(names)
    groups = torch.arange(24)
    groups[8:16] = 100  # all cats are one group: it is too rare, since it cannot be learned without itself
    found = out_of_fold(vectors, nodes, TREE, groups=groups)
    assert TREE.find("cat") in found.rare
    assert set(found.judged[8:16].tolist()) == {-1}


def test_results_depend_on_the_seed_alone() -> None:
    vectors, nodes = clusters(["dog", "cat", "trout", "oak"] * 8, noise=1.0)
    first, second = (out_of_fold(vectors, nodes, TREE, seed=3) for _ in range(2))
    assert torch.equal(first.probabilities, second.probabilities)
    assert not torch.equal(first.folds, out_of_fold(vectors, nodes, TREE, seed=4).folds)


def test_constant_and_huge_columns_do_no_harm() -> None:
    vectors, nodes = clusters(["dog", "cat", "trout", "oak"] * 6)
    more = torch.cat([vectors, torch.zeros(24, 1), 1e12 * vectors[:, :1]], dim=1)
    assert bool(torch.isfinite(out_of_fold(more, nodes, TREE).probabilities).all())


def test_bad_input_is_told() -> None:
    vectors, nodes = clusters(["dog", "cat"] * 4)
    with pytest.raises(DataError, match="two are the least"):
        out_of_fold(vectors, TREE.encode(["dog"] * 8), TREE)
    with pytest.raises(DataError, match="two are the least"):
        out_of_fold(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64), TREE)
    with pytest.raises(DataError, match=r"vector 2 .* NaN"):
        out_of_fold(vectors.index_fill(0, torch.tensor([2]), torch.nan), nodes, TREE)
    with pytest.raises(ValueError, match="fewest is 1"):
        out_of_fold(vectors, nodes, TREE, fewest=1)
    with pytest.raises(ValueError, match="penalty is 0"):
        out_of_fold(vectors, nodes, TREE, penalty=0)
    with pytest.raises(ValueError, match="folds is 1"):
        out_of_fold(vectors, nodes, TREE, folds=1)
    with pytest.raises(ValueError, match="nodes"):
        out_of_fold(vectors, nodes + 100, TREE)

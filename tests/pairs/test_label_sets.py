"""Relations of samples with several labels: those of their closest labels."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labeltree import losses
from labeltree.pairs import PairRelation, SetRelation, implementation, relation_codes
from labeltree.pairs.pair_label_sets import closeness
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.label_sets import common_ancestors, distinct_labels
from labeltree.taxonomy.relations import ANCESTOR, APART, SAME

TREE = Taxonomy.from_paths(["a/x/1", "a/x/2", "a/y", "b/z/3", "b/z/4", "c"])
NODES = st.integers(-1, TREE.num_nodes - 1)
SETS = st.lists(st.lists(NODES, min_size=3, max_size=3), min_size=1, max_size=8)


def closest_of(u, v, refined):
    """The code of the closest two labels of two rows, pair by pair."""
    depth = TREE.depth if refined else None
    relation = PairRelation.of_batch(TREE.paths, torch.tensor([*u, *v]), taxonomy_depth=depth)
    codes = relation.label_codes(relation.queries, relation.keys)[: len(u), len(u) :]
    rank = closeness(relation.space)
    return int(codes.flatten()[rank[codes.flatten()].argmax()])


@settings(max_examples=50)
@given(SETS, st.booleans())
def test_every_pair_is_related_as_its_closest_labels(rows, refined):
    sets, depth = torch.tensor(rows), TREE.depth if refined else None
    relation = SetRelation.of_sets(TREE.paths, sets, taxonomy_depth=depth)
    wanted = [[closest_of(u, v, refined) for v in rows] for u in rows]
    found = relation.codes()
    wanted = torch.tensor(wanted)
    wanted.fill_diagonal_(relation.num_relations)
    assert torch.equal(found, wanted)


@settings(max_examples=50)
@given(SETS)
def test_rows_agree_at_a_depth_if_any_labels_do(rows):
    relation = SetRelation.of_sets(TREE.paths, torch.tensor(rows))
    codes = relation.codes()
    for depth in range(1, TREE.max_depth + 1):
        agrees = relation.space.relations.agrees(depth)
        at = TREE.paths[:, depth - 1]
        for i, own in enumerate(rows):
            for k, other in enumerate(rows):
                if i != k and int(codes[i, k]) < SAME * 4:  # an equal leaf counts before a deeper ancestor
                    alike = any(
                        u >= 0 and v >= 0 and int(at[u]) == int(at[v]) >= 0 for u in own for v in other
                    )
                    assert bool(agrees[codes[i, k]]) == alike


def test_which_relation_is_closer():
    space = relation_codes(3)
    rank, width = closeness(space), 4
    order = [
        SAME * width + 3,
        SAME * width + 1,
        ANCESTOR * width + 2,
        APART * width + 2,
        ANCESTOR * width + 1,
    ]
    found = rank[torch.tensor([*order, APART * width, space.size - 1])].tolist()
    assert found == sorted(found, reverse=True)
    assert found[-1] == 0


def batch(seed=0, n=12, dim=6):
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(n, dim, generator=generator, dtype=torch.float64)
    sets = distinct_labels(torch.randint(-1, TREE.num_nodes, (n, 2), generator=generator), TREE)
    return vectors, sets, torch.arange(n) // 2


LOSSES = [
    losses.SupConLoss(TREE),
    losses.HWCLoss(TREE),
    losses.HiMulConLoss(TREE),
    losses.HiMulConELoss(TREE, variant="paper"),
    losses.WeightedSupConLoss(TREE),
]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_a_set_of_one_label_is_the_label(loss):
    vectors, sets, instances = batch()
    only = torch.cat([sets[:, :1], torch.full_like(sets[:, :1], -1)], 1)
    assert torch.equal(loss(vectors, only, instances), loss(vectors, sets[:, 0], instances))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("how", ["dense", "streaming"])
def test_losses_of_sets(loss, how):
    """The order of rows and of labels does not matter, and the gradient is that of the value."""
    vectors, sets, instances = batch()
    vectors.requires_grad_()
    order = torch.randperm(len(vectors), generator=torch.Generator().manual_seed(1))
    with implementation(how):
        value = loss(vectors, sets, instances)
        other = loss(vectors[order], sets[order].flip(1), instances[order])
        torch.testing.assert_close(value, other)
        assert torch.autograd.gradcheck(lambda z: loss(z, sets, instances), (vectors,), fast_mode=True)
    with implementation("dense"):
        torch.testing.assert_close(value, loss(vectors, sets, instances))


def test_a_shared_label_attracts():
    """SupCon of rows that share one of two labels, against the same with one label for both."""
    one, two, four = TREE.encode(["a/x/1", "a/x/2", "b/z/4"]).tolist()
    z = torch.randn(3, 4, generator=torch.Generator().manual_seed(2))
    shared = losses.SupConLoss(TREE)(z, torch.tensor([[one, four], [four, -1], [two, -1]]))
    torch.testing.assert_close(shared, losses.SupConLoss(TREE)(z, torch.tensor([four, four, two])))


def test_two_samples_alike_with_a_third_but_not_with_each_other():
    one, four = TREE.encode(["a/x/1", "b/z/4"]).tolist()
    codes = SetRelation.of_sets(TREE.paths, torch.tensor([[one, four], [one, -1], [four, -1]])).codes()
    same = SAME * (TREE.max_depth + 1) + TREE.max_depth
    assert codes[0, 1] == codes[0, 2] == same
    assert codes[1, 2] == APART


def test_the_published_variant_has_no_sets():
    vectors, sets, instances = batch()
    with pytest.raises(ValueError, match="not defined for samples with several labels"):
        losses.HiMulConLoss(TREE, variant="reference")(vectors, sets, instances)


def test_labels_out_of_range():
    vectors, sets, instances = batch()
    sets[3, 1] = TREE.num_nodes
    with pytest.raises(ValueError, match=f"got {TREE.num_nodes} in row 3"):
        losses.HWCLoss(TREE)(vectors, sets, instances)


@settings(max_examples=50)
@given(SETS)
def test_common_ancestors(rows):
    found = common_ancestors(torch.tensor(rows), TREE).tolist()
    for row, node in zip(rows, found, strict=True):
        labels = [label for label in row if label >= 0]
        lines = [{label, *TREE.ancestors_of(label)} for label in labels]
        wanted = max(set.intersection(*lines), key=lambda n: int(TREE.depth[n])) if labels else -1
        assert node == wanted

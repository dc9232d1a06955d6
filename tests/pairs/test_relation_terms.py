"""Terms of tables over relations: learned weights, codes that are looked up, log-sum-exps of some entries."""

import pytest
import torch
from pair_batches import random_batch, random_tree

from labeltree.geometry import Sphere
from labeltree.pairs import PairRelation, implementation, masked_logsumexp, relation_terms
from labeltree.pairs.relation import NodeCodes
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow


def terms(n, z, weights, kind, tile=None):
    tree = random_tree(5)
    nodes, instances = random_batch(tree, 5, n)
    relation = PairRelation.of_batch(tree.paths, nodes, instances)
    member = torch.ones(3, relation.num_relations, dtype=torch.bool)
    with implementation(kind, tile=tile):
        return relation_terms(
            z, relation, Sphere(), 0.3, positive=weights, normaliser=weights.abs(), member=member
        )


@pytest.mark.parametrize("tile", [512, 16])
def test_weights_of_a_table_can_be_learned(tile):
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(40, 5, generator=generator, dtype=torch.float64)
    size = 4 * (random_tree(5).max_depth + 1) + 1
    start = torch.randn(3, size, generator=generator, dtype=torch.float64)
    found = []
    for kind in ("dense", "streaming"):
        x, weights = z.clone().requires_grad_(), start.clone().requires_grad_()
        row, normaliser = terms(40, x, weights, kind, tile if kind == "streaming" else None)
        found.append(torch.autograd.grad((row.sin() + normaliser.cos()).sum(), [x, weights]))
    for ours, theirs in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    assert found[0][1].abs().sum() > 0


def test_the_gradient_of_weights_is_a_difference_quotient():
    generator = torch.Generator().manual_seed(1)
    z = torch.randn(17, 4, generator=generator, dtype=torch.float64)
    weights = torch.rand(3, 4 * (random_tree(5).max_depth + 1) + 1, generator=generator, dtype=torch.float64)
    weights.requires_grad_()
    assert torch.autograd.gradcheck(lambda w: terms(17, z, w, "streaming", 8)[0], weights, fast_mode=True)


@pytest.mark.parametrize("refined", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_codes_that_are_looked_up_are_those_that_are_computed(seed, refined):
    tree = random_tree(seed, 20)
    nodes = torch.arange(-1, len(tree))
    rows = PairRelation.of_batch(tree.paths, nodes, taxonomy_depth=tree.depth if refined else None).queries
    assert rows.codes is not None
    relation = PairRelation(rows, rows, offset=None)
    found = rows.codes.of(nodes, nodes)
    assert torch.equal(found, torch.from_numpy(rows.codes.among(nodes.numpy())))
    bare = type(rows)(rows.nodes, rows.paths, rows.instances, rows.depth)
    assert torch.equal(found, relation.label_codes(bare, bare))


def test_refined_codes_of_a_deep_tree_fit():
    tree = Taxonomy.from_paths([tuple(f"{depth}" for depth in range(200)), ("other",)])
    nodes = torch.tensor([len(tree) - 1, 1, 150])
    relation = PairRelation.of_batch(tree.paths, nodes, taxonomy_depth=tree.depth)
    assert int(relation.codes().max()) == relation.num_relations > 2**15


def test_large_trees_have_no_table_and_kept_ones_go_with_their_paths():
    paths = torch.zeros(5, 2, dtype=torch.int64)
    compute = lambda nodes: torch.zeros(len(nodes), len(nodes), dtype=torch.int64)  # noqa: E731
    before = len(NodeCodes._kept)
    assert NodeCodes.of_taxonomy(paths, False, compute) is NodeCodes.of_taxonomy(paths, False, compute)
    assert len(NodeCodes._kept) == before + 1
    del paths
    assert len(NodeCodes._kept) == before
    assert NodeCodes.of_taxonomy(torch.zeros(2000, 2, dtype=torch.int64), False, compute) is None


def test_log_sum_exps_of_some_entries():
    x = torch.tensor(
        [[0.5, -torch.inf, 2.0], [-torch.inf, -torch.inf, 1.0], [1.0, 2.0, 3.0]], dtype=torch.float64
    )
    mask = torch.tensor([True, True, False])
    x.requires_grad_()
    found = masked_logsumexp(x, mask)
    assert found.tolist() == pytest.approx([0.5, 0.0, torch.tensor([1.0, 2.0]).logsumexp(0).item()])
    (gradient,) = torch.autograd.grad(found.sum(), x)
    assert gradient[:2].tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    assert float(gradient[2].sum()) == pytest.approx(1.0)
    assert gradient[2, 2] == 0

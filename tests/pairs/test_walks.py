"""The walks of a batch with itself against the dense reference, with all sorts of labels."""

import pytest
import torch
from pair_batches import random_batch, random_tree

from labeltree.geometry import Euclidean, Sphere
from labeltree.losses import HiMulConELoss, HWCLoss, SupConLoss
from labeltree.pairs import (
    PairRelation,
    bounded_sum,
    bounded_terms,
    implementation,
    pair_counts,
    pair_statistics,
    relation_terms,
)
from labeltree.pairs.primitives import way_of
from labeltree.pairs.tiles.grid import grid_of
from labeltree.taxonomy import Taxonomy
from sweeps import some_now

pytestmark = pytest.mark.slow

WALKS = [{"tile": 5}, {"tile": 16, "keep": 0}, {"tile": 512}]
WANT = ("count", "sum", "lse", "least")


def batch(seed, refined=False):
    tree = random_tree(seed)
    n = (7, 23, 41)[seed % 3]
    nodes, instances = random_batch(tree, seed, n)
    if seed % 4 == 3:
        instances = None
    if seed % 5 == 4:  # leaves alone
        nodes = tree.leaves[
            torch.randint(len(tree.leaves), (n,), generator=torch.Generator().manual_seed(seed))
        ]
    z = torch.randn(n, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    depth = tree.depth if refined else None

    def relation():
        return PairRelation.of_batch(tree.paths, nodes, instances, taxonomy_depth=depth)

    return tree, z, nodes, instances, relation


def evaluated(z, relation, weights, scale, tau):
    x = z.clone().requires_grad_()
    got = pair_statistics(x, x, relation(), Sphere(), tau, scale=scale, want=WANT)
    value = (weights[0] * got.sum).sum()
    value = value + torch.where(got.lse > -torch.inf, weights[1] * got.lse, 0.0).sum()
    value = value + torch.where(got.least < torch.inf, weights[2] * got.least, 0.0).sum()
    (gradient,) = torch.autograd.grad(value, x)
    return got.count, got.sum, got.lse, got.least, gradient


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize(("seed", "refined"), some_now(((seed, seed // 4 % 2 == 1) for seed in range(15)), 8))
def test_statistics_are_those_of_the_reference(seed, walk, refined):
    _, z, _, _, relation = batch(seed, refined)
    generator = torch.Generator().manual_seed(seed)
    size = relation().num_relations
    weights = torch.randn(3, len(z), size, generator=generator, dtype=torch.float64)
    scale = 1 + torch.rand(size, generator=generator, dtype=torch.float64) if seed % 2 else None
    with implementation("dense"):
        expected = evaluated(z, relation, weights, scale, 0.2)
    with implementation("streaming", **walk):
        for ours, theirs in zip(evaluated(z, relation, weights, scale, 0.2), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)
        assert torch.equal(pair_counts(relation()), expected[0])


def tables(seed, size):
    """Three terms with their positives, normalisers and members, of which two may compete alike."""
    generator = torch.Generator().manual_seed(seed)
    member = torch.rand(3, size, generator=generator) < (1.0, 0.7, 0.4)[seed % 3]
    if seed % 2:
        member[1] = member[0]
    positive = torch.rand(3, size, generator=generator, dtype=torch.float64).round(decimals=1)
    positive = positive.masked_fill_(~member | (torch.rand(3, size, generator=generator) < 0.5), 0.0)
    normaliser = (torch.rand(3, size, generator=generator) < 0.5).double()
    return {"positive": positive, "normaliser": normaliser, "member": member}


def terms(z, relation, scale, weights, seed):
    """Row terms and normalisers, then the gradient; and likewise under the hierarchical constraint."""
    table = tables(seed, relation.num_relations)
    x = z.clone().requires_grad_()
    row, normaliser = relation_terms(x, relation, Sphere(), 0.2, **table, scale=scale)
    found = [row, normaliser, *torch.autograd.grad((row * weights).sum(), x)]
    x = z.clone().requires_grad_()
    positive = table["positive"] > 0
    row, normaliser = bounded_terms(
        x, relation, Sphere(), 0.2, members=table["member"], positives=positive, detach_bound=seed % 4 == 0
    )
    return [*found, row, normaliser, *torch.autograd.grad((row * weights).sum(), x)]


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize(("seed", "refined"), some_now(((seed, seed // 4 % 2 == 1) for seed in range(15)), 8))
def test_terms_are_those_of_the_reference(seed, walk, refined):
    _, z, _, _, relation = batch(seed, refined)
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(len(z), 3, generator=generator, dtype=torch.float64)
    size = relation().num_relations
    scale = 1 + torch.rand(size, generator=generator, dtype=torch.float64) if seed % 2 else None
    with implementation("dense"):
        expected = terms(z, relation(), scale, weights, seed)
    with implementation("streaming", **walk):
        for ours, theirs in zip(terms(z, relation(), scale, weights, seed), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("seed", some_now(range(9), 4))
def test_bounded_sum_is_that_of_the_reference(seed, walk):
    tree, z, nodes, instances, relation = batch(seed)
    generator = torch.Generator().manual_seed(seed)
    members = torch.rand(3, relation().num_relations, generator=generator) < 0.5
    offset = torch.randn(len(z), 3, generator=generator, dtype=torch.float64)
    bound = torch.tensor([0.5, -torch.inf, 2.0], dtype=torch.float64)
    weight = torch.randn(len(z), 3, generator=generator, dtype=torch.float64)

    def evaluate():
        x, o, b = (t.clone().requires_grad_() for t in (z, offset, bound))
        value = bounded_sum(x, x, relation(), Sphere(), 0.5, members=members, offset=o, bound=b)
        loss = HiMulConELoss(tree, variant="paper")(x, nodes, instances)
        return value, loss, *torch.autograd.grad((value * weight).sum() + loss, (x, o, b))

    with implementation("dense"):
        expected = evaluate()
    with implementation("streaming", **walk):
        for ours, theirs in zip(evaluate(), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("seed", some_now(range(6), 2))
def test_rows_of_a_shard_are_those_of_the_whole(seed, monkeypatch):
    """Every rank's rows against all: the statistics put together, and each rank's rows of the gradient."""
    _, z, _, _, relation = batch(seed)
    n = len(z)
    weights = torch.randn(n, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    with implementation("dense"):
        expected = terms(z, relation(), None, weights, seed)
    shards = [slice(0, n // 3), slice(n // 3, n // 3), slice(n // 3, n)]
    found = {}
    for turn in range(4):  # of three collectives, each needs what the one before has given
        for rank, shard in enumerate(shards):
            calls = iter(range(3))

            def of_all(own, shard, n, rank=rank, calls=calls, turn=turn):
                call = next(calls)
                found[rank, call] = own
                if call < turn:
                    return torch.cat([found[r, call] for r in range(len(shards))])
                return torch.ones(n, own.shape[1], dtype=own.dtype)

            monkeypatch.setattr("labeltree.pairs.tiles.grid.rows_of_all_ranks", of_all)
            made = relation()
            made.shard = shard
            with implementation("streaming", tile=4):
                got = terms(z, made, None, weights, seed)
            if turn == 3:
                for place, (ours, theirs) in enumerate(zip(got, expected, strict=True)):
                    rows = shard if place % 3 == 2 else slice(None)
                    torch.testing.assert_close(ours[rows], theirs[rows], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_bounded_rows_of_a_shard_are_those_of_the_whole(seed, monkeypatch):
    _, z, _, _, relation = batch(seed)
    n, generator = len(z), torch.Generator().manual_seed(seed)
    members = torch.rand(3, relation().num_relations, generator=generator) < 0.5
    offset = torch.randn(n, 3, generator=generator, dtype=torch.float64)
    bound = torch.tensor([0.5, -torch.inf, 1.0], dtype=torch.float64)
    weight = torch.randn(n, 3, generator=generator, dtype=torch.float64)

    def evaluate(made):
        x, o, b = (t.clone().requires_grad_() for t in (z, offset, bound))
        value = bounded_sum(x, x, made, Sphere(), 0.5, members=members, offset=o, bound=b)
        return value, *torch.autograd.grad((value * weight).sum(), (x, o, b))

    with implementation("dense"):
        expected = evaluate(relation())
    found = []
    for turn in range(2):
        for shard in (slice(0, n // 4), slice(n // 4, n)):
            made = relation()
            made.shard = shard

            def of_all(own, shard, n, turn=turn):
                if turn == 0:
                    found.append(own)
                return torch.cat(found) if turn else own.new_ones(n, own.shape[1])

            monkeypatch.setattr("labeltree.pairs.tiles.grid.rows_of_all_ranks", of_all)
            with implementation("streaming", tile=4):
                value, of_z, of_offset, of_bound = evaluate(made)
            if turn:
                for ours, theirs in zip(
                    (value, of_z[shard], of_offset, of_bound),
                    (expected[0], expected[1][shard], *expected[2:]),
                    strict=True,
                ):
                    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_what_is_compared_decides_how():
    tree, z, nodes, _, relation = batch(2)
    scale = torch.ones(relation().num_relations, requires_grad=True)
    with implementation("streaming", tile=4):
        assert way_of(z, z, relation(), 0.1, "cosine", small=True) == "tiles"
        assert way_of(z, z, relation(), 1e-4, "cosine") == "general"  # exp(10,000) is no number
        assert way_of(z, z, relation(), torch.tensor(0.1), "cosine") == "general"
        assert way_of(z, z, relation(), 0.1, "distance") == "general"
        assert way_of(z, z.clone(), relation(), 0.1, "cosine") == "general"
        assert way_of(z, z, relation(), 0.1, "cosine", scale=scale) == "general"
        crowd = PairRelation.of_batch(tree.paths, nodes.repeat(2)[:80], torch.zeros(80, dtype=torch.int64))
        many = z.repeat(2, 1)[:80]
        assert way_of(many, many, crowd, 0.1, "cosine") == "general"  # all rows views of one sample
    with implementation("streaming"):
        assert way_of(z, z, relation(), 0.1, "cosine", small=True) == "small"
        assert way_of(z, z, relation(), 0.1, "cosine") == "tiles"
    with implementation("dense"):
        assert way_of(z, z, relation(), 0.1, "cosine", small=True) == "dense"
    assert way_of(z, z, relation(), 0.1, "cosine") == "dense"  # so few are


def test_pairs_of_one_relation_are_found_for_whole_tiles():
    tree = Taxonomy.from_paths([(f"a{i // 4}", f"b{i}") for i in range(16)])
    nodes = tree.leaves.repeat_interleave(4)
    grid = grid_of(PairRelation.of_batch(tree.paths, nodes), 8)
    tiles = list(grid.tiles())
    assert len(tiles) == 8 * 9 // 2
    whole = [tile for tile in tiles if tile.code >= 0]
    assert len(whole) == len(tiles) - 8  # all but the diagonal, where two leaves meet
    codes = grid.relation.codes()
    for tile in whole:
        assert (codes[tile.rows, tile.cols] == tile.code).all()


@pytest.mark.parametrize("tau", [0.05, 0.012, 0.0008])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_small_temperatures_and_large_scales_stay_finite(tau, dtype):
    """float32 tiles, float64 tiles, and the general walk with its running maximum."""
    tree = Taxonomy.from_paths([(f"a{i // 4}", f"b{i}") for i in range(12)])
    generator = torch.Generator().manual_seed(0)
    nodes = tree.leaves[torch.randint(12, (40,), generator=generator)]
    z = torch.randn(40, 4, generator=generator, dtype=torch.float64)
    loss = HWCLoss(tree, alpha=1.0, gamma=1.0, temperature=tau)

    def evaluate(name, x):
        x = x.clone().requires_grad_()
        with implementation(name, tile=9):
            value = loss(x, nodes)
            value.backward()
        return value.detach(), x.grad

    value, gradient = evaluate("dense", z)
    ours, of_ours = evaluate("streaming", z.to(dtype))
    assert of_ours.isfinite().all()
    rough = dtype == torch.float32
    torch.testing.assert_close(ours.double(), value, rtol=1e-5 if rough else 1e-11, atol=0)
    error = (of_ours.double() - gradient).norm() / gradient.norm()
    assert error < (2e-4 if rough else 1e-10)


def test_a_second_derivative_is_an_error_that_names_the_way_out():
    tree, z, nodes, instances, _ = batch(1)
    loss = SupConLoss(tree)
    for geometry in (None, Euclidean()):
        x = z.clone().requires_grad_()
        with implementation("streaming", tile=4):
            value = SupConLoss(tree, geometry=geometry)(x, nodes, instances)
            (gradient,) = torch.autograd.grad(value, x, create_graph=True)
            with pytest.raises(RuntimeError, match=r'implementation\("dense"\)'):
                gradient.pow(2).sum().backward()
    with implementation("dense"):
        x = z.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(x, nodes, instances), x, create_graph=True)
        gradient.pow(2).sum().backward()
    assert x.grad.isfinite().all()


def test_backward_twice_gives_the_same():
    tree, z, nodes, instances, _ = batch(2)
    x = z.clone().requires_grad_()
    with implementation("streaming", tile=6):
        value = HWCLoss(tree, alpha=0.5)(x, nodes, instances)
        (first,) = torch.autograd.grad(value, x, retain_graph=True)
        (second,) = torch.autograd.grad(value, x)
    torch.testing.assert_close(first, second, rtol=1e-12, atol=1e-14)


def test_rows_without_direction_have_no_gradient():
    tree, z, nodes, instances, _ = batch(2)
    z[3] = 0
    x = z.clone().requires_grad_()
    with implementation("streaming", tile=6):
        SupConLoss(tree)(x, nodes, instances).backward()
    assert x.grad.isfinite().all()
    assert (x.grad[3] == 0).all()


def test_an_unknown_implementation_is_named():
    with pytest.raises(ValueError, match="expected one of 'auto', 'dense', 'streaming', 'triton'"):
        implementation("fast").__enter__()
    with pytest.raises(ValueError, match="tile must be at least 1; got 0"):
        implementation("streaming", tile=0).__enter__()

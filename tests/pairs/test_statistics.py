"""Pair statistics, against double loops over the definitions."""

import math

import pytest
import torch
from pair_batches import random_batch, random_tree

from labeltree.geometry import Euclidean, PoincareBall, Sphere
from labeltree.pairs import PairRelation, bounded_sum, pair_counts, pair_statistics
from sweeps import some_now

pytestmark = pytest.mark.slow

WANT = ("count", "sum", "lse", "least", "least_index", "weighted")
SPACES = [
    (Sphere(), "cosine"),
    (Sphere(), "distance"),
    (Euclidean(), "distance"),
    (PoincareBall(-0.5), "distance"),
    (PoincareBall(-0.5), "cosine"),
]


def batch(seed, n=11, d=3):
    tree = random_tree(seed)
    nodes, instances = random_batch(tree, seed, n)
    z = torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return 0.4 * z / z.norm(dim=1).max(), PairRelation.of_batch(tree.paths, nodes, instances)


def tiles_of(w):
    """The matrix as a function of rows and columns."""

    def tile(rows, cols):
        return w[slice(None) if rows is None else rows][:, slice(None) if cols is None else cols]

    return tile


def similarity(geometry, kind, x, y):
    if kind == "cosine":
        return float(x @ y / (x.norm() * y.norm()))
    return -float(geometry.distance(x, y))


@pytest.mark.parametrize(("geometry", "kind"), SPACES)
@pytest.mark.parametrize("seed", some_now(range(3)))
def test_against_loops(seed, geometry, kind):
    z, relation = batch(seed)
    n, size, codes = len(z), relation.num_relations, relation.codes().tolist()
    scale = 1 + torch.rand(size, dtype=torch.float64)
    w = torch.rand(n, n, dtype=torch.float64)
    got = pair_statistics(
        z, z, relation, geometry, 0.3, similarity=kind, scale=scale, pair_weight=tiles_of(w), want=WANT
    )
    count, total, lse, least, first = (
        field.tolist() for field in (got.count, got.sum, got.lse, got.least, got.least_index)
    )
    scales = scale.tolist()
    for i in range(n):
        weight = weighted = 0.0
        for r in range(size):
            keys = [k for k in range(n) if k != i and codes[i][k] == r]
            s = [similarity(geometry, kind, z[i], z[k]) / 0.3 for k in keys]
            assert count[i][r] == len(keys)
            if keys:
                assert total[i][r] == pytest.approx(sum(s), rel=1e-12, abs=1e-12)
                expected = math.log(sum(math.exp(scales[r] * x) for x in s))
                assert lse[i][r] == pytest.approx(expected, rel=1e-12, abs=1e-12)
                assert least[i][r] == pytest.approx(min(s), rel=1e-12, abs=1e-12)
                assert first[i][r] in keys
                assert s[keys.index(first[i][r])] == min(s)
            else:
                assert abs(total[i][r]) <= 1e-12
                assert lse[i][r] == -math.inf
                assert least[i][r] == math.inf
                assert first[i][r] == -1
            weight += sum(float(w[i, k]) for k in keys)
            weighted += sum(float(w[i, k]) * x for k, x in zip(keys, s, strict=True))
        assert got.weight[i] == pytest.approx(weight)
        assert got.weighted_sum[i] == pytest.approx(weighted)
    assert torch.equal(pair_counts(relation), got.count)


def test_only_what_is_wanted():
    z, relation = batch(0)
    got = pair_statistics(z, z, relation, Sphere(), 0.1, want=("least",))
    assert got.count is None
    assert got.lse is None
    assert got.least is not None
    with pytest.raises(ValueError, match="needs pair_weight"):
        pair_statistics(z, z, relation, Sphere(), 0.1, want=("weighted",))
    with pytest.raises(ValueError, match="similarity is 'dot'; expected 'cosine' or 'distance'"):
        pair_statistics(z, z, relation, Sphere(), 0.1, similarity="dot")


@pytest.mark.parametrize(("geometry", "kind"), SPACES)
def test_gradients(geometry, kind):
    z, relation = batch(1, n=7)
    scale = 1 + torch.rand(relation.num_relations, dtype=torch.float64)
    weights = torch.rand(3, len(z), relation.num_relations, dtype=torch.float64)

    def statistics(x, omega):
        got = pair_statistics(
            x, x, relation, geometry, 0.4, similarity=kind, scale=omega, want=("sum", "lse", "least")
        )
        lse = torch.where(got.lse > -torch.inf, got.lse, 0.0)
        least = torch.where(got.least < torch.inf, got.least, 0.0)
        return tuple((w * value).sum() for w, value in zip(weights, (got.sum, lse, least), strict=True))

    assert torch.autograd.gradcheck(statistics, (z.requires_grad_(), scale.requires_grad_()), fast_mode=True)


def test_a_tie_gives_the_least_similarity_to_the_first_key():
    z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], requires_grad=True)
    relation = PairRelation.of_instances(torch.tensor([0, 0, 0]), 3)
    keys = z.detach().clone().requires_grad_()
    got = pair_statistics(z, keys, relation, Sphere(), 1.0, want=("least", "least_index"))
    assert got.least_index[0, 3] == 1
    got.least[0, 3].backward()
    assert keys.grad[1].abs().sum() > 0
    assert keys.grad[2].abs().sum() == 0


def test_empty_relations_give_no_nan_gradient():
    z, relation = batch(2)
    z.requires_grad_()
    got = pair_statistics(z, z, relation, Sphere(), 1e-3, want=("sum", "lse", "least"))
    lse = got.lse[got.lse > -torch.inf]
    (lse.sum() + got.sum.sum() + got.least[got.least < torch.inf].sum()).backward()
    assert z.grad.isfinite().all()


def test_no_rows_and_no_keys():
    z = torch.empty(0, 4)
    got = pair_statistics(z, z, PairRelation.of_instances(None, 0), Sphere(), 0.1, want=WANT[:5])
    assert got.lse.shape == got.least.shape == got.count.shape == (0, 5)
    tree = random_tree(0)
    some = PairRelation.of_batch(tree.paths, torch.tensor([1, 2]))
    none = PairRelation(some.queries, some.keys[slice(0, 0)], offset=None)
    got = pair_statistics(torch.ones(2, 4), z, none, Sphere(), 0.1, want=WANT[:5])
    assert (got.count == 0).all()
    assert (got.lse == -torch.inf).all()


def test_bfloat16_under_autocast_is_computed_in_float32():
    z, relation = batch(0)
    z = z.bfloat16()
    wide = z.float()
    exact = pair_statistics(wide, wide, relation, Sphere(), 0.05)
    with torch.autocast("cpu", torch.bfloat16):
        got = pair_statistics(z, z, relation, Sphere(), 0.05)
    assert got.lse.dtype == got.sum.dtype == torch.float32
    assert torch.equal(got.lse, exact.lse)
    assert torch.equal(got.sum, exact.sum)


@pytest.mark.parametrize("seed", range(3))
def test_bounded_sum_against_loops(seed):
    z, relation = batch(seed)
    codes, size, n = relation.codes(), relation.num_relations, len(z)
    generator = torch.Generator().manual_seed(seed)
    members = torch.rand(3, size, generator=generator) < 0.5
    offset = torch.randn(n, 3, generator=generator, dtype=torch.float64)
    bound = torch.tensor([0.5, -torch.inf, 2.0], dtype=torch.float64)
    got = bounded_sum(z, z, relation, Sphere(), 0.5, members=members, offset=offset, bound=bound)
    clamped = 0
    for i in range(n):
        for t in range(3):
            expected = 0.0
            for k in range(n):
                if k != i and members[t, codes[i, k]]:
                    loss = float(offset[i, t]) - similarity(Sphere(), "cosine", z[i], z[k]) / 0.5
                    clamped += loss < bound[t]
                    expected += max(loss, float(bound[t]))
            assert got[i, t] == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert clamped > 10


def test_bounded_sum_gradients_and_its_rule_for_ties():
    z, relation = batch(1, n=6)
    members = torch.ones(2, relation.num_relations, dtype=torch.bool)
    offset = torch.randn(6, 2, dtype=torch.float64).requires_grad_()
    bound = torch.tensor([0.3, 1.0], dtype=torch.float64).requires_grad_()

    def bounded(x, offset, bound):
        return bounded_sum(x, x, relation, Sphere(), 0.5, members=members, offset=offset, bound=bound)

    assert torch.autograd.gradcheck(bounded, (z.requires_grad_(), offset, bound), fast_mode=True)
    # every pair's loss is exactly the bound: it is the loss that gets the gradient
    pair = PairRelation.of_instances(torch.tensor([0, 0]), 2)
    z = torch.eye(2, requires_grad=True)
    bound = torch.ones(1, requires_grad=True)
    member = torch.ones(1, 5, dtype=torch.bool)
    bounded_sum(
        z, z, pair, Sphere(), 1.0, members=member, offset=torch.ones(2, 1), bound=bound
    ).sum().backward()
    assert bound.grad == 0
    assert z.grad.abs().sum() > 0

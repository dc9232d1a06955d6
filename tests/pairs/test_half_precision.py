"""The primitives take half precision: what they say of it is what they say of the same numbers in float32."""

import pytest
import torch
from pair_batches import random_batch, random_tree

from labeltree.geometry import PoincareBall, Sphere
from labeltree.losses.contrastive.ratings import RatingRelation
from labeltree.pairs import (
    PairRelation,
    bounded_sum,
    bounded_terms,
    implementation,
    nearest_other,
    pair_statistics,
    relation_terms,
    soft_target_contrast,
    weighted_terms,
)

pytestmark = pytest.mark.slow

N = 23
TREE = random_tree(4)
HALVES = (torch.bfloat16, torch.float16)


def relation():
    return PairRelation.of_batch(TREE.paths, *random_batch(TREE, 4, N))


def statistics(geometry, similarity):
    def call(z):
        found = pair_statistics(
            z, z, relation(), geometry, 0.2, similarity=similarity, want=("sum", "lse", "least")
        )
        return found.sum, found.lse, found.least

    return call


def two_sides(z):
    batch = relation()
    batch = PairRelation(batch.queries[slice(0, 9)], batch.keys, offset=0)
    found = pair_statistics(z[:9], z, batch, Sphere(), 0.2, want=("sum", "lse"))
    return found.sum, found.lse


def bounded(z):
    batch = relation()
    members = torch.arange(batch.num_relations)[None] % torch.tensor([[2], [3]]) == 0
    offset = torch.linspace(0, 2, 2 * N).view(N, 2)
    bound = torch.tensor([0.5, -torch.inf])
    return (bounded_sum(z, z, batch, Sphere(), 0.2, members=members, offset=offset, bound=bound),)


def contrast(z):
    batch = relation()
    side = PairRelation(batch.queries[slice(0, 9)], batch.keys, offset=None)
    every = torch.ones(1, side.num_relations, dtype=torch.bool)
    found = soft_target_contrast(
        z[:9], z[9:18], z, side, positive=every[0], members=every, temperature=0.1, target_temperature=0.2
    )
    return found.own, found.lse, found.mass, found.attraction, found.entropy


def nearest(z):
    mine, other, _ = nearest_other(z, z[:6], torch.arange(N) % 6, Sphere(), "cosine")
    return mine, other


def row_terms(z):
    batch = relation()
    every = torch.ones(1, batch.num_relations)
    return relation_terms(z, batch, Sphere(), 0.2, positive=every, normaliser=every, member=every.bool())


def terms_of_bounds(z):
    batch = relation()
    members = torch.arange(batch.num_relations)[None] >= torch.tensor([[1], [2]])
    return bounded_terms(z, batch, Sphere(), 0.2, members=members, positives=members)


def terms_of_weights(z):
    ratings = torch.randint(1, 4, (N, 2), generator=torch.Generator().manual_seed(2))
    weights = RatingRelation.of_ratings(ratings, None, 0.5)
    return weighted_terms(z, weights, Sphere(), 0.2, unknown_competes=True)


CALLS = {
    "statistics": statistics(Sphere(), "cosine"),
    "statistics, distance": statistics(PoincareBall(), "distance"),
    "two sides": two_sides,
    "bounded": bounded,
    "contrast": contrast,
    "nearest": nearest,
    "terms": row_terms,
    "bounded terms": terms_of_bounds,
    "weighted terms": terms_of_weights,
}


def evaluate(call, z, by):
    with implementation(by, tile=8):
        found = call(z)
    total = sum(
        torch.where(x.isfinite(), x, 0.0).mul(i + 1).sum() for i, x in enumerate(found) if x.requires_grad
    )
    total.backward()
    return [x.detach() for x in found], z.grad


@pytest.mark.parametrize("by", ["dense", "streaming"])
@pytest.mark.parametrize("dtype", HALVES, ids=["bfloat16", "float16"])
@pytest.mark.parametrize("name", CALLS)
def test_as_in_float32_and_a_gradient_that_is_rounded_once(name, dtype, by):
    half = 0.3 * torch.randn(N, 6, generator=torch.Generator().manual_seed(1))
    half = half.to(dtype).requires_grad_()
    single = half.detach().float().requires_grad_()
    (found, gradient), (expected, exact) = (evaluate(CALLS[name], z, by) for z in (half, single))
    for mine, other in zip(found, expected, strict=True):
        assert mine.dtype == torch.float32
        assert torch.equal(mine, other)
    assert gradient.dtype == dtype
    if name in ("two sides", "contrast"):  # several slices of one tensor, each with a gradient of its own
        torch.testing.assert_close(gradient.float(), exact, rtol=0, atol=0.01 * float(exact.abs().max()))
    else:
        assert torch.equal(gradient, exact.to(dtype))

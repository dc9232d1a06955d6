"""The walk of a batch whose relations and weights depend on kinds of rows, against the dense reference."""

import pytest
import torch

from labeltree.geometry import Sphere
from labeltree.losses.contrastive.ratings import RatingRelation
from labeltree.pairs import implementation, weighted_terms
from labeltree.pairs.tiles import general as general_tiles

pytestmark = pytest.mark.slow

N = 27
SLOPES = torch.randn(N, 1, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
WALKS = [{"tile": 5}, {"tile": 16, "keep": 0}, {"tile": 512}]


def ratings_of(kind):
    generator = torch.Generator().manual_seed(len(kind))
    if kind == "few":
        return torch.randint(1, 4, (N, 2), generator=generator)
    if kind == "with zeros":
        return torch.randint(0, 3, (N, 2), generator=generator)
    if kind == "missing":
        return torch.randint(-1, 3, (N, 2), generator=generator)
    if kind == "all missing":
        return torch.full((N, 2), -1)
    if kind == "all equal":
        return torch.full((N, 3), 4)
    if kind == "distinct":
        return torch.stack([torch.randperm(N, generator=generator) % 7, torch.arange(N)], dim=1)
    if kind == "distinct, missing":
        rows = torch.stack([torch.randperm(N, generator=generator), torch.arange(N)], dim=1) + 1
        rows[torch.rand(N, 2, generator=generator) < 0.3] = -1
        return rows
    if kind == "large sums":
        return torch.randint(0, 2, (N, 12), generator=generator) * 255 + 1
    assert kind == "beyond bits"
    return (torch.randint(-1, 3, (N, 3), generator=generator) * 1000).clamp(min=-1)


KINDS = [
    "few", "with zeros", "missing", "all missing", "all equal", "distinct", "distinct, missing", "large sums",
    "beyond bits",
]  # fmt: skip


def batch(kind, views=True):
    generator = torch.Generator().manual_seed(3)
    z = torch.randn(N, 4, generator=generator, dtype=torch.float64)
    instances = torch.randint(0, N // 2, (N,), generator=generator) if views else None
    ratings = ratings_of(kind)

    def relation():
        return RatingRelation.of_ratings(ratings, instances, 0.5)

    return z, relation


def evaluated(z, relation, slopes, competes, tau=0.2, shard=None):
    """Row terms and numbers of positives, and the gradient of what the slopes `(n, 1)` make of them."""
    x, made = z.clone().requires_grad_(), relation()
    made.shard = shard
    row, positives = weighted_terms(x, made, Sphere(), tau, unknown_competes=competes)
    (gradient,) = torch.autograd.grad((slopes * row).sum(), x)
    return row, positives, gradient


@pytest.fixture
def general(monkeypatch):
    """The calls of the general walk, of which there should be none."""
    calls = []
    walk = general_tiles.pair_statistics
    monkeypatch.setattr(general_tiles, "pair_statistics", lambda *a, **k: calls.append(1) or walk(*a, **k))
    return calls


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("views", [False, True])
@pytest.mark.parametrize("competes", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_terms_are_those_of_the_reference(kind, competes, views, walk, general):
    z, relation = batch(kind, views)
    with implementation("dense"):
        expected = evaluated(z, relation, SLOPES, competes)
    with implementation("streaming", **walk):
        got = evaluated(z, relation, SLOPES, competes)
    assert not general
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("tau", [0.2, 0.01])
@pytest.mark.parametrize("kind", ["few", "missing", "distinct"])
def test_single_precision(kind, tau, general):
    """At τ = 0.01 the exponentials of float32 are float64."""
    z, relation = batch(kind)
    with implementation("dense"):
        expected = evaluated(z.float().double(), relation, SLOPES, False, tau)
    with implementation("streaming", tile=16):
        got = evaluated(z.float(), relation, SLOPES.float(), False, tau)
    assert not general
    for ours, theirs in zip(got, expected, strict=True):
        largest = theirs.detach()[theirs.isfinite()].abs().max()
        torch.testing.assert_close(ours.to(theirs), theirs, rtol=5e-5, atol=1e-6 * float(largest))


@pytest.mark.parametrize("kind", ["few", "missing", "distinct, missing"])
def test_rows_of_a_shard_are_those_of_the_whole(kind, monkeypatch, general):
    """Every rank's rows against all: the statistics put together, and each rank's rows of the gradient."""
    z, relation = batch(kind)
    with implementation("dense"):
        expected = evaluated(z, relation, SLOPES, False)
    shards = [slice(0, N // 3), slice(N // 3, N // 3), slice(N // 3, N)]
    found = {}
    for turn in ("collect", "use"):
        for rank, shard in enumerate(shards):

            def of_all(own, shard, n, rank=rank, turn=turn):
                found[rank, turn] = own
                if turn == "collect":
                    return torch.ones(n, own.shape[1], dtype=own.dtype)
                return torch.cat([found[r, "collect"] for r in range(len(shards))])

            monkeypatch.setattr("labeltree.pairs.tiles.grid.rows_of_all_ranks", of_all)
            with implementation("streaming", tile=7):
                got = evaluated(z, relation, SLOPES, False, shard=shard)
            if turn == "use":
                for ours, theirs in zip(got[:2], expected[:2], strict=True):
                    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)
                torch.testing.assert_close(got[2][shard], expected[2][shard], rtol=1e-11, atol=1e-11)
    assert not general


def test_many_views(general):
    """More pairs of views than are computed at a time."""
    generator = torch.Generator().manual_seed(0)
    n = 300
    z, instances = torch.randn(n, 3, generator=generator, dtype=torch.float64), torch.arange(n) % 5
    relation = RatingRelation.of_ratings(torch.randint(1, 4, (n, 2), generator=generator), instances, 0.5)
    slopes = torch.randn(n, 1, generator=generator, dtype=torch.float64)
    with implementation("dense"):
        expected = evaluated(z, lambda: relation, slopes, False)
    with implementation("streaming", tile=128):
        got = evaluated(z, lambda: relation, slopes, False)
    assert not general
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)

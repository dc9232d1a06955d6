"""The walk of a batch whose relations and weights depend on kinds of rows, against the dense reference."""

import pytest
import torch

from labeltree.geometry import Sphere
from labeltree.losses.ratings import RatingRelation
from labeltree.pairs import implementation, pair_statistics
from labeltree.pairs.streaming import chunked

N = 41
WANT = ("count", "lse", "weighted")
FIELDS = ("count", "lse", "weight", "weighted_sum")
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


def evaluated(z, relation, slopes, tau=0.2, shard=None):
    """The statistics, and the gradient of what the slopes `(n, 6)` make of them."""
    x, made = z.clone().requires_grad_(), relation()
    made.shard = shard
    got = pair_statistics(x, x, made, Sphere(), tau, pair_weight=made.weight, want=WANT)
    value = torch.where(got.lse > -torch.inf, slopes[:, :5] * got.lse, 0.0).sum()
    value = value + (slopes[:, 5] * got.weighted_sum).sum()
    (gradient,) = torch.autograd.grad(value, x)
    return *(getattr(got, field) for field in FIELDS), gradient


def slopes_of(form, z, relation):
    """Of all statistics on their own, or of a softmax over all relations, or over all that are known."""
    slopes = torch.randn(N, 6, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    if form == "each":
        return slopes
    members = torch.tensor([True, True, True, True, form == "negative"])
    with implementation("dense"):
        lse = evaluated(z, relation, slopes)[1].masked_fill(~members, -torch.inf)
    slopes[:, :5] = slopes[:, :1] * lse.softmax(1).nan_to_num(0.0)
    return slopes


@pytest.fixture
def general(monkeypatch):
    """The calls of the general walk, of which there should be none."""
    calls = []
    walk = chunked.pair_statistics
    monkeypatch.setattr(chunked, "pair_statistics", lambda *a, **k: calls.append(1) or walk(*a, **k))
    return calls


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("form", ["each", "ignore", "negative"])
@pytest.mark.parametrize("kind", KINDS)
def test_statistics_are_those_of_the_reference(kind, form, walk, general):
    z, relation = batch(kind, views=form != "each")
    slopes = slopes_of(form, z, relation)
    with implementation("dense"):
        expected = evaluated(z, relation, slopes)
    with implementation("streaming", **walk):
        got = evaluated(z, relation, slopes)
    assert not general
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("tau", [0.2, 0.01])
@pytest.mark.parametrize("kind", ["few", "missing", "distinct"])
def test_single_precision(kind, tau, general):
    """At τ = 0.01 the exponentials of float32 are float64."""
    z, relation = batch(kind)
    slopes = slopes_of("ignore", z, relation)
    with implementation("dense"):
        expected = evaluated(z.float().double(), relation, slopes, tau)
    with implementation("streaming", tile=16):
        got = evaluated(z.float(), relation, slopes, tau)
    assert not general
    for ours, theirs in zip(got, expected, strict=True):
        largest = theirs.detach()[theirs.isfinite()].abs().max()
        torch.testing.assert_close(ours.to(theirs), theirs, rtol=1e-5, atol=1e-6 * float(largest))


@pytest.mark.parametrize("kind", ["few", "missing", "distinct, missing"])
def test_rows_of_a_shard_are_those_of_the_whole(kind, monkeypatch, general):
    """Every rank's rows against all: the statistics put together, and each rank's rows of the gradient."""
    z, relation = batch(kind)
    slopes = slopes_of("ignore", z, relation)
    with implementation("dense"):
        expected = evaluated(z, relation, slopes)
    shards = [slice(0, N // 3), slice(N // 3, N // 3), slice(N // 3, N)]
    found = {}
    for turn in ("collect", "use"):
        for rank, shard in enumerate(shards):

            def of_all(own, shard, n, rank=rank, turn=turn):
                found[rank, turn] = own
                if turn == "collect":
                    return torch.ones(n, own.shape[1], dtype=own.dtype)
                return torch.cat([found[r, "collect"] for r in range(len(shards))])

            monkeypatch.setattr("labeltree.pairs.streaming.order.rows_of_all_ranks", of_all)
            with implementation("streaming", tile=7):
                got = evaluated(z, relation, slopes, shard=shard)
            if turn == "use":
                for ours, theirs in zip(got[:4], expected[:4], strict=True):
                    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)
                torch.testing.assert_close(got[4][shard], expected[4][shard], rtol=1e-11, atol=1e-11)
    assert not general


def test_many_views(general):
    """More pairs of views than are computed at a time."""
    generator = torch.Generator().manual_seed(0)
    n = 300
    z, instances = torch.randn(n, 3, generator=generator, dtype=torch.float64), torch.arange(n) % 5
    relation = RatingRelation.of_ratings(torch.randint(1, 4, (n, 2), generator=generator), instances, 0.5)
    slopes = torch.randn(n, 6, generator=generator, dtype=torch.float64)
    with implementation("dense"):
        expected = evaluated(z, lambda: relation, slopes)
    with implementation("streaming", tile=128):
        got = evaluated(z, lambda: relation, slopes)
    assert not general
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)


def test_other_weights_take_the_general_walk(general):
    z, relation = batch("few")
    made = relation()

    def twice(rows, cols):
        return 2 * made.weight(rows, cols)

    with implementation("streaming", tile=16):
        ours = pair_statistics(z, z, made, Sphere(), 0.2, pair_weight=twice, want=WANT)
    assert general
    with implementation("dense"):
        theirs = pair_statistics(z, z, made, Sphere(), 0.2, pair_weight=twice, want=WANT)
    torch.testing.assert_close(ours.weighted_sum, theirs.weighted_sum)

"""Sums of least and greatest ratings as products of bits, against the sums themselves."""

from fractions import Fraction

import pytest
import torch

from labeltree.losses.contrastive.ratings import RatingOverlap, RatingRelation, jaccard
from labeltree.pairs import implementation, pair_counts


def ratings(seed, n, values, aspects=5, missing=0.4):
    generator = torch.Generator().manual_seed(seed)
    values = torch.as_tensor(values)
    found = values[torch.randint(0, len(values), (n, aspects), generator=generator)]
    found[torch.rand(n, aspects, generator=generator) < missing] = -1
    return found


def overlap(u, v):
    pairs = [(a, b) for a, b in zip(u, v, strict=True) if a >= 0 and b >= 0]
    most = sum(max(pair) for pair in pairs)
    return float(Fraction(sum(min(pair) for pair in pairs), most)) if most else 1.0 if pairs else None


@pytest.mark.parametrize(
    ("values", "in_bits"),
    [
        ([0, 1, 2, 3, 4, 5], True),
        ([0], True),
        ([3, 17, 18, 256], True),
        ([0, 1, 257], False),
        ([0, 1, 10**12], False),
        (range(200), False),
    ],
)
def test_every_pair(values, in_bits):
    n = 14 if len(values) < 100 else 150
    u, v = ratings(0, n, values), ratings(1, n - 3, values)
    whole = RatingOverlap(u, v)
    assert whole._in_bits == in_bits
    got = whole.jaccard()
    for i in range(0, n, n // 14):
        for j in range(0, n - 3, n // 14):
            expected = overlap(u[i].tolist(), v[j].tolist())
            assert torch.isnan(got[i, j]) if expected is None else got[i, j] == expected
    tile = whole.jaccard(slice(2, 7), torch.tensor([0, 3]))
    torch.testing.assert_close(tile, got[2:7, [0, 3]], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("values", [[1, 2, 3, 4, 5], [0, 1, 2], [7, 101, 255], [0, 3, 10**9]])
@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_exceeds_a_threshold(values, missing, dtype):
    """Whatever the precision, the threshold is strict: all fractions that occur are tried."""
    u = ratings(4, 40, values, aspects=3, missing=missing)
    whole = RatingOverlap(u, u)
    exact = whole.jaccard()
    some = slice(3, 30), torch.tensor([0, 5, 6, 39])
    for threshold in [0.0, 0.31, *exact[(exact < 1)].unique().tolist()]:
        value, unknown = whole.above(threshold, slice(None), slice(None), dtype)
        expected = torch.where(exact > threshold, exact, 0.0).to(dtype)
        assert torch.equal(value, expected)
        assert torch.equal(exact.isnan(), torch.zeros_like(exact).bool() if unknown is None else unknown == 1)
        part, _ = whole.above(threshold, *some, dtype)
        assert torch.equal(part, expected[some[0]][:, some[1]])


def test_no_aspects_and_no_rows():
    nothing = torch.empty(3, 0, dtype=torch.int64)
    assert jaccard(nothing, nothing).isnan().all()
    assert jaccard(ratings(0, 0, [1]), ratings(0, 2, [1])).shape == (0, 2)


def test_autocast_does_not_round():
    u = ratings(0, 20, [0, 101, 255], missing=0.1)
    with torch.autocast("cpu", torch.bfloat16):
        got = jaccard(u, u)
    torch.testing.assert_close(got, jaccard(u, u), rtol=0, atol=0, equal_nan=True)


def test_tiles_are_parts_of_the_whole():
    u = ratings(3, 11, [0, 1, 2, 3])
    samples = torch.arange(11) // 3
    relation = RatingRelation.of_ratings(u, samples, 0.4)
    codes, weight = relation.codes(), relation.weight()
    assert len(codes.unique()) == 5
    for rows in (slice(0, 4), slice(4, 11), torch.tensor([7, 1])):
        for cols in (None, slice(3, 8), torch.tensor([0, 10])):
            for _ in range(2):  # codes and weights in either order, of this tile and the last one
                part = slice(None) if cols is None else cols
                assert torch.equal(relation.weight(rows, cols), weight[rows][:, part])
                assert torch.equal(relation.codes(rows, cols), codes[rows][:, part])
    with implementation("streaming", tile=4):
        counts = pair_counts(relation)
    assert torch.equal(counts, torch.stack([(codes == r).sum(1) for r in range(5)], dim=1))


def test_kinds():
    u = ratings(5, 60, [0, 1, 10**12], aspects=3)
    relation = RatingRelation.of_ratings(u, None, 0.5)
    kinds, total = relation.kinds, u.clamp(min=0).sum(1)
    assert torch.equal(kinds[:, None] == kinds, (u[:, None] == u).all(2))
    assert torch.equal(kinds.unique(), torch.arange(int(kinds.max()) + 1))
    assert (total[kinds.argsort()].diff() >= 0).all()
    first = torch.stack([(kinds == kind).nonzero()[0, 0] for kind in range(5)])
    weight, unknown = relation.kind_weights(kinds[:20], slice(0, 5), torch.float64)
    expected = jaccard(u[:20], u[first])
    assert torch.equal(weight, torch.where(expected > 0.5, expected, 0.0))
    assert torch.equal(unknown == 1, expected.isnan())

"""Intervals of shares are exact; outcomes of one group may depend on each other."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest, multinomial

from labeltree.evaluation.statistics import Bootstrap, GroupSums, Interval, RatioColumns, Resampling

Floats = NDArray[np.float64]


def interval(
    values: Floats, groups: NDArray[np.int64] | None = None, weights: Floats | None = None
) -> Interval:
    weighed = None if weights is None else weights[:, None, None]
    sums = GroupSums.of(values[:, None, None], groups, weighed)
    return Bootstrap(sums, resamples=50).interval()


def outcomes(right: int, count: int) -> Floats:
    return np.repeat([1.0, 0.0], [right, count - right])


@pytest.mark.parametrize(("right", "count"), [(7, 8), (7, 10), (0, 3), (1, 2), (1, 1), (95, 100)])
def test_a_share_of_single_outcomes_has_the_exact_interval(right: int, count: int) -> None:
    """7 of 8 patients had [0.011, 1.000], and 7 of 10 an end of 1 after three misses."""
    found, exact = interval(outcomes(right, count)), binomtest(right, count).proportion_ci(0.95)
    assert (found.low[0], found.high[0]) == pytest.approx((exact.low, exact.high))
    grouped = interval(outcomes(right, count), np.arange(count))
    assert (grouped.low[0], grouped.high[0]) == pytest.approx((exact.low, exact.high))


def difference(
    first: Floats, second: Floats, groups: NDArray[np.int64] | None = None, side: float = 1.0
) -> Interval:
    sums = GroupSums.of(np.stack([first, second], axis=1)[..., None], groups)
    return Bootstrap(sums, resamples=200, seed=3).interval([side, -side], method="percentile")


@pytest.mark.parametrize(("ours", "theirs", "count"), [(1, 0, 12), (4, 0, 50), (7, 3, 60), (30, 25, 80)])
def test_a_difference_of_shares_joins_the_exact_intervals_of_its_two_sides(
    ours: int, theirs: int, count: int
) -> None:
    """By hand: squares of the reaches of both sides, and twice their product times the correlation."""
    first, second = np.zeros(count), np.zeros(count)
    first[:ours], second[ours : ours + theirs] = 1, 1
    p, q = ours / count, theirs / count
    of_p, of_q = (binomtest(k, count).proportion_ci(0.95) for k in (ours, theirs))
    alike = -np.sqrt(p * q / ((1 - p) * (1 - q)))
    below, above = (p - of_p.low, of_q.high - q), (of_p.high - p, q - of_q.low)
    reaches = [np.sqrt(a * a + b * b - 2 * alike * a * b) for a, b in (below, above)]
    found = difference(first, second)
    assert (found.value[0], found.low[0], found.high[0]) == pytest.approx(
        (p - q, p - q - reaches[0], p - q + reaches[1])
    )
    turned = difference(first, second, side=-1.0)
    assert (turned.low[0], turned.high[0]) == pytest.approx((-found.high[0], -found.low[0]))
    alone = difference(first, second, np.arange(count))
    assert (alone.low[0], alone.high[0]) == pytest.approx((found.low[0], found.high[0]))
    assert (found.low[0] > 0) == (p - q > reaches[0])


def test_a_difference_near_the_ceiling_is_held() -> None:
    """By all outcomes of 30 samples; draws held it in 80 of 100, and 24 had no interval."""
    count, (p, q) = 30, (0.02, 0.01)
    held = 0.0
    for ours in range(12):
        for theirs in range(12):
            first, second = np.zeros(count), np.zeros(count)
            first[:ours], second[ours : ours + theirs] = 1, 1
            found = difference(first, second)
            if not ours + theirs or found.low[0] <= p - q <= found.high[0]:  # where all agree there is none
                held += multinomial.pmf([ours, theirs, count - ours - theirs], count, [p, q, 1 - p - q])
    assert held > 0.95


def test_a_difference_that_few_groups_make_has_no_interval() -> None:
    """Four of 30 patients differed, all in one direction: the interval left 0 out where p was .125."""
    groups = np.repeat(np.arange(30), 5)
    for differing in range(3, 9):
        first, second = np.ones(150), np.ones(150)
        second[np.flatnonzero(groups < differing)[::2]] = 0
        found = difference(first, second, groups)
        assert np.isnan([found.low[0], found.high[0]]).all() == (differing < 6)
    assert found.low[0] <= found.value[0] <= found.high[0]


def test_the_mean_of_two_runs_is_no_difference() -> None:
    values = np.stack([outcomes(14, 20), outcomes(14, 20)], axis=1)[..., None]
    bootstrap = Bootstrap(GroupSums.of(values), resamples=50)
    assert not np.isnan(bootstrap.interval([0.5, 0.5]).low[0])


@pytest.mark.parametrize("groups", [1, 2, 5])
def test_fewer_than_six_groups_of_several_outcomes_have_no_interval(groups: int) -> None:
    for values in (outcomes(17, 20), outcomes(20, 20), np.linspace(0, 1, 20)):
        found = interval(values, np.arange(20) % groups)
        assert np.isnan([found.low[0], found.high[0]]).all()


def test_groups_that_agree_count_once() -> None:
    """Copies of an outcome add nothing: no narrower than that of the groups."""
    of_groups, exact = outcomes(9, 12), binomtest(9, 12).proportion_ci(0.95)
    found = interval(np.repeat(of_groups, 7), np.repeat(np.arange(12), 7))
    assert found.low[0] <= exact.low + 1e-12
    assert found.high[0] >= exact.high - 1e-12
    every = interval(np.ones(84), np.repeat(np.arange(12), 7))
    assert (every.low[0], every.high[0]) == pytest.approx((0.025 ** (1 / 12), 1.0))


def test_independent_outcomes_in_groups_are_nearly_as_sure_as_alone() -> None:
    values = (np.random.default_rng(0).random(2000) < 0.8).astype(float)
    found, alone = interval(values, np.arange(2000) // 10), interval(values)
    ratio = (found.high[0] - found.low[0]) / (alone.high[0] - alone.low[0])
    assert 0.85 < ratio < 1.2


def test_only_equal_weights_and_outcomes_make_a_share() -> None:
    """Others keep the interval of the bootstrap."""
    values = outcomes(15, 20)
    exact = interval(values)
    uneven = interval(values, None, np.where(np.arange(20) % 2, 1.0, 3.0))
    alike = interval(values, None, np.full(20, 0.2))
    partial = interval(np.where(np.arange(20) == 3, 0.5, values))
    assert (alike.low[0], alike.high[0]) == pytest.approx((exact.low[0], exact.high[0]))
    for other in (uneven, partial):
        assert not np.isnan(other.low[0])
        assert abs(other.low[0] - exact.low[0]) > 1e-3


def test_sparse_shares_are_those_of_the_bootstrap() -> None:
    rng = np.random.default_rng(1)
    values = (rng.random((90, 5)) < [0.3, 0.5, 0.9, 0.97, 1.0]).astype(float)
    values[rng.random(values.shape) < 0.3] = np.nan
    values[:, 1] += np.where(np.arange(90) == 4, 0.25, 0.0)
    groups = rng.integers(0, 14, 90)
    dense = Bootstrap(GroupSums.of(values[:, None], groups), resamples=200, seed=5).interval()
    row, column = np.nonzero(~np.isnan(values))
    given = values[row, column]
    ratios = RatioColumns.of(column, groups[row], given, np.full(len(given), 0.3), (5, 14), [])
    low, high, error = ratios.ends(Resampling(200, seed=5), np.ones(5, dtype=bool))[0]
    np.testing.assert_allclose(low, dense.low, atol=1e-9)
    np.testing.assert_allclose(high, dense.high, atol=1e-9)
    np.testing.assert_allclose(error, dense.error, atol=1e-9)


@pytest.mark.parametrize(
    ("groups", "size", "share", "correlation"), [(30, 10, 0.97, 0.6), (15, 10, 0.9, 0.6), (8, 10, 0.9, 0.2)]
)
def test_intervals_hold_the_share_in_groups(groups: int, size: int, share: float, correlation: float) -> None:
    """Korn and Graubard's alone held the first in 90 %: few groups have all misses."""
    rng = np.random.default_rng(0)
    several = 1 / correlation - 1
    rates = rng.beta(share * several, (1 - share) * several, (groups, 600))
    hits = rng.binomial(size, rates)[:, None].astype(float)
    sizes = np.full(hits.shape, float(size))
    sums = GroupSums(hits, sizes, np.full((1, 600), float(groups * size)))
    found = Bootstrap(sums, resamples=2).interval()
    assert ((found.low <= share) & (share <= found.high)).mean() > 0.95

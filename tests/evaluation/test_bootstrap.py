"""Bootstrap intervals equal slow loops over the same draws, and cover what they claim to cover."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import beta, binomtest, norm, t

from labeltree.evaluation.statistics import (
    Bootstrap,
    GroupSums,
    Partition,
    RatioColumns,
    Resampling,
    agreement_intervals,
    draw_counts,
)
from labeltree.runs.table_file_columns import number_groups

pytestmark = pytest.mark.slow

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def _data(seed: int, n: int = 23) -> tuple[Floats, np.ndarray, Floats]:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 2, 3))
    values[..., 1] = values[..., 1] > 0
    values[rng.random(values.shape) < 0.2] = np.nan
    groups = rng.integers(-1, 6, size=n)
    return values, groups, rng.random(values.shape) + 0.1


def _loop_metric(values: Floats, weights: Floats, times: list[int]) -> float:
    """One metric of samples that occur so many times each."""
    top = bottom = 0.0
    for value, weight, count in zip(values, weights, times, strict=True):
        if not math.isnan(value):
            top += count * weight * value
            bottom += count * weight
    return top / bottom if bottom else math.nan


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_draws_equal_a_slow_loop(grouped: bool, weighted: bool) -> None:
    values, groups, weights = _data(3)
    weights = weights if weighted else np.ones_like(values)
    sums = GroupSums.of(values, groups if grouped else None, weights if weighted else None)
    found = Bootstrap(sums, resamples=7, seed=5).draws

    numbers = number_groups(groups) if grouped else np.arange(len(values))
    counts = np.concatenate(list(draw_counts(int(numbers.max()) + 1, 7, 5)))
    assert (counts.sum(axis=1) == numbers.max() + 1).all()
    for draw in range(7):
        times = [int(counts[draw, number]) for number in numbers]
        for run in range(2):
            for metric in range(3):
                expected = _loop_metric(values[:, run, metric], weights[:, run, metric], times)
                assert found[draw, run, metric] == pytest.approx(expected, rel=1e-12, nan_ok=True)


def test_all_rows_of_a_group_are_drawn_together_and_minus_one_stands_alone() -> None:
    groups = np.array([5, -1, 5, -1, 2])
    numbers = number_groups(groups)
    assert numbers[0] == numbers[2]
    assert len(set(numbers.tolist())) == 4
    sums = GroupSums.of(np.arange(5.0)[:, None, None], groups)
    assert len(sums) == 4
    assert sorted(sums.numerators[:, 0, 0].tolist()) == [1.0, 2.0, 3.0, 4.0]  # 0 + 2, 1, 3, 4
    assert sums.ratios[0, 0] == 2.0


def _loop_ends(
    draws: list[float], estimate: float, left_out: list[float], groups: int, method: str
) -> list[float]:
    """The formulas of Efron (1987) and Hesterberg (2015), one number at a time."""
    ordered = sorted(draw for draw in draws if not math.isnan(draw))
    below = sum(draw < estimate - 1e-9 for draw in ordered) + 0.5 * sum(
        abs(draw - estimate) <= 1e-9 for draw in ordered
    )
    bias = acceleration = 0.0
    if method == "bca":
        bias = float(norm.ppf(below / len(ordered)))
        mean = sum(left_out) / len(left_out)
        acceleration = sum((mean - x) ** 3 for x in left_out) / (
            6 * sum((mean - x) ** 2 for x in left_out) ** 1.5
        )
    ends = []
    for side in (-1, 1):
        reach = side * math.sqrt(groups / (groups - 1)) * float(t.ppf(0.95, groups - 1))
        level = float(norm.cdf(bias + (bias + reach) / (1 - acceleration * (bias + reach))))
        place = level * (len(ordered) - 1)
        low = int(place)
        ends.append(ordered[low] + (place - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]))
    return ends


def binomial(share: float, count: float, tail: float) -> tuple[float, float]:
    """The exact interval of a share of so many, which need not be whole."""
    low = beta.ppf(tail, share * count, (1 - share) * count + 1)
    return float(low), float(beta.ppf(1 - tail, share * count + 1, (1 - share) * count))


@pytest.mark.parametrize("method", ["bca", "percentile"])
@pytest.mark.parametrize("contrast", [(1.0, 0.0), (1.0, -1.0)])
def test_intervals_equal_a_slow_loop(method: str, contrast: tuple[float, float]) -> None:
    values, _, weights = _data(8)
    sums = GroupSums.of(values, None, weights)
    bootstrap = Bootstrap(sums, resamples=150, seed=1)
    found = bootstrap.interval(contrast, confidence=0.9, method=method)  # type: ignore[arg-type]

    def estimate(metric: int, times: list[int]) -> float:
        return sum(
            side * _loop_metric(values[:, run, metric], weights[:, run, metric], times)
            for run, side in enumerate(contrast)
            if side
        )

    n = len(values)
    counts = np.concatenate(list(draw_counts(n, 150, 1))).astype(int).tolist()
    for metric in range(3):
        used = [run for run, side in enumerate(contrast) if side]
        groups = int((~np.isnan(values[:, used, metric])).any(axis=1).sum())
        draws = [estimate(metric, times) for times in counts]
        left_out = [estimate(metric, [int(i != gone) for i in range(n)]) for gone in range(n)]
        whole = estimate(metric, [1] * n)
        low, high = _loop_ends(draws, whole, left_out, groups, method)
        spread = math.sqrt(groups / (groups - 1)) * float(np.std(draws))
        share = len(used) == 1
        if share and 0 < whole < 1 and (groups <= 15 or min(whole, 1 - whole) < 0.1):
            like = binomial(whole, whole * (1 - whole) / spread**2, 0.05)
            low, high = (min(low, like[0]), max(high, like[1])) if groups <= 15 else like
        elif not share and groups <= 15:
            reach = float(t.ppf(0.95, groups - 1)) * spread
            low, high = min(low, whole - reach), max(high, whole + reach)
        assert found.value[metric] == pytest.approx(whole, rel=1e-12)
        assert found.low[metric] == pytest.approx(low, abs=1e-9)
        assert found.high[metric] == pytest.approx(high, abs=1e-9)
        assert found.error[metric] == pytest.approx(spread, rel=1e-9)


def test_the_standard_error_of_a_mean_is_the_textbook_one() -> None:
    values = np.random.default_rng(2).normal(size=(400, 1, 1))
    error = Bootstrap(GroupSums.of(values), resamples=4000).interval().error[0]
    assert error == pytest.approx(values.std(ddof=1) / 20, rel=0.05)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_where_all_agree_the_interval_is_the_exact_binomial_one(share: float) -> None:
    found = Bootstrap(GroupSums.of(np.full((17, 1, 1), share)), resamples=50).interval()
    exact = binomtest(int(17 * share), 17).proportion_ci(0.95)
    assert found.low[0] == pytest.approx(exact.low)
    assert found.high[0] == pytest.approx(exact.high)


def test_what_is_not_defined_has_no_interval() -> None:
    values = np.full((5, 1, 2), np.nan)
    values[0, 0, 0] = 0.3  # one sample says nothing on how sure it is
    found = Bootstrap(GroupSums.of(values), resamples=50).interval()
    assert found.value[0] == 0.3
    assert np.isnan(found.value[1])
    for part in (found.low, found.high, found.error):
        assert np.isnan(part).all()


def test_what_cannot_be_asked_is_said() -> None:
    sums = GroupSums.of(np.zeros((3, 2, 1)))
    with pytest.raises(ValueError, match="contrast has shape"):
        Bootstrap(sums, resamples=3).interval()
    with pytest.raises(ValueError, match="confidence is 95"):
        Bootstrap(sums, resamples=3).interval([1, 0], confidence=95)
    with pytest.raises(ValueError, match="resamples is 0"):
        Bootstrap(sums, resamples=0)
    with pytest.raises(ValueError, match="groups name 2 samples"):
        GroupSums.of(np.zeros((3, 2, 1)), np.array([1, 2]))
    with pytest.raises(ValueError, match="weights hold"):
        GroupSums.of(np.zeros((3, 2, 1)), None, -np.ones((3, 2, 1)))


def _coverage(values: Floats, truth: float, groups: np.ndarray | None = None) -> float:
    """Share of the columns, each a data set of its own, whose interval holds the truth."""
    share = bool(np.nanmin(values) >= 0 and np.nanmax(values) <= 1)
    found = Bootstrap(GroupSums.of(values[:, None, :], groups), resamples=600).interval(share=share)
    return float(((found.low <= truth) & (truth <= found.high)).mean())


def test_intervals_of_a_share_cover_it() -> None:
    rng = np.random.default_rng(0)
    covered = _coverage((rng.random((120, 1500)) < 0.9).astype(float), 0.9)
    assert 0.93 <= covered <= 0.98


def test_intervals_of_a_ratio_whose_denominator_varies_cover_it() -> None:
    rng = np.random.default_rng(1)
    values = 1 + rng.exponential(size=(150, 1500))
    values[rng.random(values.shape) < 0.7] = np.nan
    assert 0.92 <= _coverage(values, 2.0) <= 0.98


@pytest.mark.parametrize(("count", "size"), [(60, 8), (9, 12)])
def test_only_groups_drawn_as_a_whole_cover_correlated_samples(count: int, size: int) -> None:
    rng = np.random.default_rng(4)
    patient = rng.normal(size=(count, 1, 1000))
    values = (patient + rng.normal(size=(count, size, 1000))).reshape(count * size, 1000)
    groups = np.repeat(np.arange(count), size)
    assert 0.92 <= _coverage(values, 0.0, groups) <= 0.98
    assert _coverage(values, 0.0) < 0.85, "the simulation must show what ignoring groups does"


def ends_around(value: np.ndarray, low: np.ndarray, high: np.ndarray) -> int:
    """Check that intervals are whole and hold their estimates, and count them."""
    known = ~np.isnan(low)
    assert (known == ~np.isnan(high)).all()
    assert not np.isnan(value[known]).any()
    assert (low[known] <= value[known]).all()
    assert (value[known] <= high[known]).all()
    return int(known.sum())


def test_an_estimate_beyond_the_draws_is_held() -> None:
    """Six groups, some of which do not count in a run: the estimate is the largest of all draws."""
    nan = np.nan
    values = np.array([[0.553, 0.753], [0.22, 0.32], *[[0.709, nan]] * 4])[..., None]
    weights = np.array([[30.0, 1.0], [30.0, 5.0], *[[1.0, 30.0]] * 4])[..., None]
    for seed in range(40):
        bootstrap = Bootstrap(GroupSums.of(values, None, weights), resamples=20, seed=seed)
        found = bootstrap.interval([1.0, -1.0], method="percentile")
        assert ends_around(found.value, found.low, found.high) == 1


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_one_group_that_agrees_has_no_interval(right: float) -> None:
    """Half of one was given: an end from the exact binomial, and none from the draws."""
    found = Bootstrap(GroupSums.of(np.full((9, 1, 1), right), np.zeros(9, dtype=np.int64))).interval()
    assert found.value.tolist() == [right]
    assert np.isnan([found.low, found.high, found.error]).all()


def test_every_interval_holds_its_estimate() -> None:
    """Small tables of many kinds: few groups, shares near 0 and 1, much missing, uneven weights."""
    rng = np.random.default_rng(0)
    held = 0
    for number in range(120):
        n = int(rng.integers(2, 30))
        shape = (n, 2, 6)
        values = (rng.random(shape) < rng.choice([0.02, 0.5, 0.98])).astype(float)
        if number % 3 == 1:
            values = rng.random(shape)
        elif number % 3 == 2:
            values = np.round(rng.standard_cauchy(shape), 1)
        values[rng.random(shape) < rng.choice([0.0, 0.3, 0.8])] = np.nan
        groups = None if number % 2 else rng.integers(-1, int(rng.integers(1, 12)), n)
        weights = None if number % 5 else rng.choice([0.0, 1.0, 30.0], shape)
        confidence = float(rng.choice([0.5, 0.8, 0.95, 0.99]))
        bootstrap = Bootstrap(GroupSums.of(values, groups, weights), resamples=40, seed=number)
        for contrast, method in (([1.0, 0.0], "bca"), ([1.0, -1.0], "percentile"), ([0.5, 0.5], "bca")):
            found = bootstrap.interval(contrast, confidence=confidence, method=method)
            held += ends_around(found.value, found.low, found.high)
        resampling = Resampling(40, confidence=confidence, seed=number)
        columns, size = rng.integers(0, 4, n), int(rng.integers(1, 12))
        group = rng.integers(0, size, n)
        shares = np.clip(np.nan_to_num(values[:, 0, 0]), 0, 1)
        ratios = RatioColumns.of(columns, group, shares, np.ones(n), (4, size), [(np.arange(4), np.ones(4))])
        for value, ends in zip(ratios.values, ratios.ends(resampling, np.ones(4, dtype=bool)), strict=True):
            held += ends_around(value, ends[0], ends[1])
        partition = Partition.of(columns, rng.integers(0, 3, n), group, size)
        _, agreed = agreement_intervals([partition, partition], [[0, 1]], resampling.confidence)
        held += ends_around(agreed.value, agreed.low, agreed.high)
    assert held > 600


@pytest.mark.parametrize(("count", "middle"), [(8, 0.6), (12, 0.85), (60, 0.96)])
def test_means_of_few_groups_or_near_one_are_covered(count: int, middle: float) -> None:
    rng = np.random.default_rng(6)
    values = rng.beta(4 * middle, 4 * (1 - middle), (count, 2000))
    assert 0.925 <= _coverage(values, middle) <= 0.985

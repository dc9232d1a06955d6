"""Tests of differences equal slow loops, hold their level, and see what is there."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binomtest, ttest_ind

from labeltree.evaluation.statistics import (
    Bootstrap,
    GroupSums,
    across_runs,
    holm,
    mcnemar,
    sign_flip_test,
)
from labeltree.runs.table_file_columns import number_groups


def _two_runs(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 2, 2))
    values[:, 0, 0] += 0.5
    values[rng.random((n, 2)) < 0.3, 1] = np.nan  # counts in one run, not in the other
    return values, rng.integers(-1, 4, size=n)


@pytest.mark.parametrize("grouped", [False, True])
def test_sign_flips_equal_a_slow_loop_over_all_exchanges(grouped: bool) -> None:
    values, groups = _two_runs(3, 8)
    numbers = number_groups(groups) if grouped else np.arange(8)
    found = sign_flip_test(GroupSums.of(values, groups if grouped else None))

    for metric in range(2):

        def difference(exchanged: set[int], metric: int = metric) -> float:
            sides: list[list[float]] = [[], []]
            for sample, pair in enumerate(values[:, :, metric].tolist()):
                turned = pair[::-1] if int(numbers[sample]) in exchanged else pair
                for side, value in zip(sides, turned, strict=True):
                    if not math.isnan(value):
                        side.append(value)
            if not all(sides):
                return math.nan
            found = sum(sides[0]) / len(sides[0]) - sum(sides[1]) / len(sides[1])
            return found / error(exchanged) if metric else found  # other samples count in the two runs

        def error(exchanged: set[int]) -> float:
            middle = np.nanmean(values[:, :, 1])
            turned = np.isin(numbers, list(exchanged))[:, None]
            moved = np.where(turned, values[:, ::-1, 1], values[:, :, 1])
            parts = (moved - middle) / (~np.isnan(moved)).sum(axis=0)
            apart = np.nan_to_num(parts) @ [1, -1]
            return math.sqrt((np.bincount(numbers, apart) ** 2).sum())

        everyone = range(int(numbers.max()) + 1)
        all_sets = [
            set(chosen) for k in range(len(everyone) + 1) for chosen in itertools.combinations(everyone, k)
        ]
        observed = abs(difference(set()))
        found_all = [abs(difference(chosen)) for chosen in all_sets]
        known = [value for value in found_all if not math.isnan(value)]
        expected = sum(value >= observed - 1e-9 for value in known) / len(known)
        assert found[metric] == pytest.approx(expected, rel=1e-12)
        assert 0 < expected <= 1


def test_drawn_exchanges_are_near_to_all_of_them() -> None:
    values, _ = _two_runs(5, 12)
    exact = sign_flip_test(GroupSums.of(values), permutations=5000)
    drawn = sign_flip_test(GroupSums.of(values), permutations=4000, seed=3)
    assert drawn == pytest.approx(exact, abs=0.03)
    assert (drawn != exact).any(), "one of the two was to be drawn"


def test_runs_that_are_the_same_do_not_differ() -> None:
    values = np.random.default_rng(0).normal(size=(50, 1, 3))
    same = GroupSums.of(np.concatenate([values, values], axis=1))
    assert (sign_flip_test(same, permutations=200) == 1).all()
    found = Bootstrap(same, resamples=20).interval([1, -1])
    assert found.value == pytest.approx(np.zeros(3), abs=1e-12)
    assert np.isnan([found.low, found.high]).all()  # draws that all agree do not tell how sure this is


def test_sign_flips_hold_their_level_and_see_a_difference() -> None:
    rng = np.random.default_rng(6)
    noise = rng.normal(size=(40, 2, 800))
    p = sign_flip_test(GroupSums.of(noise), permutations=400)
    assert 0.03 <= (p <= 0.05).mean() <= 0.07
    noise[:, 0] += 1.0
    assert (sign_flip_test(GroupSums.of(noise), permutations=400) <= 0.05).mean() > 0.95


def test_sign_flips_of_groups_hold_their_level_where_those_of_samples_do_not() -> None:
    rng = np.random.default_rng(7)
    patient = rng.normal(size=(30, 1, 2, 400))
    values = (patient + 0.5 * rng.normal(size=(30, 6, 2, 400))).reshape(180, 2, 400)
    groups = np.repeat(np.arange(30), 6)
    level = (sign_flip_test(GroupSums.of(values, groups), permutations=300) <= 0.05).mean()
    ignored = (sign_flip_test(GroupSums.of(values), permutations=300) <= 0.05).mean()
    assert 0.02 <= level <= 0.08
    assert ignored > 0.2


def test_means_over_mistakes_hold_their_level_though_one_run_makes_more_of_them() -> None:
    rng = np.random.default_rng(8)
    severity = rng.choice([1.0, 2.0, 3.0], p=[0.4, 0.3, 0.3], size=(200, 2, 500))
    mistakes = rng.random((200, 2, 500)) < np.array([0.03, 0.18])[:, None]
    sums = GroupSums.of(np.where(mistakes, severity, np.nan))
    assert sums.counts_differ.all()
    assert np.nanmean(sign_flip_test(sums, permutations=200) <= 0.05) <= 0.07
    # and a difference is seen
    sums.numerators[:, 1] += 1.5 * mistakes[:, 1]
    assert np.nanmean(sign_flip_test(sums, permutations=200) <= 0.05) > 0.7


def test_sign_flips_are_of_two_runs() -> None:
    with pytest.raises(ValueError, match="of 3 runs"):
        sign_flip_test(GroupSums.of(np.zeros((4, 3, 1))))


def test_mcnemar_counts_the_samples_on_which_the_two_disagree() -> None:
    first = np.array([1.0] * 9 + [0.0] * 3 + [1.0] * 20 + [0.0] * 5 + [np.nan])
    second = np.array([0.0] * 9 + [1.0] * 3 + [1.0] * 20 + [0.0] * 5 + [np.nan])
    assert mcnemar(first, second) == binomtest(9, 12).pvalue
    assert mcnemar(first, first) == 1.0


def test_mcnemar_is_for_right_and_wrong_on_the_same_samples() -> None:
    assert math.isnan(mcnemar(np.array([0.5, 1.0]), np.array([0.0, 1.0])))
    assert math.isnan(mcnemar(np.array([1.0, np.nan]), np.array([0.0, 1.0])))


def test_holm_equals_a_slow_loop() -> None:
    given = np.random.default_rng(1).random(9) ** 3
    found = holm(given)
    for place, p in enumerate(given):
        smaller = [q for q in given if q <= p]
        expected = max(q * (9 - sum(r < q for r in given)) for q in smaller)
        assert found[place] == pytest.approx(min(expected, 1.0))
    assert (found >= given).all()


def test_holm_leaves_what_is_no_test_out() -> None:
    assert holm([0.02, math.nan, 0.03])[:1].tolist() == [0.04]
    assert math.isnan(holm([0.02, math.nan])[1])
    assert len(holm([])) == 0
    assert holm([0.01, 0.02, 0.2, 0.03], 10).tolist() == pytest.approx([0.1, 0.18, 1.0, 0.24])


def test_with_samples_without_error_runs_are_compared_as_by_welch() -> None:
    rng = np.random.default_rng(2)
    first, second = rng.normal(0.6, 0.1, size=(4, 3)), rng.normal(0.5, 0.3, size=(7, 3))
    value = first.mean(axis=0) - second.mean(axis=0)
    found = across_runs(value, [first, second], np.zeros(3), 100)
    welch = ttest_ind(first, second, equal_var=False)
    ends = welch.confidence_interval(0.95)
    assert found.p == pytest.approx(welch.pvalue, rel=1e-9)
    assert found.low == pytest.approx(ends.low, rel=1e-9)
    assert found.high == pytest.approx(ends.high, rel=1e-9)


def test_intervals_over_runs_cover_the_method_where_those_over_samples_do_not() -> None:
    rng = np.random.default_rng(9)
    trials, runs, samples = 500, 4, 80
    seeds = rng.normal(0, 0.15, size=(runs, trials))
    difficulty = rng.normal(0, 1, size=(samples, 1, trials))
    values = difficulty + seeds[None] + rng.normal(0, 0.5, size=(samples, runs, trials))
    sums = GroupSums.of(values)
    found = Bootstrap(sums, resamples=500).interval(np.full(runs, 1 / runs))
    both = across_runs(found.value, [sums.ratios], found.error, samples)
    covered = float(((both.low <= 0) & (both.high >= 0)).mean())
    samples_alone = float(((found.low <= 0) & (found.high >= 0)).mean())
    assert 0.93 <= covered <= 0.995
    assert samples_alone < covered - 0.02

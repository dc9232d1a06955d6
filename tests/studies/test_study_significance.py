"""Tests against the best of a column: Welch and Holm, as slow loops have them."""

import math

import numpy as np
import pytest
from scipy.stats import t, ttest_ind

from labeltree.studies.study_page import _cell
from labeltree.studies.study_statistics import Summary, difference, p_against_best, significance, welch


def slow_welch(a: list[float], b: list[float]) -> float:
    va = sum((x - sum(a) / len(a)) ** 2 for x in a) / (len(a) - 1) / len(a)
    vb = sum((x - sum(b) / len(b)) ** 2 for x in b) / (len(b) - 1) / len(b)
    statistic = (sum(a) / len(a) - sum(b) / len(b)) / math.sqrt(va + vb)
    degrees = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    return float(2 * t.sf(abs(statistic), degrees))


def slow_holm(values: list[float]) -> list[float]:
    """By the definition: the largest of (m − rank)·p over all p that are no larger, at most 1."""
    corrected = []
    for p in values:
        smaller = sorted(q for q in values if q <= p)
        corrected.append(min(1.0, max((len(values) - i) * q for i, q in enumerate(smaller))))
    return corrected


@pytest.mark.parametrize("seed", range(5))
def test_equal_to_slow_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=3 + seed).tolist(), rng.normal(0.5, 2, size=4).tolist()
    assert welch(a, b) == pytest.approx(slow_welch(a, b), rel=1e-12)
    values = {name: rng.normal(0.1 * i, 0.2, size=3).tolist() for i, name in enumerate("abcdef")}
    p = p_against_best(values, lower=False)
    best = max(values, key=lambda name: sum(values[name]))
    others = [name for name in values if name != best]
    expected = slow_holm([slow_welch(values[best], values[name]) for name in others])
    assert [p[name] for name in others] == pytest.approx(expected, rel=1e-9)


def test_what_cannot_be_tested() -> None:
    assert math.isnan(welch([1.0], [1.0, 2.0]))
    assert welch([1.0, 1.0], [1.0, 1.0]) == 1.0
    assert welch([1.0, 1.0], [2.0, 2.0]) == 0.0
    p = p_against_best({"a": [3.0, 3.1], "b": [1.0], "c": [3.0, 3.1]}, lower=False)
    assert (p["a"], p["c"]) == (1.0, 1.0)  # one seed is no test, and does not count as one
    assert math.isnan(p["b"])


def test_the_best_is_the_least_where_less_is_better() -> None:
    values = {"a": [0.1, 0.2, 0.15], "b": [0.9, 0.8, 0.85], "c": [0.2, 0.1, 0.16], "d": []}
    p = p_against_best(values, lower=True)
    assert set(p) == {"a", "b", "c"}
    assert p["a"] == 1.0
    assert p["b"] < 0.01
    assert p["c"] > 0.5
    assert p_against_best(values, lower=False)["b"] == 1.0
    results = [
        {"method": name, "seed": seed, "scores": {"features/mistake_severity": value, "x/none": None}}
        for name, known in values.items()
        for seed, value in enumerate(known)
    ]
    summary = Summary(results)
    entries = summary.entries("features/mistake_severity", summary.methods)
    assert [entries[name].best for name in "abc"] == [True, False, False]
    assert [entries[name].close for name in "abc"] == [False, False, True]
    assert summary.entries("x/none", summary.methods) == {}


@pytest.mark.parametrize("lower", [False, True])
def test_nothing_undefined_is_best(lower: bool) -> None:
    """Neither null, as a file has it, nor NaN, whichever row comes first."""
    column = "probe/error" if lower else "probe/top1"
    for nothing in (None, math.nan):
        rows = {"x": [nothing, nothing], "y": [0.3, 0.4], "z": [nothing, 0.9 if not lower else 0.1]}
        summary = Summary(
            [
                {"method": name, "seed": seed, "scores": {column: value}}
                for name, values in rows.items()
                for seed, value in enumerate(values)
            ]
        )
        entries = summary.entries(column, rows)
        assert {name: entry.best for name, entry in entries.items()} == {"y": False, "z": True}
        assert entries["z"].n == 1
        assert summary.mean("x", column) is None
        assert _cell(entries.get("x")).text == "–"


def test_nobody_is_best_where_all_are_equal() -> None:
    results = [
        {"method": name, "seed": seed, "scores": {"a/same": 0.0, "a/other": 0.1 * (name == "x")}}
        for name in "xy"
        for seed in range(2)
    ]
    same = Summary(results).entries("a/same", ["x", "y"])
    assert not any(entry.best or entry.close for entry in same.values())
    assert Summary(results).entries("a/other", ["x", "y"])["x"].best
    assert Summary(results).entries("a/same", ["x"])["x"].best, "alone in its column"


def test_two_seeds_have_no_marks() -> None:
    """Raw pixels at 0.435 beside 0.789 are not "about as good" because a test of two seeds finds nothing."""
    for seeds, marked in ((2, False), (3, True)):
        results = [
            {"method": name, "seed": seed, "scores": {"features/top1": value + 0.3 * seed}}
            for name, value in (("x", 0.5), ("y", 0.4))
            for seed in range(seeds)
        ]
        entry = Summary(results).entries("features/top1", ["x", "y"])["y"]
        assert entry.p > 0.05
        assert entry.close is marked
        assert ("≈" in significance(seeds)) is marked


@pytest.mark.parametrize("seed", range(3))
def test_the_interval_of_a_difference_is_that_of_welchs_test(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=3 + seed).tolist(), rng.normal(0.5, 2, size=4).tolist()
    ends = ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    lead = difference(a, b, 0.5)
    assert (lead.low, lead.high) == pytest.approx((ends.low, ends.high), rel=1e-9)
    assert lead.mean == pytest.approx((lead.low + lead.high) / 2)


def test_too_few_seeds_have_no_interval() -> None:
    for a, b in (([1.0, 2.0], [1.0, 2.0, 3.0]), ([1.0], [2.0]), ([1.0] * 3, [2.0] * 3)):
        lead = difference(a, b, math.nan)
        assert math.isnan(lead.low)
        assert math.isnan(lead.high)

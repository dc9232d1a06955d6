"""Numbers that are not means: which of them have intervals, and how many groups these rest on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from labeltree.evaluation import EvaluationSettings, Outcomes, compare, evaluate
from labeltree.evaluation.sample_columns import ResamplingUnits, estimate_statistics
from labeltree.evaluation.statistics import Resampling, Statistic, across_runs
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/1", "a/2", "b/3", "b/4"])


def calibration(rows: np.ndarray, seed: int, right: float = 0.7) -> Statistic:
    rng = np.random.default_rng(seed)
    samples = {"confidence": 0.5 + rng.random(len(rows)) / 2, "right": rng.random(len(rows)) < right}
    fixed = {"bins": np.array([5])}
    return Statistic("calibration", ("ece_after",), rows, samples, fixed, larger_is_better=False)


def outcomes(role: str, statistic: Statistic, n: int, groups: np.ndarray | None = None) -> Outcomes:
    return Outcomes(
        np.arange(n), np.ones(n, dtype=np.int64), TREE, {}, groups=groups, statistics={role: [statistic]}
    )


def test_a_comparison_averages_only_nodes_that_classes_decide_about() -> None:
    generator = torch.Generator().manual_seed(0)
    nodes = TREE.leaves.repeat(30)
    vectors = torch.eye(4)[torch.arange(120) % 4] + 0.5 * torch.randn(120, 4, generator=generator)
    split = np.where(np.arange(120) % 8 < 4, "train", "test")
    unlearned = torch.from_numpy(split == "train") & (nodes >= TREE.encode(["b/3"])[0])
    table = EmbeddingTable(vectors, nodes, split).rows((~unlearned).nonzero()[:, 0])
    settings = EvaluationSettings(resamples=0)
    result = evaluate(table, TREE, name="mine", protocols=["node-scores"], settings=settings)
    found = compare(result.outcomes, metrics=["node-scores.*"], resamples=20)
    for metric in ("answers.auroc", "answers.average_precision"):
        value = found.metric(metric).estimates["mine"].value
        assert value == pytest.approx(result.main.score(f"node-scores.{metric}"), abs=1e-9)


def test_a_difference_without_variance_has_neither_interval_nor_p() -> None:
    found = across_runs(np.array([0.25, 0.0]), [], np.zeros(2), 10)
    assert np.isnan(found.p[0])
    assert found.p[1] == 1
    assert np.isnan([found.low, found.high]).all()
    rows = np.arange(12)
    apart = {"labels": rows % 3, "clusters": rows % 3}
    alike = {"labels": rows % 3, "clusters": np.zeros(12, dtype=np.int64)}
    runs = {
        name: outcomes("clustering", Statistic("agreement", ("nmi",), rows, samples), 12, rows // 6 * 0)
        for name, samples in (("a", alike), ("b", apart))
    }
    part = compare(runs, metrics=["clustering.nmi"], resamples=50).metric("nmi").differences["b"]
    assert part.value == pytest.approx(1)
    assert np.isnan([part.low, part.high, part.p, part.corrected]).all()


def test_calibration_errors_have_no_interval_but_a_tested_difference() -> None:
    rows = np.arange(80)
    good, bad = (outcomes("decisions", calibration(rows, 3, right), 80) for right in (0.75, 0.3))
    entry = compare({"good": good, "bad": bad}, metrics=["*.ece_after"], resamples=200).metric("ece_after")
    assert all(np.isnan([each.low, each.high]).all() for each in entry.estimates.values())
    part = entry.differences["bad"]
    assert part.low < part.value < part.high
    assert part.p < 0.05
    several = compare({"good": [good, good], "bad": [bad, good]}, metrics=["*.ece_after"], resamples=50)
    entry = several.metric("ece_after")
    assert all(np.isnan([each.low, each.high]).all() for each in entry.estimates.values())
    units = ResamplingUnits(Resampling(50), rows)
    (number,) = estimate_statistics([calibration(rows, 3)], torch.from_numpy(rows), units, TREE).values()
    assert np.isnan([number.low, number.high]).all()


def test_the_test_of_calibration_errors_holds_its_level() -> None:
    """Two methods that are calibrated equally well differ significantly in about one of twenty cases."""
    rows, p = np.arange(150), []
    for trial in range(100):
        runs = {}
        for name, seed in (("a", 2 * trial), ("b", 2 * trial + 1)):
            rng = np.random.default_rng(seed)
            confidence = 0.5 + rng.random(150) / 2
            samples = {"confidence": confidence, "right": rng.random(150) < confidence}
            each = Statistic("calibration", ("ece_after",), rows, samples, {"bins": np.array([10])})
            runs[name] = outcomes("decisions", each, 150)
        found = compare(runs, metrics=["*.ece_after"], resamples=200).metric("ece_after")
        p.append(found.differences["b"].p)
    assert np.mean(np.array(p) < 0.05) <= 0.1


def test_nmi_is_never_below_zero_but_ami_may_be() -> None:
    rng = np.random.default_rng(0)
    rows = np.arange(60)
    samples = {"labels": rng.integers(0, 2, 60), "clusters": rng.integers(0, 2, 60)}
    run = outcomes("clustering", Statistic("agreement", ("nmi", "ami"), rows, samples), 60)
    found = compare({"a": run}, metrics=["clustering.*"], resamples=200)
    nmi, ami = (found.metric(name).estimates["a"] for name in ("nmi", "ami"))
    assert nmi.low == 0 < nmi.value < nmi.high
    assert ami.low < 0


def test_intervals_rest_on_the_groups_that_count() -> None:
    """Further groups, none of whose samples counts, do not make the interval narrower."""
    n, groups = 120, np.arange(120) // 5
    rng = np.random.default_rng(1)
    rows = np.arange(40)  # eight groups of 24
    samples = {"labels": rng.integers(0, 3, 40), "clusters": rng.integers(0, 3, 40)}
    mine = Statistic("agreement", ("ami",), rows, samples)
    other = Statistic("agreement", ("ami",), rows, samples | {"clusters": rng.permutation(samples["labels"])})
    many = {name: outcomes("x", each, n, groups) for name, each in (("a", mine), ("b", other))}
    found = compare(many, metrics=["x.*"], resamples=500).metric("ami")
    part, estimate = found.differences["b"], found.estimates["a"]
    values = mine.without_blocks(groups[rows], 8, TREE)[1][0]
    expected = values.std() * np.sqrt(7)
    assert estimate.error == pytest.approx(expected, rel=1e-6)
    left = other.without_blocks(groups[rows], 8, TREE)[1][0] - values
    error = left.std() * np.sqrt(7)
    assert part.p == pytest.approx(across_runs(np.array([part.value]), [], np.array([error]), 8).p[0])
    units = ResamplingUnits(Resampling(500), groups[rows])
    (number,) = estimate_statistics([mine], torch.from_numpy(rows), units, TREE).values()
    assert number.error == pytest.approx(expected, rel=1e-6)


def test_rows_may_come_in_any_order() -> None:
    rng = np.random.default_rng(2)
    rows = np.arange(40)
    statistic = Statistic(
        "agreement", ("nmi",), rows, {"labels": rng.integers(0, 3, 40), "clusters": rng.integers(0, 3, 40)}
    )
    groups = rows // 4
    order = rng.permutation(40)
    found = []
    for at in (rows, order):
        units = ResamplingUnits(Resampling(100), groups[at])
        found.append(estimate_statistics([statistic], torch.from_numpy(rows[at]), units, TREE))
    assert found[0] == found[1]


def test_two_runs_that_agree_on_every_sample_have_no_interval_of_a_cost() -> None:
    n = 20
    cost = {("features", "cost"): np.full(n, 2.0), ("features", "top1"): np.ones(n)}
    run = Outcomes(
        np.arange(n), np.ones(n, dtype=np.int64), TREE, cost, no_share=frozenset({("features", "cost")})
    )
    found = compare({"a": [run, run], "b": [replace(run), replace(run)]}, resamples=50, permutations=50)
    for entry in found.metrics:
        assert np.isnan([entry.estimates["a"].low, entry.estimates["a"].high]).all()

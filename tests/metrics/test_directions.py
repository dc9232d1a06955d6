"""A number has one direction on every surface; one that has none is not ranked, tested or coloured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch

import labeltree.metrics as classes
from labeltree.errors import DataError
from labeltree.evaluation import Column, Outcomes, compare
from labeltree.evaluation.comparing.comparison import Comparison
from labeltree.evaluation.comparing.gate import Gate, GateRule, check_gate
from labeltree.evaluation.comparing.result_text import comparison_csv, comparison_text
from labeltree.evaluation.outcomes import load_outcomes, save_outcomes
from labeltree.evaluation.pool_folds import pool_outcomes
from labeltree.evaluation.statistics import Statistic
from labeltree.metrics.catalogue import METRICS, find_metric, is_larger_better
from labeltree.report.charts.grid_charts import cell_chart
from labeltree.report.comparison_words import summary, verdict
from labeltree.report.pages.comparison_page import comparison_page
from labeltree.report.pages.document import Text
from labeltree.report.tables.metric_table import table_cells
from labeltree.report.wording import metric_words
from labeltree.studies.shortfall import pareto_set, shortfall_blocks, shortfalls
from labeltree.studies.study_page import _agreement
from labeltree.studies.study_plan import PaperTable
from labeltree.studies.study_statistics import Entry, Summary, differences, metric_title
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
DEPTH = ("decisions", "depth")


@pytest.fixture(scope="module")
def compared() -> Comparison:
    nodes = TREE.leaves.repeat(30).numpy()
    draw = np.random.default_rng(0)

    def outcomes(deeper: float) -> Outcomes:
        values = {
            DEPTH: draw.random(len(nodes)) + deeper,
            ("features", "top1"): (draw.random(len(nodes)) < 0.2 + 0.6 * deeper).astype(float),
        }
        return Outcomes(np.arange(len(nodes)), nodes, TREE, values, protocols=("decisions",))

    methods = {"old": outcomes(0.0), "new": outcomes(1.0)}
    return compare(methods, metrics=["depth", "top1"], strata_metrics=["depth", "top1"], resamples=50)


@pytest.mark.parametrize(
    ("key", "better"),
    [
        ("decisions.depth_at_0.9", None),
        ("confidence", None),
        ("top1_sd", None),
        ("parent_violations_sd", None),
        ("ece_by_chance", None),
        ("top1_less_than_seen", False),
        ("parent_violations_less_than_seen", True),
        ("top1", True),
        ("my_cost", False),
        ("my_gain", True),
    ],
)
def test_directions_of_keys_are_the_same_everywhere(key: str, better: bool | None) -> None:
    assert is_larger_better(key) is better
    assert Column(key, torch.zeros(2)).larger_is_better is better
    assert metric_words(key).larger_is_better is better
    statistic = Statistic("calibration", (key,), np.arange(2), _CALIBRATED, {"bins": np.array([2])})
    assert statistic.larger_is_better is better
    known = find_metric(key)
    assert known is None or known.larger_is_better is better


_CALIBRATED = {"confidence": np.array([0.5, 0.6]), "right": np.array([True, False])}


def test_a_direction_that_is_given_holds_against_the_name(tmp_path: Path) -> None:
    assert Column("saved_cost", torch.zeros(2), larger_is_better=True).larger_is_better is True
    assert Column("top1", torch.zeros(2), larger_is_better=False).larger_is_better is False
    key = ("mine", "saved_cost")
    said = Outcomes(np.arange(2), TREE.leaves[:2].numpy(), TREE, {key: np.zeros(2)}, directions={key: True})
    assert said.larger_is_better(key) is True
    save_outcomes(tmp_path / "outcomes.npz", {"mine": said})
    assert load_outcomes(tmp_path / "outcomes.npz")["mine"].larger_is_better(key) is True
    assert compare({"a": said, "b": said}).metrics[0].larger_is_better is True


def test_a_statistic_without_a_direction_has_none_when_it_is_read(tmp_path: Path) -> None:
    nodes = TREE.leaves[:2].numpy()
    kept = {}
    for name in ("confidence", "ece", "my_gain"):
        statistic = Statistic("calibration", (name,), np.arange(2), _CALIBRATED, {"bins": np.array([2])})
        kept[name] = Outcomes(np.arange(2), nodes, TREE, {}, statistics={"mine": [statistic]})
        kept[name] = replace(kept[name], smaller_is_better=frozenset({("mine", "ece")}))
    save_outcomes(tmp_path / "outcomes.npz", kept)
    read = load_outcomes(tmp_path / "outcomes.npz")
    of_each = [read[name].statistics["mine"][0].larger_is_better for name in kept]
    assert of_each == [None, False, True]


def test_a_direction_of_any_fold_is_that_of_all() -> None:
    key = ("mine", "saved_cost")
    first = Outcomes(np.arange(2), TREE.leaves[:2].numpy(), TREE, {})
    second = replace(first, instances=np.arange(2, 4), values={key: np.zeros(2)}, directions={key: True})
    for folds in ((first, second), (second, first)):
        assert pool_outcomes(folds).larger_is_better(key) is True


def test_a_comparison_shows_a_neutral_number_and_does_not_test_it(compared: Comparison) -> None:
    depth, right = compared.metric("depth", "decisions"), compared.metric("top1")
    assert depth.larger_is_better is None
    part = depth.differences["new"]
    assert part.low <= part.value <= part.high
    assert np.isnan([part.p, part.corrected]).all()
    assert right.differences["new"].corrected < 0.05
    assert compared.tests == 1
    assert all(np.isnan(entry.differences["new"].p) for entry in compared.strata if entry.metric == "depth")
    assert Comparison.from_dict(compared.to_dict()).metric("depth", "decisions").larger_is_better is None
    (row,) = [line for line in comparison_csv(compared).splitlines() if line.startswith("decisions,depth")]
    assert row.split(",")[2] == ""
    (line,) = [
        line
        for line in comparison_text(compared).splitlines()
        if line.startswith("| decisions depth of the answers | new")
    ]
    assert line.split("|")[4].strip() == ""


def test_the_page_neither_colours_nor_counts_it(compared: Comparison) -> None:
    depth = compared.metric("depth", "decisions")
    assert verdict(depth, depth.differences["new"]) == "neither"
    assert "is significantly better" in summary(compared)
    page = comparison_page(compared)
    assert 'class="against better"' in page
    assert 'class="against neither"' in page
    assert '<td class="direction"></td>' in page


def test_a_gate_refuses_it(compared: Comparison) -> None:
    with pytest.raises(DataError, match="neither a fall nor a rise is a loss"):
        check_gate(Gate((GateRule("decisions.depth"),)), compared, "new")
    assert check_gate(Gate((GateRule("features.top1"),)), compared, "new")[0].passed


def test_no_cell_of_a_table_is_best() -> None:
    assert not any(cell.best for cell in table_cells([0.2, 0.4], metric=METRICS["confidence"]))
    assert any(cell.best for cell in table_cells([0.2, 0.4], metric=METRICS["top1"]))
    words = {"title": "t", "x_label": "x", "y_label": "y"}
    charts = [
        str(cell_chart([[0.2, 0.4]], ["a"], ["b", "c"], larger_is_better=better, **words))
        for better in (True, None)
    ]
    assert ["best" in chart for chart in charts] == [True, False]


def test_studies_do_not_rank_by_it() -> None:
    results = [
        {"method": name, "seed": seed, "scores": {"decisions/depth": value, "features/top1": value}}
        for name, value in (("a", 0.1), ("b", 0.9))
        for seed in range(3)
    ]
    summed, column = Summary(results), "decisions/depth"
    assert metric_title(column) == "depth of the answers"
    assert metric_title("features/top1").endswith("↑")
    entries = summed.entries(column, ["a", "b"])
    assert not any(entry.best or entry.close for entry in entries.values())
    assert summed.entries("features/top1", ["a", "b"])["b"].best
    assert differences(summed, column, "a") == {}
    assert shortfalls(summed, ["a", "b"], {column: 0.1}) == {"a": [], "b": []}
    assert pareto_set(summed, ["a", "b"], [column]) == ["a", "b"]
    text = next(
        block.text
        for block in shortfall_blocks(summed, ["a", "b"], {column: 0.1, "features/top1": 0.1})
        if isinstance(block, Text)
    )
    assert "so it judges nobody: decisions depth of the answers." in text


@pytest.mark.parametrize(
    ("column", "lower", "same"),
    [
        ("features/top1", False, True),
        ("features/top1", True, False),
        ("embeddings/parent_violations", True, True),
        ("embeddings/parent_violations", False, False),
        ("decisions/depth", True, True),
        ("decisions/depth", False, True),
    ],
)
def test_orders_agree_by_their_directions(column: str, lower: bool, same: bool) -> None:
    rows = {"a": 1.0, "b": 2.0, "c": 3.0}
    table = PaperTable("of a paper", "its data", column, rows, lower=lower)
    ours = {name: Entry(value, None, 1, False, float("nan"), 1) for name, value in rows.items()}
    assert f"is {1.0 if same else -1.0:.2f}" in _agreement(table, ours)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("CopheneticCorrelation", "cpcc"),
        ("NormalizedMutualInformation", "nmi"),
        ("NodeAUROC", "auroc"),
        ("NodeAveragePrecision", "average_precision"),
    ],
)
def test_classes_have_the_key_of_their_metric(name: str, key: str) -> None:
    metric = cast(type[classes.NodeAUROC], getattr(classes, name))
    assert metric.key == key
    assert metric.higher_is_better is METRICS[key].larger_is_better


def test_a_class_of_a_neutral_metric_says_so() -> None:
    from labeltree.metrics.modular.state import FunctionMetric

    class Depth(FunctionMetric):
        key = "depth"

    assert Depth.higher_is_better is None

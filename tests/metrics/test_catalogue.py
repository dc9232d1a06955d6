"""One catalogue of metrics: every number has one name, and its direction is said once."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import torch

import labeltree.metrics as classes
from labeltree.evaluation import EvaluationSettings, evaluate
from labeltree.metrics.catalogue import (
    METRICS,
    Metric,
    find_metric,
    is_larger_better,
    list_metrics,
    metric_name,
    register_metric,
)
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

SOURCE = Path(__file__).parents[2] / "src" / "labeltree"


def test_names_are_unique_and_sentences_are_sentences() -> None:
    names = [metric.name for metric in list_metrics()]
    assert len(set(names)) == len(names)
    for key, metric in METRICS.items():
        assert key == metric.key
        assert not metric.sentence or metric.sentence.endswith(".")
        assert ("{}" in metric.name) == ("{}" in key) or key in ("accuracy", "hp")


@pytest.mark.parametrize(
    ("key", "name", "larger", "unit"),
    [
        ("top1", "top-1 accuracy", True, "share"),
        ("features.lda_top1", "top-1 accuracy, LDA", True, "share"),
        ("answer_mistake_severity", "mistake severity", False, "number"),
        ("embeddings.recall_at_20", "recall@20", True, "share"),
        ("coverage_at_0.95", "coverage at 0.95", True, "share"),
        ("own_accuracy_at_depth_2", "accuracy at depth 2, own answers", True, "share"),
        ("nll_after", "log loss, after calibration", False, "number"),
        ("hierarchical_f1_tail", "hierarchical F1, tail classes", True, "share"),
        ("cpcc", "CPCC", True, "correlation"),
    ],
)
def test_keys_of_results_have_names(key: str, name: str, larger: bool, unit: str) -> None:
    metric = find_metric(key)
    assert metric is not None
    assert (metric.name, metric.larger_is_better, metric.unit) == (name, larger, unit)


def test_every_number_of_an_evaluation_is_in_it() -> None:
    tree = Taxonomy.from_paths([("a", "b"), ("a", "c"), ("d", "e"), ("d", "f")])
    nodes = tree.leaves.repeat(20)
    points = torch.nn.functional.one_hot(nodes, tree.num_nodes).float()
    points += 0.4 * torch.randn(points.shape, generator=torch.Generator().manual_seed(0))
    table = EmbeddingTable(embeddings=points, nodes=nodes, predictions=nodes.roll(1))
    settings = EvaluationSettings(protocols=("knn", "clustering", "node-scores"), resamples=0)
    result = evaluate(table, tree, settings=settings)
    scores = [key for of in result.main.scores.values() for key in of]
    scores += [key for each in result.main.protocols.values() for key in [*each.scores, *each.by_depth]]
    assert len(scores) > 60
    assert [key for key in scores if find_metric(key) is None] == []


def test_classes_know_their_direction() -> None:
    assert not classes.ParentViolations.higher_is_better
    assert classes.ParentOrderAccuracy.higher_is_better
    assert not classes.PairViolations.higher_is_better
    assert not classes.MistakeSeverity.higher_is_better
    assert classes.MAPAtR.higher_is_better
    assert classes.RetrievalMetrics.higher_is_better is None


def test_a_metric_of_your_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labeltree.metrics.catalogue.METRICS", dict(METRICS))
    own = Metric("wasted_steps", "wasted steps", larger_is_better=False, unit="number")
    register_metric(own)
    register_metric(own)  # as a module that is imported twice does
    assert metric_name("mine.wasted_steps") == "wasted steps, mine"
    assert not is_larger_better("wasted_steps")
    with pytest.raises(ValueError, match="another name"):
        register_metric(Metric("steps", "wasted steps"))


def test_directions_are_said_in_the_catalogue_alone() -> None:
    """No other file of the package gives a metric's direction as a literal."""
    said = []
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text("utf-8")
        if path.name == "catalogue.py" or not re.search(r"(larger|higher)_is_better", text):
            continue
        for node in ast.walk(ast.parse(text)):
            given = [
                k
                for k in getattr(node, "keywords", [])
                if re.fullmatch(r"(larger|higher)_is_better", k.arg or "")
            ]
            said += [f"{path.name}:{k.value.lineno}" for k in given if isinstance(k.value, ast.Constant)]
    assert said == []

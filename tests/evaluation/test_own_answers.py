"""The protocol of the model's own answers."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from labeltree.errors import DataError
from labeltree.evaluation import EvaluationResult, evaluate
from labeltree.metrics import functional as metrics
from labeltree.report.tables.metric_table import metric_table
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow


@pytest.fixture
def answered(table: EmbeddingTable, taxonomy: Taxonomy) -> EmbeddingTable:
    """Answers that are often right, sometimes an inner node, and missing for the other splits."""
    generator = torch.Generator().manual_seed(7)
    answers = table.nodes.clone()
    wrong = torch.rand(len(answers), generator=generator) < 0.4
    answers[wrong] = torch.randint(1, len(taxonomy), (int(wrong.sum()),), generator=generator)
    answers[torch.from_numpy(table.split != "test")] = -1
    return replace(table, predictions=answers)


def test_own_answers_are_scored_like_those_of_any_classifier(
    answered: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    result = evaluate(answered, taxonomy)
    test = answered.select("test")
    assert test.predictions is not None
    own = result.main.scores["predictions"]
    top1 = sum(int(a == b) for a, b in zip(test.predictions, test.nodes, strict=True)) / len(test)
    assert own["own_top1"] == pytest.approx(top1)
    assert 0 < top1 < 1
    pair = test.predictions, test.nodes, taxonomy
    assert own["own_hierarchical_f1"] == pytest.approx(float(metrics.hierarchical_f1(*pair)), abs=1e-12)
    assert own["own_tree_accuracy"] == pytest.approx(float(metrics.tree_accuracy(*pair)), abs=1e-12)
    assert own["own_mistake_severity"] == pytest.approx(float(metrics.mistake_severity(*pair)), abs=1e-12)
    assert result.main.by_depth["own"] == pytest.approx(metrics.accuracy_by_depth(*pair).tolist(), abs=1e-12)
    assert result.main.score("own_top1") == own["own_top1"]
    assert result.main.score("top1") == result.main.scores["features"]["top1"]
    assert not any("no answer of its own" in note for note in result.notes)
    assert EvaluationResult.from_dict(json.loads(json.dumps(result.to_dict()))) == result


def test_contradictions_between_answers_of_each_depth_are_counted(
    answered: EmbeddingTable, taxonomy: Taxonomy, tmp_path: Path
) -> None:
    assert answered.predictions is not None
    leaves = taxonomy.leaves[torch.arange(len(answered)) % taxonomy.num_leaves]
    paths = taxonomy.paths[leaves].clone()
    astray = (torch.arange(len(answered)) % 3 == 0) & (taxonomy.depth[leaves] > 1)
    tops = taxonomy.children(0)
    other = torch.tensor([tops[(tops.index(int(node)) + 1) % len(tops)] for node in paths[:, 0]])
    paths[:, 0] = torch.where(astray, other, paths[:, 0])
    table = replace(answered, predictions=leaves, depth_predictions=paths)
    table.save(tmp_path / "table.npz")
    again = EmbeddingTable.load(tmp_path / "table.npz", taxonomy)
    assert torch.equal(again.depth_predictions, paths)  # type: ignore[arg-type]
    own = evaluate(again, taxonomy).main.scores["predictions"]
    test = torch.from_numpy(answered.split == "test")
    assert own["own_contradictions"] == pytest.approx(float(astray[test].double().mean()))
    assert 0 < own["own_contradictions"] < 1
    assert replace(table, predictions=None).depth_predictions is None
    with pytest.raises(DataError, match="depth_predictions must be integers"):
        replace(table, depth_predictions=leaves)


def test_without_answers_nothing_is_added(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    silent = replace(table, predictions=torch.full_like(table.nodes, -1))
    for entry in (table, silent):
        result = evaluate(entry, taxonomy)
        assert "predictions" not in result.main.scores
        assert list(result.main.by_depth) == ["probe", "prototypes", "lda", "feature-means"]
        assert math.isnan(result.main.score("own_top1"))
        assert "What does the model itself answer?" not in [
            g.question for g in metric_table(result, "s", "s")
        ]


def test_no_answer_is_a_wrong_answer(answered: EmbeddingTable, taxonomy: Taxonomy) -> None:
    assert answered.predictions is not None
    answers = answered.predictions.clone()
    rows = torch.from_numpy(answered.split == "test").nonzero().squeeze(1)[:7]
    answers[rows] = -1
    result = evaluate(replace(answered, predictions=answers), taxonomy)
    answers[rows] = 0
    as_root = evaluate(replace(answered, predictions=answers), taxonomy)
    assert result.main.scores["predictions"] == as_root.main.scores["predictions"]
    assert any("no answer of its own for 7 test samples" in note for note in result.notes)


def test_the_report_shows_them_beside_the_probe(answered: EmbeddingTable, taxonomy: Taxonomy) -> None:
    result = evaluate(answered, taxonomy, baselines={"other": replace(answered, predictions=None)})
    group = next(g for g in metric_table(result, "image", "images") if "itself answer" in g.question)
    assert [row.metric.name for row in group.rows][:2] == [
        "top-1 accuracy, own answers",
        "tree accuracy, own answers",
    ]
    own = f"{100 * result.main.score('own_top1'):.1f}"
    assert [cell.text for cell in group.rows[0].cells] == [own, "–"]
    assert group.reads == ""


def test_answers_outside_the_taxonomy_are_refused(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    wrong = replace(table, predictions=table.nodes + 99)
    with pytest.raises(DataError, match=r"table 'trained' has predictions from \d+ to \d+"):
        evaluate(wrong, taxonomy)

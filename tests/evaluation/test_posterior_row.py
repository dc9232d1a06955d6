"""The role `posterior`: what the classifier that answers would find, beside features and embeddings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from labeltree.decisions import posterior_embeddings
from labeltree.decisions.calibrators import smoothed_temperature
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.evaluation import EvaluationResult, EvaluationSettings, compare, evaluate
from labeltree.evaluation.comparing.gate import Gate, GateRule, check_gate
from labeltree.metrics.functional import retrieval_metrics
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy
from sweeps import long_unless

TREE = Taxonomy.from_paths([(f"a{i // 4}", f"b{i // 2}", f"c{i}") for i in range(8)])
SETTINGS = EvaluationSettings(resamples=50)


def table(seed: int = 0, *, groups: bool = False) -> EmbeddingTable:
    generator = torch.Generator().manual_seed(seed)
    classes = torch.arange(320) % 8
    features = torch.eye(8)[classes] + 0.5 * torch.randn(320, 8, generator=generator)
    return EmbeddingTable(
        embeddings=torch.nn.functional.normalize(features[:, :4], dim=1),
        features=features,
        nodes=TREE.leaves[classes],
        split=np.repeat(["train", "val", "test"], [160, 40, 120]),
        groups=torch.arange(320) // 3 if groups else None,
    )


def measured(given: EmbeddingTable, settings: EvaluationSettings = SETTINGS) -> EvaluationResult:
    return evaluate(given, TREE, settings=settings)


def test_the_numbers_are_those_of_the_calibrated_probabilities() -> None:
    given = table()
    result = measured(given)
    assert result.classifiers is not None
    scorer = result.classifiers.scores()
    part = {name: given.rows(torch.from_numpy(given.split == name)) for name in ("val", "test")}
    classes = ClassNodes(scorer.classes, TREE)
    temperature = smoothed_temperature(scorer(part["val"]), part["val"].nodes, classes)
    probabilities = (scorer(part["test"]) / temperature).softmax(1)
    points = posterior_embeddings(probabilities, scorer.classes, TREE).float()
    expected = retrieval_metrics(points, part["test"].nodes, TREE, graded=True)
    scores = result.main.scores["posterior"]
    assert scores["map_at_r"] == pytest.approx(float(expected["map@r"]), abs=1e-9)
    assert scores["h_ap"] == pytest.approx(float(expected["h_ap"]), abs=1e-9)
    assert result.main.representations["posterior"].dim == 8
    assert {"cpcc", "parent_violations", "pair_violations"} <= set(scores)


def test_nothing_else_changes() -> None:
    with_row = measured(table()).to_dict()
    without = evaluate(table(), TREE, settings=SETTINGS, answers_searched=()).to_dict()
    for part in ("scores", "intervals", "representations"):
        assert with_row["methods"]["trained"][part].pop("posterior")
    with_row["notes"] = [note for note in with_row["notes"] if "posterior space" not in note]
    assert with_row == without


@pytest.mark.parametrize("groups", long_unless([False, True], [True]))
def test_drawn_queries_find_what_they_find_among_all(groups: bool) -> None:
    given = table(groups=groups)
    key = "posterior", "map_at_r"
    whole = measured(given).outcomes["trained"].values[key]
    some = measured(given, replace(SETTINGS, max_graded_queries=30)).outcomes["trained"].values[key]
    drawn = ~np.isnan(some)
    assert drawn.sum() == 30
    np.testing.assert_allclose(some[drawn], whole[drawn], atol=1e-12)


def test_one_sentence_says_why_there_are_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    no_validation = replace(table(), split=np.repeat(["train", "test"], 160))
    assert "posterior" not in measured(no_validation).main.scores
    assert any("no validation samples" in note for note in measured(no_validation).notes)
    monkeypatch.setattr("labeltree.evaluation.table_inputs.MOST_CLASSES", 7)
    many = measured(table())
    assert "posterior" not in many.main.scores
    assert any("8 classes" in note and "--protocols posterior" in note for note in many.notes)
    asked = evaluate(table(), TREE, settings=SETTINGS, protocols=["posterior"])
    assert "posterior" in asked.main.scores


def test_a_comparison_shows_the_row_and_tests_what_it_tested_before() -> None:
    runs = {str(seed): measured(table(seed)).outcomes["trained"] for seed in (0, 1)}
    plain = {
        name: evaluate(table(seed), TREE, settings=SETTINGS, answers_searched=()).outcomes["trained"]
        for seed, name in enumerate(runs)
    }
    both, before = compare(runs), compare(plain)
    row = both.metric("map_at_r", "posterior")
    assert np.isnan(row.differences["1"].p)
    assert {*row.estimates} == {"0", "1"}
    assert both.tests == before.tests
    for old, new in zip(before.metrics, both.metrics, strict=False):
        assert (old.role, old.metric) == (new.role, new.metric)
        np.testing.assert_equal(old.differences["1"].corrected, new.differences["1"].corrected)
    assert len(both.strata) == len(before.strata)
    check_gate(Gate((GateRule("parent_violations", at_most=1.0),)), both, "1")  # no other role is meant


def test_samples_that_are_tested_do_not_calibrate() -> None:
    result = evaluate(table(), TREE, split="val", settings=SETTINGS)
    assert "posterior" not in result.main.scores
    assert any("no validation samples" in note for note in result.notes)

"""The advice for a model that the raw samples beat."""

from __future__ import annotations

import re
from dataclasses import replace
from math import nan
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from html_page import Page
from report_inputs import SMALL, random_table

from labeltree.decisions.classifiers import ClassifierChoice
from labeltree.evaluation import EvaluationSettings, compare, evaluate
from labeltree.report import render_report
from labeltree.report.compare_answers import (
    AnswerDifference,
    added_by_training,
    answer_differences,
    raw_is_better,
)
from labeltree.report.pages.opening_sentences import _beside, further_sentences
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy


def test_the_advice_names_what_is_better_and_comes_only_then() -> None:
    tree = Taxonomy.from_paths(SMALL)
    bad = random_table(tree, 10)
    good = replace(bad, embeddings=torch.eye(tree.num_nodes)[bad.nodes], features=None)
    settings = EvaluationSettings(resamples=0)
    advice = raw_is_better(evaluate(bad, tree, baselines={"raw pixels": good}, settings=settings))
    assert advice.startswith(
        "raw pixels alone give more right answers than the model: top-1 accuracy 1.0000 and 0."
    )
    assert "--epochs" in advice
    assert raw_is_better(evaluate(good, tree, baselines={"raw pixels": good}, settings=settings)) == ""
    assert raw_is_better(evaluate(bad, tree, baselines={"other": good}, settings=settings)) == ""


def test_the_report_of_a_run_opens_with_the_advice() -> None:
    tree = Taxonomy.from_paths(SMALL)
    bad = random_table(tree, 10)
    good = replace(bad, embeddings=torch.eye(tree.num_nodes)[bad.nodes], features=None)
    result = evaluate(bad, tree, baselines={"raw words": good}, settings=EvaluationSettings(resamples=0))
    of_run, of_table = (
        Page(render_report(result, bad, tree, projection="PCA", recipe=recipe)).text
        for recipe in ({"objective": "supcon"}, None)
    )
    said = "Raw words alone give more right answers than the model: top-1 accuracy 1.0000 and 0."
    assert said in of_run
    assert of_run.index(said) < of_run.index("The model was trained to place")
    assert said not in of_table  # its evaluation was asked for no advice


def test_the_advice_is_about_the_tree_where_as_many_answers_are_right() -> None:
    tree = Taxonomy.from_paths(SMALL)
    good = random_table(tree, 10)
    good = replace(good, embeddings=torch.eye(tree.num_nodes)[good.nodes], features=None)
    found = evaluate(good, tree, baselines={"raw pixels": good}, settings=EvaluationSettings(resamples=0))
    raw = found.methods["raw pixels"]

    def said(f1: float) -> str:
        worse = {**raw.scores, "embeddings": {**raw.scores["embeddings"], "hierarchical_f1": f1}}
        methods = {found.name: replace(raw, name=found.name, scores=worse), "raw pixels": raw}
        return raw_is_better(replace(found, methods=methods))

    assert said(0.9).startswith(
        "raw pixels alone keep closer to the tree than the model: hierarchical F1 1.0000 and 0.9"
    )
    assert said(0.99999) == ""  # the same numbers, as they are shown


def test_methods_are_compared_on_the_same_samples_or_by_their_own_intervals() -> None:
    tree = Taxonomy.from_paths(SMALL)
    bad = replace(random_table(tree, 10), features=None)
    bad = replace(bad, instances=torch.arange(len(bad)))
    good = replace(bad, embeddings=torch.eye(tree.num_nodes)[bad.nodes])
    elsewhere = replace(good, instances=good.instances + len(good))
    same, others = (
        " ".join(further_sentences(evaluate(bad, tree, baselines={"theirs": one}), "images"))
        for one in (good, elsewhere)
    )
    assert "points more, so better than this model [" in same
    assert "The brackets say how many points the model is ahead on the same images" in same
    assert "points more, so better than this model" in others
    assert "[" not in others
    assert "as many" in " ".join(
        further_sentences(evaluate(good, tree, baselines={"theirs": good}), "images")
    )


@pytest.mark.parametrize(
    ("ends", "said"),
    [((0.6, 0.95), "a difference that may be chance"), ((0.79, 0.81), "10.0 points less"),
     ((0.72, 0.88), "a difference that may be chance"), ((0.74, 0.86), "10.0 points less"),
     ((nan, nan), "10.0 points less")],
)  # fmt: skip
def test_without_a_test_the_intervals_of_groups_say_what_may_be_chance(
    ends: tuple[float, float], said: str
) -> None:
    """Those of both: √(8² + 8²) is 11.3 points, √(6² + 6²) is 8.5; without groups it is √(2.5² + 2.8²)."""

    def method(name: str, share: float) -> Any:
        return SimpleNamespace(
            name=name,
            answer_score=lambda metric: share,
            answer_interval=lambda metric: tuple(end - 0.8 + share for end in ends),
            errors=SimpleNamespace(samples=1000),
            classifier=SimpleNamespace(name="probe"),
        )

    assert _beside(method("mine", 0.8), method("theirs", 0.7), None, 0.95).endswith(said)


def test_differences_are_tested_as_many_as_there_are() -> None:
    tree = Taxonomy.from_paths(SMALL)
    tables = {
        name: replace(random_table(tree, 20, noise=noise, seed=7), features=None)
        for name, noise in (("mine", 0.7), ("one", 0.9), ("two", 1.0))
    }
    settings = EvaluationSettings(resamples=100)
    result = evaluate(tables.pop("mine"), tree, name="mine", baselines=tables, settings=settings)
    compared = compare(
        result.outcomes,
        classifiers={key: [method.classifier.name] for key, method in result.methods.items()},
        baseline="mine",
        metrics=["answer_top1"],
        strata_metrics=(),
        resamples=100,
    )
    theirs, found = compared.metric("answer_top1").differences, answer_differences(result)
    assert set(found) == {"one", "two"}
    for name, ours in found.items():
        assert ours.p == theirs[name].corrected
        assert (ours.value, ours.low, ours.high) == (
            -theirs[name].value, -theirs[name].high, -theirs[name].low
        )  # fmt: skip
    assert any(ours.p > theirs[name].p for name, ours in found.items())


def test_what_training_added_has_the_sign_of_its_interval() -> None:
    tree = Taxonomy.from_paths(SMALL)
    bad = replace(random_table(tree, 40), features=None)
    good = replace(bad, embeddings=torch.eye(tree.num_nodes)[bad.nodes])

    def said(run: EmbeddingTable, start: EmbeddingTable, name: str = "pretrained encoder", **how: bool):
        settings = EvaluationSettings(resamples=200)
        return added_by_training(evaluate(run, tree, baselines={name: start}, settings=settings), **how)

    gained, lost = said(good, bad), said(bad, good, "untrained encoder", shares=False)
    interval = r"points of right answers \(95.% interval (.*) to (.*)"
    words = rf"Training added (.*) {interval}; 100.0.% right, .* by the pretrained encoder\)\."
    ends = re.fullmatch(words, gained)
    assert ends is not None
    points, low, high = map(float, ends.groups())
    assert 0 < low <= points <= high
    ends = re.fullmatch(
        rf"Training cost (.*) {interval}; compared with the untrained encoder\)\.", lost.replace("−", "-")
    )
    assert ends is not None
    assert float(ends[2]) <= -float(ends[1]) <= float(ends[3]) < 0
    assert said(good, good).startswith("Training added no right answers (100.0")
    assert said(good, bad, "raw pixels") == ""
    assert said(bad, good, "raw pixels") == ""


def test_frozen_features_are_no_measure_of_training() -> None:
    """The same classifier of the same features answers before and after: the difference could only be 0."""
    tree = Taxonomy.from_paths(SMALL)
    table = random_table(tree, 40)
    features = torch.eye(tree.num_nodes)[table.nodes]
    run = replace(table, features=features)
    start = replace(table, features=features.clone(), embeddings=features)
    name = "pretrained encoder"

    def said(start: EmbeddingTable, asked: ClassifierChoice, shares: bool = True) -> str:
        settings = EvaluationSettings(resamples=50, classifier=asked)
        done = evaluate(run, tree, baselines={name: start}, settings=settings)
        return added_by_training(done, shares=shares)

    frozen = said(start, "probe")
    assert frozen.startswith(
        "Training changed no answer: they come from a linear probe on the features, which are frozen "
        "(100.0\u202f% right). With what was trained, "
    )
    assert re.search(
        r"the nearest class mean of the embeddings has \d+\.\d.% right\. In a search \d+\.\d.% find their "
        r"own class first; before training 100\.0.% did\.$",
        frozen,
    )
    assert "on the features, which are frozen. With what" in said(start, "probe", shares=False)
    assert said(start, "prototypes").startswith("Training cost"), "the embeddings are those of a trained head"
    other = replace(start, features=features + 0.01 * torch.randn(features.shape))
    assert said(other, "probe").startswith("Training added no right answers")


def test_a_comparison_has_one_direction_and_one_verdict_everywhere() -> None:
    """The interval excludes 0, and the test that is corrected for both baselines does not."""
    tree = Taxonomy.from_paths(SMALL)
    bad = replace(random_table(tree, 40), features=None)
    good = replace(bad, embeddings=torch.eye(tree.num_nodes)[bad.nodes])
    name = "pretrained encoder"
    settings = EvaluationSettings(resamples=200)
    done = evaluate(good, tree, baselines={name: bad}, settings=settings)
    lost = evaluate(bad, tree, baselines={"raw pixels": good}, settings=settings)

    def all_said(difference: AnswerDifference) -> list[str]:
        apart = {name: difference}
        return [added_by_training(done, apart), " ".join(further_sentences(done, "images", apart))]

    chance = all_said(AnswerDifference(0.053, 0.013, 0.105, 0.062, 0.95))
    assert "can be told from chance" in chance[0]
    assert "interval +1.3 to +10.5, p = 0.062 after correction" in chance[0]
    assert "a difference that may be chance [+1.3, +10.5] (p = 0.062, corrected)" in chance[1]
    better = all_said(AnswerDifference(0.053, 0.013, 0.105, 0.02, 0.95))
    assert better[0].startswith("Training added")
    assert "p =" not in better[0]
    assert "points less [+1.3, +10.5]" in better[1]
    wide = AnswerDifference(-0.02, -0.05, 0.01, 0.3, 0.95)
    assert raw_is_better(lost, {"raw pixels": wide}).startswith(
        "raw pixels alone answer better than the model, though the difference may be chance: top-1 accuracy "
    )
    assert raw_is_better(lost, {}).startswith("raw pixels alone give more right answers")

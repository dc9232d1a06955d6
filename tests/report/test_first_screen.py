"""The first screen: what was tested, what was asked, and whether promises were kept."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from html_page import Page
from report_inputs import SMALL, clinic_table

from labeltree.decisions.choose_classifier import classifier_words
from labeltree.evaluation import EvaluationResult, EvaluationSettings, evaluate, pool_folds
from labeltree.report import render_report
from labeltree.report.cross_validation import _questions as folds_questions
from labeltree.report.pages import first_screen
from labeltree.report.pages.document import Table, Text
from labeltree.report.pages.first_screen import (
    _rates,
    _say_groups,
    group_word,
    promise_panel,
    promise_sentence,
    question_panels,
)
from labeltree.report.wording import percent
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy
from sweeps import long_unless

QUESTIONS = ("open=apparel/dress+footwear/sandal",)


@pytest.fixture(scope="module")
def taxonomy() -> Taxonomy:
    return Taxonomy.from_paths(SMALL)


@pytest.fixture(scope="module")
def table(taxonomy: Taxonomy) -> EmbeddingTable:
    return clinic_table(taxonomy)


@pytest.fixture(scope="module")
def result(table: EmbeddingTable, taxonomy: Taxonomy) -> EvaluationResult:
    settings = EvaluationSettings(
        resamples=60,
        protocols=("node-scores", "decisions"),
        options={"node-scores": {"questions": QUESTIONS}, "decisions": {"coverages": (0.9,)}},
        by=("site",),
    )
    return evaluate(table, taxonomy, settings=settings)


def test_a_question_has_its_rates_and_the_counts_behind_them(result: EvaluationResult) -> None:
    (panel,) = question_panels(result, "image", "patient")
    found = result.main.protocols["node-scores"]
    positive, hit, negative, cleared, coarse = (
        found.counts[f"open: {name}"]
        for name in (
            "positive",
            "positive and answered right",
            "negative",
            "negative and answered right",
            "label too coarse to tell",
        )
    )
    assert (positive, negative, coarse) == (24, 48, 0)
    assert panel.nodes == "apparel › dress or footwear › sandal"
    words = classifier_words(result.main.classifier.name)
    assert panel.cases == f"24 images positive, 48 negative. Answered by {words}."
    assert [rate.counts for rate in panel.rates[:2]] == [f"{hit} of {positive}", f"{cleared} of {negative}"]
    for rate, key in zip(panel.rates, ("sensitivity", "specificity", "ppv", "npv"), strict=False):
        right, of = map(int, rate.counts.split(" of "))
        assert found.scores[f"open.decision_{key}"] == pytest.approx(right / of)
        assert f"{100 * right / of:.1f}" in rate.value
        assert " to " in rate.interval
    assert panel.warnings == []
    assert not panel.rates[0].few


def test_auroc_over_folds_has_no_interval_and_says_why(result: EvaluationResult) -> None:
    """None was computed, however many the cases are."""
    scores = result.main.protocols["node-scores"]
    assert question_panels(result, "image")[0].rates[-1].interval
    pooled = pool_folds([result], [result.outcomes[result.name]])
    (panel,) = question_panels(pooled, "image")
    auroc = panel.rates[-1]
    assert (auroc.title, auroc.interval) == ("AUROC", "")
    assert all(" to " in rate.interval for rate in panel.rates[:-1])
    why = "No interval of AUROC: over folds it is the mean of theirs."
    assert why in panel.warnings
    assert why.replace("No", "open: no") in pooled.main.protocols["node-scores"].notes
    _, cases, table, *texts = folds_questions(pooled, "patient")
    assert isinstance(table, Table)
    assert isinstance(cases, Text)
    assert cases.text.endswith(f"Answered by {scores.title.partition(', by ')[2]}.")
    assert [cell.text for cell in table.rows[-1]][2:] == ["–", "mean of the folds"]
    assert why in [text.text for text in texts if isinstance(text, Text)]


def test_few_cases_and_none_are_said(result: EvaluationResult) -> None:
    scores = result.main.protocols["node-scores"]
    counts = scores.counts | {"open: positive": 0, "open: positive and answered right": 0}
    counts |= {"open: negative": 7, "open: negative and answered right": 5}
    changed = replace(
        scores, counts=counts, scores=scores.scores | {"open.decision_sensitivity": float("nan")}
    )
    main = replace(result.main, protocols=result.main.protocols | {"node-scores": changed})
    (panel,) = question_panels(replace(result, methods={result.name: main}), "image")
    assert panel.warnings == [
        "No image is positive: the sensitivity is not defined.",
        "Few images: 7 negative (specificity), 2 called open (PPV), 5 cleared (NPV). These rates are "
        "uncertain.",
    ]
    assert (panel.rates[0].value, panel.rates[0].interval) == ("–", "not defined here")
    assert panel.rates[1].few


def test_twenty_cases_are_no_few() -> None:
    """Of 20 positive 15 are found, of 30 others 24 cleared: 21 are called so and 29 not."""
    scores = {f"open.decision_{key}": 0.5 for key in ("sensitivity", "specificity", "ppv", "npv")}
    scores |= {"open.auroc": 0.75}

    def rates(positive: int) -> list[tuple[str, bool]]:
        numbers = [positive, 15, 30, 24, 0]
        return [(rate.counts, rate.few) for rate in _rates("open", scores, {}, numbers, "image")]

    assert rates(20) == [
        ("15 of 20", False), ("24 of 30", False), ("15 of 21", False), ("24 of 29", False), ("", False),
    ]  # fmt: skip
    assert [few for _, few in rates(19)] == [True, False, False, False, True]


def test_a_promise_stands_beside_what_came_of_it(result: EvaluationResult) -> None:
    panel = promise_panel(result, "images")
    assert panel is not None
    held = result.main.protocols["decisions"].scores["coverage_at_0.9"]
    assert f"{100 * held:.1f}" in panel.sentence
    assert [part.name for part in panel.parts] == ["site Graz", "site Wien"]
    assert all(part.samples == "36 images" for part in panel.parts)
    shares = result.main.protocols["decisions"].scores
    assert "Of 36 groups" in panel.sentence
    assert f"{100 * shares['groups_held_at_0.9']:.1f}\u202f% have answers that all hold" in panel.sentence


def test_a_broken_promise_is_flagged_where_it_is_broken(result: EvaluationResult) -> None:
    poor = result.main.by_attribute[1]
    key = "decisions.coverage_at_0.9"
    poor = replace(poor, scores=poor.scores | {key: 0.5}, intervals=poor.intervals | {key: (0.4, 0.6)})
    few = replace(poor, value="Linz", samples=7, counted={}, counted_groups={})
    decided = result.main.protocols["decisions"]
    whole = replace(
        decided,
        scores=decided.scores | {"coverage_at_0.9": 0.7},
        intervals=decided.intervals | {"coverage_at_0.9": (0.6, 0.8)},
    )
    main = replace(
        result.main,
        by_attribute=[result.main.by_attribute[0], poor, few],
        protocols=result.main.protocols | {"decisions": whole},
    )
    changed = replace(result, methods={result.name: main})
    panel = promise_panel(changed, "images")
    assert panel is not None
    assert not panel.kept
    assert [part.verdict for part in panel.parts][1:] == ["not kept", "too few to tell"]
    assert "does not hold here" in promise_sentence(changed)
    below = replace(poor, scores=poor.scores | {key: 0.87}, intervals=poor.intervals | {key: (0.7, 0.97)})
    several = [replace(part, value=f"{part.value} {n}") for n in range(3) for part in (poor, below, few)]
    panel = promise_panel(
        replace(result, methods={result.name: replace(main, by_attribute=several)}), "images"
    )
    assert panel is not None
    assert panel.rest == (
        "Of 9 values: 3 not kept, 3 not clearly below it and 3 too few to tell; all are under By attribute."
    )
    six = replace(result, methods={result.name: replace(main, by_attribute=several[:6])})
    panel = promise_panel(six, "images")
    assert panel is not None
    assert (len(panel.parts), panel.rest) == (6, ""), "as many are named one by one"


def test_few_calibration_samples_may_miss_a_promise_by_chance(result: EvaluationResult) -> None:
    decided = result.main.protocols["decisions"]

    def said(calibrated: int) -> str:
        found = replace(
            decided,
            counts=decided.counts | {"groups for the thresholds": calibrated},
            scores=decided.scores | {"coverage_at_0.9": 0.865},
            intervals=decided.intervals | {"coverage_at_0.9": (0.858, 0.871)},
        )
        main = replace(result.main, protocols=result.main.protocols | {"decisions": found})
        return promise_sentence(replace(result, methods={result.name: main}))

    assert "thresholds from 250 groups may miss by as much by chance" in said(250)
    assert "does not hold here" in said(1000)


def test_a_share_is_low_as_classes_were_not_learned(result: EvaluationResult) -> None:
    decided = result.main.protocols["decisions"]
    changed = replace(
        decided,
        counts=decided.counts | {"test samples of classes that were not learned": 13},
        scores=decided.scores | {"coverage_at_0.9": 0.78},
    )
    main = replace(result.main, protocols=result.main.protocols | {"decisions": changed})
    said = promise_sentence(replace(result, methods={result.name: main}))
    assert ": fewer, and 13 are of classes that were not learned, for which nothing is promised." in said
    assert "by chance" not in said


def test_coverage_of_answers_that_name_nothing(result: EvaluationResult) -> None:
    decided = result.main.protocols["decisions"]

    def said(coverage: float, low: float, root: float, leaves: float = 0.5) -> str:
        shares = {"coverage_at_0.9": coverage, "root_at_0.9": root, "right_leaf_at_0.9": leaves}
        scores = decided.scores | shares
        intervals = decided.intervals | {"coverage_at_0.9": (low, 0.99)}
        changed = replace(decided, scores=scores, intervals=intervals)
        main = replace(result.main, protocols=result.main.protocols | {"decisions": changed})
        return promise_sentence(replace(result, methods={result.name: main})).replace("\u202f", " ")

    assert "of the answers hold the truth; 90 % were promised: not clearly fewer." in said(0.84, 0.7, 0.1)
    assert "name nothing" not in said(0.84, 0.7, 0.1)
    withheld = "of the answers hold the truth; 90 % were promised. But 80.0 % of them name nothing"
    assert f"96.0 % (90.0 to 99.0 %) {withheld}" in said(0.96, 0.9, 0.8)
    many = said(0.96, 0.9, 0.2, 0.0)
    assert "But 20.0 % of them name nothing, as no class and no branch was sure enough; 0.0 % of" in many
    assert "sure enough; 0.0 % of them name the right class itself. Of 36 groups" in many
    assert "But 20.0 % of them name nothing" in said(0.96, 0.9, 0.2)
    assert "name" not in said(0.96, 0.9, 0.199)
    assert " promised. But only 9.9 % of them name the right class itself. Of" in said(0.96, 0.9, 0.1, 0.099)
    assert "name" not in said(0.96, 0.9, 0.1, 0.1)
    assert "name" not in said(0.96, 0.9, math.nan, math.nan)


def test_the_page_opens_with_them(
    result: EvaluationResult, table: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    recipe = {"table": {"group_column": "patient_id"}}
    text = Page(render_report(result, table, taxonomy, projection="PCA", recipe=recipe)).text
    places = [
        text.index(said)
        for said in (
            "Tested on 72 samples of 36 patients",
            "Sensitivity",
            " ".join(promise_sentence(result).split()),
            "Of 72 test samples",
            "Each row is one metric",
        )
    ]
    assert places == sorted(places)
    counts = result.counts | {"labelled only coarsely": 14}
    coarse = render_report(replace(result, counts=counts), table, taxonomy, projection="PCA", recipe=recipe)
    assert "Tested on 72 samples of 36 patients, 14 of them labelled only coarsely" in Page(coarse).text
    assert table.groups is not None
    lonely = replace(table, groups=table.groups.masked_fill(table.groups == table.groups.max(), -1))
    some = Page(render_report(result, lonely, taxonomy, projection="PCA", recipe=recipe)).text
    assert "Tested on 72 samples of 35 patients and 2 without one" in some
    bare = Page(render_report(evaluate(table, taxonomy), table, taxonomy, projection="PCA")).text
    assert "Sensitivity" not in bare


@pytest.mark.parametrize("per", long_unless(["sample", "group"], ["group"]))
def test_folds_pool_a_question_case_by_case(table: EmbeddingTable, taxonomy: Taxonomy, per: str) -> None:
    settings = EvaluationSettings(
        resamples=30,
        protocols=("node-scores",),
        options={"node-scores": {"questions": QUESTIONS, "per": per}},
    )
    turns = ["train", "val", "test"]
    folds = []
    for shift in (0, 1):
        split = np.array([turns[(turns.index(name) + shift) % 3] for name in table.split])
        folds.append(evaluate(replace(table, split=split), taxonomy, settings=settings))
    pooled = pool_folds(folds, [each.outcomes[each.name] for each in folds])
    (panel,) = question_panels(pooled, "image")
    singles = [question_panels(each, "image")[0] for each in folds]
    for at, rate in enumerate(panel.rates[:4]):
        parts = [tuple(map(int, single.rates[at].counts.split(" of "))) for single in singles]
        right, of = (sum(part[k] for part in parts) for k in (0, 1))
        assert rate.counts == f"{right} of {of}"
        assert rate.value == percent(right / of)
        assert rate.interval
    of_folds = [each.main.protocols["node-scores"] for each in folds]
    found = pooled.main.protocols["node-scores"]
    name = panel.name + ".auroc"
    assert found.scores[name] == pytest.approx(np.mean([each.scores[name] for each in of_folds]))
    for node, positives in found.by_node["positives"].items():
        parts = [each.by_node["answers.positives"].get(node, 0.0) for each in of_folds]
        assert positives == sum(parts)  # of patients, where they are the cases
        right = [each.by_node["answers.decision_sensitivity"].get(node, np.nan) for each in of_folds]
        if per == "group" and not np.isnan(right).any():
            assert found.by_node["answer_sensitivity"][node] == pytest.approx(
                np.dot(parts, right) / positives
            )
            assert node in found.node_intervals["answer_sensitivity"]
    tested = table.groups[torch.from_numpy(np.isin(table.split, ["test", "val"]))]
    assert pooled.counts["groups tested"] == len(tested.unique())


@pytest.mark.parametrize(
    ("column", "word"),
    [("patient", "patient"), ("Patient_ID", "patient"), ("a b/c", "group"), (None, "group")],
)
def test_groups_are_called_as_their_column(column: str | None, word: str) -> None:
    assert group_word({"table": {"group_column": column}}) == word
    assert group_word(None, column) == word


def test_groups_are_counted_unless_each_sample_is_one() -> None:
    def said(groups: list[int], word: str = "group") -> list[str]:
        return _say_groups(torch.tensor(groups), word)

    assert said([0, 1, -1]) == said([-1, -1]) == []
    assert said([0, 0, -1, 3]) == ["3 groups"]
    assert said([0, 1, -1], "patient") == ["2 patients and 1 without one"]
    assert said([4, 4, 5], "patient") == ["2 patients"]


def test_searches_are_told_where_they_start_from_more_samples_than_are_tested(
    result: EvaluationResult, table: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    rows = torch.arange(5)

    def said(searched: int | None) -> str:
        among = None if searched is None else torch.arange(searched)
        return first_screen.tested_sentence(
            result, table, rows, taxonomy, "image", "patient", alone=False, searched=among
        )

    assert said(None) == said(5) == said(4) == "Tested on 5 images of 5 patients."
    assert said(7) == "Tested on 5 images of 5 patients. Searches start from 7 images of 6 patients."

"""The first numbers of a report: what was tested, how much was promised, and the large numbers."""

from __future__ import annotations

from math import nan
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from labeltree.evaluation import ProtocolResult
from labeltree.evaluation.protocols.decisions import LATER
from labeltree.evaluation.protocols.nodes_as_tests import POINT_COUNTS, QUESTION_COUNTS
from labeltree.evaluation.result import AttributeResult
from labeltree.inference.run_embeddings import RAW_NAMES
from labeltree.metrics.catalogue import Metric
from labeltree.report import compare_answers
from labeltree.report.compare_answers import AnswerDifference
from labeltree.report.pages import first_screen
from labeltree.report.pages.first_screen import (
    promise_panel,
    promise_sentence,
    question_panels,
)
from labeltree.report.pages.number_tiles import tiles
from labeltree.report.pages.opening_sentences import _beside, opening
from labeltree.report.tables.metric_table import metric_table, table_cells
from labeltree.report.wording import format_interval, format_points, format_score, percent, say_far_off
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/x", "a/y", "b/z"])


def plain(text: str) -> str:
    return text.replace("\u202f", " ")


def test_samples_are_counted_with_their_lesions_patients_and_classes() -> None:
    nodes = torch.tensor([2, 2, 3, 3, 5, 5, 5, 5])
    table = EmbeddingTable(
        torch.eye(8),
        nodes,
        groups=torch.tensor([0, 0, 1, 1, 1, -1, 2, 3]),
        attributes={"lesion": np.array(["1", "1", "1", "2", "3", "4", "5", "6"])},
    )

    def said(per: str, rows: list[int], **options: Any) -> str:
        settings = SimpleNamespace(options={"node-scores": {"per": per}})
        result: Any = SimpleNamespace(settings=settings, counts={"classes tested": 3} | counts)
        given: dict[str, Any] = {"alone": True, "searched": None}
        return first_screen.tested_sentence(
            result, table, torch.tensor(rows), TREE, "image", "patient", **(given | options)
        )

    counts: dict[str, int] = {}
    assert said("lesion", [0, 1, 2, 3, 4, 5]) == (
        "Tested on 6 images of 5 lesions of 2 patients and 1 without one: 3 classes in 2 main branches "
        "(a, b)."
    )
    assert said("sample", [0, 1, 2], alone=False) == "Tested on 3 images of 2 patients."
    counts = {"labelled only coarsely": 4}
    assert said("group", [0, 1, 6, 7], searched=torch.tensor([0, 1, 2, 3, 6])) == (
        "Tested on 4 images of 3 patients, 4 of them labelled only coarsely: 3 classes in 2 main branches "
        "(a, b). Searches start from 5 images of 3 patients."
    )
    counts = {}
    assert "Searches" not in said("group", [0, 1], searched=torch.tensor([0, 1]))
    assert said("group", [5], alone=False) == "Tested on 1 image."


def promised(
    asked: float, coverage: float, ends: tuple[float, float], counts: dict[str, int], **scores: float
) -> Any:
    found = ProtocolResult(
        "",
        scores={f"coverage_at_{asked:g}": coverage} | scores,
        counts={"for the thresholds": 5000} | counts,
        intervals={f"coverage_at_{asked:g}": ends},
    )
    return SimpleNamespace(main=SimpleNamespace(protocols={"decisions": found}, by_attribute=[]))


def test_a_promise_is_said_with_the_samples_that_it_is_not_about() -> None:
    kept = promised(0.8, 0.823, (0.79, 0.85), {})
    assert plain(promise_sentence(kept)) == (
        "82.3 % (79.0 to 85.0 %) of the answers hold the truth; 80 % were promised."
    )
    later = promised(
        0.9, 0.7, (nan, nan), {LATER: 1},
        **{"coverage_of_promised_at_0.9": 0.912, "coverage_of_later_at_0.9": 0.345},
    )  # fmt: skip
    assert plain(promise_sentence(later)) == (
        "91.2 % of the answers hold the truth; 90 % were promised. A further 1 sample is of a class that was "
        "added later, for which nothing was promised: 34.5 % of their answers hold the truth."
    )
    only = promised(0.9, 0.345, (nan, nan), {LATER: 7})
    assert plain(promise_sentence(only)) == (
        "34.5 % of the answers hold the truth; nothing was promised for them, as their classes were added "
        "later."
    )
    one = promised(0.9, 0.5, (0.4, 0.6), {"test samples of classes that were not learned": 1})
    assert "promised: fewer, and 1 is of a class that was not learned, for" in plain(promise_sentence(one))
    few = promised(0.9, 0.86, (0.85, 0.87), {"for the thresholds": 40})
    assert "fewer, but thresholds from 40 samples may miss by as much by chance." in promise_sentence(few)
    unsure = promised(0.9, 0.88, (nan, nan), {"for the thresholds": 40})
    assert "fewer, but thresholds from 40 samples" in promise_sentence(unsure)


def test_the_share_of_groups_stands_beside_that_of_answers() -> None:
    groups = {"groups_held_at_0.9": 0.512, "coverage_of_groups_at_0.9": 0.923}
    said = promise_sentence(promised(0.9, 0.9, (nan, nan), {"groups of test samples answered": 43}, **groups))
    assert plain(said).endswith(
        "promised. Of 43 groups, 51.2 % have answers that all hold the truth; the mean of the groups' shares "
        "is 92.3 %."
    )
    later = {"coverage_of_promised_at_0.9": 0.9, "coverage_of_later_at_0.9": 0.3}
    counts = {"groups of test samples answered": 43, LATER: 2}
    said = promise_sentence(promised(0.9, 0.8, (nan, nan), counts, **groups, **later))
    assert "A further 2 samples are of classes that were added later" in said
    assert " Of all 43 groups, " in said


def test_of_many_values_those_are_shown_where_a_promise_was_broken() -> None:
    result = promised(0.9, 0.9, (0.88, 0.92), {})

    def part(value: str, held: float, samples: int) -> AttributeResult:
        ends = {"decisions.coverage_at_0.9": (held - 0.01, held + 0.01)}
        scores = {"decisions.coverage_at_0.9": held}
        return AttributeResult("site", value, samples, None, scores, ends)

    broken = [part(f"{number}", 0.5 + number / 100, 2000 + number) for number in range(7)]
    fine = [part("good", 0.95, 1234), part("", 0.3, 19)]
    result.main.by_attribute = [*fine, *broken]
    panel = promise_panel(result, "images")
    assert panel is not None
    assert [each.name for each in panel.parts] == [f"site {number}" for number in range(6)]
    assert panel.parts[2].samples == "2,002 images"
    assert panel.rest == (
        "Of 9 values: 7 not kept, 1 kept and 1 too few to tell; all are under By attribute."
    )
    result.main.by_attribute = fine
    panel = promise_panel(result, "images")
    assert panel is not None
    assert panel.rest == ""
    assert [(each.name, plain(each.value), plain(each.interval), each.verdict, each.kept)
            for each in panel.parts] == [
        ("site good", "95.0 %", "94.0 to 96.0 %", "kept", True),
        ("site (missing)", "30.0 %", "29.0 to 31.0 %", "too few to tell", True),
    ]  # fmt: skip


def test_a_question_says_its_operating_point_and_who_answers() -> None:
    numbers = dict(zip(QUESTION_COUNTS, (40, 31, 60, 52, 3), strict=True))
    points = dict(zip(POINT_COUNTS, (37, 45), strict=True))
    scores = {"decision_sensitivity": 31 / 40, "decision_specificity": 52 / 60, "decision_ppv": 31 / 39}
    scores |= {"decision_npv": 52 / 61, "auroc": 0.9123, "point_sensitivity": 37 / 40}
    scores |= {"point_specificity": 45 / 60}
    found = ProtocolResult(
        "Nodes, by a probe",
        scores={f"r.open.{key}": value for key, value in scores.items()} | {"s.open.auroc": 0.1},
        counts={f"open: {key}": value for key, value in (numbers | points).items()},
        notes=["open: the operating point is 0.2.", "other: the operating point is 0.9."],
        intervals={"r.open.auroc": (0.8, 0.95), "r.open.point_sensitivity": (0.85, 0.97)},
        by_node={},
    )
    options = {"node-scores": {"questions": ("open = a/x + b",), "per": "lesion"}}
    result: Any = SimpleNamespace(
        main=SimpleNamespace(protocols={"node-scores": found}),
        settings=SimpleNamespace(options=options, resamples=0),
        counts={},
    )
    (panel,) = question_panels(result, "image", "patient")
    assert (panel.name, panel.nodes) == ("open", "a › x or b")
    assert panel.cases == (
        "40 lesions positive, 60 negative; 3 left out, whose label is too coarse to tell. Answered by a "
        "probe."
    )
    assert plain(panel.point) == (
        "The operating point is 0.2. There: sensitivity 92.5 % (37 of 40, 85.0 to 97.0 %), specificity "
        "75.0 % (45 of 60)."
    )
    assert [(rate.title, rate.meaning, plain(rate.value), rate.counts) for rate in panel.rates] == [
        ("Sensitivity", "of the open lesions, found", "77.5 %", "31 of 40"),
        ("Specificity", "of the others, cleared", "86.7 %", "52 of 60"),
        ("PPV", "of those called open, right", "79.5 %", "31 of 39"),
        ("NPV", "of those cleared, right", "85.2 %", "52 of 61"),
        ("AUROC", "over all thresholds", "0.912", ""),
    ]
    assert panel.rates[-1].interval == "0.800 to 0.950"
    assert panel.warnings == []


def test_the_large_numbers_are_each_those_of_their_method() -> None:
    def method(name: str, kind: str, space: str, at: float) -> SimpleNamespace:
        scores = {
            "features recall_at_1": 0.3,
            "embeddings recall_at_1": 0.4,
            "embeddings parent_violations": 0.05,
        }
        return SimpleNamespace(
            name=name,
            answer_score=lambda metric: at,
            answer_interval=lambda metric: (at - 0.1, at + 0.05),
            answer_by_depth=[nan, at + 0.2, at + 0.1, at],
            classifier=SimpleNamespace(name=kind, space=SimpleNamespace(name=space, sentence="why so")),
            score=lambda metric, role="embeddings": scores[f"{role} {metric}"] + at / 10,
            interval=lambda metric, role="embeddings": (0.01, 0.02) if metric[0] == "p" else (0.31, 0.37),
        )

    main, other = method("mine", "lda", "features", 0.6), method("theirs", "own", "embeddings", 0.5)
    counts = {"queries": 47, "queries without a sample of their class to find": 3}
    result: Any = SimpleNamespace(
        name="mine", main=main, methods={"mine": main, "theirs": other}, counts=counts
    )
    found = [
        (plain(tile.number), tile.title, [f"{a}: {plain(b)}" for a, b in tile.others], plain(tile.interval))
        for tile in tiles(result)
    ]
    own = "theirs, own classifier"
    assert found == [
        (
            "60.0 %",
            "get exactly the right class (LDA)",
            ["theirs, own classifier: 50.0 %"],
            "50.0 % to 65.0 %",
        ),
        ("80.0 %", "get the right main branch", [f"{own}: 70.0 %"], ""),
        ("36.0 %", "find their own class first in a search", ["theirs: 45.0 %"], "31.0 % to 37.0 %"),
        (
            "11.0 %",
            "are nearer to another branch than to their own: less is better",
            ["theirs: 10.0 %"],
            "1.0 % to 2.0 %",
        ),
    ]
    assert tiles(result)[2].note == "of 44 that have another of their class to find; why so"
    counts["queries without a sample of their class to find"] = 0
    assert tiles(result)[2].note == "why so"
    main.answer_by_depth = [nan, nan, nan, 0.6]
    assert len(tiles(result)) == 3, "the coarsest group is the class"


def test_a_page_says_what_it_is_about() -> None:
    result: Any = SimpleNamespace(counts={"classes tested": 1})
    assert opening(result, TREE, "images", trained=True) == (
        "The model was trained to place images close together if they are close on a tree 2 steps deep with "
        "2 main branches (a, b). This page shows how well that works for 1 class."
    )
    many = Taxonomy.from_paths([f"branch {number}" for number in range(1, 7)])
    assert opening(result, many, "texts", trained=False).startswith(
        "Good embeddings place texts close together if they are close on a tree 1 step deep with 6 main "
        "branches (branch 1, branch 2, branch 3, branch 4 …)."
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "difference", "said"),
    [
        (0.8, 0.7, AnswerDifference(0.1, nan, nan, nan, 0.95),
         "10.0 points less: too few to tell from chance"),
        (0.6, 0.7, AnswerDifference(-0.1, nan, nan, nan, 0.95),
         "10.0 points more: too few to tell from chance"),
        (0.6, 0.7, AnswerDifference(-0.1, -0.2, -0.05, 0.01, 0.95),
         "10.0 points more, so better than this model [−20.0, −5.0]"),
        (0.7, 0.7, None, "as many"),
    ],
)  # fmt: skip
def test_another_method_has_less_or_more(ours: float, theirs: float, difference: Any, said: str) -> None:
    def method(name: str, share: float) -> Any:
        return SimpleNamespace(
            name=name, answer_score=lambda metric: share, classifier=SimpleNamespace(name="lda")
        )

    found = _beside(method("mine", ours), method("theirs", theirs), difference, 0.95)
    assert plain(found) == f"theirs 70.0 % by a linear discriminant analysis, {said}"
    undefined = _beside(method("mine", ours), method("theirs", nan), difference, 0.95)
    assert undefined == "theirs could not be evaluated"


def test_an_answer_may_be_chance_up_to_the_confidence() -> None:
    def says(value: float, p: float, low: float = 0.01, confidence: float = 0.95) -> str:
        return AnswerDifference(value, low, 0.2, p, confidence).says

    assert [says(0.1, p) for p in (0.0499, 0.0501)] == ["better", "chance"]
    assert [says(-0.1, p, confidence=0.9) for p in (0.0999, 0.1001)] == ["worse", "chance"]
    assert [says(0.1, p, confidence=0.75) for p in (0.25, 0.2501)] == ["better", "chance"]
    assert says(0.0, 0.001) == "chance"
    assert says(0.1, nan) == says(0.1, 0.001, low=nan) == "few"


def test_an_interval_that_ends_at_0_does_not_exclude_it() -> None:
    assert AnswerDifference(0.1, 0.0, 0.2, 0.03, 0.95).corrected == "p = 0.030"
    assert AnswerDifference(-0.1, -0.2, 0.0, 0.03, 0.95).corrected == "p = 0.030"
    assert AnswerDifference(0.1, 0.0, 0.2, 0.06, 0.95).corrected == ""


def test_numbers_are_written_alike_everywhere() -> None:
    assert [format_score(value) for value in (0.8765, nan)] == ["87.6", "–"]
    assert format_score(1.234, share=False) == "1.23"
    assert format_interval(0.1, 0.234) == "10.0 – 23.4"
    assert format_interval(0.0, 1.0) == "too few to tell"
    assert format_interval(0.0, 1.0, share=False) == "0.00 – 1.00"
    assert format_interval(nan, nan) == ""
    assert [format_points(value) for value in (-0.083, 0.05)] == ["−8.3", "+5.0"]
    assert [plain(percent(0.8768, digits)) for digits in (0, 1)] == ["88 %", "87.7 %"]
    assert [say_far_off(steps, 3) for steps in (1, 2, 3)] == [
        "1 step off", "2 steps off", "3 steps off: only the root in common",
    ]  # fmt: skip


def test_the_best_of_a_row_is_the_largest_or_the_smallest_as_it_is_shown() -> None:
    more, less = Metric("m", "m", larger_is_better=True), Metric("m", "m", larger_is_better=False)
    neither = Metric("m", "m", larger_is_better=None)
    values = [0.9121, nan, 0.9124, 0.5]

    def best(metric: Metric, values: list[float] = values) -> list[bool]:
        return [cell.best for cell in table_cells(values, metric=metric)]

    assert best(more) == [True, False, True, False], "both are shown as 91.2"
    assert best(less) == [False, False, False, True]
    assert best(neither) == [False] * 4
    assert best(more, [0.5, 0.5001]) == [False, False]
    assert best(more, [0.5, nan]) == [False, False]


def fake_method(name: str, **scores: float) -> Any:
    return SimpleNamespace(
        name=name,
        answer_score=lambda metric: scores[metric],
        classifier=SimpleNamespace(name="own"),
    )


@pytest.mark.parametrize(
    ("ours", "difference", "said"),
    [
        (0.75, AnswerDifference(0.125, 0.01, 0.2, 0.001, 0.9),
         "Training added 12.5 points of right answers (90 % interval +1.0 to +20.0; "),
        (0.5, AnswerDifference(-0.125, -0.2, -0.01, 0.001, 0.95),
         "Training cost 12.5 points of right answers (95 % interval −20.0 to −1.0; "),
        (0.75, AnswerDifference(0.125, -0.01, 0.2, 0.2, 0.95),
         "Training added no right answers that can be told from chance: +12.5 points (95 % interval −1.0 to "
         "+20.0; "),
        (0.75, None, "Training changed the right answers by +12.5 points ("),
        (0.625, None, "Training added no right answers ("),
    ],
)  # fmt: skip
def test_what_training_added_is_said_in_points(ours: float, difference: Any, said: str) -> None:
    methods = {"mine": fake_method("mine", top1=ours), "encoder": fake_method("encoder", top1=0.625)}
    methods["pretrained encoder"] = methods.pop("encoder")
    result: Any = SimpleNamespace(name="mine", methods=methods, main=methods["mine"], same_features=[])
    known = {} if difference is None else {"pretrained encoder": difference}
    end = f"{100 * ours:.1f} % right, 62.5 % by the pretrained encoder)."
    assert plain(compare_answers.added_by_training(result, known)) == said + end


def test_advice_fits_what_the_run_reads_and_tests_have_its_confidence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = fake_method("mine", top1=0.5, hierarchical_f1=0.5)
    for kind, advice in (
        ("vector", "a layer on the vectors (--adapter 256)"),
        ("image", "a pretrained --enc"),
    ):
        raw = fake_method(RAW_NAMES[kind], top1=0.6, hierarchical_f1=0.4)
        result: Any = SimpleNamespace(name="mine", methods={"mine": mine, raw.name: raw}, main=mine)
        said = compare_answers.raw_is_better(result, {})
        assert said.startswith(
            f"{raw.name} alone give more right answers than the model: top-1 accuracy 0.6000"
        )
        assert f"Try {advice}" in said
    given: dict[str, Any] = {}

    def compare(outcomes: Any, **options: Any) -> Any:
        given.update(options)
        return SimpleNamespace(metric=lambda name: SimpleNamespace(differences={}))

    monkeypatch.setattr(compare_answers, "compare", compare)
    result.settings = SimpleNamespace(resamples=77, confidence=0.8)
    result.outcomes = dict.fromkeys(result.methods, "outcomes")
    assert compare_answers.answer_differences(result) == {}
    assert (given["confidence"], given["resamples"], given["baseline"]) == (0.8, 77, "mine")
    result.settings.resamples = 0
    given.clear()
    compare_answers.answer_differences(result)
    assert given == {}


def test_every_row_is_of_its_representation_and_method() -> None:
    def method(shift: float) -> Any:
        scores = {"features": {"recall_at_1": 0.25}, "embeddings": {"recall_at_1": 0.5}}
        return SimpleNamespace(
            scores=scores,
            score=lambda key, role=None: scores.get(role, {}).get(key, nan) + shift,
            interval=lambda key, role=None: (0.1 + shift, 0.9) if key in scores.get(role, {}) else (nan, nan),
            representations={
                "features": SimpleNamespace(source="the features", dim=8),
                "embeddings": SimpleNamespace(source="the head", dim=5),
            },
        )

    methods = {"mine": method(0.0), "theirs": method(0.125)}
    result: Any = SimpleNamespace(
        methods=methods, main=methods["mine"], search={}, settings=SimpleNamespace(hp_k=250)
    )
    found = [
        (group.reads, [(cell.text, cell.interval, cell.best) for cell in group.rows[0].cells])
        for group in metric_table(result, "image", "images")
    ]
    assert found == [
        ("the head", [("50.0", "10.0 – 90.0", False), ("62.5", "22.5 – 90.0", True)]),
        ("the features", [("25.0", "10.0 – 90.0", False), ("37.5", "22.5 – 90.0", True)]),
    ]


def test_warnings_and_reasons_are_given_at_their_limits() -> None:
    assert first_screen._warnings("open", [20, 15, 30, 25, 0], "image") == []
    assert first_screen._warnings("open", [20, 14, 30, 25, 0], "image") == [
        "Few images: 19 called open (PPV). This rate is uncertain."
    ]
    more = promised(0.9, 0.95, (nan, nan), {"test samples of classes that were not learned": 3})
    assert plain(promise_sentence(more)) == "95.0 % of the answers hold the truth; 90 % were promised."
    result = promised(0.9, 0.9, (0.88, 0.92), {})
    key = "decisions.coverage_at_0.9"
    result.main.by_attribute = [
        AttributeResult("site", "a", 50, None, {key: 0.95}, {key: (0.94, 0.96)}, {key: 19}),
        AttributeResult("site", "b", 50, 9, {key: 0.95}, {key: (0.94, 0.96)}, {key: 40}, {key: 5}),
    ]
    panel = promise_panel(result, "images")
    assert panel is not None
    assert [(part.samples, part.verdict) for part in panel.parts] == [
        ("19 images", "too few to tell"), ("40 images", "too few to tell"),
    ]  # fmt: skip

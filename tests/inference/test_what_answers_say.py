"""Sentences about answers and their coverage, whole and with numbers that all differ."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from labeltree.decisions import Promise
from labeltree.decisions.answers import Answers
from labeltree.inference.answers.answered import MOST_SHOWN, Answered
from labeltree.inference.answers.asked_questions import question_scores
from labeltree.inference.answers.format_answers import answer_cells, answer_rows, skipped_row
from labeltree.inference.coverage import Coverage, PartCoverage, count_called_unknown, measure_coverage
from labeltree.inference.predict import _say_conflicts, _table_by_unit, _unit_names
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["tool/saw", "tool/axe", "toy"])
TOOL, SAW, AXE, TOY = (int(TREE.find(name)) for name in ("tool", "tool/saw", "tool/axe", "toy"))

WHOLE = PartCoverage("", 1234, 56, 0.875, 0.85, 0.9, True)
COVERAGE = Coverage(
    promised=0.85,
    counted="sample",
    whole=WHOLE,
    groups=56,
    all_held=0.625,
    mean_of_groups=0.75,
    parts=(
        PartCoverage("site = Graz", 1200, 50, 0.9, math.nan, math.nan, None),
        PartCoverage("eye = left", 34, 1, 0.25, 0.125, 0.375, False),
    ),
    left_out=(("file", 1300), ("day", 13)),
    within_groups=("lesion",),
    of_one_each=("camera",),
    calibrated=77,
    plain=0.5,
    empty=1000,
    later=PartCoverage("", 1, 1, 1.0, math.nan, math.nan, None, later=True),
)


def test_a_coverage_in_lines() -> None:
    nothing = "nothing is promised, as their classes were added later"
    assert COVERAGE.text().splitlines() == [
        "87.5% [85.0%, 90.0%] of 1,234 samples of 56 groups have answers that hold the truth; "
        "promised 85%: kept",
        f"  apart from them, 100.0% of 1 sample of 1 group: {nothing}",
        "  1,000 of these answers name nothing",
        "  before samples were called unknown, which makes their answers coarser: 50.0%",
        "  of 56 groups, 62.5% have answers that all hold the truth; the mean of the groups' shares is 75.0%",
        "  site = Graz  90.0% of 1,200 samples of 50 groups: too few to tell",
        "  eye = left   25.0% [12.5%, 37.5%] of 34 samples of 1 group: not kept",
        "  file: 1,300 values, too many to show",
        "  day: 13 values, too many to show",
        "  lesion: numbers within groups, not shown",
        "  camera: each value is of one group alone, not shown",
    ]
    first, _, third, fourth, *_ = replace(COVERAGE, empty=1, measured_alike=True).text().splitlines()
    assert third == "  1 of these answers names nothing"
    assert fourth.endswith("coarser: 50.0% (this is what 'labeltree evaluate' measures)")
    assert first == COVERAGE.text().splitlines()[0]


def test_a_coverage_that_counts_groups_or_lesions() -> None:
    bare = replace(COVERAGE, parts=(), left_out=(), empty=0, plain=math.nan, later=None, calibrated=20)
    by_group = replace(bare, counted="group", promised=0.975, within_groups=(), of_one_each=())
    assert by_group.text().splitlines()[0] == (
        "87.5% [85.0%, 90.0%] of 56 groups have answers that all hold the truth; promised 97.5%: not clearly "
        "below it (thresholds from the 20 held out may miss by as much by chance)"
    )
    one = replace(by_group, whole=replace(WHOLE, groups=1), groups=1)
    assert one.text().startswith("87.5% [85.0%, 90.0%] of 1 group has answers that all hold the truth")
    lesions = replace(bare, whole=replace(WHOLE, groups=None, unit="lesion"), groups=None)
    assert lesions.text().splitlines() == [
        "87.5% [85.0%, 90.0%] of 1,234 lesions have answers that hold the truth; promised 85%: kept",
        "  lesion: numbers within lesions, not shown",
        "  camera: each value is of one lesion alone, not shown",
    ]
    single = replace(lesions, whole=replace(lesions.whole, samples=1))
    assert "of 1 lesion has answers that hold" in single.text()
    assert (
        replace(bare, promised=0.9, whole=replace(WHOLE, high=0.9))
        .text()
        .splitlines()[0]
        .endswith("promised 90%: not clearly below it")
    ), "the interval holds the promise, so chance need not explain it"
    later = replace(lesions, whole=replace(lesions.whole, later=True))
    assert "hold the truth; nothing is promised, as their classes were added later" in later.text()


def table_of(nodes: list[int], groups: list[int] | None = None, **attributes: list[str]) -> EmbeddingTable:
    return EmbeddingTable(
        torch.zeros(len(nodes), 2),
        torch.tensor(nodes),
        groups=None if groups is None else torch.tensor(groups),
        attributes={name: np.array(values) for name, values in attributes.items()},
    )


def measured(
    answers: list[int], table: EmbeddingTable, judged: list[bool] | None = None, **more: Any
) -> Coverage:
    of_all = torch.ones(len(answers), dtype=torch.bool) if judged is None else torch.tensor(judged)
    promise = more.pop("promise", Promise(0.9))
    given = {name: None if value is None else torch.tensor(value) for name, value in more.items()}
    found = measure_coverage(torch.tensor(answers), table, of_all, TREE, promise, 33, **given)
    assert found is not None
    return found


def test_what_is_measured_is_of_the_judged_samples_alone() -> None:
    """Of eight samples six are judged; of these one answer names nothing, and five hold the truth."""
    sites = ["b", "", "b", "a", "", "a", "c", "c"]
    table = table_of([SAW, SAW, AXE, AXE, TOY, TOY, SAW, SAW], site=sites)
    answers = [0, TOOL, SAW, AXE, TOY, TOY, 0, 0]
    found = measured(answers, table, [True] * 6 + [False] * 2, plain=[SAW, SAW, SAW, SAW, SAW, TOY, 0, 0])
    assert (found.whole.samples, found.empty, found.whole.groups) == (6, 1, None)
    assert found.whole.share == pytest.approx(5 / 6)
    assert found.plain == pytest.approx(3 / 6)
    assert [(part.name, part.samples, part.share) for part in found.parts] == [
        ("site = a", 2, 1.0),
        ("site = b", 2, 0.5),
        ("site = (missing)", 2, 1.0),
    ]
    assert (found.calibrated, found.promised, found.counted) == (33, 0.9, "sample")
    assert measured(answers, table, promise=Promise(0.9, counted="group")).counted == "sample", "no groups"


def test_twelve_values_are_shown_and_thirteen_are_not() -> None:
    values = [f"v{number}" for number in range(12)] * 2
    found = measured([TOY] * 24, table_of([TOY] * 24, kind=values))
    assert (len(found.parts), found.left_out) == (12, ())
    found = measured([TOY] * 26, table_of([TOY] * 26, kind=[*values, "more", "more"]))
    assert (found.parts, found.left_out) == ((), (("kind", 13),))


def test_a_promise_to_groups_is_judged_by_their_number() -> None:
    """Forty samples of eight groups: too few groups to tell, and six of them are right as a whole."""
    groups = np.arange(40) // 5
    answers = np.where(np.isin(np.arange(40), (3, 7)), SAW, TOY).tolist()
    table = table_of([TOY] * 40, groups.tolist())
    found = measured(answers, table, promise=Promise(0.9, counted="group"), plain=[TOY] * 39 + [SAW])
    assert (found.groups, found.whole.groups, found.whole.samples) == (8, 8, 40)
    assert found.whole.share == found.all_held == 0.75
    assert found.mean_of_groups == pytest.approx((6 + 2 * 0.8) / 8)
    assert found.plain == pytest.approx(7 / 8)
    assert found.whole.kept is None
    by_sample = measured(answers, table)
    assert by_sample.whole.share == pytest.approx(38 / 40)
    assert by_sample.whole.kept is True
    few = measured(answers, table_of([TOY] * 40, (np.arange(40) // 8).tolist()))
    assert few.whole.kept is None, "five groups"


def test_samples_of_later_classes_count_apart() -> None:
    later = [True] * 3 + [False] * 7
    answers = [SAW, SAW, TOY, *[TOY] * 6, SAW]
    found = measured(answers, table_of([TOY] * 10, site=["a"] * 10), later=later)
    assert (found.whole.samples, found.whole.share) == (7, pytest.approx(6 / 7))
    assert found.later is not None
    assert (found.later.samples, found.later.share) == (3, pytest.approx(1 / 3))
    assert found.later.later
    assert not found.whole.later
    assert [part.samples for part in found.parts] == [7]
    lesions = measure_coverage(
        torch.tensor(answers), table_of([TOY] * 10, site=["a", *"bbbbbbbbb"]), torch.ones(10).bool(), TREE,
        Promise(0.9), 33, unit="lesion", later=torch.tensor(later),
    )  # fmt: skip
    assert lesions is not None
    assert lesions.later is not None
    assert (lesions.whole.unit, lesions.later.unit, lesions.parts[0].unit) == ("lesion",) * 3
    alone = measured(answers, table_of([TOY] * 10), later=[True] * 10)
    assert alone.later is None
    assert alone.whole.later


def test_values_of_one_sample_or_group_alone() -> None:
    """Four sites of a sample each are shown, unless a row is what several samples are answered by."""
    sites = ["a", "b", "c", "d"]
    plain = measured([TOY] * 4, table_of([TOY] * 4, site=sites))
    assert ([part.name[-1] for part in plain.parts], plain.of_one_each) == (sites, ())
    samples = table_of([TOY] * 8, site=sites * 2)
    units = measure_coverage(
        torch.full((4,), TOY), table_of([TOY] * 4, site=sites), torch.ones(4).bool(), TREE, Promise(0.9), 33,
        unit="lesion", samples=samples,
    )  # fmt: skip
    assert units is not None
    assert (units.parts, units.of_one_each) == ((), ("site",))
    once = table_of([TOY] * 6, [0, 0, 1, 1, 2, 2], site=["a", "a", "", "", "", ""])
    found = measured([TOY] * 6, once)
    assert [part.name for part in found.parts] == ["site = a", "site = (missing)"], "one value tells no group"
    assert found.of_one_each == ()


def test_numbers_within_patients_are_told_by_their_samples() -> None:
    """Lesions 1 and 2 of four patients, of two samples each; a row for each lesion has no patient."""
    lesions = [str(1 + number % 4 // 2) for number in range(16)]
    samples = table_of([TOY] * 16, [number // 4 for number in range(16)], lesion=lesions)
    rows = table_of([TOY] * 8, lesion=lesions[::2])
    found = measure_coverage(
        torch.full((8,), TOY), rows, torch.ones(8).bool(), TREE, Promise(0.9), 33, unit="eye", samples=samples
    )
    assert found is not None
    assert (found.within_groups, found.parts, found.of_one_each) == (("lesion",), (), ())


def test_the_interval_is_of_the_samples_of_known_classes() -> None:
    """The first twenty have no label and are unknown; of the forty others four are called so."""
    unknown = torch.isin(torch.arange(60), torch.tensor([*range(20), 22, 33, 44, 55]))
    labels = torch.tensor([-1] * 20 + [TOY] * 40)
    found = count_called_unknown(unknown, labels, TREE.leaves, TREE, 0.05, 77)
    assert found is not None
    assert (found.called, found.samples) == (4, 40)
    assert found.low < 0.1 < found.high < 0.3


def answers_of(nodes: list[int], cut: list[bool], unknown: list[bool] | None = None) -> Answers:
    count = len(nodes)
    return Answers(
        nodes=torch.tensor(nodes),
        probabilities=torch.linspace(0.5, 0.9, count).double(),
        cut=torch.tensor(cut),
        guesses=torch.full((count, 1), SAW),
        guess_probabilities=torch.full((count, 1), 0.25).double(),
        p_known=None if unknown is None else torch.linspace(0.01, 0.5, count).double(),
        unknown=None if unknown is None else torch.tensor(unknown),
    )


def test_all_answers_in_sentences() -> None:
    """Nine samples: two got none, three of the others are cut; two have been seen, one label is missing."""
    nodes = [SAW, AXE, TOOL, TOOL, TOOL, TOY, 0, 0, SAW]
    cut = [False, False, True, True, True, False, True, True, False]
    unknown = [False, False, True, False, False, False, True, False, False]
    labels = torch.tensor([SAW, SAW, AXE, TOY, TOOL, -1, AXE, TOY, SAW])
    seen = torch.tensor([True, False, False, False, False, False, False, False, True])
    judged = torch.tensor([False, True, True, True, False, False, True, True, False])
    names = [f"s{number}" for number in range(9)]
    done = Answered(names, answers_of(nodes, cut, unknown), TREE, "coverage 0.9", labels, judged, seen=seen)
    assert done.sentences() == [
        "7 answers (coverage 0.9), 3 of them coarser than the classes; 2 got none (for 1 no known "
        "class fits, "
        "for 1 nothing is sure enough)",
        "2 fit no known class (marked '?': their guesses are the known classes most like them)",
        "2 answers do not hold the first guess, since an answer goes down the tree step by step, to the most "
        "probable branch each time",
        "2 of all 9 are of samples of training or calibration: left out of what is measured",
        "of the 5 others whose label is known (of 1 it is missing, of 1 too coarse), 60.00% hold the truth "
        "(33.33% without those that got none, which are not wrong), at a mean depth of 0.80 (labels: 1.60)",
    ]
    assert "'unknown' is true" in done.sentences("json")[1]
    assert "marked '?'" in done.sentences("txt")[1]  # type: ignore[arg-type]
    torn = replace(done, contradictory=torch.arange(9) == 5)
    assert "(of 1 it is too coarse, of 1 contradictory), 60.00%" in torn.sentence()
    both = replace(done, seen=None)
    assert "of the 5 whose label is known (of 1 it is missing, of 3 too coarse)" in both.sentence()
    every = replace(done, seen=torch.ones(9, dtype=torch.bool), judged=torch.zeros(9, dtype=torch.bool))
    assert every.sentences()[-1] == (
        "all are of samples of training or calibration, so nothing can be measured on them"
    )
    strange = replace(done, answers=answers_of(nodes, cut, [False, False, True, True, True, *[False] * 4]))
    assert "3 of them coarser than the classes since no known class fits; 2 got none" in strange.sentence()
    one = replace(done, seen=None, judged=torch.arange(9) == 1, labels=torch.full((9,), SAW))
    assert "of the one whose label is known (of 8 it is too coarse), 0.00% hold" in one.sentence()
    other = replace(one, seen=torch.isin(torch.arange(9), torch.tensor([0, 4])))
    assert "2 of all 9 are of samples" in other.sentence()
    assert "of the other one whose label is known (of 6 it is too coarse), 0.00%" in other.sentence()
    first = replace(done, seen=torch.arange(9) == 0, judged=torch.arange(9) > 0)
    assert "; 1 of all 9 are of samples" in first.sentence()
    assert "; of the 8 others whose label is known, " in first.sentence()
    root = replace(done, labels=labels.masked_fill(labels == TOOL, 0))
    assert "(of 1 it is missing, of 1 too coarse)" in root.sentence(), "the root says nothing, and is no gap"


def test_rows_stand_where_their_samples_were() -> None:
    done = Answered(
        ["a", "b", "c", "d", "e"],
        answers_of([SAW, TOOL, TOOL], [False, True, True], [True, False, True]),
        TREE,
        "coverage 0.9",
        torch.tensor([SAW, AXE, TOY]), torch.tensor([True, False, True]), {0: "broken", 2: "empty"},
    )  # fmt: skip
    shown = [(row["sample"], row["answer"], row["problem"], row["unknown"], row["holds"]) for row in done]
    assert shown == [
        ("a", None, "broken", None, None),
        ("b", "tool/saw", None, True, True),
        ("c", None, "empty", None, None),
        ("d", "tool", None, False, None),
        ("e", "tool", None, True, False),
    ]
    assert answer_cells(list(done)) == [
        ["a", "–", "–", "no answer: broken"],
        ["b", "tool/saw/?", "–", "tool/saw 0.25"],
        ["c", "–", "–", "no answer: empty"],
        ["d", "tool/…", "0.700", "tool/saw 0.25"],
        ["e", "tool/?", "–", "tool/saw 0.25"],
    ]
    assert [row["label"] for row in done] == [None, "tool/saw", None, "tool/axe", "toy"]
    unlabelled = answer_rows(answers_of([SAW], [False]), ["e"], TREE, torch.tensor([-1]))
    assert (unlabelled[0]["label"], unlabelled[0]["holds"]) == (None, None)
    nowhere = answer_rows(answers_of([0], [True]), ["e"], TREE, torch.tensor([-1]))
    assert nowhere[0]["holds"] is None, "there is no label that it could hold"
    assert set(skipped_row("a", "broken", [], compared=True)) > {"unknown", "p_known"}
    assert "p_known" not in skipped_row("a", "broken", [])
    nothing = Answered(["a"], answers_of([], [], []), TREE, "coverage 0.9", skipped={0: "broken"})
    assert nothing[0]["p_known"] is None, "as beside others"


class Asked:
    """A question whose score is the probability of the saw."""

    def __init__(self, name: str, differ: tuple[int, ...]) -> None:
        self.name, self.differ = name, differ

    def scores(self, probabilities: torch.Tensor) -> torch.Tensor:
        return probabilities[:, 0]

    def groups_differ(self, nodes: torch.Tensor, units: torch.Tensor) -> bool:
        return len(nodes) in self.differ


def test_what_the_score_of_a_question_is() -> None:
    """Of two tables of labelled samples it is enough that groups of one differ."""
    p = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5], [0.25, 0.75]]).double()
    table = table_of([SAW, SAW, AXE, AXE], [7, 7, 7, -1])
    known = [table_of([SAW] * 3, [1, 1, 2]), table_of([SAW] * 2, [1, 1])]
    rule = SimpleNamespace(probabilities=lambda scores: p)
    decider: Any = SimpleNamespace(rule=rule, scores=lambda table: None, labelled_samples=known)
    questions: Any = [Asked("sharp", (2,)), Asked("blunt", ())]
    scores, told = question_scores(questions, decider, table, "group", "patient")
    assert scores["sharp"].tolist() == pytest.approx([0.9, 0.25]), "the greatest of its samples"
    combined = (0.9 * 0.2 * 0.5) ** (1 / 3)
    other = (0.1 * 0.8 * 0.5) ** (1 / 3)
    assert scores["blunt"].tolist() == pytest.approx([combined / (combined + other), 0.25])
    alike = "as 'labeltree evaluate' scores it."
    assert told.splitlines() == [
        f"sharp: the score of each patient is that of its most suspicious sample, {alike}",
        f"blunt: the score of each patient is that of its samples' combined probabilities (logits), {alike}",
    ]
    decider.labelled_samples = []
    _, told = question_scores(questions, decider, table, "group", "patient")
    assert told.splitlines()[0] == (
        "sharp: the score of each patient is that of its samples' combined probabilities (logits)."
    )
    scores, told = question_scores(questions, decider, table, None)
    assert scores["blunt"].tolist() == pytest.approx([0.9, 0.2, 0.5, 0.25])
    assert told == (
        "sharp and blunt: the sum of the probabilities of its classes, as 'labeltree evaluate' scores it."
    )


def test_a_long_list_is_shown_in_part() -> None:
    """Of thirty samples one could not be read; its row counts, too."""
    names = [f"s{number}" for number in range(30)]
    done = Answered(names, answers_of([SAW] * 29, [False] * 29), TREE, "coverage 0.9", skipped={3: "broken"})
    shown = repr(done)
    assert f"… {30 - MOST_SHOWN} more\n" in shown
    assert "no answer: broken" in shown
    assert f"s{MOST_SHOWN - 1} " in shown
    assert f"s{MOST_SHOWN} " not in shown
    some = Answered(names[:MOST_SHOWN], answers_of([SAW] * MOST_SHOWN, [False] * MOST_SHOWN), TREE, "")
    assert " more" not in repr(some)


def test_a_long_name_shows_its_end() -> None:
    rows = answer_rows(answers_of([SAW, SAW], [False, False]), ["x" * 60, "y" * 70 + "z"], TREE)
    assert [cells[0] for cells in answer_cells(rows)] == ["x" * 60, "…" + "y" * 58 + "z"]


def decider_with(kept: tuple[str, ...]) -> Any:
    return SimpleNamespace(run=SimpleNamespace(columns={"kept": kept}))


def test_units_that_contradict_themselves() -> None:
    assert _say_conflicts(decider_with(()), 1, "lesion", "lesion") == (
        "1 held-out lesion has labels that contradict each other, and cannot be counted"
    )
    assert _say_conflicts(decider_with(("site", "lesion")), 7, "patient", "group") == (
        "7 held-out patients have labels that contradict each other, as several lesions of a patient "
        "may, and "
        "cannot be counted: answer for smaller units, such as lesions, --per a column that the run keeps "
        "('site' and 'lesion')"
    )
    assert _say_conflicts(decider_with(()), 2, "patient", "group").endswith(
        "--per a column that training keeps, see --table.keep_columns"
    )


class Named:
    """Samples with names and groups."""

    def __init__(self, names: list[str], groups: list[str] | None, **attributes: list[str]) -> None:
        self.names, self.attributes = names, {key: np.array(values) for key, values in attributes.items()}
        self.group_names = None if groups is None else np.array(groups)

    def __len__(self) -> int:
        return len(self.names)

    def paths(self, rows: torch.Tensor) -> list[str]:
        return self.names


def test_names_of_groups_and_of_what_lies_within() -> None:
    """Units 0 and 1 in the order of answers, then samples by themselves; 'p' has one image of nobody else."""
    units = torch.tensor([1, 0, -1, 1, -1])
    order = torch.tensor([0, 1, -1, -1])
    files = ["a.png", "b.png", "c.png", "d.png", "e.png"]
    groups: Any = Named(files, ["q", "r", "p", "q", ""], lesion=["arm", "leg", "", "toe", ""])
    assert _unit_names(order, units, groups, "group") == ["r", "q", "p", "e.png"]
    assert _unit_names(order, units, groups, "lesion") == ["r/leg", "q/arm", "c.png", "e.png"]
    bare: Any = Named(files, None, lesion=["arm", "leg", "", "toe", ""])
    assert _unit_names(order, units, bare, "group") == ["group 0", "group 1", "c.png", "e.png"]
    assert _unit_names(order, units, bare, "lesion") == ["leg", "arm", "c.png", "e.png"]


def test_a_row_for_each_unit_has_what_its_samples_share() -> None:
    """Lesions 0 and 1, then a sample by itself; of lesion 1 the cameras differ, and sites are alike."""
    table = table_of(
        [SAW, AXE, SAW, TOY],
        [5, 6, 5, -1],
        site=["Graz", "Wien", "Graz", ""],
        camera=["m", "n", "o", "m"],
        lesion=["1", "1", "1", ""],
    )
    units, labels = torch.tensor([1, 0, 1, -1]), torch.tensor([AXE, SAW, TOY])
    found = _table_by_unit(table, units, "lesion", labels, torch.ones(3, dtype=torch.bool))
    assert found.nodes.tolist() == labels.tolist()
    assert {name: column.tolist() for name, column in found.attributes.items()} == {
        "site": ["Wien", "Graz", ""],
        "camera": ["n", "(several)", "m"],
    }
    assert found.groups is not None
    assert found.groups.tolist() == [6, 5, -1]

"""Seeds, groups, shares and limits reach what they are for: each function's calls, and hand-made tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from labeltree.decisions import ClassNodes, Promise, answers_of_groups, calibration_check, fit_rule, rule
from labeltree.decisions.answers import Answers, Paths
from labeltree.decisions.answers_of_groups import fit_group_rule
from labeltree.decisions.calibration_check import CalibrationCheck, check_calibration, soften_few
from labeltree.decisions.calibrators import Calibrator
from labeltree.decisions.conformal import (
    advised_coverage,
    check_enough,
    group_codes,
    largest_coverage,
    share_of_groups,
    threshold_steps,
    thresholds_by_category,
)
from labeltree.decisions.evidence_for_answers import find_evidence
from labeltree.decisions.novelty import Distances, Fit, Reference, fit_novelty, mark_unknown
from labeltree.errors import DataError
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/x", "a/y", "b"])
CLASSES = ClassNodes(TREE.leaves, TREE)
A, X, Y, B = (int(TREE.find(name)) for name in ("a", "a/x", "a/y", "b"))


class Recorder:
    """Stands for a function, and keeps what it is given."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.given, self.named = answer, (), dict[str, Any]()

    def __call__(self, *given: Any, **named: Any) -> Any:
        self.given, self.named = given, named
        return self.answer


def scores_of(labels: Tensor, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    places = CLASSES.place[labels.clamp(min=0)].clamp(min=0)
    return 2.0 * torch.nn.functional.one_hot(places, 3) + torch.randn(len(labels), 3, generator=draw)


def test_the_samples_of_a_rule_are_counted_by_use() -> None:
    """Of each 12 samples two have no label, three are too coarse: one of the first five and two others."""
    labels = torch.tensor([X, Y, A, B, -1, X, Y, B, A, A, -1, X] * 10)
    first = torch.arange(120) % 12 < 5
    counts = fit_rule(scores_of(labels), labels, CLASSES, for_probabilities=first).counts
    assert counts == {
        "calibration samples": 120,
        "for the probabilities": 40,
        "for the thresholds": 40,
        "left out: no label": 20,
        "left out of the thresholds: label too coarse": 20,
    }
    plain = fit_rule(scores_of(labels), labels, CLASSES, calibration="none").counts
    assert plain == {
        "calibration samples": 120,
        "for the probabilities": 0,
        "for the thresholds": 70,
        "left out: no label": 20,
        "left out of the thresholds: label too coarse": 30,
    }


@pytest.mark.parametrize("apart", [False, True])
def test_groups_and_the_seed_reach_the_check(monkeypatch: pytest.MonkeyPatch, apart: bool) -> None:
    labels = torch.tensor([X, Y, B] * 60)
    groups = torch.arange(180) // 3
    check, few = Recorder(CalibrationCheck("vector", False, 9)), Recorder(None)
    few.answer = Calibrator(), CalibrationCheck("vector", False, 9)
    monkeypatch.setattr(rule, "check_calibration", check)
    monkeypatch.setattr(rule, "soften_few", few)
    given = groups < 20 if apart else None
    fit_rule(
        scores_of(labels), labels, CLASSES, groups=groups, calibration="vector", share=0.5, seed=7,
        for_probabilities=given,
    )  # fmt: skip
    fits = share_of_groups(labels >= 0, groups, 0.5, 7) if given is None else given
    assert check.named["seed"] == 7
    assert torch.equal(check.named["groups"], groups[fits])
    assert torch.equal(check.given[1], labels[fits])
    some = fits if apart else torch.ones(180, dtype=torch.bool)  # who chose before fits no threshold
    assert torch.equal(few.named["groups"], groups[some])
    assert torch.equal(few.given[0], scores_of(labels)[some])
    assert few.given[3] == "vector"


def test_what_chooses_an_aggregation_reaches_its_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eighty lesions of forty patients: of these a half chooses, by the seed."""
    labels = TREE.leaves[torch.arange(80) % 3].repeat_interleave(2)
    lesions, patients = torch.arange(160) // 2, torch.arange(160) // 4
    p = torch.softmax(scores_of(labels).double(), 1)
    made = Recorder(None)
    monkeypatch.setattr(answers_of_groups, "fit_rule", made)
    options: dict[str, Any] = {"calibration": "none", "descent": "leaf", "share": 0.75, "seed": 5}
    found = fit_group_rule(p, labels, lesions, CLASSES, within=patients, **options)
    owners = torch.arange(80) // 2
    assert {name: made.named[name] for name in options} == options
    assert torch.equal(made.named["groups"], owners)
    drawn = Recorder(torch.arange(80) < 30)
    monkeypatch.setattr(answers_of_groups, "share_of_groups", drawn)
    found = fit_group_rule(p, labels, lesions, CLASSES, within=patients, **options)
    assert drawn.given[2:] == (0.75, 5)
    assert torch.equal(drawn.given[1], owners)
    assert (found.count, bool(found.accuracies)) == (30, True)
    drawn.answer = torch.arange(80) < 29
    few = fit_group_rule(p, labels, lesions, CLASSES, within=patients, **options)
    assert (few.count, few.how, few.accuracies) == (29, "logits", {})
    labels[:2] = A  # the first lesion has a label that does not judge, and does not choose
    drawn.answer = torch.arange(80) < 30
    assert fit_group_rule(p, labels, lesions, CLASSES, within=patients, **options).count == 29
    of_val = patients < 20
    fit_group_rule(p, labels, lesions, CLASSES, within=patients, for_probabilities=of_val, **options)
    assert torch.equal(made.named["for_probabilities"], owners < 20)


def test_groups_that_contradict_themselves_count_once() -> None:
    """Two samples of group 0 contradict each other, three of group 1 do; the rest of both goes, too."""
    nodes = [X, B, X, X, Y, B, -1, *[X, Y] * 4]
    groups = [0, 0, 0, 1, 1, 1, 1, *range(2, 10)]
    p = torch.softmax(scores_of(torch.tensor(nodes)).double(), 1)
    found = fit_group_rule(p, torch.tensor(nodes), torch.tensor(groups), CLASSES, calibration="none")
    assert found.conflicts == 2
    assert found.rule.counts["calibration samples"] == 8


def folds_of(labels: Tensor, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Tensor | None:
    """The folds of a check, or None if there was none."""
    tried = Recorder(torch.log_softmax(scores_of(labels).double(), 1))
    monkeypatch.setattr(calibration_check, "_calibrate_others", tried)
    check = check_calibration(scores_of(labels), labels, CLASSES, "temperature", **options)
    assert bool(check.before) == bool(tried.given)
    assert check.samples == int(((labels > 0) & (labels != 0)).sum())
    return tried.given[3] if tried.given else None


def test_folds_of_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = TREE.leaves[torch.arange(30) % 3]
    folds = folds_of(labels, monkeypatch)
    assert folds is not None, "thirty are enough"
    assert torch.bincount(folds).tolist() == [6] * 5
    assert folds_of(labels[:29], monkeypatch) is None
    again, other = folds_of(labels, monkeypatch, seed=0), folds_of(labels, monkeypatch, seed=1)
    assert again is not None
    assert other is not None
    assert torch.equal(again, folds)
    assert not torch.equal(other, folds)
    groups = torch.arange(30) // 10
    of_three = folds_of(labels, monkeypatch, groups=groups)
    assert of_three is not None
    assert sorted(of_three[::10].tolist()) == [0, 1, 2]
    assert torch.equal(of_three, of_three[::10].repeat_interleave(10))
    two = folds_of(labels, monkeypatch, groups=torch.arange(30) // 15)
    assert two is not None, "two groups are two folds"
    assert folds_of(labels, monkeypatch, groups=torch.zeros(30).long()) is None
    more = torch.cat([labels, torch.full((40,), -1)])
    alone = torch.cat([groups, torch.arange(10, 50)])
    found = folds_of(more, monkeypatch, groups=alone)
    assert found is not None
    assert int(found.max()) == 2, "samples without a label make no folds"


def test_each_fold_is_calibrated_by_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, ...]] = []

    def fit(scores: Tensor, labels: Tensor, classes: ClassNodes, kind: str) -> Calibrator:
        seen.append(tuple(labels.tolist()))
        return Calibrator()

    monkeypatch.setattr(calibration_check, "fit_calibrator", fit)
    labels, fold = torch.tensor([X, Y, B, X, Y]), torch.tensor([0, 1, 0, 1, 2])
    calibration_check._calibrate_others(scores_of(labels), labels, CLASSES, fold, "vector")
    assert seen == [(Y, X, Y), (X, B, Y), (X, Y, B, X)]


def test_two_classes_and_two_groups_are_enough_for_few() -> None:
    two = ClassNodes(torch.tensor([X, B]), TREE)
    scores = torch.tensor([[9.0, 0.0], [0.0, 9.0], [9.0, 0.0]])
    labels = torch.tensor([X, B, B])
    softer, check = soften_few(scores, labels, two, "temperature", groups=torch.tensor([0, 0, 1]))
    assert check.applied
    assert softer.kind == "temperature"
    alone, check = soften_few(scores, labels, two, "temperature", groups=torch.tensor([4, 4, 4]))
    assert (alone.kind, check.applied, check.samples) == ("none", False, 3)


def test_guessing_counts_the_labels_of_the_others() -> None:
    """Of five labels x, x, x, y, b: (2 + 1) / (4 + 3) for each x, and 1 / 7 for the others."""
    labels = torch.tensor([X, X, X, Y, B])
    raw = torch.log_softmax(scores_of(labels).double(), 1)
    *_, guessing = calibration_check._losses(raw, raw, labels, CLASSES)
    expected = -(3 * np.log(3 / 7) + 2 * np.log(1 / 7)) / 5
    assert guessing == pytest.approx(min(expected, np.log(3)))
    sure = torch.tensor([X] * 9 + [B])
    *_, guessing = calibration_check._losses(raw[[0] * 10], raw[[0] * 10], sure, CLASSES)
    assert guessing == pytest.approx(-(9 * np.log(9 / 12) + np.log(1 / 12)) / 10)


def test_a_share_of_the_groups_with_a_selected_row() -> None:
    """Of five groups four have a selected row; three quarters of these are three, seven tenths are two."""
    groups = torch.tensor([3, 3, 5, 7, 7, 9, 11])
    rows = torch.tensor([True, False, True, False, True, True, False])
    for share, count in ((0.75, 3), (0.7, 2), (1.0, 4), (0.2, 0)):
        for seed in range(5):
            drawn = share_of_groups(rows, groups, share, seed)
            assert len(torch.unique(groups[drawn])) == count
            assert not drawn[6]
    assert len({tuple(share_of_groups(rows, groups, 0.5, seed).tolist()) for seed in range(9)}) > 1
    assert group_codes(torch.tensor([4, -1, 4, -1, 0]), 5).unique().numel() == 4


def test_coverages_that_so_many_can_promise() -> None:
    assert largest_coverage(18) == 0.9473  # 18 / 19 = 0.94737, rounded down
    assert largest_coverage(29) == 0.9666
    assert advised_coverage(28) == 0.91  # 0.95 · 28 / 29 = 0.9172
    check_enough(19, Promise(0.95))
    with pytest.raises(DataError) as told:
        check_enough(18, Promise(0.95), "calibration lesions")
    assert str(told.value) == (
        "coverage 0.95 needs at least 19 calibration lesions, and there are 18: ask for a coverage of 0.9 "
        "(up to 0.9473 can be promised, with coarser answers), or calibrate on more"
    )
    with pytest.raises(DataError, match=r"and there are 0: calibrate on more$"):
        check_enough(0, Promise(0.9))
    with pytest.raises(
        DataError, match=r"with confidence 0.5 needs at least 7 .*, and there are 6: calibrate"
    ):
        check_enough(6, Promise(0.9, confidence=0.5))


def test_categories_are_pooled_by_groups() -> None:
    """At 0.8 it takes four groups: x has nine samples of two, y four of four, b three of three."""
    categories = torch.tensor([X] * 9 + [Y] * 4 + [B] * 3)
    groups = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1, 1, *range(2, 6), *range(6, 9)])
    scores = torch.cat(
        [torch.linspace(0.1, 0.2, 9), torch.linspace(0.3, 0.4, 4), torch.linspace(0.5, 0.6, 3)]
    )
    found, rest, pooled = thresholds_by_category(scores, categories, Promise(0.8), groups)
    assert pooled == sorted([X, B])
    assert found[X] == found[B] == rest
    assert found[Y] == pytest.approx(0.4)
    alone, rest, pooled = thresholds_by_category(scores, categories, Promise(0.8))
    assert pooled == sorted([Y, B]), "without groups b is too small, and y joins it"
    assert rest == alone[B] > alone[X]
    every = thresholds_by_category(scores[:13], categories[:13], Promise(0.8))
    assert every[2] == []
    assert every[1] == max(every[0].values()) == pytest.approx(0.4)


def test_steps_of_thresholds_reach_as_far_as_the_last_of_equals() -> None:
    steps = threshold_steps(torch.tensor([0.5, 0.2, 0.5, 0.2, 0.9]))
    assert (steps.reached, steps.total, steps.tolerance) == ((2.0, 4.0, 5.0), 6, 0.0)
    assert steps.thresholds == pytest.approx((0.2, 0.5, 0.9))
    grouped = threshold_steps(torch.tensor([0.5, 0.2, 0.5, 0.9]), torch.tensor([0, 0, 1, 2]))
    assert grouped.reached == pytest.approx((0.5, 2.0, 3.0))
    assert (grouped.total, grouped.tolerance) == (4, pytest.approx(3e-9))


def test_p_values_count_groups_and_those_as_far() -> None:
    """Two samples of one patient at 1 and 3 weigh a half each, and one of another at 2: (1 + …) / 3."""
    known = Distances.of(torch.tensor([3.0, 1.0, 2.0]), torch.tensor([4, 4, 6]))
    assert known.count == 2
    found = known.p_values(torch.tensor([0.0, 1.0, 2.0, 2.5, 3.0, 3.1]))
    assert found.tolist() == pytest.approx([1, 1, 2.5 / 3, 0.5, 0.5, 1 / 3])
    exact = Fit(torch.tensor([0.05, 0.05 + 1e-12, 0.051]).double(), torch.zeros(3), torch.zeros(3).long())
    assert exact.unknown(0.05).tolist() == [True, True, False]


def test_only_coarser_answers_replace_those_of_unknown_samples() -> None:
    """Paths root, a, x: cut at a, at x and at the root; all are unknown, and fit a."""
    nodes = torch.tensor([[0, A, X]] * 4)
    paths = Paths(nodes, torch.tensor([[1.0, 0.8, 0.6]] * 4).double())
    answers = Answers(
        torch.tensor([A, X, 0, X]), torch.tensor([0.8, 0.6, 1.0, 0.6]).double(),
        torch.tensor([True, False, True, False]), nodes[:, 2:], torch.ones(4, 1).double(),
    )  # fmt: skip
    fit = Fit(torch.tensor([0.01, 0.01, 0.01, 0.9]).double(), torch.zeros(4), torch.full((4,), A))
    found = mark_unknown(answers, paths, fit, 0.05)
    assert found.nodes.tolist() == [A, A, 0, X]
    assert found.probabilities.tolist() == pytest.approx([0.8, 0.8, 1.0, 0.6])
    assert found.cut.tolist() == [True, True, True, False]
    assert found.unknown is not None
    assert found.unknown.tolist() == [True, True, True, False]


def test_references_have_a_label_below_the_root_and_errors_name_the_side() -> None:
    table = EmbeddingTable(torch.eye(4), torch.tensor([X, 0, -1, B]), geometry="euclidean")
    assert Reference.of(table).nodes.tolist() == [X, B]
    found = fit_novelty(table, table, TREE)
    assert (len(found.reference), found.known.count, found.smallest()) == (2, 2, 1 / 3)
    nothing = table.rows(torch.tensor([1, 2]))
    with pytest.raises(DataError, match="no labelled reference sample"):
        fit_novelty(nothing, table, TREE)
    with pytest.raises(DataError, match="no labelled held-out sample"):
        fit_novelty(table, nothing, TREE)


def test_steps_of_an_answer_and_the_one_not_taken() -> None:
    """On a line: x at 1, y at 4, b at 9, a at 6; the sample at 3 is answered by a, and the path goes to y."""
    training = EmbeddingTable(
        torch.tensor([[1.0, 0], [4.0, 0], [9.0, 0], [6.0, 0]]),
        torch.tensor([X, Y, B, A]),
        geometry="euclidean",
    )
    table = EmbeddingTable(torch.tensor([[3.0, 0]]), torch.tensor([-1]), geometry="euclidean")
    p = torch.tensor([[0.25, 0.5, 0.25]])
    names = ["x.png", "y.png", None, "a.png"]
    paths, answer = torch.tensor([[0, A, Y]]), torch.tensor([A])
    ((first, second),) = find_evidence(table, training, paths, answer, p, CLASSES, TREE, names)
    assert (first.node, first.probability, first.taken) == (A, 0.75, True)
    assert (second.node, second.probability, second.taken) == (Y, 0.5, False)
    near = [(each.node, each.distance, each.name, each.row) for each in (
        first.speaks_for, first.speaks_against, second.speaks_for, second.speaks_against,
    ) if each is not None]  # fmt: skip
    assert near == [
        (Y, 1.0, "y.png", 1),
        (B, 6.0, None, 2),
        (Y, 1.0, "y.png", 1),
        (X, 2.0, "x.png", 0),
    ]
    (root,) = find_evidence(table, training, paths, torch.tensor([0]), p, CLASSES, TREE)
    assert [(step.node, step.taken) for step in root] == [(A, False)], "one step is not taken, and no more"

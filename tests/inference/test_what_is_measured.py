"""What labels, seen samples and groups do to what is measured of answers, with models made by hand."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from labeltree.decisions import ClassNodes, DecisionRule
from labeltree.decisions.answers import Answers
from labeltree.decisions.calibrators import Calibrator
from labeltree.decisions.choose_classifier import ChosenClassifier
from labeltree.decisions.classifiers import Classifiers
from labeltree.decisions.rule import Fitted
from labeltree.decisions.searched_space import SearchedSpace
from labeltree.inference import calibrate_run, extended_head, predict, run_classifiers
from labeltree.inference.decider import Decider
from labeltree.inference.named_samples import NamedSamples
from labeltree.inference.predict import Request, _answer_samples, _is_evaluated, _Task
from labeltree.options.answer_options import AnswerOptions
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/x", "a/y", "b"])
CLASSES = ClassNodes(TREE.leaves, TREE)
A, X, Y, B = (int(TREE.find(name)) for name in ("a", "a/x", "a/y", "b"))
COUNT = 25


class Model:
    """Answers x for all samples, and a for rows 5 to 8, which it calls unknown unless that is not allowed."""

    def __init__(self) -> None:
        fitted = Fitted(torch.zeros(40), TREE.leaves[[0] * 40], torch.arange(40) // 4)
        self.rule = DecisionRule(CLASSES, Calibrator(), "child", fitted, {})
        self.novelty = SimpleNamespace(known=SimpleNamespace(count=33))
        self.run = SimpleNamespace(change=None, base=None)
        self.unpromised = self.coarse_classes = torch.tensor([], dtype=torch.int64)
        self.record: dict[str, Any] = {}
        self.drift = SimpleNamespace(seen=self.see, cannot_test=lambda batch: f"{batch} are compared")

    def see(self, table: EmbeddingTable, probabilities: Tensor) -> int:
        assert len(table) == len(probabilities)
        return len(table)

    def scores(self, table: EmbeddingTable) -> Tensor:
        return torch.zeros(len(table), 3)

    def cannot_tell(self, unknown: float) -> str:
        return ""

    def answer(self, table: EmbeddingTable, options: AnswerOptions, price: object = None) -> Answers:
        row = table.embeddings[:, 0].long()
        strange = (row >= 5) & (row < 9) & (options.unknown > 0)
        count = len(table)
        return Answers(
            torch.where(strange, A, X), torch.ones(count).double(), strange, torch.full((count, 1), X),
            torch.ones(count, 1).double(), None, torch.ones(count).double(), strange,
        )  # fmt: skip


def task_of(seen: list[int], *, model: Any = None, **request: Any) -> _Task:
    """Labels are y for rows 5 and 6, a for row 9, missing for 10, and else x."""
    nodes = torch.full((COUNT,), X)
    nodes[5:7], nodes[9], nodes[10] = Y, A, -1
    points = torch.arange(float(COUNT))[:, None].expand(COUNT, 2).contiguous()
    table = EmbeddingTable(points, nodes, geometry="euclidean")
    names = NamedSamples([f"s{row}" for row in range(COUNT)], None, {})
    source: Any = SimpleNamespace(taxonomy=TREE)
    asked = Request(**{"data": "new.csv", "labelled": True, **request})
    task = _Task(model or Model(), asked, AnswerOptions(), None, names, source, table)
    task.__dict__["seen"] = torch.isin(torch.arange(COUNT), torch.tensor(seen))
    return task


SAID: dict[str, Any] = {"asked": "coverage 0.9", "warning": None}


def test_samples_that_were_seen_are_answered_and_measure_nothing() -> None:
    """Of 25 one label is missing and one too coarse; five are seen, one of them unknown and wrong else."""
    done = _answer_samples(task_of([0, 1, 2, 5, 10]), SAID)
    assert done.judged is not None
    assert done.judged.logical_not().nonzero()[:, 0].tolist() == [0, 1, 2, 5, 9, 10]
    assert done.coverage is not None
    assert (done.coverage.whole.samples, done.coverage.whole.share) == (19, 1.0), "a holds y and x"
    assert done.coverage.plain == pytest.approx(18 / 19), "x instead of a is wrong for row 6 alone"
    assert done.coverage.calibrated == 10, "groups"
    assert done.called_unknown is not None
    assert (done.called_unknown.called, done.called_unknown.samples) == (3, 19)
    assert done.called_unknown.calibrated == 33
    assert done.drift == "20 are compared", "those that are new"
    assert done.geometry == "euclidean"
    assert not done.coverage.measured_alike
    new = _answer_samples(task_of([]), SAID)
    assert new.drift == "25 are compared"
    assert new.coverage is not None
    assert new.coverage.measured_alike
    assert new.seen is not None
    assert not new.seen.any()


def test_unknown_samples_of_groups_are_drawn_together() -> None:
    """Twenty-five samples of five groups, too few to tell."""
    task = task_of([])
    grouped = replace(task.table, groups=torch.arange(COUNT) // 5)
    object.__setattr__(task, "table", grouped)
    done = _answer_samples(task, SAID)
    assert done.called_unknown is not None
    assert (done.called_unknown.groups, done.called_unknown.kept) == (5, None)


def test_few_new_samples_or_own_ones_are_not_compared() -> None:
    assert task_of([0, 1, 2, 3, 4]).drift() == "20 are compared"
    assert task_of([0, 1, 2, 3, 4, 5]).drift() == "19 are compared"  # a table: why not is said
    assert task_of([0, 1, 2, 3, 4, 5], data=None).drift() is None
    assert task_of(list(range(25))).drift() is None
    assert task_of([], data=None, split="test").drift() is None


def test_without_labels_nothing_is_measured() -> None:
    done = _answer_samples(task_of([], labelled=False), SAID)
    assert (done.labels, done.judged, done.seen, done.coverage, done.called_unknown) == (None,) * 5


def test_samples_of_later_classes_are_not_known_ones() -> None:
    model = Model()
    model.unpromised = torch.tensor([Y])
    done = _answer_samples(task_of([], model=model), SAID)
    assert done.called_unknown is not None
    assert (done.called_unknown.called, done.called_unknown.samples) == (2, 21), "rows 7 and 8 of x"
    assert done.coverage is not None
    assert done.coverage.later is not None
    assert (done.coverage.whole.samples, done.coverage.later.samples) == (21, 2)


def test_what_evaluate_measures_alike() -> None:
    assert _is_evaluated(task_of([]))
    assert not _is_evaluated(task_of([3]))
    changed = Model()
    changed.run.change = object()
    assert _is_evaluated(task_of([], model=changed))
    assert not _is_evaluated(task_of([], model=changed, data=None, split="test"))
    other = Model()
    other.record = {"choices": {"calibration": "vector"}}
    assert not _is_evaluated(task_of([], model=other))
    for options in (AnswerOptions(coverage=0.77), AnswerOptions(counted="group")):
        task = task_of([])
        object.__setattr__(task, "options", options)
        assert not _is_evaluated(task)


def test_seen_is_what_training_or_a_later_step_has_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of([])
    del task.__dict__["seen"]
    monkeypatch.setattr(predict, "seen_in_training", lambda run, source: np.arange(COUNT) == 3)
    monkeypatch.setattr(predict, "seen_since_training", lambda run, source: np.arange(COUNT) == 7)
    assert task.seen.nonzero()[:, 0].tolist() == [3, 7]
    bare = task_of([], labelled=False)
    del bare.__dict__["seen"]
    assert not bare.seen.any(), "it is not looked up"


def test_another_choice_is_made_by_all_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """By accuracy the own one leads; by hierarchical F1 two others are alike, and the loss decides."""
    f1, losses = {"prototypes": 0.8, "probe": 0.8, "own": 0.7}, {"prototypes": 0.5, "probe": 0.2, "own": 0.1}
    space = SearchedSpace("features", {"embeddings": 0.1, "features": 0.2}, 9)
    before = ChosenClassifier(
        "own", "own", {"prototypes": 0.5, "probe": 0.5, "own": 0.9}, 20, ("prototypes", "probe", "own"),
        one_class=True, hierarchical_f1=f1, losses=losses, space=space,
    )  # fmt: skip
    monkeypatch.setattr(run_classifiers, "own_scores", lambda network: None)
    monkeypatch.setattr(run_classifiers, "_read", lambda run, own: Classifiers({}, before))
    kept: list[Classifiers] = []
    monkeypatch.setattr(run_classifiers, "_keep_choice", lambda run, learned: kept.append(learned))
    run: Any = SimpleNamespace(folder=SimpleNamespace(locked=nullcontext), network=None)
    found = run_classifiers.run_classifiers(run, "auto").chosen
    assert (found.name, found.asked, found.one_class, found.space) == ("probe", "auto", True, space)
    assert (found.hierarchical_f1, found.losses, found.samples) == (f1, losses, 20)
    assert len(kept) == 1
    assert run_classifiers.run_classifiers(run, "own").chosen == before, "as it was asked for before"
    assert run_classifiers.run_classifiers(run).chosen == before
    assert len(kept) == 1
    by_itself = replace(before, asked="auto")
    monkeypatch.setattr(run_classifiers, "_read", lambda run, own: Classifiers({}, by_itself))
    assert run_classifiers.run_classifiers(run, "own").chosen.asked == "own", "it was not asked for before"
    assert len(kept) == 2


class Head:
    """A head that keeps what is added to it."""

    def __init__(self) -> None:
        self.added: list[Any] = []

    def on_taxonomy(self, taxonomy: Taxonomy, places: Tensor) -> Head:
        return self

    def add(self, features: Tensor, nodes: Tensor) -> Head:
        self.added = [features[:, 0].tolist(), nodes.tolist()]
        return self


def test_a_head_learns_from_the_training_samples_of_classes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of six samples one is held out, one has a label above the classes; the run has seen the last one."""
    head = Head()
    monkeypatch.setattr(extended_head, "load_ridge", lambda file, taxonomy: head)
    solver = SimpleNamespace(taxonomy=TREE)
    home = SimpleNamespace(path="run")
    folder = SimpleNamespace(ridge=SimpleNamespace(is_file=lambda: True), path="run", home=home)
    network = SimpleNamespace(objective=SimpleNamespace(solver=solver, is_solved=True))
    run: Any = SimpleNamespace(network=network, folder=folder, taxonomy=TREE)
    new = EmbeddingTable(
        torch.eye(6), torch.tensor([X, B, A, X, B, A]), features=torch.arange(6.0)[:, None].expand(6, 2),
        split=np.array(["train", "train", "train", "val", "train", "train"]),
    )  # fmt: skip
    places, learned = torch.arange(TREE.num_nodes), torch.tensor([X, B])
    seen = torch.arange(6) == 5
    found, said = extended_head.extended_head(run, TREE, places, new, learned, seen)
    assert found is head
    assert said == []
    assert head.added == [[0.0, 1.0, 4.0], [X, B, B]]
    none, said = extended_head.extended_head(run, TREE, places, new, learned, torch.arange(6) < 4)
    assert none is None
    assert said == [
        "The run's own classifier is not extended: its sums hold 2 of the samples with other labels."
    ]


def test_groups_and_choices_reach_the_rule_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    model = Model()

    def fit(scores: Tensor, labels: Tensor, classes: ClassNodes, **named: Any) -> DecisionRule:
        given.update(named, labels=labels)
        return model.rule

    monkeypatch.setattr(calibrate_run, "fit_rule", fit)
    monkeypatch.setattr(calibrate_run, "_record_of", lambda *parts: {"on": parts[3]})
    monkeypatch.setattr(calibrate_run, "_before_and_after", lambda rule, scores, labels: {})
    held = EmbeddingTable(
        torch.eye(3), torch.tensor([X, Y, B]), groups=torch.tensor([4, 4, 7]),
        split=np.array(["val", "calib", "val"]),
    )  # fmt: skip
    scorer: Any = SimpleNamespace(classes=TREE.leaves)
    monkeypatch.setattr(Classifiers, "scores", lambda self: Scores(scorer.classes))
    run: Any = SimpleNamespace(taxonomy=TREE)
    choices = {"calibration": "vector", "descent": "leaf", "share": 0.5, "seed": 3}
    classifiers = Classifiers({}, ChosenClassifier("probe"))
    decider = calibrate_run.fit_decider(run, classifiers, held, on="new.csv", choices=choices)
    assert torch.equal(given["groups"], torch.tensor([4, 4, 7]))
    assert given["for_probabilities"].tolist() == [True, False, True]
    assert {name: given[name] for name in choices} == choices
    assert decider.record["on"] == "new.csv"


class Scores:
    """Scores that are the embeddings."""

    def __init__(self, classes: Tensor) -> None:
        self.classes = classes

    def __call__(self, table: EmbeddingTable) -> Tensor:
        return table.embeddings


def test_new_samples_are_compared_with_those_that_promises_rest_on() -> None:
    table = EmbeddingTable(
        torch.eye(5), torch.tensor([X, Y, B, X, Y]), split=np.array(["train", "val", "calib", "val", "train"])
    )
    run: Any = SimpleNamespace(taxonomy=TREE)
    scores: Any = Scores(TREE.leaves)
    decider = Decider(run, scores, Model().rule, {}, ChosenClassifier("probe"))
    held = table.rows(torch.tensor([1, 2, 3]))
    decider.__dict__.update(_reference=table, _held=held)
    compared = decider._compared
    assert not isinstance(compared, str)
    training, promised = compared
    assert (training.nodes.tolist(), promised.nodes.tolist()) == ([X, Y], [B])
    other = Decider(run, scores, Model().rule, {}, ChosenClassifier("probe"))
    other.__dict__.update(_reference="there are none", _held=held)
    assert other._compared == "there are none"

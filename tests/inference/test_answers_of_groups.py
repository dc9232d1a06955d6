"""What is said of answers before they are given, and the answers for groups of samples, made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from labeltree.decisions import ClassNodes, DecisionRule, Promise
from labeltree.decisions.answers import Answers
from labeltree.decisions.answers_of_groups import GroupRule
from labeltree.decisions.calibrators import Calibrator
from labeltree.decisions.conformal import advised_coverage
from labeltree.decisions.costs import TreeCost
from labeltree.decisions.promise_samples import PromiseSamples
from labeltree.decisions.rule import Fitted
from labeltree.errors import DataError
from labeltree.inference import predict
from labeltree.inference.named_samples import NamedSamples
from labeltree.inference.predict import (
    Request,
    _add_advice,
    _answer_groups,
    _Asked,
    _pairs,
    _Task,
    answer_with,
    asked_text,
    near_limit,
)
from labeltree.options.answer_options import AnswerOptions
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/x", "a/y", "b"])
CLASSES = ClassNodes(TREE.leaves, TREE)
A, X, Y, B = (int(TREE.find(name)) for name in ("a", "a/x", "a/y", "b"))
FITTED = Fitted(torch.zeros(40), TREE.leaves[[0] * 40], torch.arange(40) // 4)
RULE = DecisionRule(CLASSES, Calibrator(), "child", FITTED, {})
CLASSIFIER = "Answers come from the probe."


class Model:
    """A calibrated run whose samples are grouped by patient."""

    def __init__(self, conflicts: int = 0, kind: Any = "other") -> None:
        recipe = SimpleNamespace(table=SimpleNamespace(group_column=None))
        columns = {"groups": ("patient",), "kept": ("lesion",)}
        self.run = SimpleNamespace(
            recipe=recipe, columns=columns, change=None, base=None, taxonomy=TREE,
            network=SimpleNamespace(objective=SimpleNamespace(dim=2)),
        )  # fmt: skip
        self.rule = RULE
        self.chosen = SimpleNamespace(sentence=CLASSIFIER)
        self.promise_samples = PromiseSamples.of(
            RULE, kind, source="their.csv", chose=("the epoch",), unpromised=("b",)
        )
        self.doubt = "It hardly guesses better."
        self.coarse_classes = torch.tensor([X])
        self.unpromised = torch.tensor([], dtype=torch.int64)
        self.drift = SimpleNamespace(seen=lambda table, p: len(table), cannot_test=lambda n: f"{n} compared")
        self.conflicts = conflicts
        self.ruled: list[str] = []

    def cannot_tell(self, unknown: float) -> str:
        return f"Unknown ones are not told at {unknown:g}."

    def about(self, asked: str) -> dict[str, str]:
        return {"asked": asked}

    def group_rule(self, per: str) -> GroupRule:
        self.ruled.append(per)
        return GroupRule("logits", RULE, {}, 8, self.conflicts)

    def scores(self, table: EmbeddingTable) -> Tensor:
        return torch.zeros(len(table), 3)

    def embed(self, source: object) -> str:
        return f"embedded {source}"

    def answer(self, table: EmbeddingTable, options: AnswerOptions, price: object = None) -> Answers:
        return answers_of([X] * len(table))

    def marked(self, answers: Answers) -> Answers:
        return answers_of(answers.nodes.tolist(), cut=True)


def answers_of(nodes: list[int], *, cut: bool = False) -> Answers:
    count = len(nodes)
    return Answers(
        torch.tensor(nodes, dtype=torch.int64), torch.ones(count).double(), torch.full((count,), cut),
        torch.full((count, 1), X), torch.ones(count, 1).double(),
    )  # fmt: skip


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the parts of `answer_with` are called with; answers are what is said of them."""
    calls: dict[str, Any] = {}

    def wanted(rule: object, decider: object, options: AnswerOptions, unit: str) -> _Asked:
        calls["unit"] = unit
        if calls.get("refused"):
            raise DataError("too few patients")
        price = calls.get("price")
        return _Asked("coverage 0.9, conformal", price, is_cut=False, cases="calibration cases")

    def opened(decider: object, request: Request, per: str | None) -> NamedSamples:
        calls["opened"] = per
        return NamedSamples(["s"], calls.get("source", "samples"), {0: "broken"})  # type: ignore[arg-type]

    monkeypatch.setattr(predict, "_asked", wanted)
    monkeypatch.setattr(predict, "_open", opened)
    monkeypatch.setattr(predict, "lacks_groups", lambda source, run, wrong: f"Without groups {wrong}.")
    monkeypatch.setattr(predict, "join_copies", lambda source: ("joined", ["two are equal", "three, too"]))
    monkeypatch.setattr(predict, "_answer_samples", lambda task, said: {"task": task, **said})
    monkeypatch.setattr(
        predict, "_answer_groups", lambda task, said, per, unit: {"task": task, "as": (per, unit), **said}
    )
    return calls


OPTIONS = AnswerOptions(unknown=0.25)
COVERED = "No answer is coarser for being unsure: the calibration cases reach this coverage without that."


def test_what_is_said_of_samples_with_labels(asked: dict[str, Any]) -> None:
    decider: Any = Model()
    told: Any = answer_with(decider, Request(data="new.csv", labelled=True), OPTIONS, warning="A report.")
    assert told["warning"].splitlines() == [
        "A report.",
        "It hardly guesses better.",
        "Unknown ones are not told at 0.25.",
        "Without groups intervals are too narrow.",
        "two are equal",
        "three, too",
    ]
    assert told["rests_on"].splitlines() == [
        "Coverage is calibrated on 40 samples of 10 groups of 'their.csv'. Nothing is promised for 'b', "
        "which was added later and has no calibration sample.",
        COVERED,
    ]
    assert told["asked"] == "coverage 0.9, conformal; unknown 0.25 (cannot be told)"
    assert (told["about"], told["classifier"]) == ({"asked": told["asked"]}, CLASSIFIER)
    assert (told["task"].source, told["task"].table) == ("joined", "embedded joined")
    assert (asked["opened"], asked["unit"]) == (None, "sample")
    own: Any = Model(kind="val")
    told = answer_with(own, Request(data="new.csv"), OPTIONS)
    assert told["rests_on"].startswith(
        "Coverage can fall a little short: it is calibrated on 40 validation samples of 10 groups, which "
        "have also chosen the epoch ('labeltree train"
    )


def test_samples_without_labels_are_not_joined(asked: dict[str, Any]) -> None:
    """And of those that are named one by one it is not said that they have no groups."""
    decider: Any = Model()
    for request in (Request(data="new.csv"), Request(images=("a.png",), labelled=True)):
        told: Any = answer_with(decider, request, OPTIONS)
        assert told["warning"] == "It hardly guesses better.\nUnknown ones are not told at 0.25."
        assert told["task"].source == "samples"
    asked["price"] = TreeCost()
    assert answer_with(decider, request, OPTIONS)["rests_on"] == "", "a cost promises no coverage"  # type: ignore[call-overload]
    asked["source"] = None
    nothing = answer_with(decider, request, OPTIONS)
    assert (nothing.samples, nothing.skipped, len(nothing.answers)) == (["s"], {0: "broken"}, 0)


def test_what_is_said_of_groups(asked: dict[str, Any]) -> None:
    """The column of the groups means the groups; that of the lesions is a unit of its own."""
    decider: Any = Model()
    for per, kind, unit in (
        ("patient", "group", "patient"),
        ("group", "group", "patient"),
        ("lesion", "lesion", "lesion"),
    ):
        told: Any = answer_with(decider, Request(data="new.csv"), AnswerOptions(per=per))
        assert told["as"] == (kind, unit)
        assert told["asked"] == f"coverage 0.9, conformal, one answer for each {unit}"
        assert told["rests_on"].startswith(f"Coverage is calibrated on 40 {unit}s of 10 groups of 'their")
        assert told["warning"] == "It hardly guesses better.", "no group is called unknown"
        assert told["task"].options.per == asked["opened"] == kind
    assert decider.ruled == ["group", "group", "lesion"]
    asked["refused"] = True
    with pytest.raises(DataError, match=r"^too few patients$"):
        answer_with(decider, Request(data="new.csv"), AnswerOptions(per="patient"))
    torn: Any = Model(conflicts=3)
    with pytest.raises(DataError, match=r"^too few patients\. 3 held-out patients have labels that contra"):
        answer_with(torn, Request(data="new.csv"), AnswerOptions(per="patient"))
    with pytest.raises(DataError, match=r"^too few patients$"):
        answer_with(torn, Request(data="new.csv"), AnswerOptions())


SAMPLES = [
    ("p7", X), ("p7", X), ("p3", X), ("p3", Y), ("", B), ("p5", A), ("p5", X), ("", -1), ("", Y),
    ("p9", X), ("p9", X), ("p1", X), ("p1", Y), ("p1", B),
]  # fmt: skip
SEEN = [8, 9]


def task_of_groups(monkeypatch: pytest.MonkeyPatch, *, labelled: bool = True, **model: Any) -> _Task:
    """Fourteen samples: of p3 and p1 the labels contradict each other; one alone and p9 have been seen."""
    names = np.array([name for name, _ in SAMPLES])
    groups = torch.from_numpy(np.unique(names, return_inverse=True)[1].reshape(-1)) - 1
    table = EmbeddingTable(
        torch.zeros(len(SAMPLES), 2), torch.tensor([node for _, node in SAMPLES]), groups=groups,
        group_names=names,
    )  # fmt: skip
    monkeypatch.setattr(predict, "list_names", lambda source: [f"f{row}" for row in range(len(SAMPLES))])
    answered: list[int] = []

    def answer(rule: object, scores: Tensor, *more: object) -> tuple[Answers, None]:
        answered[:] = [X] * len(scores)
        return answers_of(answered), None

    monkeypatch.setattr(predict, "answer_scores_by", answer)
    source: Any = SimpleNamespace(
        name="new.csv", taxonomy=TREE, group_names=names, attributes={}, modalities=("text",)
    )
    named = NamedSamples(["a", "b", "c", "d"], source, {3: "broken", 1: "empty"})
    decider: Any = Model()
    for name, value in model.items():
        setattr(decider, name, value)
    request = Request(data="new.csv", labelled=labelled)
    task = _Task(decider, request, AnswerOptions(per="group"), None, named, source, table)
    task.__dict__["seen"] = torch.isin(torch.arange(len(SAMPLES)), torch.tensor(SEEN)) & labelled
    return task


SAID: dict[str, Any] = {"asked": "coverage 0.9", "warning": "A report.", "classifier": CLASSIFIER}


def test_groups_with_labels_are_compared_where_these_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of p7, p5 and f4 alone the label decides; p5 has the finer one of its two."""
    done = _answer_groups(task_of_groups(monkeypatch), SAID, "group", "patient")
    assert done.samples == ["p1", "p3", "p5", "p7", "p9", "f4", "f7", "f8", "b", "d"]
    assert done.skipped == {8: "empty", 9: "broken"}
    for found, rows in (
        (done.judged, ["p5", "p7", "f4"]),
        (done.seen, ["p9", "f8"]),
        (done.contradictory, ["p1", "p3"]),
    ):
        assert found is not None
        assert [done.samples[row] for row in found.nonzero()[:, 0].tolist()] == rows
    assert done.labels is not None
    assert done.labels.tolist() == [-1, -1, X, X, X, B, -1, Y]
    assert bool(done.answers.cut.all()), "x has finer classes on this version"
    assert done.warning == (
        "A report.\n2 patients with labels that contradict each other: answered, and compared with no label"
    )
    assert done.classifier == (
        f"{CLASSIFIER} The samples of a patient are combined by {predict_words()}: 8 held-out patients are "
        "too few to choose by."
    )
    assert done.drift == "12 compared", "samples that are new"
    assert done.coverage is not None
    whole = done.coverage.whole
    assert (whole.samples, whole.unit, whole.share) == (3, "patient", pytest.approx(2 / 3))
    assert done.coverage.calibrated == 10, "groups"
    assert done.coverage.later is None
    later = task_of_groups(monkeypatch, unpromised=torch.tensor([B]))
    coverage = _answer_groups(later, SAID, "group", "patient").coverage
    assert coverage is not None
    assert coverage.later is not None
    assert (coverage.whole.samples, coverage.later.samples) == (2, 1)


def predict_words() -> str:
    from labeltree.decisions.answers_of_groups import _WORDS

    return _WORDS["logits"]


def test_groups_without_labels_or_names(monkeypatch: pytest.MonkeyPatch) -> None:
    done = _answer_groups(task_of_groups(monkeypatch, labelled=False), SAID, "group", "patient")
    told = (done.labels, done.judged, done.seen, done.contradictory, done.coverage, done.warning)
    assert told == (None, None, None, None, None, "A report.")
    copies = task_of_groups(monkeypatch)
    copies.table.group_names[:] = ""  # type: ignore[index]
    with pytest.raises(DataError, match=r"^'new.csv' has no groups to answer for; name their column as in"):
        _answer_groups(copies, SAID, "group", "patient")


def test_a_split_class_is_named_where_it_was_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the old classes 0 and 1, of which x and y are made, only that of x has an answer; b is no split."""
    scores = SimpleNamespace(classes=torch.tensor([1, 2, 3]))
    classifiers = SimpleNamespace(scores=lambda name: {"probe": scores}[name])
    monkeypatch.setattr(predict, "run_classifiers", lambda base: {"base": classifiers}[base])
    change = SimpleNamespace(
        places=torch.tensor([0, X, Y, B]),
        split_advice=lambda nodes, run: f"{nodes.tolist()} of {run} split",
        unexplained=lambda nodes: f"{nodes.tolist()} gone",
    )
    folder = SimpleNamespace(home=SimpleNamespace(path="home"))
    run = SimpleNamespace(change=change, base="base", folder=folder)
    decider: Any = SimpleNamespace(
        run=run, coarse_classes=torch.tensor([X, Y]), chosen=SimpleNamespace(name="probe")
    )
    told = _add_advice({"warning": "A report."}, decider, answers_of([X, B, X]))
    assert told == {"warning": "A report.\n[1, 2, 3] gone\n[1] of home split"}
    run.base = None
    assert _add_advice({"warning": "A report."}, decider, answers_of([X])) == {"warning": "A report."}


def test_images_and_texts_that_do_not_pair() -> None:
    decider: Any = SimpleNamespace(
        run=SimpleNamespace(network=SimpleNamespace(encoder=SimpleNamespace(modality="both")))
    )
    with pytest.raises(DataError, match=r"^there are 2 image files and 3 texts; give a --text for each$"):
        _pairs(decider, Request(images=("a", "b"), texts=("c", "d", "e")))


def test_a_coverage_close_to_the_most_that_groups_can_promise() -> None:
    """Ten groups can promise 10/11 = 0.909, of which 97 % are 0.8818."""
    assert near_limit(RULE, Promise(0.89)) == (
        "A coverage of 0.89 is close to the most that 10 groups can promise: their least sure samples "
        f"decide, and answers are coarse; with --coverage {advised_coverage(10):g} they are finer."
    )
    for other in (
        Promise(0.88), Promise(0.89, counted="group"), Promise(0.89, "threshold"),
        Promise(0.89, confidence=0.9),
    ):  # fmt: skip
        assert near_limit(RULE, other) == ""
    alone = DecisionRule(CLASSES, Calibrator(), "child", Fitted(torch.zeros(10), TREE.leaves[[0] * 10]), {})
    assert near_limit(alone, Promise(0.89)) == ""
    assert _Asked("", None, limit="It is close.").sentence == "It is close."
    decider: Any = SimpleNamespace(cannot_tell=lambda unknown: "")
    assert asked_text(decider, "coverage 0.9", 0.05) == "coverage 0.9; unknown 0.05"


@pytest.mark.parametrize("labelled", [True, False])
def test_how_other_data_are_opened(labelled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def opened(run: object, data: str, **options: Any) -> str:
        calls.append((data, options))
        return "source"

    monkeypatch.setattr(predict, "open_other", opened)
    monkeypatch.setattr(predict, "text_settings", lambda run, path, given: {"sheet": given.get("sheet")})
    monkeypatch.setattr(predict, "name_samples", lambda *given, **text: (given, text))
    decider: Any = SimpleNamespace(run=None)
    request = Request(data="new.xlsx", data_path="images", labelled=labelled, table={"sheet": "2"})
    usual = {
        "data_path": "images", "unlabelled": not labelled, "judged": labelled, "on_error": "list",
        "table": {"sheet": "2"},
    }  # fmt: skip
    for per, kept in ((None, ()), ("group", ()), ("lesion", ("lesion",))):
        assert predict._open(decider, request, per) == (("source", "new.xlsx"), {"sheet": "2"})
        assert calls.pop() == ("new.xlsx", {**usual, "kept": kept})


def test_samples_that_are_open_already_are_not_opened() -> None:
    named = NamedSamples(["s"], None, {})
    decider: Any = None
    assert predict._open(decider, Request(named=named, data="new.csv")) is named

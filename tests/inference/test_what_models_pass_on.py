"""Options, groups and counts that one step passes on to the next, each with a step made by hand."""

from __future__ import annotations

import errno
import logging
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from labeltree.data import Source
from labeltree.decisions import ClassNodes, DecisionRule
from labeltree.decisions.calibrators import Calibrator
from labeltree.decisions.choose_classifier import ChosenClassifier
from labeltree.decisions.classifiers import Classifiers
from labeltree.decisions.conformal import threshold_steps
from labeltree.decisions.rule import Fitted
from labeltree.errors import RunError, WriteError
from labeltree.inference import calibrate_run, reference, run_classifiers
from labeltree.inference.bulk import process
from labeltree.inference.bulk.batch_model import _Opened
from labeltree.inference.bulk.bulk_samples import BulkSamples
from labeltree.inference.bulk.job import BulkDone, BulkJob
from labeltree.inference.bulk.run_labels import UNKNOWN
from labeltree.inference.by_name import zero_shot
from labeltree.inference.decider import Decider
from labeltree.inference.export import export_folder
from labeltree.inference.export.export_folder import export_model
from labeltree.inference.export.export_labels import labels
from labeltree.inference.named_samples import name_samples
from labeltree.options.model_options import CalibrateOptions
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/x", "a/y", "b"])
CLASSES = ClassNodes(TREE.leaves, TREE)
A, X, Y, B = (int(TREE.find(name)) for name in ("a", "a/x", "a/y", "b"))
FOLDER = SimpleNamespace(path=Path("run"), locked=nullcontext)


def test_a_run_learns_the_classifier_of_its_recipe_unless_another_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[object, ...]] = []

    def learn(run: object, table: object, which: str, own: object) -> Classifiers:
        asked.append((table, which))
        return Classifiers({}, ChosenClassifier("probe"))

    monkeypatch.setattr(run_classifiers, "own_scores", lambda network: None)
    monkeypatch.setattr(run_classifiers, "_read", lambda run, own: None)
    monkeypatch.setattr(run_classifiers, "_learn", learn)
    monkeypatch.setattr(run_classifiers, "_packed", lambda learned: b"packed")
    monkeypatch.setattr(run_classifiers, "_keep_choice", lambda run, learned: None)
    folder = SimpleNamespace(path=tmp_path, locked=nullcontext, classifier=tmp_path / "classifier")
    run: Any = SimpleNamespace(folder=folder, network=None, recipe=SimpleNamespace(classifier="lda"))
    own: Any = lambda: "own samples"  # noqa: E731
    run_classifiers.run_classifiers(run, own_samples=own)
    run_classifiers.run_classifiers(run, "probe", own_samples=own)
    assert asked == [("own samples", "lda"), ("own samples", "probe")]
    assert folder.classifier.read_bytes() == b"packed"


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC])
def test_a_folder_that_cannot_be_written_to_is_left_as_it_is(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object) -> None:
        raise WriteError(number, "no", "reference")

    monkeypatch.setattr(reference, "save_reference", refuse)
    table = EmbeddingTable(torch.eye(3), torch.tensor([X, Y, -1]), split=np.array(["train", "val", "val"]))
    run: Any = SimpleNamespace(folder=SimpleNamespace(reference=Path("r")))
    if number == errno.ENOSPC:
        with pytest.raises(WriteError):
            reference.keep_reference(run, table)
    else:
        assert reference.keep_reference(run, table).nodes.tolist() == [X, Y]


def test_thresholds_of_an_export_are_those_of_groups() -> None:
    """Groups of 1 to 4 samples: the shares that they reach are sums, which are rounded."""
    groups = torch.tensor([number for number in range(5) for _ in range(number)])
    scores = torch.linspace(0.1, 0.9, len(groups)).double()
    rule = DecisionRule(
        CLASSES, Calibrator(), "leaf", Fitted(scores, TREE.leaves[[0] * len(groups)], groups), {}
    )
    decider: Any = SimpleNamespace(
        rule=rule, run=SimpleNamespace(taxonomy=TREE), coarse_classes=torch.tensor([X, B])
    )
    content = labels(decider)
    steps = threshold_steps(scores, groups)
    assert steps.tolerance > 0
    assert content["thresholds"] == {
        "total": steps.total,
        "tolerance": steps.tolerance,
        "steps": [list(step) for step in zip(steps.reached, steps.thresholds, strict=True)],
    }
    assert content["thresholds"]["steps"] != [
        list(step)
        for step in zip(*(lambda s: (s.reached, s.thresholds))(threshold_steps(scores)), strict=True)
    ]
    assert (content["coarse_classes"], content["descent"], content["classes"]) == ([X, B], "leaf", [X, Y, B])


@pytest.mark.parametrize(
    ("novelty", "kept", "warned"), [("told", False, True), (None, False, False), ("told", True, False)]
)
def test_an_export_says_what_it_can_no_longer_tell(
    novelty: str | None, kept: bool, warned: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    told: list[object] = []
    monkeypatch.setattr(export_folder, "model_facts", lambda run, decider, public: {})
    monkeypatch.setattr(export_folder, "_write_run", lambda decider, folder, kept: told.append(kept))
    monkeypatch.setattr(export_folder, "_config", lambda decider, facts, formats: {})
    monkeypatch.setattr(
        export_folder, "model_card", lambda facts, config, name, formats: told.append(name) or "card"
    )
    encoder = SimpleNamespace(modality="text")
    run = SimpleNamespace(network=SimpleNamespace(encoder=encoder))
    decider: Any = SimpleNamespace(run=run, novelty=novelty)
    name = "Birds" if kept else None
    with caplog.at_level(logging.WARNING):
        export_model(decider, tmp_path / "model", ["safetensors"], name=name, with_reference=kept)
    assert told == [kept, name or "model"]
    assert bool(caplog.records) == warned


def test_a_label_that_the_taxonomy_lacks_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    opened = _Opened.__new__(_Opened)
    opened._warned = False
    opened._labels = SimpleNamespace(  # type: ignore[assignment]
        split=lambda text: tuple(text.split("/")), find=lambda path: X if path == ("a", "x") else UNKNOWN
    )
    with caplog.at_level(logging.WARNING):
        found = [opened.label(text) for text in ("a/x", "a/z", "q", None)]
    assert found == [("a/x", X), ("a/z", -1), ("q", -1), (None, -1)]
    assert [record.getMessage() for record in caplog.records] == [
        "the run's taxonomy lacks 'a/z'; such labels count as missing"
    ]


def test_the_label_of_a_shard_is_in_the_first_of_its_fields_that_has_one() -> None:
    samples = BulkSamples.__new__(BulkSamples)
    samples._folder = samples._several = False
    samples._labels, samples._classes = ["cls", "label", "name"], {"cls": ["cat", "dog"]}
    samples.__dict__["_finder"] = SimpleNamespace(split=lambda text: tuple(text.split("/")))

    def path(**fields: str) -> tuple[str, ...]:
        sample: Any = SimpleNamespace(fields=fields)
        return samples._path(sample)

    assert path(label="a/x", name="other") == ("a", "x")
    assert path(cls="", name="a/y") == ("a", "y")
    assert [path(cls=number) for number in ("0", "1", "2", "-1", "b")] == [
        ("cat",), ("dog",), ("2",), (), ("b",),
    ]  # fmt: skip
    assert path() == ()


def test_names_tell_whether_a_row_of_the_table_has_several_samples(tmp_path: Path) -> None:
    """Samples 0 and 1 are of the first row and 4 of the third; 3 could not be read."""
    file = tmp_path / "new.csv"
    file.write_text("left,right,age\na,b,5\nc,d,6\ne,f,7\n")

    class Three(SimpleNamespace):
        def __len__(self) -> int:
            return 3

    def source(per_row: int) -> Any:
        rows = SimpleNamespace(per_row=per_row, find=lambda ids: ids // 2)
        return Three(
            instances=torch.tensor([0, 1, 4]), unread={3: ("d", "broken")}, table_rows=rows, columns={},
            paths=lambda every: ["a", "b", "e"], vectors=None, texts=None, unread_units={},
        )  # fmt: skip

    for per_row in (1, 2):
        named = name_samples(source(per_row), file)
        assert named.one_each == (per_row == 1)
        assert named.names == ["a", "b", "d", "e"]
        assert named.skipped == {2: "broken"}
        assert named.given is not None
        assert dict(zip(named.given.names, named.given.values(), strict=True))["age"] == ["5", "5", "6", "7"]


def test_labels_at_the_root_calibrate_nothing_by_names(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.arange(4)
    nodes, groups = torch.tensor([X, 0, -1, B]), torch.tensor([5, 6, 7, 8])
    source = Source("d.csv", TREE, nodes, rows, None, rows, texts=["p", "q", "r", "s"], groups=groups)
    given: dict[str, Any] = {}

    def fit(scores: object, labels: torch.Tensor, classes: ClassNodes, **named: Any) -> str:
        given.update(named, labels=labels.tolist(), scores=scores)
        return "rule"

    monkeypatch.setattr(zero_shot, "_open", lambda *given, **named: source)
    monkeypatch.setattr(zero_shot, "fit_rule", fit)
    by_name: Any = SimpleNamespace(
        classes=CLASSES, space=None, scores=lambda source: [source.texts[row] for row in source.rows.tolist()]
    )
    rule, known = zero_shot._calibrated(by_name, "d.csv")
    assert (rule, given["labels"], given["scores"]) == ("rule", [X, B], ["p", "s"])
    assert given["groups"].tolist() == [5, 8]
    both = source.subset(torch.tensor([0, 3])).copy_digests()
    assert known == {row.tobytes() for sample in both for row in sample if row.any()}


COUNTS = {"samples": 50, "unreadable": 3, "unknown_labels": 4, "parts": 2}
MADE = {"samples": 20, "unreadable": 1, "unknown_labels": 2, "parts": 1}


@pytest.fixture
def bulk(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A process of a bulk job that has made one of two parts."""
    calls: dict[str, Any] = {"complete": False, "counts": COUNTS, "listing": None, "locked": []}

    class Samples:
        labelled = True

        def __init__(self, run: object, data: str, labelled: bool) -> None:
            self.listing = calls["listing"]

        def stream(self) -> Any:
            return iter(["a sample"])

    class Parts:
        def __init__(self, out: str) -> None:
            self.out = out

        def locked(self) -> Any:
            calls["locked"].append(self.out)
            return nullcontext()

        def begin(self, settings: dict[str, Any], about: object, taxonomy: object) -> dict[str, Any]:
            calls["settings"] = settings
            return {"counts": COUNTS}

        def is_complete(self, manifest: object) -> bool:
            return bool(calls["complete"])

        def finish(self, manifest: object, parts: int) -> Any:
            assert parts == 7
            return calls["counts"]

        def note(self, number: int) -> dict[str, Any]:
            return {"seen": f"part {number}"}

    class Work:
        parts, counts = 7, MADE

        def __init__(self, *given: object) -> None:
            pass

        def do(self) -> None:
            pass

    def rows(job: BulkJob, decider: object, labelled: bool) -> Any:
        return SimpleNamespace(about={})

    decider = SimpleNamespace(
        digest="model", cannot_tell=lambda unknown: f"not told at {unknown}", drift="rule", chosen="probe"
    )
    for name, stub in {
        "BulkSamples": Samples,
        "PartFolder": Parts,
        "_Work": Work,
        "AnswerRows": rows,
        "EmbeddingRows": lambda *given: None,
        "about_run": lambda *given: {},
        "check_one_modality": lambda run: None,
        "open_decider": lambda run, classifier: decider,
        "open_shared_decider": lambda run, classifier: decider,
        "other_report": lambda path, chosen: f"{path} {chosen}",
        "tell_drift": lambda rule, notes: f"{rule} of {', '.join(notes)}",
    }.items():
        monkeypatch.setattr(process, name, stub)
    return calls


RUN: Any = SimpleNamespace(
    base=None, folder=SimpleNamespace(path="r"), taxonomy=TREE, weights_digest="00ff", network=None
)


def done(what: Any = "embed", place: process.Place | None = None, run: Any = RUN, **more: Any) -> BulkDone:
    job = BulkJob("r", "d", "out", what, unknown=0.25)
    return process.run_process(job, place, run=run, **more)


def counted(found: BulkDone) -> tuple[Any, ...]:
    return (
        found.samples, found.unreadable, found.unknown_labels, found.parts, found.written, found.complete
    )  # fmt: skip


def test_what_a_process_of_a_bulk_job_counts(bulk: dict[str, Any]) -> None:
    assert counted(done()) == (50, 3, 4, 2, 20, True), "of the folder, and now"
    bulk["counts"] = None
    assert counted(done()) == (20, 1, 2, 1, 20, False), "others are at work"
    bulk["complete"] = True
    assert counted(done()) == (20, 1, 2, 1, 20, False), "images may be other ones"
    bulk["listing"] = "digest"
    assert counted(done()) == (50, 3, 4, 2, 0, True)
    assert bulk["settings"]["listing"] == "digest"


def test_who_locks_the_folder_of_a_bulk_job(bulk: dict[str, Any]) -> None:
    done()
    done(place=process.Place(1, 2))
    done(lock=False)
    assert bulk["locked"] == ["out"]
    done(place=process.Place(0, 2))
    assert bulk["locked"] == ["out", "out"]


def test_what_a_bulk_job_warns_of(bulk: dict[str, Any]) -> None:
    assert done().warning is None
    assert str(done("predict").warning).splitlines() == [
        *("r probe", "not told at 0.25", "rule of part 0, part 1")
    ]
    moved = SimpleNamespace(**{**vars(RUN), "base": RUN})
    assert str(done("predict", run=moved).warning).splitlines()[0] == "not told at 0.25"
    bulk["counts"] = None
    assert str(done("predict").warning).splitlines() == ["r probe", "not told at 0.25"]


@pytest.fixture
def calibration(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a calibration gives its steps; it writes into the folder `answering`."""
    calls: dict[str, Any] = {"earlier": {}, "damaged": False}
    folder = SimpleNamespace(
        path="answering", locked=nullcontext, decisions="decisions",
        write_json=lambda file, record: calls.update(file=file, record=record),
    )  # fmt: skip

    class Folder:
        def __init__(self, path: str) -> None:
            self.path = path

        def require(self) -> Any:
            return SimpleNamespace(answering=lambda: folder)

    def opened(run: object, data: object, **named: Any) -> Any:
        calls["opened"] = named
        return SimpleNamespace(name="new", copy_digests=lambda: "digests")

    def classifiers(run: object, asked: object, **named: Any) -> str:
        calls.setdefault("anew", []).append(named.get("anew", False))
        if calls["damaged"] and not named.get("anew"):
            raise RunError("damaged")
        return f"classifiers of {asked}"

    def fit(run: object, classifiers: object, held: Any, *, on: str, choices: Any) -> Decider:
        calls.update(classifiers=classifiers, held=held, on=on, choices=choices)
        fitted: Any = SimpleNamespace(record={"fitted": True})
        return fitted

    table = EmbeddingTable(torch.eye(2), torch.tensor([X, Y]), split=np.array(["val", "calib"]))
    for name, stub in {
        "RunFolder": Folder,
        "load_run": lambda path, own_data: SimpleNamespace(network=None, own_data=own_data),
        "open_other": opened,
        "lacks_groups": lambda *given: "",
        "join_copies": lambda source: (source, []),
        "embed_source": lambda network, source, progress: table,
        "validation_table": lambda run, own, anew: calls.update(anew_table=anew) or table,
        "OwnSamples": lambda path, progress, verify: calls.update(verify=verify),
        "run_classifiers": classifiers,
        "fit_decider": fit,
        "_read": lambda folder: calls["earlier"],
        "keep_calibration": lambda run, *kept: calls.update(kept=kept),
        "keep_description": lambda run: None,
    }.items():
        monkeypatch.setattr(calibrate_run, name, stub)
    return calls


def test_a_calibration_on_other_samples(calibration: dict[str, Any]) -> None:
    """All of them serve alike; what is known of versions and later classes stays."""
    calibration["earlier"] = {"mapping": "m", "coarse_classes": [X], "later_classes": [B], "other": 1}
    options = CalibrateOptions(
        "run", data="new.csv", data_path="images", mapping="map.json", table={"sheet": "2"}, classifier="lda",
        calibration="vector", descent="leaf", share=0.5, seed=3,
    )  # fmt: skip
    calibrate_run.calibrate_run(options)
    assert calibration["opened"] == {"data_path": "images", "mapping": "map.json", "table": {"sheet": "2"}}
    assert calibration["held"].split is None
    assert calibration["on"] == "new"
    assert calibration["classifiers"] == "classifiers of lda"
    assert calibration["choices"] == {"calibration": "vector", "descent": "leaf", "share": 0.5, "seed": 3}
    assert calibration["record"] == {
        "fitted": True, "mapping": "m", "coarse_classes": [X], "later_classes": [B]
    }  # fmt: skip
    assert calibration["file"] == "decisions"
    held, digests = calibration["kept"]
    assert (held.split, digests) == (None, "digests")


def test_a_calibration_on_its_own_samples(calibration: dict[str, Any]) -> None:
    calibration["damaged"] = True
    calibrate_run.calibrate_run(CalibrateOptions("run", verify=True))
    assert (calibration["on"], calibration["kept"]) == ("validation samples", (None,))
    assert calibration["held"].split.tolist() == ["val", "calib"]
    assert (calibration["verify"], calibration["anew_table"]) == (True, True)
    assert calibration["anew"] == [False, True], "what is damaged is learned again"
    assert calibration["record"] == {"fitted": True}
    calibration["damaged"] = False
    calibration["earlier"] = {"later_classes": [B]}
    calibrate_run.calibrate_run(CalibrateOptions("run"))
    assert (calibration["verify"], calibration["anew_table"]) == (False, False)
    assert calibration["record"] == {"fitted": True, "later_classes": [B]}


def test_samples_from_elsewhere_need_no_training_ones_to_be_answered_for() -> None:
    """A model of sums alone that was calibrated on other samples compares new ones with these."""
    empty = EmbeddingTable(torch.empty(0, 3), torch.empty(0).long(), split=np.array([], str))
    theirs = EmbeddingTable(torch.eye(3), torch.tensor([X, Y, B]), split=np.array(["val"] * 3))
    rule: Any = None
    run: Any = None
    for record, there in (({"calibrated_on": "new.csv"}, True), ({}, False)):
        decider = Decider(run, rule, rule, record, ChosenClassifier("probe"))
        decider.__dict__.update(_reference=empty, _held=theirs)
        assert isinstance(decider._compared, tuple) == there

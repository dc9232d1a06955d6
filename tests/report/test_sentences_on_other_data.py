"""What is said of samples that a run was not trained on: which it knows, and what is like its own."""

from __future__ import annotations

from math import nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from labeltree.data.corrections import Applied, Correction, Corrections
from labeltree.decisions.drift import Drift
from labeltree.errors import DataError
from labeltree.evaluation import EvaluationSettings
from labeltree.options.evaluation import EvaluateOptions
from labeltree.report import corrected_labels
from labeltree.report import evaluate_other_data as other_data
from labeltree.report.corrected_labels import CorrectedLabels
from labeltree.report.evaluate_run import _folder_in, _splits_for_folds, say_seen_since, with_ridge_options
from labeltree.report.evaluation_case import _samples_shown
from labeltree.report.next_steps import steps_after_run
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/x", "a/y", "b"])


def test_what_the_run_knows_keeps_its_numbers_apart() -> None:
    theirs = EmbeddingTable(
        torch.eye(3)[:2],
        torch.tensor([2, 3]),
        instances=torch.tensor([5, 9]),
        predictions=torch.tensor([3, 2]),
        groups=torch.tensor([0, 4]),
        group_names=np.array(["p", "q"]),
        attributes={"site": np.array(["Graz", "Wien"])},
    )
    known = EmbeddingTable(
        torch.eye(3),
        torch.tensor([2, 2, 4]),
        split=np.array(["train", "val", "calib"]),
        groups=torch.tensor([0, -1, 1]),
        paths=np.array(["1", "2", "3"]),
        label_sets=torch.tensor([[2, 4], [2, -1], [4, -1]]),
    )
    both = other_data._add_reference(theirs, known)
    assert both.split is not None
    assert both.split.tolist() == ["test", "test", "train", "val", "calib"]
    assert both.nodes.tolist() == [2, 3, 2, 2, 4]
    assert both.instances is not None
    assert both.instances.tolist() == [5, 9, 10, 11, 12]
    assert both.groups is not None
    assert both.groups.tolist() == [0, 4, 5, -1, 6], "−1 stays a group of its own"
    assert both.predictions is not None
    assert both.predictions.tolist() == [3, 2, -1, -1, -1]
    assert both.paths is not None
    assert both.paths.tolist() == ["", "", "1", "2", "3"]
    assert both.group_names is not None
    assert both.group_names.tolist() == ["p", "q", "", "", ""]
    assert both.attributes["site"].tolist() == ["Graz", "Wien", "", "", ""]
    assert both.label_sets is not None
    assert both.label_sets.tolist() == [[2, -1], [3, -1], [2, 4], [2, -1], [4, -1]]
    assert both.features is None
    alone = EmbeddingTable(torch.eye(3), torch.tensor([2, 2, 3]), instances=torch.arange(3))
    own = other_data._add_reference(alone, known)
    assert own.groups is not None
    assert own.groups.tolist() == [-1, -1, -1, 0, -1, 1]


def test_the_first_number_says_how_many_samples_are_known(tmp_path: Path) -> None:
    source: Any = SimpleNamespace(nodes=torch.tensor([1, 1, -1, 2, 2, 2]), name="new.csv")
    taught = np.array([True, False, True, False, False, False])
    later = np.array([True, True, True, True, False, False])
    Corrections(()).save(tmp_path / "none.csv")

    def said(taught: Any, later: Any, file: str = "none.csv") -> list[str]:
        home = SimpleNamespace(correction_files=[tmp_path / file])
        run: Any = SimpleNamespace(folder=SimpleNamespace(home=home))
        return other_data._say_known(run, source, taught, later)

    assert said(taught, later) == [
        "The model knows 1 of these samples from its training or validation: the number is too good.",
        "The model knows 2 of these samples from later calibration or extension: the number is too good.",
    ]
    every, none = np.ones(6, bool), np.zeros(6, bool)
    assert said(every, later) == [
        "The model knows all of these samples from its training or validation: the number is too good."
    ]
    assert said(none, none) == []
    Corrections((Correction("1", "a/x", "accept", "b"),)).save(tmp_path / "some.csv")
    assert said(none, none, "some.csv") == []
    assert said(taught, none, "some.csv")[1] == (
        "It was trained with corrected labels; the labels measured on are as they stand in 'new.csv', "
        "without the corrections."
    )


def test_samples_that_were_seen_before_are_counted_apart() -> None:
    """Of twelve samples three are of training; of nine that were seen since, two are of training, too."""
    row = np.arange(12)
    assert other_data._seen_before(row < 0, row < 0) == say_seen_since(0) == []
    before, since = other_data._seen_before(row < 3, (row > 0) & (row < 10))
    assert before.startswith(
        "3 of these samples are also among the training or validation samples of the run: "
    )
    assert [since] == say_seen_since(7) == other_data._seen_before(row < 0, row < 7)
    assert since.startswith("7 of these samples are among those that the run was calibrated or extended with")


def test_patients_of_the_same_name_are_told() -> None:
    def said(known: list[str] | None, theirs: list[str] | None) -> list[str]:
        tables: Any = [
            SimpleNamespace(group_names=None if names is None else np.array(names))
            for names in (known, theirs)
        ]
        return other_data._shared_groups(*tables)

    assert said(None, ["p"]) == said(["p"], None) == said(["p", ""], ["q", ""]) == []
    assert said(["p", "p", "q", ""], ["p", "r", ""]) == [
        "1 group of these samples is named like groups of the run's own samples ('p'): if they are the same, "
        "such as the same patients, numbers on them are too good. Leave them out."
    ]
    assert said(list("pqrst"), list("vtsrqq"))[0].startswith(
        "4 groups of these samples are named like groups of the run's own samples ('q', 'r', 's' and 1 more)"
    )


def test_another_share_than_that_of_prediction_is_explained() -> None:
    theirs = EmbeddingTable(torch.eye(5), torch.zeros(5, dtype=torch.int64))

    def said(seen: list[bool], unknown: list[bool] | None) -> list[str]:
        asked = []

        def called(table: EmbeddingTable) -> torch.Tensor | None:
            asked.append(table.embeddings.argmax(1).tolist())
            return None if unknown is None else torch.tensor(unknown)

        decider: Any = SimpleNamespace(called_unknown=called)
        found = other_data._explain_other_share(decider, theirs, torch.tensor(seen))
        assert asked in ([], [[place for place, known in enumerate(seen) if not known]])
        return found

    start = "'labeltree predict --labelled' may say another share: it "
    assert said([False] * 5, [False] * 5) == said([False] * 5, None) == []
    assert said([True, True, False, False, False], [True, False, False]) == [
        f"{start}gives coarser answers to the 1 sample that it calls unknown and leaves out the 2 samples "
        "that the run knows."
    ]
    assert said([True] * 5, [True]) == [f"{start}leaves out the 5 samples that the run knows."]
    assert said([False] * 5, [True] * 5) == [
        f"{start}gives coarser answers to the 5 samples that it calls unknown."
    ]


def test_the_accuracy_stands_beside_that_on_the_own_test_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    def result(share: float, ends: tuple[float, float], split: str = "test") -> Any:
        main = SimpleNamespace(answer_score=lambda metric: share, answer_interval=lambda metric: ends)
        return SimpleNamespace(name="ce", methods={"ce": main}, main=main, split=split)

    def said(own: Any) -> list[str]:
        monkeypatch.setattr(other_data, "EvaluationResult", SimpleNamespace(load=lambda file: own))
        return other_data._compare_with_own(result(0.612, (0.5, 0.7)), SimpleNamespace(metrics=""))  # type: ignore[arg-type]

    assert said(result(0.834, (nan, nan))) == [
        "Top-1 accuracy: 61.2% [50.0%, 70.0%] on these samples, 83.4% on the run's own test samples."
    ]
    assert said(result(0.834, (nan, nan), split="val")) == []
    without = result(0.834, (nan, nan))
    without.name = "another"
    assert said(without) == []


def test_whether_samples_are_like_the_own_is_said_of_new_ones_alone() -> None:
    theirs = EmbeddingTable(torch.eye(4), torch.zeros(4, dtype=torch.int64))

    def said(drift: Drift | None, table: EmbeddingTable = theirs) -> list[str]:
        rule = SimpleNamespace(
            seen=lambda table, chances: len(table),
            test=lambda seen: drift,
            cannot_test=lambda seen: f"{seen} are too few",
        )
        decider: Any = SimpleNamespace(
            drift=rule, rule=SimpleNamespace(probabilities=lambda scores: scores), scores=lambda table: table
        )
        return other_data._drifted(decider, table)

    assert said(None) == ["Whether the samples are like those of training cannot be tested: 4 are too few."]
    assert said(None, theirs.rows(torch.arange(0))) == []
    (like,) = said(Drift({"distance": 0.3, "certainty": 0.9}, {}, 12, "groups", 34))
    assert like.startswith(
        "A two-sample test finds no difference between these 12 groups and the 34 held-out ones of the run "
        "(p = 0.60)."
    )
    (unlike,) = said(Drift({"distance": 0.001}, {"distance": "farther"}, 12, "groups", 34))
    assert unlike.startswith("These 12 groups are not like the held-out samples")
    assert unlike.endswith(".")


def test_corrected_test_labels_are_counted_by_what_became_of_them() -> None:
    """Of 24 samples, the last 13 are measured."""
    split = np.array(["train"] * 11 + ["test"] * 13)
    before = torch.tensor([2, 3, 4] * 8)
    after, keep = before.clone(), torch.ones(24, dtype=torch.bool)
    after[[11, 12, 13, 14]] = before[[12, 13, 14, 15]]  # four replaced
    after[[15, 16]] = torch.tensor([-1, 0])  # two taken away
    keep[[17, 18, 19]] = False  # three removed
    after[19] = -1
    after[0] = 3
    table = EmbeddingTable(torch.eye(24), before, split=split)
    done = Applied(after, keep, {}, "Done")
    said: list[str] = []
    result: Any = SimpleNamespace(with_notes=lambda notes, cautions: said.extend(notes))
    CorrectedLabels.of(done, table, "test").remark(result, as_before=True)
    assert said[0] == "Done"
    assert said[1].startswith("The classifiers of the run, of the raw samples and of the encoder before")
    assert said[2].startswith(
        "Of 13 test labels, 9 were corrected (4 replaced, 2 taken away, 3 removed). Only labels that"
    )
    said.clear()
    after[0] = before[0]
    CorrectedLabels.of(done, table, "test").remark(result, as_before=True)
    assert len(said) == 2, "no sample that was learned from was corrected"
    said.clear()
    whole = EmbeddingTable(torch.eye(24), before)
    CorrectedLabels.of(done, whole, "test").remark(result)
    assert said[1].startswith("Of 24 labels, 9 were corrected (")


def test_labels_that_were_corrected_before_training_are_counted_in_the_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of five samples three are tested, of which two were corrected."""

    class Chosen:
        def __init__(self, rows: list[int]) -> None:
            self.rows, self.nodes, self.read_labels = rows, torch.tensor(rows), None
            self.split = np.array(["test", "train", "test", "train", "test"])[rows]

        def subset(self, rows: list[int]) -> Chosen:
            return Chosen(rows)

        def __len__(self) -> int:
            return len(self.rows)

    asked: list[Any] = []
    counts = iter((2, 1, 0))
    rounds = SimpleNamespace(tables=["one"], corrected_in=lambda *given: asked.append(given) or next(counts))
    monkeypatch.setattr(corrected_labels.CorrectionRounds, "load", lambda files: rounds)
    monkeypatch.setattr(corrected_labels, "sample_ids", lambda source: source.rows)
    folder: Any = SimpleNamespace(correction_files=[])
    source: Any = Chosen([0, 1, 2, 3, 4])
    said = [corrected_labels.already_corrected(folder, source, "test") for _ in range(3)]
    assert asked[0][0] == [0, 2, 4]
    assert said[0] is not None
    assert said[1] is not None
    assert said[0].startswith("Of 3 test labels, 2 were corrected before the run was trained; samples that")
    assert said[1].startswith("Of 3 test labels, 1 was corrected before")
    assert said[2] is None
    rounds.tables = []
    assert corrected_labels.already_corrected(folder, source, "test") is None


def test_pictures_and_texts_are_those_of_the_instances() -> None:
    """Sources number their samples as they like; what is loaded goes by places."""
    source: Any = SimpleNamespace(
        instances=torch.tensor([30, 10, 20]),
        store=object(),
        texts=["c", "a", "b"],
        load=lambda places: torch.tensor([30, 10, 20])[places],
        read=lambda places: [["c", "a", "b"][place] for place in places],
    )
    shown = _samples_shown(source)
    assert shown["images"](torch.tensor([20, 30, 10])).tolist() == [20, 30, 10]
    assert shown["texts"](torch.tensor([20, 30])) == ["b", "c"]
    source.store = None
    assert list(_samples_shown(source)) == ["texts"]
    assert _samples_shown(None) == {}


def test_folds_are_judged_as_the_head_was_solved(tmp_path: Path) -> None:
    solver = SimpleNamespace(space={"tree": 0.25}, penalty=None, folds=7, num_fourier_features=12)
    solved: Any = SimpleNamespace(network=SimpleNamespace(objective=SimpleNamespace(solver=solver)))
    given = EvaluationSettings(protocols=("folds",), options={"folds": {"folds": 3}, "decisions": {"a": 1}})
    found = with_ridge_options(given, solved, ["train", "val"]).options
    assert found == {
        "decisions": {"a": 1},
        "folds": {"splits": ("train", "val"), "tree": 0.25, "penalty": 0.0, "folds": 3, "nonlinear": 12},
    }
    plain: Any = SimpleNamespace(network=SimpleNamespace(objective=SimpleNamespace(solver=None)))
    every = EvaluationSettings(protocols=("all",))
    assert with_ridge_options(every, plain, ["test"]).options == {"folds": {"splits": ("test",)}}
    other = EvaluationSettings(protocols=("decisions",))
    assert with_ridge_options(other, solved, ["test"]) is other
    split = np.array(["val", "train", "unseen", "", "test"])
    run: Any = SimpleNamespace(source=SimpleNamespace(split=split))

    def splits(given: list[str] | None) -> list[str]:
        folder: Any = SimpleNamespace(
            samples=SimpleNamespace(is_file=lambda: True),
            load_samples=lambda: SimpleNamespace(given_split=given),
        )
        return _splits_for_folds(folder, run)

    assert splits(None) == splits(["train", "test"]) == []
    assert splits(["train", "train"]) == ["test", "train", "val"]


def test_an_evaluation_on_another_taxonomy_replaces_none_on_a_third(tmp_path: Path) -> None:
    folder, other = RunFolder(tmp_path), SimpleNamespace(file="trees/new.json", digest="0123456789abcdef")

    def place(corrections: Any = None) -> str:
        return str(_folder_in(folder, other, corrections).relative_to(tmp_path))  # type: ignore[arg-type]

    assert _folder_in(folder, None, None) == tmp_path
    assert place() == "on-new"
    usual = RunFolder(tmp_path / "on-new")
    usual.path.mkdir()
    usual.metrics.write_text("{}")
    assert place() == "on-new-01234567", "nobody knows what that is on"
    usual.measured_on.write_text('{"digest": "0123456789abcdef"}')
    assert place() == "on-new"
    usual.measured_on.write_text('{"digest": "another"}')
    assert place() == "on-new-01234567"


def test_larger_pictures_are_proposed_where_the_files_are_larger() -> None:
    def said(side: int, shorter: int) -> list[str]:
        look = SimpleNamespace(width=shorter + 7, height=shorter, shorter=shorter)
        source = SimpleNamespace(nodes=torch.tensor([TREE.find("b")]), files=["a.png"], look=look)
        run: Any = SimpleNamespace(
            source=source, taxonomy=TREE, network=SimpleNamespace(image_shape=(3, side, side))
        )
        steps = steps_after_run(run, EvaluateOptions("runs/r/"), None)
        return [f"{step.command} # {step.purpose}" for step in steps[1:]]

    assert said(32, 48) == [
        "labeltree train --config runs/r/recipe.yaml --image_size 48 --out runs/r-48 "
        "# larger pictures: 55 × 48 pixels, of which 32 × 32 are seen"
    ]
    assert said(32, 47) == []
    assert "--image_size 64 " in said(32, 500)[0]
    assert "--image_size 224 " in said(128, 500)[0]
    assert "--image_size 96 " in said(64, 103)[0], "a multiple of eight"
    assert said(224, 5000) == []


def test_a_run_that_knows_no_split_is_refused_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where neither its data nor reference samples can be read."""
    run: Any = SimpleNamespace(
        folder=SimpleNamespace(extension=SimpleNamespace(is_file=lambda: False)),
    )

    def fail(*_: object) -> Any:
        raise DataError("the disk is gone")

    monkeypatch.setattr(other_data, "is_merged", lambda folder: False)
    monkeypatch.setattr(other_data, "OwnSamples", lambda path, progress: fail)
    monkeypatch.setattr(other_data, "load_reference", lambda run: None)
    with pytest.raises(Exception, match=r"to measure 'r' on other data, .* can be read: the disk is gone"):
        other_data._known_samples(run, "r", None)
    kept = EmbeddingTable(torch.eye(2), torch.tensor([2, 2]))
    monkeypatch.setattr(other_data, "load_reference", lambda run: kept)
    assert other_data._known_samples(run, "r", None) is kept
    splits = np.array(["train", "test", "val", "calib", "unseen"])
    own = EmbeddingTable(torch.eye(5), torch.tensor([2] * 5), split=splits)
    monkeypatch.setattr(other_data, "OwnSamples", lambda path, progress: lambda: own)
    known = other_data._known_samples(run, "r", None).split
    assert known is not None
    assert known.tolist() == ["train", "val", "calib"]

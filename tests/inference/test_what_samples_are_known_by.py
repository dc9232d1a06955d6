"""Which samples a model has seen, keeps and draws, and what of a batch it passes on, from small tables."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from labeltree.decisions import ClassNodes, DecisionRule, Promise
from labeltree.decisions.answers import Answers
from labeltree.decisions.calibration_check import CalibrationCheck
from labeltree.decisions.calibrators import Calibrator
from labeltree.decisions.choose_classifier import ChosenClassifier
from labeltree.decisions.classifiers import Classifiers
from labeltree.decisions.rule import Fitted
from labeltree.decisions.searched_space import SearchedSpace
from labeltree.errors import DataError, RunError
from labeltree.inference import decider as decider_module
from labeltree.inference import embed_run as embed_module
from labeltree.inference import named_samples, reference, run_classifiers
from labeltree.inference.bulk.bulk_samples import BulkSamples, _digest
from labeltree.inference.bulk.encode_samples import SampleEncoder
from labeltree.inference.by_name import zero_shot
from labeltree.inference.by_name.zero_shot import NameClassifier
from labeltree.inference.calibrate_run import _record_of
from labeltree.inference.decider import Decider
from labeltree.inference.embed_run import embed_run
from labeltree.inference.export.export_folder import _config, export_model
from labeltree.inference.named_samples import (
    NamedSamples,
    seen_in_calibrations,
    seen_in_extensions,
    seen_in_training,
)
from labeltree.models.name_space import NameSpace
from labeltree.options.answer_options import AnswerOptions, EmbedOptions
from labeltree.runs import EmbeddingTable
from labeltree.runs.sample_record import SampleRecord
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/x", "a/y", "b"])
X, Y, B = TREE.leaves.tolist()


def digests(contents: list[int]) -> np.ndarray[Any, Any]:
    return np.array(contents, np.uint8)[:, None, None].repeat(16, 2)


class Seven:
    """Samples without names."""

    def __len__(self) -> int:
        return 7

    def sample_names(self) -> list[str]:
        return [""] * 7

    def copy_digests(self) -> np.ndarray[Any, Any]:
        return digests([7, 1, 2, 3, 4, 5, 6])


def record_of(contents: list[int], splits: list[str]) -> SampleRecord:
    zeros = np.zeros(len(contents), np.int64)
    return SampleRecord(zeros, zeros, np.array(splits), digests=digests(contents)[:, 0])


def test_what_was_trained_validated_or_set_aside_has_been_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the run itself 1 to 3, and 5 by the one that it started from; 4 and 6 were tested, and 7 is new."""
    record_of([1, 2, 3, 4], ["train", "val", "calib", "test"]).save(tmp_path / "samples.npz")
    earlier = record_of([5, 6], ["train", "test"])
    monkeypatch.setattr(named_samples, "start_records", lambda recipe: [(recipe, earlier)])
    (tmp_path / "recipe").write_text("")
    home = SimpleNamespace(samples=tmp_path / "samples.npz", recipe=tmp_path / "recipe")
    run: Any = SimpleNamespace(folder=SimpleNamespace(home=home), recipe="recipe")
    source: Any = Seven()
    assert seen_in_training(run, source).tolist() == [False, True, True, True, False, True, False]
    home.recipe = tmp_path / "none"
    assert seen_in_training(run, source).tolist() == [False, True, True, True, False, False, False]


def test_extensions_up_to_the_one_that_answers_have_seen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The second of three answers: the third, which was begun from another state, tells nothing of it."""
    asked: list[list[Path]] = []
    monkeypatch.setattr(named_samples, "_have_contents", lambda source, files: asked.append(list(files)))
    (tmp_path / "there").write_text("")

    def folder(name: str, there: str) -> Any:
        place = tmp_path / name
        return SimpleNamespace(
            path=place, extension=tmp_path / there, reference=place / "r", calibration_samples=place / "c"
        )

    extensions = [folder(str(number), "there") for number in (1, 2, 3)]
    home = folder("run", "none")
    home.extensions = extensions
    extensions[1].home = home.home = home
    run: Any = SimpleNamespace(folder=extensions[1])
    source: Any = None
    seen_in_extensions(run, source)
    seen_in_calibrations(run, source)
    run.folder = home
    seen_in_extensions(run, source)
    seen_in_calibrations(run, source)
    told = [[str(file.relative_to(tmp_path)) for file in files] for files in asked]
    assert told == [["1/r", "2/r"], ["run/c", "1/c", "2/c", "2/c"], [], ["run/c", "run/c"]]


def run_with(folder: Path, **more: Any) -> Any:
    network = SimpleNamespace(objective=SimpleNamespace(geometry=SimpleNamespace(name="euclidean")))
    places = SimpleNamespace(reference=folder / "reference", calibration_samples=folder / "calibration")
    recipe = SimpleNamespace(curvature=-1.0)
    parts = {"base": None, "change": None, **more}
    return SimpleNamespace(
        weights_digest="00ff", folder=places, network=network, recipe=recipe, taxonomy=TREE, **parts
    )


def test_reference_samples_are_labelled_ones_of_three_splits_and_not_of_the_test(tmp_path: Path) -> None:
    split = np.array(["train", "val", "calib", "test", "train", "val", "calib"])
    nodes = torch.tensor([X, Y, B, X, -1, -1, -1])
    points = torch.arange(7.0)[:, None].expand(7, 2).contiguous()
    table = EmbeddingTable(points, nodes, split=split, groups=torch.tensor([9, -1, 4, 4, 9, 9, 9]))
    run = run_with(tmp_path)
    reference.keep_reference(run, table)
    kept = reference.load_reference(run)
    assert kept is not None
    assert kept.split is not None
    assert kept.embeddings[:, 0].tolist() == [0, 1, 2]
    assert kept.split.tolist() == ["train", "val", "calib"]
    assert kept.groups is not None
    assert kept.groups.tolist() == [2, -1, 1]
    given = np.arange(7 * 2 * 16, dtype=np.uint8).reshape(7, 2, 16)
    reference.keep_calibration(run, table, given)
    assert reference.kept_digests(tmp_path / "calibration") == {
        row.tobytes() for sample in given[:4] for row in sample if row.any()
    }, "those of labelled samples"
    theirs = reference.load_calibration(run)
    assert theirs is not None
    assert theirs.split is not None
    assert set(theirs.split) == {"val"}
    reference.keep_calibration(run, None)
    assert reference.load_calibration(run) is None


def test_an_export_keeps_no_order_and_samples_without_a_group_have_none(tmp_path: Path) -> None:
    """Sorted by split, label and embedding; the groups 8 and 5 are numbered anew in that order."""
    table = EmbeddingTable(
        torch.tensor([[3.0], [1.0], [2.0], [0.0]]),
        torch.tensor([Y, X, X, X]),
        split=np.array(["train", "val", "train", "train"]),
        groups=torch.tensor([5, 5, -1, 8]),
    )
    run = run_with(tmp_path)
    reference._save_unordered(run, table, tmp_path / "reference")
    kept = reference.load_reference(run)
    assert kept is not None
    assert kept.groups is not None
    assert kept.embeddings[:, 0].tolist() == [0, 2, 3, 1]
    assert kept.groups.tolist() == [0, -1, 1, 1]
    change = SimpleNamespace(to_new=lambda nodes: torch.where(nodes == Y, B, nodes))
    moved = run_with(tmp_path, change=change)
    reference._save_unordered(moved, table, tmp_path / "reference")
    there = reference.load_reference(run)
    assert there is not None
    assert there.nodes.tolist() == [X, X, B, X], "labels of the version that it answers on"


def test_reference_samples_of_a_later_version_or_another_taxonomy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_with(tmp_path)
    table = EmbeddingTable(torch.eye(2), torch.tensor([X, B]), split=np.array(["train", "calib"]))
    reference.save_reference(run, table, tmp_path / "reference")
    assert reference.load_reference(run) is not None, "version 2, as it has a sample of calib"
    monkeypatch.setattr(reference, "_VERSION", 1)
    with pytest.raises(RunError, match="later version"):
        reference.load_reference(run)
    monkeypatch.undo()
    run.taxonomy = SimpleNamespace(num_nodes=B + 1)
    assert reference.load_reference(run) is not None
    run.taxonomy = SimpleNamespace(num_nodes=B)
    with pytest.raises(RunError, match="a part is missing or damaged"):
        reference.load_reference(run)


def test_samples_with_several_labels_are_learned_and_choose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 1 has two labels, and row 4, of validation, too; row 5 has one above the leaves."""
    calls: dict[str, dict[str, Any]] = {}

    def fit(table: EmbeddingTable, taxonomy: Taxonomy, **named: Any) -> Classifiers:
        calls["fit"] = named
        return Classifiers({}, ChosenClassifier("probe"))

    def space(table: EmbeddingTable, taxonomy: Taxonomy, **named: Any) -> SearchedSpace:
        calls["space"] = named
        return SearchedSpace()

    monkeypatch.setattr(run_classifiers, "fit_classifiers", fit)
    monkeypatch.setattr(run_classifiers, "choose_space", space)
    a = int(TREE.find("a"))
    sets = torch.tensor([[X, -1], [X, Y], [B, -1], [X, -1], [X, Y], [a, -1], [-1, -1]])
    table = EmbeddingTable(
        torch.eye(7), torch.tensor([X, a, B, X, a, a, -1]), label_sets=sets,
        split=np.array(["train", "train", "train", "val", "val", "val", "train"]),
    )  # fmt: skip
    run: Any = SimpleNamespace(taxonomy=TREE)
    run_classifiers._learn(run, table, "probe", None)
    assert calls["fit"]["learned"].tolist() == [0, 1, 2, 3], "row 1 twice"
    assert calls["fit"]["held"].tolist() == [4], "the fourth row, after the repeated one"
    assert calls["fit"]["asked"] == "probe"
    assert all(torch.equal(calls["space"][name], calls["fit"][name]) for name in ("learned", "held"))


class Network:
    """Features and embeddings of numbers: infinite where these are 7 (features) or 8 (embeddings)."""

    modality, device = "vector", "cpu"
    image_shape = None

    def eval(self) -> Network:
        return self

    def plain(self, inputs: Tensor) -> Tensor:
        return inputs

    def __call__(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        features, embeddings = inputs.float().clone(), 2 * inputs.float()
        features[inputs == 7], embeddings[inputs == 8] = torch.inf, torch.nan
        return features, embeddings


def test_samples_of_a_batch_without_finite_numbers_have_a_problem() -> None:
    network: Any = Network()
    contents: list[Any] = [np.array([number, 1]) for number in (5, 7, 6, 8)]
    contents.insert(1, DataError("it is broken"))
    labels = [(name, node) for node, name in enumerate("abcde")]
    found = SampleEncoder(network).encode(["p", "q", "r", "s", "t"], contents, labels)
    assert list(found.problems) == [
        *(None, "it is broken", "its embedding is not finite"),
        *(None, "its embedding is not finite"),
    ]
    assert found.readable.tolist() == [True, False, False, True, False]
    assert found.features.tolist() == [[5, 1], [6, 1]]
    assert found.embeddings.tolist() == [[10, 2], [12, 2]]
    assert (list(found.labels), list(found.nodes)) == (list("abcde"), list(range(5)))


def test_a_folder_of_a_split_is_no_label_and_may_be_one() -> None:
    samples = BulkSamples.__new__(BulkSamples)
    samples.labelled, samples._folder = True, True
    tried: list[tuple[tuple[str, ...], ...]] = []

    def find(*tries: tuple[str, ...]) -> int:
        tried.append(tries)
        return -2 if tries[-1] == ("c",) else 3

    samples.__dict__["_finder"] = SimpleNamespace(find=find)
    for place, told in {
        "train/a/1.png": ("train/a", 3, False),
        "Validation/a/1.png": ("Validation/a", 3, False),
        "a/b/1.png": ("a/b", 3, False),
        "c/1.png": ("c", -1, True),
        "1.png": (None, -1, False),
    }.items():
        sample: Any = SimpleNamespace(name=place)
        assert samples.label(sample) == told
    assert tried == [(("train", "a"), ("a",)), (("Validation", "a"), ("a",)), (("a", "b"),), (("c",),)]


def test_a_file_of_another_size_or_time_is_another(tmp_path: Path) -> None:
    import os

    file, known = tmp_path / "a.csv", set()
    for text, time in (("one", 5), ("four", 5), ("one", 6)):
        file.write_text(text)
        os.utime(file, (time, time))
        known.add(_digest([str(file)]))
    assert len(known) == 3


def test_the_share_that_may_be_called_unknown_is_that_of_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def mark(answers: Answers, paths: object, fit: object, false_alarms: float) -> Answers:
        given.append(false_alarms)
        return answers

    monkeypatch.setattr(decider_module, "mark_unknown", mark)
    rule = DecisionRule(
        ClassNodes(TREE.leaves, TREE),
        Calibrator(),
        "child",
        Fitted(torch.zeros(30), TREE.leaves[[0] * 30]),
        {},
    )
    run: Any = SimpleNamespace(taxonomy=TREE)
    scores: Any = lambda table: torch.eye(3)  # noqa: E731
    decider = Decider(run, scores, rule, {"coarse_classes": [X]}, ChosenClassifier("probe"))
    monkeypatch.setattr(Decider, "novelty", SimpleNamespace(fit=lambda table, nodes: None))
    table = EmbeddingTable(torch.eye(3), torch.full((3,), -1))
    answers = decider.answer(table, AnswerOptions(unknown=0.01, top=2))
    assert given == [0.01]
    assert answers.guesses.shape == (3, 2)
    assert answers.cut.tolist() == [True, False, False], "x has finer classes on this version"


def test_the_record_of_a_calibration() -> None:
    check = CalibrationCheck("none", False, 3)
    rule = DecisionRule(
        ClassNodes(TREE.leaves, TREE),
        Calibrator(),
        "leaf",
        Fitted(torch.zeros(2), TREE.leaves[:2]),
        {},
        check,
    )
    run: Any = SimpleNamespace(weights_digest="00ff")
    table = EmbeddingTable(torch.eye(2), torch.tensor([X, Y]), split=np.array(["val", "calib"]))
    choices = {"calibration": "none", "descent": "leaf"}
    chosen = ChosenClassifier("lda")
    record = _record_of(rule, run, chosen, "validation samples", choices, table)
    told = {name: record[name] for name in ("encoder", "classifier", "calibrated_on", "choices", "set_aside")}
    assert told == {
        "encoder": "00ff",
        "classifier": "lda",
        "calibrated_on": "validation samples",
        "choices": choices,
        "set_aside": True,
    }
    assert "set_aside" not in _record_of(rule, run, chosen, "new.csv", choices, table)
    plain = table.rows(torch.tensor([0]))
    assert "set_aside" not in _record_of(rule, run, chosen, "validation samples", choices, plain)


def test_an_export_is_replaced_if_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"format": "labeltree export"}')
    unread: Any = None
    with pytest.raises(
        RunError, match="holds an exported model already; name another folder, or --replace it"
    ):
        export_model(unread, tmp_path, ["safetensors"])
    with pytest.raises(AttributeError):
        export_model(unread, tmp_path, ["safetensors"], replace=True)


def test_the_classes_of_an_export_are_those_that_answer() -> None:
    network = SimpleNamespace(image_shape=(3, 28, 32))
    recipe = SimpleNamespace(objective="ce", encoder="small-conv")
    run = SimpleNamespace(taxonomy=TREE, recipe=recipe, network=network)
    decider: Any = SimpleNamespace(
        run=run, rule=SimpleNamespace(classes=ClassNodes(torch.tensor([B, X]), TREE))
    )
    config = _config(decider, {}, ["onnx"])
    assert (config["num_labels"], config["image_size"], config["formats"]) == (2, 28, ["onnx"])
    assert config["id2label"] == {"0": "b", "1": "a/x"}
    assert config["label2id"] == {"b": 0, "a/x": 1}


def test_other_data_are_embedded_as_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: dict[str, Any] = {}

    def other(run: object, data: object, **named: Any) -> Any:
        calls["open"] = data, named
        taxonomy = SimpleNamespace(save=lambda file: None)
        return SimpleNamespace(files=None, names=None, taxonomy=taxonomy)

    def embed(network: object, source: object, **named: Any) -> EmbeddingTable:
        calls["embed"] = named
        return EmbeddingTable(torch.eye(2), torch.tensor([X, Y]))

    monkeypatch.setattr(embed_module, "open_other", other)
    monkeypatch.setattr(embed_module, "embed_source", embed)
    monkeypatch.setattr(embed_module, "with_modality", lambda source, modality: source)
    monkeypatch.setattr(
        embed_module, "load_run", lambda *given, **named: SimpleNamespace(network=None, weights_digest="00ff")
    )
    monkeypatch.setattr(EmbeddingTable, "save", lambda self, file, taxonomy=None: None)
    data, table = str(tmp_path / "new.csv"), {"sheet": "New"}
    options: dict[str, Any] = {"data_path": "place", "table": table, "out": str(tmp_path / "out.npz")}
    embed_run(EmbedOptions("run", data=data, unlabelled=True, modality="text", **options))
    asked = {"data_path": "place", "table": table, "unlabelled": True, "own_labels": False}
    assert calls["open"] == (data, asked)
    assert (calls["embed"]["answers"], calls["embed"]["modality"]) == (True, "text")
    done = embed_run(EmbedOptions("run", data=data, own_labels=True, **options))
    assert calls["open"] == (data, asked | {"unlabelled": False, "own_labels": True})
    assert (calls["embed"]["answers"], calls["embed"]["modality"]) == (False, "both")
    assert done.file == tmp_path / "out.npz"


def space_of(read: list[str], reads: Any = "text") -> NameSpace:
    def embed(texts: Any) -> Tensor:
        read.extend(texts)
        return torch.eye(8)[: len(texts), :4] + 0.5

    return NameSpace("enc", reads, 0.25, None, embed)


def test_names_are_read_in_the_template_that_is_given() -> None:
    read: list[str] = []
    NameClassifier.of(TREE, space_of(read), "see {name}")
    assert read[0] == "see x"
    read.clear()
    NameClassifier.of(TREE, space_of(read, "image"))
    of_images = list(read)
    read.clear()
    by_name = NameClassifier.of(TREE, space_of(read))
    assert read != of_images, "texts and images have templates of their own"
    assert "photo" in of_images[0]
    source: Any = SimpleNamespace(rows=torch.arange(2), texts=["s", "t"])
    vectors = by_name.space.embed_texts(["s", "t"]).double()
    torch.testing.assert_close(by_name.scores(source), 4 * vectors @ by_name.prototypes.T)


def test_answers_by_names_are_asked_as_the_options_say(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: dict[str, Any] = {}
    empty = torch.empty(0, 2)

    class Rule:
        fitted, counts = Fitted(torch.zeros(3), TREE.leaves), {"calibration samples": 3}

        def bars(self, promise: Promise) -> None:
            calls["bars"] = promise

        def answer(self, scores: Tensor, promise: Promise, *, top: int) -> Answers:
            calls["answer"] = promise, top
            return Answers(empty[:, 0].long(), empty[:, 0], empty[:, 0].bool(), empty.long(), empty)

    monkeypatch.setattr(zero_shot, "open_name_space", lambda name: space_of([]))
    monkeypatch.setattr(zero_shot, "_calibrated", lambda by_name, data: (Rule(), frozenset()))
    monkeypatch.setattr(zero_shot, "_samples", lambda *given: NamedSamples(["a"], None, {0: "broken"}))
    options: Any = SimpleNamespace(
        encoder="enc", template=None, calibrate="few.csv", coverage=0.75, top=7, labelled=False
    )
    done = zero_shot.answer_by_names(options, TREE)
    assert calls == {"bars": Promise(0.75), "answer": (Promise(0.75), 7)}
    assert done.asked == "coverage 0.75, conformal"
    assert done.classifier == "The names of 3 classes answer, as 'enc' reads them."
    assert "on 3 samples of 'few.csv'" in done.rests_on
    scores = torch.eye(3).double()
    guessed = zero_shot._guesses(scores, ClassNodes(TREE.leaves, TREE), 2)
    assert guessed.guesses.tolist() == [[X, Y], [Y, X], [B, X]]
    assert (guessed.nodes.tolist(), guessed.cut.tolist()) == ([0] * 3, [True] * 3)

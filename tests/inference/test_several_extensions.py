"""What a second and a third extension keep of the first, on a small run on vectors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import labeltree as lt
from labeltree.data import Source
from labeltree.data.vectors.mapped_vectors import VectorStore
from labeltree.errors import DataError, RunError
from labeltree.inference import extend
from labeltree.inference.extend import (
    _has_new_class,
    _held_out,
    _open,
    _reference,
    extend_run,
    extensions_of,
    undo_extension,
)
from labeltree.inference.named_samples import open_other, seen_in_extensions
from labeltree.inference.reference import load_reference
from labeltree.inference.training_samples import training_samples
from labeltree.options.model_options import ExtendOptions
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import Taxonomy

PATHS = ["a/x", "a/y", "b/z", "b/w", "a/new", "b/late", "b/last"]
RNG = np.random.default_rng(9)
CENTRES = 2.0 * RNG.normal(size=(len(PATHS), 7))


def vectors_of(classes: Sequence[int], seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return (CENTRES[list(classes)] + rng.normal(size=(len(classes), 7))).astype(np.float32)


def write(path: Path, vectors: np.ndarray[Any, Any], labels: Sequence[str]) -> Path:
    np.savez(path, vectors=vectors, labels=np.array(labels))
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that knows four classes, extended three times.

    The first adds three classes, with a sample of training under a new label, behind one without a label; the
    second retires one of them and one of training, and the third adds the former again.
    """
    home = tmp_path_factory.mktemp("several")
    old = np.repeat(range(4), 30)
    vectors = vectors_of(old, 1)
    write(home / "old.npz", vectors, [PATHS[each] for each in old])
    lt.train(home / "old.npz", "tree-ridge", out=home / "run", accelerator="cpu", progress_bar=False, val=0.3)
    record = RunFolder(home / "run").load_samples()
    trained = int(record.instances[np.asarray(record.split) == "train"][0])
    first = np.repeat([4, 5, 6], 12)
    new = np.concatenate([vectors_of([4], 3), vectors[trained : trained + 1], vectors_of(first, 2)])
    write(home / "first.npz", new, ["", PATHS[4], *(PATHS[each] for each in first)])
    given: list[dict[str, Any]] = []
    plain = extend._held_out

    def held_out(
        table: EmbeddingTable,
        seen: Tensor,
        learned: Tensor,
        taxonomy: Taxonomy,
        seed: int,
        *,
        set_aside: bool,
    ) -> EmbeddingTable:
        given.append({"seen": seen.tolist(), "seed": seed, "labelled": len(table)})
        return plain(table, seen, learned, taxonomy, seed, set_aside=set_aside)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extend, "_held_out", held_out)
        extend_run(home / "run", home / "first.npz", seed=7)
        extend_run(home / "run", retire=["a/new", "b/w"], classifier="prototypes")
        third = vectors_of([4] * 10 + [5] * 4, 4)
        write(home / "third.npz", third, ["a/new"] * 10 + ["b/late"] * 4)
        extend_run(home / "run", home / "third.npz")
    (home / "given.json").write_text(json.dumps(given))
    return home


def test_the_seed_and_what_was_seen_reach_the_draw(home: Path) -> None:
    """The sample of training is the first of those with a label."""
    assert json.loads((home / "given.json").read_text()) == [
        {"seen": [True, *[False] * 36], "seed": 7, "labelled": 37},
        {"seen": [False] * 14, "seed": 0, "labelled": 14},
    ]


def test_later_classes_are_those_of_all_extensions_that_answer(home: Path) -> None:
    later = []
    for extension in extensions_of(home / "run"):
        taxonomy = extension.folder.load_taxonomy()
        record = json.loads(extension.folder.decisions.read_text())
        later.append([taxonomy.path_name(node) for node in record["later_classes"]])
    assert later == [["a/new", "b/late", "b/last"], ["b/late", "b/last"], ["a/new", "b/late", "b/last"]]


def test_classes_that_answer_already_are_not_new(home: Path) -> None:
    first, second, third = extensions_of(home / "run")
    assert [(each["class"], each["new"]) for each in first.added] == [
        ("a/new", True), ("b/late", True), ("b/last", True)
    ]  # fmt: skip
    assert (second.added, second.retired) == ([], ["a/new", "b/w"])
    assert [(each["class"], each["new"]) for each in third.added] == [("a/new", True), ("b/late", False)]


def test_the_classifier_that_is_asked_for_answers(home: Path) -> None:
    chosen = []
    for extension in extensions_of(home / "run"):
        record = json.loads(extension.folder.decisions.read_text())
        chosen.append((record["classifier_choice"]["asked"], record["classifier"] == "prototypes"))
    assert chosen[1] == ("prototypes", True)
    assert [asked for asked, _ in chosen] == ["auto", "prototypes", "auto"]


def test_labelled_samples_of_an_extension_are_known_by_content(home: Path) -> None:
    run = lt.load(home / "run").run
    source = open_other(run, home / "first.npz", unlabelled=True)
    assert seen_in_extensions(run, source).tolist() == [False, *[True] * 37]


def test_samples_of_a_retired_class_are_not_those_of_its_return(home: Path) -> None:
    run = lt.load(home / "run").run
    learned = extensions_of(home / "run")[-1].added[0]["samples"]
    assert learned < 10
    for samples, count in ((training_samples(run), learned), (load_reference(run), 10)):
        assert samples is not None
        names = [run.taxonomy.path_name(node) for node in samples.nodes.tolist()]
        assert (names.count("b/w"), names.count("a/new")) == (0, count)


def test_the_newest_is_undone_first(home: Path) -> None:
    undone = undo_extension(home / "run")
    assert (undone.number, undone.record["data"]) == (3, str(home / "third.npz"))
    assert [each.number for each in extensions_of(home / "run")] == [1, 2]


TREE = Taxonomy.from_paths(["a/x", "a/y"])
X, Y = TREE.leaves.tolist()


def opened(
    monkeypatch: pytest.MonkeyPatch,
    kinds: tuple[list[int], list[int], list[int]],
    count: int = 12,
    **more: Any,
) -> tuple[Source, list[bool], list[str]]:
    """Open samples of which those rows are of training, of extensions and of calibration."""
    count = 12
    rows = torch.arange(count)
    nodes = torch.where(rows % 2 == 0, X, Y)
    store = VectorStore(np.eye(count, 3, dtype=np.float32), "new.csv")
    source = Source(
        "new.csv", TREE, nodes, rows, None, rows, vectors=store, names=[f"s{r}" for r in rows], **more
    )
    monkeypatch.setattr(extend, "open_other", lambda run, data, **options: source)
    finders = ("seen_in_training", "seen_in_extensions", "seen_in_calibrations")
    for name, which in zip(finders, kinds, strict=True):
        monkeypatch.setattr(extend, name, lambda run, source, which=which: np.isin(np.arange(count), which))
    monkeypatch.setattr(extend, "join_copies", lambda source: (source, ["two samples are equal"]))
    rule = SimpleNamespace(classes=SimpleNamespace(nodes=TREE.leaves))
    before: Any = SimpleNamespace(run=SimpleNamespace(taxonomy=TREE), rule=rule)
    found, seen, notes = _open(before, ExtendOptions("r", "new.csv"))
    return found, seen.tolist(), notes


UNDO = (
    "If their labels were corrected, undo those extensions first ('labeltree extend r --undo'), and extend "
    "the run again."
)


def test_each_seen_sample_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows 1 and 2 are of training and an extension, 2 and 4 of that and of the calibration."""
    found, seen, notes = opened(monkeypatch, ([0, 1, 2], [1, 2, 3, 4], [2, 4, 5, 6, 7, 8]))
    assert found.instances.tolist() == [9, 10, 11]
    assert seen == [False] * 3
    assert notes == [
        "3 samples that the run was trained on were left out.",
        "2 samples of earlier extensions were left out.",
        UNDO,
        "4 samples that the run was calibrated on were left out.",
        "Two samples are equal.",
    ]


def test_without_new_samples_it_is_said_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"^the run was trained on all labelled samples of 'new\.csv'; name"):
        opened(monkeypatch, (list(range(12)), [], []))
    with pytest.raises(DataError) as told:
        opened(monkeypatch, ([0], [1, 2, 3], list(range(12))))
    assert str(told.value) == (
        "no labelled sample of 'new.csv' is new to the run: 1 sample that the run was trained on and 3 "
        "samples of earlier extensions and 8 samples that the run was calibrated on; name samples that are "
        f"new to it. {UNDO}"
    )


def test_groups_of_copies_are_told_and_those_of_patients_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = torch.arange(12) // 2
    of_copies = opened(monkeypatch, ([], [], []), groups=groups)[2]
    of_patients = opened(monkeypatch, ([], [], []), groups=groups, columns={"groups": ("patient",)})[2]
    assert of_copies == ["Two samples are equal.", extend._COPIES]
    assert of_patients == ["Two samples are equal."]
    assert opened(monkeypatch, ([], [], []))[2] == ["Two samples are equal."]


def test_the_samples_beside_which_new_classes_are_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of training, and of those held out the ones that promises rest on."""
    split = np.array(["train", "val", "train"])
    own = EmbeddingTable(torch.eye(3), torch.tensor([X, Y, Y]), split=split)
    theirs = EmbeddingTable(2 * torch.eye(3)[:2], torch.tensor([Y, X]), split=np.array(["val", "val"]))
    stored: dict[str, Any] = {"own": own, "theirs": None}
    monkeypatch.setattr(extend, "load_reference", lambda run: stored["own"])
    monkeypatch.setattr(extend, "load_calibration", lambda run: stored["theirs"])
    monkeypatch.setattr(extend, "keep_reference", lambda run, table: own)
    monkeypatch.setattr(extend, "OwnSamples", lambda path: lambda: "own samples")
    home: Any = SimpleNamespace(path=Path("r"))

    def nodes(on: str, folder: str = "r") -> list[int]:
        run = SimpleNamespace(folder=SimpleNamespace(path=Path(folder)))
        before: Any = SimpleNamespace(run=run, record={"calibrated_on": on})
        return _reference(before, home).nodes.tolist()

    assert nodes("new.csv") == nodes("validation samples") == [X, Y, Y], "there are no others"
    stored["theirs"] = theirs
    assert nodes("new.csv") == [X, Y, Y, X]
    assert nodes("validation samples") == [X, Y, Y], "left by a calibration before"
    stored["own"] = None
    assert nodes("validation samples") == [X, Y, Y], "made from the data"
    with pytest.raises(RunError, match=r"^'e' keeps no reference samples, beside which new classes could be"):
        nodes("new.csv", "e")


def test_which_seen_samples_have_a_class_that_is_new() -> None:
    """Of training where the run's taxonomy lacks it, of others where it answers no more: y is retired."""
    both = Taxonomy.from_paths(["a/x", "a/y", "a/z"])
    x, y, z = both.leaves.tolist()
    source: Any = SimpleNamespace(taxonomy=both, nodes=torch.tensor([x, y, z, x, y, z, -1, z]))
    rule = SimpleNamespace(classes=SimpleNamespace(nodes=torch.tensor([X])))
    before: Any = SimpleNamespace(run=SimpleNamespace(taxonomy=TREE), rule=rule)
    trained = torch.tensor([True] * 3 + [False] * 5)
    seen = torch.tensor([True] * 7 + [False])
    found = _has_new_class(before, source, ExtendOptions("r", "new.csv"), trained, seen)
    assert found.nonzero()[:, 0].tolist() == [2, 4, 5]


def test_a_class_of_which_all_would_be_held_out_is_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    folds = torch.tensor([0] * 12 + [0, 1] * 6)
    monkeypatch.setattr(extend, "make_folds", lambda *given, **named: folds)
    table = EmbeddingTable(torch.eye(24), torch.tensor([X] * 12 + [Y] * 12))
    none = torch.zeros(24, dtype=torch.bool)
    found = _held_out(table, none, torch.tensor([X, Y]), TREE, 0, set_aside=False)
    assert np.asarray(found.split).tolist() == ["train"] * 12 + ["val", "train"] * 6

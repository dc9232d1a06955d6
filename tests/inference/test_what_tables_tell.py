"""What a run reads of another table, takes for seen, forgets and merges, each from a few rows by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from labeltree.data.column_roles import NO_COLUMN
from labeltree.decisions.answers import Answers
from labeltree.decisions.choose_classifier import ChosenClassifier
from labeltree.decisions.classifiers import Classifiers
from labeltree.decisions.searched_space import SearchedSpace
from labeltree.errors import DataError, RunError, TaxonomyError, UnknownLabelError
from labeltree.inference import forgetting, merging, run_classifiers
from labeltree.inference.answers.answered import Answered
from labeltree.inference.by_name.named_classes import read_names
from labeltree.inference.forgetting import Chosen, _names, _summary, group_names_of
from labeltree.inference.merging import _check_alike, _check_apart, _group_columns, _held_out
from labeltree.inference.named_samples import (
    _first_unknown,
    _role_of,
    _trained_columns,
    _without_unknown_labels,
    label_settings,
    seen_in_training,
)
from labeltree.inference.place_classes import path_in_tree
from labeltree.inference.predict import _table_by_unit
from labeltree.runs import EmbeddingTable
from labeltree.runs.sample_record import SampleRecord
from labeltree.taxonomy import Taxonomy
from labeltree.training.recipe import TableRecipe

TREE = Taxonomy.from_paths(["a/x", "a/y", "b"])
A, X, Y, B = (int(TREE.find(name)) for name in ("a", "a/x", "a/y", "b"))


def digests(contents: Sequence[int]) -> np.ndarray[Any, Any]:
    return np.array(contents, np.uint8)[:, None, None].repeat(16, 2)


class Samples(SimpleNamespace):
    """Samples with names and contents."""

    def __len__(self) -> int:
        return len(self.names)

    def sample_names(self) -> list[str]:
        return list(self.names)

    def copy_digests(self) -> np.ndarray[Any, Any]:
        return digests(self.contents)


@pytest.mark.parametrize(("name", "seen"), [("line", False), ("dog", True)])
def test_a_place_in_a_file_tells_no_sample_and_a_name_does(name: str, seen: bool, tmp_path: Path) -> None:
    """The content of the third one has changed."""
    names = [f"{name} {number}" for number in (1, 2, 3)]
    zeros = np.zeros(3, np.int64)
    split = np.array(["train"] * 3)
    record = SampleRecord(
        np.arange(3), zeros, split, names=names, digests=digests([1, 2, 3])[:, 0], given_split=split
    )
    record.save(tmp_path / "samples.npz")
    home = SimpleNamespace(samples=tmp_path / "samples.npz", recipe=tmp_path / "none")
    run: Any = SimpleNamespace(folder=SimpleNamespace(home=home))
    source: Any = Samples(names=[*names, "new"], contents=[1, 2, 8, 9])
    assert seen_in_training(run, source).tolist() == [True, True, seen, False]


def run_on(modality: str = "image", columns: dict[str, Any] | None = None, **table: Any) -> Any:
    encoder = SimpleNamespace(modality=modality)
    recipe = SimpleNamespace(table=TableRecipe(**table), missing_labels=None)
    return SimpleNamespace(
        recipe=recipe, columns=columns or {}, network=SimpleNamespace(modality=modality, encoder=encoder)
    )


def test_a_column_of_a_usual_name_that_was_something_else() -> None:
    run = run_on(columns={"labels": ("group", "id"), "groups": ("patient",), "split": ("split",)})
    assert _role_of(run, None, "group", ["group"]) == NO_COLUMN, "it was a label"
    assert _role_of(run, None, "split", ["split"]) is None
    assert _role_of(run, None, "patient", ["patient"]) is None
    assert _role_of(run, "who", "group", ["who", "group"]) == "who"
    assert _role_of(run, NO_COLUMN, "split", []) == NO_COLUMN
    assert _role_of(run, "who", "group", ["group"]) == NO_COLUMN, "the named one is not there"


def test_how_labels_of_another_table_are_read() -> None:
    """Nested columns that training found are read, if all are there; one is found as in training."""
    nested = {"labels": ("family", "genus")}
    assert label_settings(TableRecipe(), nested, ["genus", "family", "x"])["label_columns"] == [
        "family",
        "genus",
    ]
    assert "label_columns" not in label_settings(TableRecipe(), nested, ["family"])
    assert "label_columns" not in label_settings(TableRecipe(), {"labels": ("label",)}, ["label"])
    filled = TableRecipe(fill_down=["family", "genus"])
    assert label_settings(filled, {}, ["genus"])["fill_down"] == ["genus"]
    assert label_settings(filled, {}, ["x"])["fill_down"] is None
    given = label_settings(TableRecipe(label_columns=["k"]), nested, ["genus", "family"])
    assert given["label_columns"] == ["k"]


def test_columns_that_are_kept_with_samples_of_another_table() -> None:
    run = run_on(columns={"images": ("file",), "groups": ("patient",)}, keep_columns=["site", "age", "eye"])
    there = ["file", "patient", "site", "eye", "lesion"]
    found = _trained_columns(run, there, ["lesion", "site"], False)
    assert found["keep_columns"] == ["site", "eye", "lesion"]
    assert (found["image_column"], found["group_column"], found["aspect_columns"]) == (
        "file",
        "patient",
        None,
    )
    assert "label_columns" not in found
    bare = _trained_columns(run_on(), there, [], True)
    assert (bare["keep_columns"], bare["label_columns"], bare["evidence"]) == (None, [], None)
    rule = run_on(image_name="{id}.jpg", image_folder="photos")
    assert _trained_columns(rule, ["id"], [], False)["image_name"] == "{id}.jpg"
    gone = _trained_columns(rule, there, [], False)
    assert (gone["image_name"], gone["image_folder"]) == (None, None)


def test_labels_that_the_taxonomy_lacks(caplog: pytest.LogCaptureFixture) -> None:
    """Of 9 samples 4 have a label that it lacks, beside those that the run takes for missing."""
    asked: list[Any] = []
    lost = {"q": 3, "z": 1}

    def opened(**given: Any) -> Any:
        asked.append(given)
        return SimpleNamespace(missing_labels=lost, nodes=torch.tensor([X] * 4 + [-1] * 5))

    error = UnknownLabelError("unknown", [("a", "q"), ("z",), ("a", "q")])
    _without_unknown_labels(opened, ["?", "none"], TREE, error)
    assert asked == [{"missing_labels": ["?", "none", "q", "z"]}]
    assert caplog.messages == [
        "the taxonomy lacks the label of 4 samples: 'q' of 3 and 'z'. They count with the class above, "
        "if it is given, or as unlabelled"
    ]
    lost |= {"q": 4}
    with pytest.raises(TaxonomyError, match=r"^unknown; 'labeltree embed' takes them without labels"):
        _without_unknown_labels(opened, "?", TREE, error)
    assert asked[-1] == {"missing_labels": ["?", "q", "z"]}
    other = UnknownLabelError("unknown", [("B",)])
    _without_unknown_labels(opened, None, TREE, other)
    assert asked[-1] == {"missing_labels": [], "names": "plain"}
    assert caplog.messages[-1] == "labels are read without regard to case and blanks, such as 'B'"
    lost.clear()
    lost |= {"p1": 1}
    many = UnknownLabelError("unknown", [("p1",)])
    _without_unknown_labels(opened, None, TREE, many)
    assert "the label of 1 sample: 'p1'. It counts with" in caplog.messages[-1]
    lost["p1"] = 3
    _without_unknown_labels(opened, None, TREE, many)
    assert "the label of 3 samples: 'p1' of 3. They count with" in caplog.messages[-1]
    lost.clear()
    lost |= {f"p{number}": 0 for number in range(1, 6)} | {"p1": 1}
    _without_unknown_labels(opened, None, TREE, UnknownLabelError("unknown", [(name,) for name in lost]))
    assert "'p1', 'p2', 'p3', 'p4' and 'p5'. It" in caplog.messages[-1]
    lost.clear()
    lost |= {f"p{number}": 0 for number in range(1, 8)} | {"p3": 2}
    _without_unknown_labels(opened, None, TREE, UnknownLabelError("unknown", [(name,) for name in lost]))
    assert "'p1', 'p2', 'p3' of 2, 'p4', 'p5' and 2 more. They" in caplog.messages[-1]


def test_the_first_unknown_name_of_a_path() -> None:
    assert _first_unknown(("a", "q", "r"), TREE) == "q"
    assert _first_unknown(("q", "x"), TREE) == "q"
    assert _first_unknown(("a", "x", "r"), TREE) == "r"


def test_synonyms_of_named_classes(tmp_path: Path) -> None:
    file = tmp_path / "names.txt"
    file.write_text("a/hoopoe\t \tUpupa epops\t\n\n  \nb\n")
    assert read_names([str(file), "c/d"]) == {
        ("a", "hoopoe"): ("Upupa epops",), ("b",): (), ("c", "d"): ()
    }  # fmt: skip


def test_a_label_below_a_node_is_not_that_node() -> None:
    """'beast' is a further name of a, and 'ex' one of a/x."""
    tree = TREE.with_aliases([{"a": ["beast"], "x": ["ex"]}.get(name, []) for name in TREE.names])
    assert path_in_tree(("beast",), tree, under="a").path == ("a", "beast")
    assert path_in_tree(("ex",), tree, under="a").path == ("a", "x")
    assert path_in_tree(("ex",), tree, under="b").path == ("b", "ex")
    assert path_in_tree(("z",), tree, beside=["a/x"]).path == ("a", "z")
    assert path_in_tree(("z", "w"), tree, beside=["a/x"]).path == ("z", "w"), "of two names one is a branch"


@pytest.mark.parametrize(
    ("drift", "told"),
    [
        (SimpleNamespace(sentence=lambda: "No difference is found."), ["No difference is found."]),
        ("too few", ["not tested whether these samples are like those of training: too few"]),
        (None, []),
    ],
)
def test_what_the_test_for_drift_found_is_said(drift: Any, told: list[str]) -> None:
    one = torch.ones(1)
    guess = torch.tensor([[X]])
    answers = Answers(torch.tensor([X]), one.double(), one.bool(), guess, one[:, None].double())
    said: dict[str, Any] = {"classifier": "The probe.", "rests_on": "On 3."}
    done = Answered(["s"], answers, TREE, "coverage 0.9", drift=drift, **said)
    assert done.caveats() == ["On 3.", *told]
    assert done.caveats(full=True) == ["The probe.", "On 3.", *told]
    nothing = Answers(*(each[:0] for each in (answers.nodes, one, one.bool(), guess, one[:, None])))
    none = Answered([], nothing, TREE, "", **said)
    assert none.caveats() == [], "nothing is promised of no answer"


@pytest.mark.parametrize(("judged", "groups"), [([True, True], [5, 5]), ([True, False], None)])
def test_patients_that_share_a_picture_are_drawn_together_if_both_are_judged(
    judged: list[bool], groups: list[int] | None
) -> None:
    table = EmbeddingTable(
        torch.zeros(3, 2), torch.tensor([X, X, Y]), groups=torch.tensor([5, 5, 5]),
        group_names=np.array(["p", "q", "q"]),
    )  # fmt: skip
    found = _table_by_unit(
        table, torch.tensor([0, 1, 1]), "group", torch.tensor([X, Y]), torch.tensor(judged)
    )
    assert (None if found.groups is None else found.groups.tolist()) == groups


def test_names_of_groups_without_names(tmp_path: Path) -> None:
    """A sample without a group is in none, whose name is a number."""
    record = SimpleNamespace(groups=torch.tensor([4, -1, 7]))
    folder: Any = SimpleNamespace(load_samples=lambda: record, embeddings=lambda: tmp_path / "none")
    source: Any = SimpleNamespace(group_names=None, groups=torch.tensor([4, -1, 7]))
    names = group_names_of(folder, lambda: source)
    assert names is not None
    assert names.tolist() == ["4", "", "7"]
    record.groups = None
    assert group_names_of(folder, lambda: source) is None


def test_notes_that_name_a_sample_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole names alone: `dog-1` is not named where `dog-12` is."""
    fresh = {"splits": "new", "warnings": ["w"], "closing": "c", "name": "not taken"}
    notes = ["dog-1 is dark", "dog-12 is fine", "of cat and others", "nothing"]
    monkeypatch.setattr(forgetting, "summarize", lambda source: SimpleNamespace(to_dict=lambda: fresh))
    monkeypatch.setattr(
        forgetting, "read_json", lambda file, reader: {"splits": "old", "name": "kept", "notes": notes}
    )
    folder: Any = SimpleNamespace(data="data.json")
    source: Any = None
    chosen = Chosen(None, np.array([True]), frozenset(["dog-1", "cat"]))  # type: ignore[arg-type]
    assert _summary(folder, source, chosen) == {
        "splits": "new", "warnings": ["w"], "closing": "c", "name": "kept",
        "notes": ["dog-12 is fine", "nothing"],
    }  # fmt: skip
    assert _names("a (dog-1), b", "dog-1")
    assert not _names("adog-1", "dog-1")


def folder_of(name: str, contents: list[int] | None) -> Any:
    record = SimpleNamespace(copy_digests=None if contents is None else digests(contents))
    return SimpleNamespace(
        path=name, samples=SimpleNamespace(is_file=lambda: True), load_samples=lambda: record
    )


def test_a_run_without_digests_hides_no_shared_samples() -> None:
    with pytest.raises(DataError, match=r"^1 sample of 'c' is in 'a', too, and would count twice"):
        _check_apart([folder_of("a", [1, 2]), folder_of("x", None), folder_of("c", [2, 3])])
    with pytest.raises(DataError, match=r"^2 samples of 'c' are in 'a', too, and would count twice"):
        _check_apart([folder_of("a", [1, 2]), folder_of("c", [2, 1])])


@pytest.mark.parametrize("name", ["encoder", "pretrained", "pooling", "max_length"])
def test_runs_of_other_features_are_told_with_both_settings(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "solver_of", lambda run: None)

    def run(path: str, **changed: Any) -> Any:
        settings = {"encoder": "e", "pretrained": "p", "pooling": "mean", "max_length": 9} | changed
        network = SimpleNamespace(encoder=SimpleNamespace(without_adapter=None))
        folder = SimpleNamespace(path=path)
        return SimpleNamespace(recipe=SimpleNamespace(**settings), network=network, folder=folder)

    with pytest.raises(RunError) as told:
        _check_alike(run("r", **{name: "one"}), run("s", **{name: "two"}))
    assert (
        str(told.value) == f"the runs in 'r' and 's' have other features: {name} is one there, and two here"
    )


def test_held_out_samples_and_groups_of_merged_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of calib, too, with labels of the first run; what tells groups apart is left out."""
    table = EmbeddingTable(
        torch.eye(5), torch.tensor([X, Y, B, 0, -1]), features=torch.eye(5), groups=torch.arange(5),
        split=np.array(["train", "val", "calib", "val", "val"]), attributes={"eye": np.array(["l"] * 5)},
        group_names=np.array([""] * 5),
    )  # fmt: skip
    monkeypatch.setattr(merging, "load_reference", lambda run: table)
    run: Any = None
    held = _held_out(run, torch.arange(TREE.num_nodes) + 10)
    assert held is not None
    assert (held.nodes.tolist(), held.attributes, held.group_names) == ([Y + 10, B + 10], {}, None)
    monkeypatch.setattr(merging, "load_reference", lambda run: table.rows(torch.tensor([0])))
    assert _held_out(run, torch.arange(TREE.num_nodes)) is None

    def runs(*groups: Any) -> Any:
        return [SimpleNamespace(columns={} if each is None else {"groups": each}) for each in groups]

    assert _group_columns(runs(("p",), ("p",))) == ("p",)
    assert _group_columns(runs(("p",), ("q",))) is None
    assert _group_columns(runs(("p",), None)) is None


def test_at_most_so_many_training_samples_are_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Tensor] = []

    def fit(table: EmbeddingTable, taxonomy: Taxonomy, *, learned: Tensor, **named: Any) -> Classifiers:
        calls.append(learned)
        return Classifiers({}, ChosenClassifier("probe"))

    monkeypatch.setattr(run_classifiers, "fit_classifiers", fit)
    monkeypatch.setattr(run_classifiers, "choose_space", lambda *given, **named: SearchedSpace())
    nodes = TREE.leaves[torch.arange(24) % 3]
    table = EmbeddingTable(torch.eye(24), nodes, split=np.array(["train"] * 24))
    run: Any = SimpleNamespace(taxonomy=TREE)
    run_classifiers._learn(run, table, "probe", None)
    monkeypatch.setattr(run_classifiers, "MOST_LEARNED", 9)
    run_classifiers._learn(run, table, "probe", None)
    assert [len(each) for each in calls] == [24, 9]
    assert torch.bincount(nodes[calls[1]])[TREE.leaves].tolist() == [3, 3, 3], "evenly over the classes"

"""``labeltree extend`` on data whose labels are ids and synonyms of the run's taxonomy."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import labeltree as lt
from labeltree.errors import TaxonomyError
from labeltree.inference.extend import extension_text, undo_extension
from labeltree.inference.place_classes import extended_taxonomy, path_in_tree, warn_ids
from labeltree.runs import RunFolder
from labeltree.taxonomy import Taxonomy

DISEASES = Taxonomy.from_paths(
    ["infection/cholera", "infection/pertussis", "heart/arrhythmia", "heart/attack"]
)
FURTHER = {
    "cholera": ["XO:0020"],
    "pertussis": ["XO:0023", "whooping cough", "100/day cough"],
    "heart": ["XO:0005", "cardiac"],
    "arrhythmia": ["fit"],
    "attack": ["fit"],
}
TREE = DISEASES.with_aliases([FURTHER.get(name, []) for name in DISEASES.names])


@pytest.mark.parametrize(
    ("label", "under", "path"),
    [
        ("XO:0020", None, "infection/cholera"),
        ("whooping cough", None, "infection/pertussis"),
        ("100/day cough", None, "infection/pertussis"),
        ("cholera", None, "infection/cholera"),
        ("cardiac/angina", None, "heart/angina"),
        ("infection/mumps", None, "infection/mumps"),
        ("mumps", None, "mumps"),
        ("XO:0020", "infection", "infection/cholera"),
        ("XO:0020", "heart", "heart/XO:0020"),
        ("cholera", "heart", "heart/cholera"),
    ],
)
def test_where_a_label_goes(label: str, under: str | None, path: str) -> None:
    assert path_in_tree(tuple(label.split("/")), TREE, under).path == tuple(path.split("/"))


def test_a_further_name_of_several_is_refused() -> None:
    with pytest.raises(TaxonomyError, match="'fit' may begin at 'heart/arrhythmia' and 'heart/attack'"):
        path_in_tree(("fit",), TREE)


def test_an_extended_taxonomy_keeps_further_names() -> None:
    new, _ = extended_taxonomy(TREE, [("heart", "angina"), ("allergy",)])
    assert [new.path_name(new.find(name)) for name in ("XO:0020", "cardiac", "angina")] == [
        "infection/cholera",
        "heart",
        "heart/angina",
    ]
    assert set(new.aliases[new.find("allergy")]) == set()


def write(path: Path, labels: dict[str, int], seed: int) -> Path:
    rng = np.random.default_rng(seed)
    middles = 3 * np.random.default_rng(9).normal(size=(6, 8))
    kinds = np.repeat(list(labels.values()), 20)
    vectors = (middles[kinds] + rng.normal(size=(len(kinds), 8))).astype(np.float32)
    np.savez(path, vectors=vectors, labels=np.repeat(list(labels), 20))
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("diseases")
    TREE.save(folder / "tree.json")
    leaves = {TREE.path_name(node): place for place, node in enumerate(TREE.leaves.tolist())}
    return lt.train(
        write(folder / "old.npz", leaves, 1), "tree-ridge", taxonomy=folder / "tree.json",
        out=folder / "run", accelerator="cpu", progress_bar=False,
    ).path  # fmt: skip


@pytest.fixture
def run(trained: Path) -> Iterator[Path]:
    yield trained
    while RunFolder(trained).extensions:
        undo_extension(trained)


@pytest.mark.slow
def test_known_classes_by_id_and_synonym_are_no_new_ones(run: Path, tmp_path: Path) -> None:
    labels = {"XO:0020": 0, "XO:0023": 1, "whooping cough": 1, "cardiac/angina": 4}
    extension = lt.extend(run, write(tmp_path / "more.npz", labels, 2))
    assert {each["class"]: each["new"] for each in extension.added} == {
        "infection/cholera": False,
        "infection/pertussis": False,
        "heart/angina": True,
    }
    whys = {each["class"]: each["why"] for each in extension.added}
    assert whys["infection/cholera"] == "'XO:0020' is a further name of it"
    assert "'XO:0023' is" in whys["infection/pertussis"]
    assert "'whooping cough' is" in whys["infection/pertussis"]
    assert "below the root" not in extension_text(extension)
    again = lt.extend(run, write(tmp_path / "again.npz", labels, 3))  # the extension knows them, too
    assert not any(each["new"] for each in again.added)
    assert len(again.added) == 3


@pytest.mark.slow
def test_a_class_below_the_root_is_said(run: Path, tmp_path: Path) -> None:
    labels = {"XO:0099": 4, "mumps": 5, "heart/angina": 3}
    extension = lt.extend(run, write(tmp_path / "more.npz", labels, 2))
    (said,) = [note for note in extension.record["notes"] if "below the root" in note]
    assert said.startswith("'XO:0099' and 'mumps' are no names, ids or synonyms in the run's taxonomy")
    assert "give the full path" in said
    assert "--under" in said
    assert said in extension_text(extension)
    (ids,) = [note for note in extension.record["notes"] if "looks like an id" in note]
    assert ids.startswith("'XO:0099' looks like an id of the run's taxonomy, which has no such id")
    assert ids in extension_text(extension)


def test_ids_of_another_version_are_said() -> None:
    assert "'XO:0099' and 'XO:0098'" in warn_ids([("heart", "XO:0099"), ("XO:0098",), ("mumps",)], TREE)[0]
    assert warn_ids([("heart", "YO:0099"), ("mumps",), ("heart", "attack")], TREE) == []
    by_ids = Taxonomy.from_paths(["XO:0001/XO:0002"]).with_aliases([[], [], ["XO:0003"]])
    assert warn_ids([("XO:0001", "XO:0004")], by_ids) == [], "its nodes are named so"


def test_parts_of_a_class_go_below_the_parent_of_what_is_retired() -> None:
    tree = Taxonomy.from_paths(
        ["heart disease/angina", "heart disease/cardiomyopathy", "lung disease/asthma"]
    )
    retired = ["heart disease/cardiomyopathy"]
    placed = path_in_tree(("dilated cardiomyopathy",), tree, beside=retired)
    assert placed.path == ("heart disease", "dilated cardiomyopathy")
    assert "beside heart disease/cardiomyopathy" in str(placed)
    assert path_in_tree(("asthma",), tree, beside=retired).path == ("lung disease", "asthma")
    assert path_in_tree(("a", "b"), tree, beside=retired).path == ("a", "b")
    assert path_in_tree(("gout",), tree, under="/", beside=retired).path == ("gout",)
    assert path_in_tree(("gout",), tree, beside=[*retired, "asthma"]).path == ("gout",)
    assert path_in_tree(("gout",), tree, beside=["lung disease"]).path == ("gout",)

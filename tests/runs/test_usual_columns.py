"""Files of vectors as people write them: names of columns, and labels that are paths, without a taxonomy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from labeltree.cli.main import main
from labeltree.errors import DataError
from labeltree.runs import EmbeddingTable
from labeltree.runs.table_taxonomies import taxonomy_of_tables

LABELS = np.array(["animal/dog", "animal/cat", "plant/oak", "plant/elm"] * 12)


def _vectors(seed: int = 0) -> np.ndarray:
    classes = np.unique(LABELS, return_inverse=True)[1]
    return (np.eye(4)[classes] + np.random.default_rng(seed).normal(0, 0.3, (48, 4))).astype(np.float32)


@pytest.mark.parametrize(
    ("vectors", "labels"),
    [
        ("embeddings", "labels"),
        ("vectors", "label"),
        ("features", "label"),
        ("X", "y"),
        ("x", "targets"),
        ("pixels", "class"),
        ("arr_0", "classes"),
    ],
)
def test_vectors_and_labels_are_known_by_their_usual_names(tmp_path: Path, vectors: str, labels: str) -> None:
    file = tmp_path / "table.npz"
    np.savez(file, **{vectors: _vectors(), labels: LABELS, "patient": np.arange(48)})
    taxonomy = taxonomy_of_tables(file)
    table = EmbeddingTable.load(file, taxonomy)
    assert table.embeddings.shape == (48, 4)
    assert table.features is None
    assert [taxonomy.path_name(node) for node in table.nodes[:4].tolist()] == LABELS[:4].tolist()
    assert list(table.attributes) == ["patient"]


def test_embeddings_come_before_other_arrays(tmp_path: Path) -> None:
    file = tmp_path / "table.npz"
    np.savez(file, embeddings=_vectors()[:, :2], features=_vectors(), labels=LABELS)
    table = EmbeddingTable.load(file, taxonomy_of_tables(file))
    assert table.embeddings.shape == (48, 2)
    assert table.vectors.shape == (48, 4)


def test_of_several_arrays_without_a_usual_name_none_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "table.npz"
    np.savez(file, one=_vectors(), two=_vectors(), labels=LABELS)
    with pytest.raises(DataError, match="has no column 'embeddings'; it has 'one'"):
        EmbeddingTable.load(file, taxonomy_of_tables(file))


def test_the_tree_of_labels_reads_breadcrumbs(tmp_path: Path) -> None:
    file = tmp_path / "table.npz"
    crumbs = np.array([label.replace("/", " > pets > ") for label in LABELS.tolist()])
    np.savez(file, vectors=_vectors(), label=crumbs)
    taxonomy = taxonomy_of_tables(file)
    assert taxonomy.max_depth == 3
    assert int(EmbeddingTable.load(file, taxonomy).nodes.min()) > 0


def test_numbers_of_nodes_need_their_taxonomy(tmp_path: Path) -> None:
    np.savez(tmp_path / "table.npz", vectors=_vectors(), nodes=np.arange(48) % 4)
    with pytest.raises(DataError, match="--taxonomy FILE says what its numbers of nodes mean"):
        taxonomy_of_tables(tmp_path / "table.npz")


def test_evaluate_compare_and_suspects_take_the_file_that_train_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("first", "other")):
        np.savez(f"{name}.npz", vectors=_vectors(seed), label=LABELS)
    assert main(["evaluate", "first.npz", "--full"]) == 0
    said = capsys.readouterr().out
    assert "labeltree suspects --embeddings first.npz" in said
    notes = json.loads(Path("first/metrics.json").read_text())["notes"]
    assert any("the tree of the labels" in note for note in notes)
    assert main(["compare", "first.npz", "other.npz", "--resamples", "99", "--permutations", "99"]) == 0
    assert main(["suspects", "first.npz"]) == 0
    assert "labels" in capsys.readouterr().out


def test_names_without_paths_are_said_to_be_flat(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = np.array([label.rpartition("/")[2] for label in LABELS.tolist()])
    np.savez(tmp_path / "table.npz", X=_vectors(), y=names)
    assert main(["evaluate", str(tmp_path / "table.npz")]) == 0
    assert "no class is nearer than another" in capsys.readouterr().out.replace("\n", " ")

"""Aspects in the embeddings table: kept by every operation, saved with their taxonomies, checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from labeltree.errors import DataError
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

MOOD = Taxonomy.from_paths(["schlecht/1", "gut/4", "gut/5"], root_name="Größe")
PLACE = Taxonomy.from_paths(["eu/fr", "us"])
COLUMNS: dict[str, Any] = {
    "embeddings": torch.eye(4),
    "nodes": torch.tensor([1, -1, 2, 1]),
    "split": np.array(["train", "test", "train", "test"]),
    "aspects": torch.tensor([[1, 2], [-1, 3], [4, -1], [5, 1]]),
    "aspect_taxonomies": (MOOD, PLACE),
}


@pytest.fixture
def table() -> EmbeddingTable:
    return EmbeddingTable(**COLUMNS, aspect_predictions=torch.tensor([[1, 2], [3, -1], [0, 1], [5, 3]]))


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_round_trip(suffix: str, table: EmbeddingTable, tmp_path: Path) -> None:
    table.save(tmp_path / f"t{suffix}")
    again = EmbeddingTable.load(tmp_path / f"t{suffix}")
    assert again.aspects is not None
    assert again.aspect_predictions is not None
    assert torch.equal(again.aspects, table.aspects)  # type: ignore[arg-type]
    assert torch.equal(again.aspect_predictions, table.aspect_predictions)  # type: ignore[arg-type]
    assert again.aspects.dtype == torch.int64
    assert again.aspect_taxonomies == (MOOD, PLACE)
    assert again.aspect_names == ("Größe", "aspect 2")


def test_rows_keep_them_and_one_aspect_is_a_table(table: EmbeddingTable) -> None:
    test = table.select("test")
    assert test.aspects is not None
    assert test.aspects.tolist() == [[-1, 3], [5, 1]]
    assert test.aspect_names == table.aspect_names
    place = test.aspect(1)
    assert place.nodes.tolist() == [3, 1]
    assert place.predictions is not None
    assert place.predictions.tolist() == [-1, 3]
    assert place.aspects is None
    assert place.aspect_names == ()
    assert EmbeddingTable(**COLUMNS).aspect(0).predictions is None
    with pytest.raises(DataError, match="no aspect 2: the table has 2"):
        table.aspect(2)


def test_names() -> None:
    assert EmbeddingTable(**COLUMNS, aspect_names=("a", "b")).aspect_names == ("a", "b")
    twice = COLUMNS | {"aspect_taxonomies": (MOOD, MOOD)}
    assert EmbeddingTable(**twice).aspect_names == ("aspect 1", "aspect 2")
    with pytest.raises(DataError, match="aspect_names must be one an aspect, all different"):
        EmbeddingTable(**COLUMNS, aspect_names=("a", "a"))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"aspect_taxonomies": ()}, "has aspects but no aspect_taxonomies"),
        ({"aspects": None}, "aspect_taxonomies or aspect_predictions but no aspects"),
        ({"aspects": torch.zeros(4, dtype=torch.int64)}, r"of shape \(4, 2\).*got int64 \(4,\)"),
        ({"aspects": torch.zeros(4, 2)}, r"must be integers.*got float32 \(4, 2\)"),
        ({"aspects": torch.zeros(3, 2, dtype=torch.int64)}, "4 embeddings but 3 aspects"),
        ({"aspects": torch.full((4, 2), 4)}, r"aspects\[:, 1\] run from 4 to 4, .* 0 to 3"),
        ({"aspect_predictions": torch.full((4, 2), -2)}, r"aspect_predictions\[:, 0\] run from -2"),
    ],
)
def test_what_is_wrong_is_named(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        EmbeddingTable(**COLUMNS | columns)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"aspects": [[1], [1]]}, "has aspects but no aspect_taxonomies"),
        ({"aspects": [1, 1]}, r"must be integers, \(n, A\)"),
        ({"aspects": [[1], [1]], "aspect_taxonomies": "{"}, "'aspect_taxonomies' in .* cannot be read"),
        (
            {"aspects": [[1], [1]], "aspect_taxonomies": '[{"name": "a"}]'},
            "cannot be read: it must list objects with name",
        ),
    ],
)
def test_files_of_others(columns: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    np.savez(path, embeddings=np.eye(2), nodes=[1, 1], **{k: np.asarray(v) for k, v in columns.items()})
    with pytest.raises(DataError, match=message):
        EmbeddingTable.load(path)

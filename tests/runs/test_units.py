"""Samples that are judged together: groups, and attributes within groups."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from labeltree.errors import DataError
from labeltree.runs import EmbeddingTable


def make(**columns: object) -> EmbeddingTable:
    return EmbeddingTable(torch.eye(6), torch.zeros(6, dtype=torch.int64), **columns)  # type: ignore[arg-type]


def together(units: torch.Tensor) -> list[list[int]]:
    """The rows of each unit, in order of their first rows; a row by itself is left out."""
    found: dict[int, list[int]] = {}
    for row, unit in enumerate(units.tolist()):
        if unit >= 0:
            found.setdefault(unit, []).append(row)
    return [rows for rows in found.values() if len(rows) > 1]


LESION = {"lesion": np.array(["1", "1", "2", "1", "2", ""])}


def test_lesion_1_of_one_patient_is_not_that_of_another() -> None:
    table = make(groups=torch.tensor([7, 7, 7, 3, 3, 3]), attributes=LESION)
    assert together(table.units("lesion")) == [[0, 1]]
    assert table.units("lesion")[5] == -1
    assert table.units("group").tolist() == [7, 7, 7, 3, 3, 3]
    named = make(
        groups=torch.tensor([0, 0, 0, -1, 1, 1]),  # the patient's only other image is a copy of none
        group_names=np.array(["a", "a", "a", "b", "", ""]),
        attributes=LESION,
    )
    assert together(named.units("lesion")) == [[0, 1]]


def test_patients_who_share_a_file_are_one_group_and_two_cases() -> None:
    table = make(
        groups=torch.tensor([0, 0, 0, 0, 1, 1]),  # a file of p is one of q
        group_names=np.array(["p", "p", "q", "q", "", ""]),
    )
    assert together(table.units("group")) == [[0, 1], [2, 3], [4, 5]]
    alone = make(groups=torch.tensor([0, 0, -1, -1, -1, 0]), group_names=np.array(["p", "p", "", "", "", ""]))
    assert together(alone.units("group")) == [[0, 1]]


def test_without_groups_values_are_units() -> None:
    assert together(make(attributes=LESION).units("lesion")) == [[0, 1, 3], [2, 4]]
    copies = make(groups=torch.tensor([0, -1, -1, 0, -1, -1]), group_names=np.full(6, ""), attributes=LESION)
    assert together(copies.units("lesion")) == [[0, 1, 3], [2, 4]]  # groups without names are copies


def test_units_above_the_groups_are_refused_where_training_may_have_seen_them() -> None:
    site = {"site": np.array(["g", "g", "g", "g", "w", "w"])}
    table = make(groups=torch.tensor([0, 0, 1, 1, 2, 2]), attributes=site)
    assert together(table.units("site")) == [[0, 1], [2, 3], [4, 5]]  # new samples
    with pytest.raises(DataError, match=r"every group lies within one 'site'.*--table.group_column site"):
        replace(table, split=np.array(["train"] * 2 + ["test"] * 4)).units("site")
    with pytest.raises(DataError, match=r"no attribute 'lesion'; it has site. Name columns"):
        table.units("lesion")
    with pytest.raises(DataError, match="has no groups to judge by"):
        make().units("group")


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_attributes_are_saved_and_those_of_strangers_read(tmp_path: Path, suffix: str) -> None:
    table = make(groups=torch.tensor([7, 7, 7, 3, 3, 3]), attributes=LESION)
    table.save(tmp_path / f"table{suffix}")
    found = EmbeddingTable.load(tmp_path / f"table{suffix}")
    assert found.attributes["lesion"].tolist() == LESION["lesion"].tolist()
    assert found.rows(torch.tensor([4, 0])).attributes["lesion"].tolist() == ["2", "1"]
    with pytest.raises(DataError, match="'split' has a meaning of its own"):
        make(attributes={"split": np.full(6, "a")})
    with pytest.raises(DataError, match="6 embeddings but 2 entries in 'site'"):
        make(attributes={"site": np.full(2, "a")})
    age = {
        "embeddings": np.eye(6),
        "node": np.zeros(6, int),
        "age": np.arange(6) + 0.5,
        "note": np.zeros((6, 2)),
    }
    np.savez(tmp_path / "theirs.npz", **age)
    assert set(EmbeddingTable.load(tmp_path / "theirs.npz").attributes) == {"age"}

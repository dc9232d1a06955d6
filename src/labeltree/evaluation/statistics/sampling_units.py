"""Which rows of embeddings are one unit: samples that occur several times, and samples of one group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labeltree.data.copies import connected_groups
from labeltree.metrics.search.ranking import repeated_rows
from labeltree.runs import EmbeddingTable

__all__ = ["SharedUnits", "group_equal_rows", "join_groups", "share_units"]

_Name = tuple[str | int, int]


def group_equal_rows(table: EmbeddingTable, split: str) -> tuple[EmbeddingTable, str]:
    """The table with its equal rows in one group each, joined with its groups, and a sentence about them.

    Rows are equal if their embeddings are, and their features where the table has some. The sentence is empty
    without equal rows. If fewer than half of the rows are different, the groups stay: such embeddings have
    collapsed, rather than that samples occur twice.

    Args:
        table: The table.
        split: That is measured, where the table has splits.
    """
    equal = repeated_rows(table.embeddings)
    if equal is None:
        return table, ""
    repeated, first = equal
    if table.features is not None:
        alike = (table.features[repeated] == table.features[first]).all(dim=1)
        repeated, first = repeated[alike], first[alike]
    if not len(repeated):
        return table, ""
    rows, different = len(table), len(table) - len(repeated)
    told = f"{rows:,} rows, {different:,} different"
    if 2 * different < rows:
        return table, f"{told}: the embeddings have collapsed, or samples occur many times"
    same = np.full(rows, -1)
    same[repeated.numpy()] = same[first.numpy()] = first.numpy()
    groups = connected_groups(same, *([] if table.groups is None else [table.groups.numpy()]))
    assert groups is not None
    told += ": equal rows are one group, whose rows are drawn together and are not results of each other"
    if table.split is not None:
        mine = np.asarray(table.split) == split
        others = np.isin(same, same[(same >= 0) & (np.asarray(table.split) == "train")])
        torn = int((mine & others & (same >= 0)).sum()) if split != "train" else 0
        if torn:
            told += (
                f". {torn:,} of {int(mine.sum()):,} rows of {split} equal a training row: what is right for "
                "them says little about new samples"
            )
    return replace(table, groups=torch.from_numpy(groups)), told


@dataclass(frozen=True)
class SharedUnits:
    """The groups of samples that several tables have in common, as `share_units` joins them.

    Attributes:
        by_ids: Whether samples are told by their ids; else by their numbers, or their rows.
        places: Sample → its number.
        groups: `(n,)` group of each sample, −1 for a sample of its own; None if no table has groups.
        notes: Sentences on equal rows.
    """

    by_ids: bool
    places: dict[_Name, int]
    groups: NDArray[Any] | None
    notes: tuple[str, ...]

    def put_into(self, table: EmbeddingTable) -> EmbeddingTable:
        """One of the tables, with these groups."""
        if self.groups is None:
            return table
        rows = [self.places[name] for name in _name_rows(table, by_ids=self.by_ids)]
        return replace(table, groups=torch.from_numpy(self.groups[rows]))


def share_units(tables: Iterable[tuple[str, EmbeddingTable]], split: str) -> SharedUnits:
    """Join the groups of several tables of the same samples, equal rows of each among them.

    Samples that one table has in one group are in one group of all: whatever another encoder makes of a copy,
    it is no further sample. So all are divided, searched and drawn alike.

    Args:
        tables: Names and tables, one of which is held at a time.
        split: That is measured.
    """
    notes: dict[str, list[str]] = {}
    columns: list[tuple[list[_Name], list[_Name] | None, NDArray[Any] | None]] = []
    for name, table in tables:
        grouped, told = group_equal_rows(table, split)
        if told:
            notes.setdefault(told, []).append(f"'{name}'")
        named = None if table.ids is None else _name_rows(table, by_ids=True)
        groups = None if grouped.groups is None else grouped.groups.numpy()
        columns.append((_name_rows(table, by_ids=False), named, groups))
    by_ids = all(named is not None for _, named, _ in columns)
    rows = [named if by_ids and named is not None else numbered for numbered, named, _ in columns]
    places: dict[_Name, int] = {}
    for names in rows:
        for each in names:
            places.setdefault(each, len(places))
    keys = []
    for names, (_, _, groups) in zip(rows, columns, strict=True):
        if groups is not None:
            keys.append(np.full(len(places), -1))
            keys[-1][[places[each] for each in names]] = groups
    said = tuple(f"{' and '.join(names)}: {told}." for told, names in notes.items())
    return SharedUnits(by_ids, places, join_groups(keys), said)


def join_groups(groups: list[NDArray[Any]]) -> NDArray[Any] | None:
    """Groups `(n,)` of samples that are in one group in any of several groupings, −1 for a sample of its own.

    None without a grouping; as they are if all are equal.
    """
    if not groups or all(np.array_equal(groups[0], each) for each in groups[1:]):
        return groups[0] if groups else None
    joined = connected_groups(*groups)
    return np.full(len(groups[0]), -1) if joined is None else joined


def _name_rows(table: EmbeddingTable, *, by_ids: bool) -> list[_Name]:
    """The rows as (id or number of the sample, number of earlier rows with it)."""
    names: list[str] | list[int] = list(range(len(table)))
    if by_ids:
        assert table.ids is not None
        names = [str(each) for each in table.ids.tolist()]
    elif table.instances is not None:
        names = table.instances.tolist()
    seen: dict[str | int, int] = {}
    rows: list[_Name] = []
    for name in names:
        rows.append((name, seen.get(name, 0)))
        seen[name] = rows[-1][1] + 1
    return rows

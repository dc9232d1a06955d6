"""Names that samples of tables had before 0.1.0: `row 7` for the seventh below the header."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from labeltree.data.source import Source

__all__ = ["former_names", "is_place", "name_as_before", "name_by_rows", "read_place"]

_PLACE = re.compile(r"(?:line|row) (\d+)(?: of the sheet)?")


def is_place(name: str) -> bool:
    """Whether a name says where a row stands in a table, and nothing else."""
    return _PLACE.fullmatch(name) is not None


def read_place(name: str) -> str | None:
    """The number of a row of a table or a shard, if a name says where it stands, and nothing else."""
    match = _PLACE.fullmatch(name.rpartition("/")[2])
    return None if match is None else match[1]


def former_names(source: Source) -> list[str]:
    """What the samples of a source were called before 0.1.0; equal to their names where these stayed."""
    names = source.sample_names()
    if source.table_rows is None:
        return names
    rows = source.table_rows.find(source.instances.numpy()).tolist()
    return [f"row {row + 1}" if is_place(name) else name for name, row in zip(names, rows, strict=True)]


def name_as_before(source: Source, known: Sequence[str]) -> Source:
    """The source with the former names of its samples, if more of those than of its names are known."""
    names, former = source.sample_names(), former_names(source)
    there = set(known)
    if source.names is None or sum(map(there.__contains__, former)) <= sum(map(there.__contains__, names)):
        return source
    changed = list(source.names)
    for row, name in zip(source.rows.tolist(), former, strict=True):
        changed[row] = name
    return dataclasses.replace(source, names=changed)


def name_by_rows(source: Source, known: Mapping[int, str]) -> Source:
    """The source with the places that rows had before lines above them came or went.

    Args:
        source: The samples.
        known: Instance → the name that it had.
    """
    if source.names is None:
        return source
    changed = list(source.names)
    ids = zip(source.rows.tolist(), source.instances.tolist(), source.sample_names(), strict=True)
    for row, instance, name in ids:
        before = known.get(instance, name)
        if is_place(name) and is_place(before):
            changed[row] = before
    return dataclasses.replace(source, names=changed)

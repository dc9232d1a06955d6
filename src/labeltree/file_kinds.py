"""What a file may hold, by its name: a table, vectors, shards."""

from __future__ import annotations

import difflib
from pathlib import Path

from labeltree.text_files import split_packed

__all__ = [
    "PARQUET",
    "RECORDS",
    "SHEETS",
    "TABLE_SUFFIXES",
    "TEXTS",
    "VECTOR_SUFFIXES",
    "is_data_file",
    "is_table_file",
    "is_vector_file",
    "near_path",
]

PARQUET = (".parquet", ".pq")
TEXTS = (".csv", ".tsv", ".tab", ".psv", ".txt")
RECORDS = (".jsonl", ".ndjson", ".json")
SHEETS = (".xlsx", ".xlsm")
TABLE_SUFFIXES = (*TEXTS, *RECORDS, *SHEETS, *PARQUET, ".zip")
"""The suffixes of tables; `.gz`, `.bz2`, `.xz` or `.zst` may follow those of text and JSON."""
VECTOR_SUFFIXES = (".npz", ".npy", ".h5ad", ".h5", ".hdf5", ".pt", ".pth")


def is_table_file(path: str | Path) -> bool:
    """Whether a file may be a table, by its name."""
    kind, packing = split_packed(path)
    return kind in TABLE_SUFFIXES and (not packing or kind in (*TEXTS, *RECORDS))


def is_vector_file(path: str | Path) -> bool:
    """Whether a file may hold vectors, by its name."""
    suffix = Path(path).suffix.lower()
    return suffix in VECTOR_SUFFIXES or (is_table_file(path) and suffix not in (".txt", ".json"))


def is_data_file(path: str | Path) -> bool:
    """Whether a file may hold many samples, by its name: a table, vectors, or a shard."""
    return is_vector_file(path) or is_table_file(path) or Path(path).suffix.lower() == ".tar"


def near_path(path: str | Path) -> str | None:
    """The file or folder beside a missing one whose name is nearly the same; None if there is none."""
    path = Path(path)
    try:
        names = [each.name for each in path.parent.iterdir()] if path.name else []
    except OSError:
        return None
    near = difflib.get_close_matches(path.name, names, 1, 0.7)
    return str(path.parent / near[0]) if near else None

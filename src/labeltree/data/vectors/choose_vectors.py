"""Find the vectors of a table: an array, a column of lists, or many columns of numbers."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labeltree.data.table_columns import DataTable
from labeltree.data.vectors.mapped_vectors import VectorStore
from labeltree.data.vectors.read_vector_files import VectorTable
from labeltree.errors import DataError
from labeltree.taxonomy.column_names import VECTORS, numbered_columns

__all__ = ["TableVectors", "count_measured", "find_vectors", "usual_id_column"]

Array = np.ndarray[Any, Any]
_IDS = ("id", "ids")
_NOT_MEASURED = (
    *("index", "unnamed: 0", "", "row", "instances", "nodes", "predictions"),
    *("sku", "ean", "gtin", "upc", "isbn", "asin", "plu", "barcode", "zip", "zip code", "postcode"),
)
_LISTED = 8


@dataclass(frozen=True)
class TableVectors:
    """The vectors of a table.

    Attributes:
        store: A vector for each row of the table.
        columns: The columns that they were read from.
        notes: Sentences about what else could have been read.
    """

    store: VectorStore
    columns: tuple[str, ...]
    notes: tuple[str, ...] = ()


def usual_id_column(table: DataTable, named: Collection[str] = ()) -> str | None:
    """The column of ids that is known by its name, and not `named` for something else; None if none is."""
    return table.usual(_IDS, named)


def find_vectors(
    table: DataTable, chosen: Sequence[str] | str | None, others: Collection[str] = ()
) -> TableVectors | None:
    """The vectors of a table: those that are named, or else those that it has; None if it has none.

    Args:
        table: The table.
        chosen: Name of an array or of a column of lists; or names of columns of numbers, of which `*`
            stands for any text: `f_*`. None = the only array or column of lists, or that with a usual name,
            or the columns of numbers: of `f0`, `f1` … and a few others those whose names differ in a number.
        others: Columns with another purpose, which are not part of a vector unless they are named.

    Raises:
        DataError: If nothing has the name, several arrays could be meant, or a column holds no numbers.
    """
    names = [chosen] if isinstance(chosen, str) else list(chosen or ())
    whole = _whole(table)
    if len(names) == 1 and (names[0] in whole or (names[0] in table.columns and table.holds_lists(names[0]))):
        return TableVectors(_store_of(table, names[0]), (names[0],))
    if names:
        return _stack_columns(table, [column for name in names for column in _matching(table, name)])
    left = [name for name in whole if name not in others]
    spare = table.spare if isinstance(table, VectorTable) else ()
    if left:
        one = _the_usual(table, [name for name in left if name not in spare] or left)
        further = [name for name in left if name != one]
        told = f"'{one}' is read as the vectors; {_list(further)} could be, too: --table.vector_column NAME"
        return TableVectors(_store_of(table, one), (one,), (told,) if further else ())
    measured = [name for name in table.columns if name not in others and _is_measured(table, name)]
    if len(measured) < 2:
        return None
    numbered = max(numbered_columns(measured).values(), key=len, default=[])
    if 2 * len(numbered) >= len(measured):
        measured = numbered
    told = (
        f"{len(measured):,} columns of numbers are read as vectors: {_list(measured)}; to read others, set "
        "--table.vector_column 'PREFIX*'"
    )
    read = _stack_columns(table, measured)
    return TableVectors(read.store, read.columns, (told,))


def count_measured(table: DataTable, others: Collection[str] = ()) -> int:
    """The number of columns of numbers that may be parts of a vector."""
    return sum(name not in others and _is_measured(table, name) for name in table.columns)


def _whole(table: DataTable) -> list[str]:
    """The arrays, or the columns of lists of numbers."""
    if isinstance(table, VectorTable):
        return list(table.arrays)
    return [name for name in table.columns if table.holds_vectors(name)]


def _the_usual(table: DataTable, names: list[str]) -> str:
    by_name = {name.lower(): name for name in reversed(names)}
    usual = next((by_name[name] for name in VECTORS if name in by_name), None)
    if len(names) == 1 or usual is not None:
        return usual or names[0]
    raise DataError(
        f"{table} holds several arrays of vectors: {_list(names)}; say which are the samples, "
        f"--table.vector_column {names[0]}"
    )


def _store_of(table: DataTable, name: str) -> VectorStore:
    if isinstance(table, VectorTable):
        return VectorStore(table.array(name), f"'{table.path}', array '{name}'")
    return VectorStore(table.vectors(name), f"{table}, column '{name}'")


def _matching(table: DataTable, name: str) -> list[str]:
    if "*" not in name:
        return [table.find(name, "vector_column")]
    matched = fnmatch.filter(table.columns, name)
    if not matched:
        raise DataError(f"{table} has no column like '{name}'; it has {_list(table.columns)}")
    return matched


def _stack_columns(table: DataTable, names: Sequence[str]) -> TableVectors:
    names = list(dict.fromkeys(names))
    array = np.empty((table.num_rows, len(names)), np.float32)
    for place, name in enumerate(names):
        array[:, place] = table.numbers(name)
    return TableVectors(VectorStore(array, f"{table}", tuple(names)), tuple(names))


def _is_measured(table: DataTable, name: str) -> bool:
    plain = name.lower()
    is_id = plain in (*_IDS, *_NOT_MEASURED) or plain.endswith(("_id", " id"))
    return not is_id and table.holds_numbers(name)


def _list(names: Sequence[str]) -> str:
    shown = [f"'{name}'" for name in names[:_LISTED]]
    return ", ".join(shown) + (f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else "")

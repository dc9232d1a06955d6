"""Labels in another table than the vectors: joined by ids, or in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from labeltree.data.column_roles import NO_COLUMN
from labeltree.data.table_columns import DataTable
from labeltree.data.vectors.choose_vectors import usual_id_column
from labeltree.data.vectors.vectors_of_others import read_label_list
from labeltree.errors import DataError
from labeltree.file_kinds import PARQUET

__all__ = ["join_labels", "label_file_beside"]

_TEXT_TABLES = (".csv", ".tsv", *PARQUET)
_LISTS = (".npy", ".txt")


def label_file_beside(path: Path) -> Path | None:
    """The table with the name of an `.npy` file, or the list that has its labels; None if there is none.

    Lists are `y.npy` beside `X.npy`, `y_train.npy` beside `X_train.npy`, and `labels.npy`, `labels.txt` or
    `NAME_labels.npy` beside others.
    """
    if path.suffix.lower() != ".npy":
        return None
    names = [f"{path.stem}{kind}" for kind in _TEXT_TABLES]
    names += [f"{path.stem}{end}{kind}" for end in ("_labels", "-labels") for kind in _LISTS]
    if path.stem[:1] in ("X", "x"):
        names += [f"{first}{path.stem[1:]}{kind}" for first in ("y", "Y") for kind in _LISTS]
    names += [f"labels{kind}" for kind in _LISTS]
    beside = (path.with_name(name) for name in names)
    return next((file for file in beside if file != path and file.is_file()), None)


def join_labels(table: DataTable, file: Path, id_column: str | None) -> tuple[DataTable, list[str]]:
    """A table of vectors with the columns of another table.

    Args:
        table: The table of vectors.
        file: The other table.
        id_column: Column of ids of both; None = `id` or `ids`, of the other table else the column that
            holds most of the vectors' ids; `none` = there are none. Rows are joined in their order if one
            of the tables has no ids, and they are as many.

    Returns:
        The table, and sentences on what did not meet. Of columns that both have, those of the other table are
        taken.

    Raises:
        DataError: If the tables do not meet, or an id of the other one occurs twice.
    """
    other = read_label_list(file) if file.suffix.lower() in _LISTS else DataTable.read(file)
    by_order = id_column == NO_COLUMN
    left = id_column if id_column in table.columns else None if by_order else usual_id_column(table)
    right = id_column if id_column in other.columns else None if by_order else usual_id_column(other)
    if id_column is not None and id_column not in (left, right) and not by_order:
        table.find(id_column, "id_column")
    if left is not None and right is None:
        right = _find_ids(other, set(table.cells(left).texts))
    if left is None or right is None:
        if other.num_rows != table.num_rows:
            which = table if left is None else other
            raise DataError(
                f"{table} has {table.num_rows:,} vectors and {other} {other.num_rows:,} rows, and {which} "
                "has no column of ids to join them by; write a column 'id' into both, or as many rows in "
                "the same order"
            )
        return _add_columns(table, other, np.arange(table.num_rows), set()), [
            f"the rows of '{file.name}' are those of the vectors, in the same order: there are no ids in both"
        ]
    ours, theirs = table.cells(left), other.cells(right)
    rows_of = np.full(len(theirs.texts), -1)
    given = np.flatnonzero(theirs.codes >= 0)
    rows_of[theirs.codes[given]] = given
    twice = given[rows_of[theirs.codes[given]] != given]
    if len(twice):
        text = theirs.texts[theirs.codes[twice[0]]]
        both = f"{other.place(twice[0])} and {other.place(rows_of[theirs.codes[twice[0]]])}"
        raise DataError(
            f"{other}: {both} have the same id '{text}' in '{right}'; keep one of them, or name another "
            "column, --table.id_column"
        )
    place = dict(zip(theirs.texts, rows_of.tolist(), strict=True))
    rows = np.array([*(place.get(text, -1) for text in ours.texts), -1])[ours.codes]
    met = int((rows >= 0).sum())
    if not met:
        raise DataError(
            f"no id of {table} ('{left}': {_some(ours.texts)}) is one of {other} ('{right}': "
            f"{_some(theirs.texts)}); write them alike, or name other columns, --table.id_column"
        )
    notes = []
    if met < len(rows):
        notes.append(
            f"{len(rows) - met:,} of {len(rows):,} vectors have no row in '{file.name}', and so no label; "
            f"the first is {table.place(np.flatnonzero(rows < 0)[0])}"
        )
    if without := other.num_rows - len(np.unique(rows[rows >= 0])):
        notes.append(
            f"{without:,} of {other.num_rows:,} rows of '{file.name}' have no vector, and are not used"
        )
    return _add_columns(table, other, rows, {right}), notes


def _find_ids(table: DataTable, ids: set[str]) -> str | None:
    """The column that holds most of some ids; None if none does."""
    for name in table.columns:
        texts = [] if table.holds_lists(name) else table.cells(name).texts
        if 2 * len(ids.intersection(texts)) > min(len(ids), len(texts)):
            return name
    return None


def _add_columns(
    table: DataTable, other: DataTable, rows: np.ndarray[Any, Any], leave: set[str]
) -> DataTable:
    """The table with the columns of another one, of its `rows (n,)`, -1 for none."""
    import pyarrow as pa

    taken = other.take(pa.array(rows, mask=rows < 0)).rename_columns(other.columns)
    own = table.arrow
    own = own.drop_columns(
        [
            name
            for name in own.column_names
            if not name or (name.strip() in other.columns and name not in leave)
        ]
    )
    for name in taken.column_names:
        if name not in own.column_names:
            own = own.append_column(name, taken.column(name))
    return table.replace_columns(own)


def _some(texts: list[str]) -> str:
    return ", ".join(f"'{text}'" for text in texts[:2]) + (" …" if len(texts) > 2 else "")

"""Cells that are left empty below a value and mean it, too, as merged cells of a spreadsheet do."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np

from labeltree.data.table_columns import DataTable
from labeltree.taxonomy.files.level_tables import rows_above
from labeltree.taxonomy.naming import some

__all__ = ["fill_columns", "fill_setting", "find_outlined", "outlined_words", "repeat_codes"]

Array = np.ndarray[Any, Any]
_EMPTY = 0.5  # share of the rows in which an outlined column is empty: blocks have two rows and more
_ABOVE = 3  # rows without a label that may stand above the first block


def fill_columns(table: DataTable, columns: Sequence[str]) -> tuple[DataTable, list[str]]:
    """The table with the value above in empty cells of some columns, and a sentence for each.

    Nothing is carried past a row in which an earlier one of these columns has another value.

    Args:
        table: The table.
        columns: The columns, coarse to fine.

    Raises:
        DataError: If there is no such column.
    """
    import pyarrow as pa

    names = [table.find(column) for column in columns]
    arrow, notes = table.arrow, []
    is_new = np.zeros(table.num_rows, bool)  # rows in which a coarser value changes
    for name in names:
        codes = table.cells(name).codes
        above = rows_above(codes >= 0, is_new)
        place = table.columns.index(name)
        taken = arrow.column(place).combine_chunks().take(pa.array(above, mask=above < 0))
        arrow = arrow.set_column(place, arrow.field(place), taken)
        filled = np.where(above >= 0, codes[above], -1)
        is_new[1:] |= filled[1:] != filled[:-1]
        if count := int(((codes < 0) & (filled >= 0)).sum()):
            notes.append(f"{count:,} empty cells of '{name}' have the value above them (table.fill_down)")
    return (table.replace_columns(arrow) if notes else table), notes


def find_outlined(table: DataTable, columns: Sequence[str]) -> list[str]:
    """Those columns that have a value in the first row of a block, and are empty in its other rows.

    One of the first rows has a value, at least half of the cells are empty, and no value comes again after
    empty cells; in adjacent rows it does where cells are merged in truth.
    """
    return [name for name in columns if not table.holds_lists(name) and _is_outlined(table.cells(name).codes)]


def _is_outlined(codes: Array) -> bool:
    places = np.flatnonzero(codes >= 0)
    if len(places) < 2 or places[0] > _ABOVE or len(places) > (1 - _EMPTY) * len(codes):
        return False
    again = codes[places[1:]] == codes[places[:-1]]
    return bool((np.diff(places)[again] == 1).all() and not again.all())


def repeat_codes(codes: Array) -> Array:
    """The codes `(n,)` of a column as `fill_columns` would fill it by itself."""
    above = rows_above(codes >= 0)
    filled: Array = np.where(above >= 0, codes[above], -1)
    return filled


def outlined_words(columns: Sequence[str]) -> str:
    """What such columns look like, as a clause."""
    return (
        f"{some(columns)} {'is' if len(columns) == 1 else 'are'} empty below each value, as merged cells are"
    )


def fill_setting(columns: Sequence[str]) -> str:
    """The setting that fills columns."""
    return f"--table.fill_down {shlex.quote(json.dumps(list(columns), ensure_ascii=False))}"

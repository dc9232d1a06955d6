"""Tables with several rows a sample: which rows belong together, and the table with one row for each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.data.table_columns import DataTable
from labeltree.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SampleRows"]

Array = np.ndarray[Any, Any]


class SampleRows:
    """The rows of each sample of a table.

    Args:
        table: The table.
        column: Column whose equal values mean one sample.

    Attributes:
        column: The column.
        sample: Sample of each row `(m,)`, in the order in which samples first occur.
        first: First row of each sample `(n,)`.
        merged: The table of these first rows.

    Raises:
        DataError: If there is no such column, or a cell of it is empty.
    """

    def __init__(self, table: DataTable, column: str) -> None:
        self.column = table.find(column)
        cells = table.cells(self.column)
        empty = np.flatnonzero(cells.codes < 0)
        if len(empty):
            raise DataError(
                f"{table}, {table.place(empty[0])}: '{self.column}' is empty, so that nothing says which "
                "sample the row is about"
            )
        self.sample = cells.codes
        self.first = np.unique(cells.codes, return_index=True)[1]
        self.merged = _FirstRows(table, self.first)
        self._names = cells.texts

    @property
    def count(self) -> int:
        """Number of samples."""
        return len(self.first)

    def check_alike(self, table: DataTable, columns: Iterable[str]) -> None:
        """Check that the rows of a sample have equal values in columns.

        Raises:
            DataError: If two rows of one sample differ.
        """
        for column in columns:
            codes = table.cells(column).codes
            other = np.flatnonzero(codes != codes[self.first][self.sample])
            if len(other):
                row = int(other[0])
                before = table.place(self.first[self.sample[row]])
                raise DataError(
                    f"{table}: {before} and {table.place(row)} are one sample "
                    f"('{self._names[self.sample[row]]}' in '{self.column}') but differ in '{column}'; make "
                    "them alike, or name another sample_column"
                )

    def check_votes(self, table: DataTable, column: str, nodes: Tensor, rows: Array) -> None:
        """Check that no annotator gives a sample two different labels `nodes (k,)`, in `rows (k,)`.

        Raises:
            DataError: If one does, or a vote has no annotator.
        """
        cells = table.cells(table.find(column))
        empty = rows[cells.codes[rows] < 0]
        if len(empty):
            raise DataError(f"{table}, {table.place(empty[0])}: '{column}' is empty; who gave this label?")
        pair = self.sample[rows] * (len(cells.texts) + 1) + cells.codes[rows]
        kinds, first, index = np.unique(pair, return_index=True, return_inverse=True)
        del kinds
        twice = np.flatnonzero(first[index] != np.arange(len(rows)))
        if len(twice):
            row, before = rows[twice[0]], rows[first[index[twice[0]]]]
            raise DataError(
                f"{table}: {table.place(before)} and {table.place(row)} are two votes of the annotator "
                f"'{cells.texts[cells.codes[row]]}' on one sample; keep one of them"
            )


class _FirstRows(DataTable):
    """The first row of each sample, named as in the whole table."""

    def __init__(self, table: DataTable, first: Array) -> None:
        super().__init__(table.path, table.take(first), sheet_words=table.sheet_words)
        self._of = (table, first)

    @property
    def unit(self) -> str:
        return self._of[0].unit

    def place(self, row: int) -> str:
        table, first = self._of
        return table.place(int(first[row]))

    def places(self, rows: Array) -> str:
        table, first = self._of
        return table.places(first[rows])

    def numbers_of(self, rows: Array) -> Array:
        table, first = self._of
        return table.numbers_of(first[rows])

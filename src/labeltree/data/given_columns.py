"""The columns of a table as they were given, to be written again beside what is said of its rows."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.data.table_columns import DataTable
from labeltree.file_kinds import SHEETS
from labeltree.text_files import split_packed
from labeltree.workbooks import read_sheet

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["GivenColumns", "cell_of_text", "plain_value"]


@dataclass(frozen=True)
class GivenColumns:
    """Columns of a table, with names and values as they stand in the file.

    Attributes:
        names: Their names, which may occur twice.
        columns: The values of each, an Arrow array or, of a sheet, a list.
    """

    names: tuple[str, ...]
    columns: tuple[pa.ChunkedArray | list[Any], ...]

    @classmethod
    def read(
        cls, path: Path, encoding: str | None = None, sheet: str | None = None, without: Collection[str] = ()
    ) -> GivenColumns:
        """The columns of a table.

        Args:
            path: The file.
            encoding: Encoding of its text; None = found.
            sheet: The sheet of a workbook; None = the first that is not empty.
            without: Columns to leave out, such as vectors.

        Raises:
            DataError: As for `DataTable.read`.
        """
        if split_packed(path)[0] in SHEETS:
            cells = read_sheet(path, sheet)
            names, columns = cells.header, list[Any](cells.columns)
        else:
            table = DataTable.read(path, encoding, sheet)
            names, columns = list(table.whole.column_names), list(table.whole.columns)
        kept = [place for place, name in enumerate(names) if name.strip() not in without]
        return cls(tuple(names[place] for place in kept), tuple(columns[place] for place in kept))

    def take(self, rows: np.ndarray[Any, Any]) -> GivenColumns:
        """The same columns of rows `(n,)`, counted from 0."""
        places = rows.tolist()
        return GivenColumns(
            self.names,
            tuple(
                [column[place] for place in places] if isinstance(column, list) else column.take(rows)
                for column in self.columns
            ),
        )

    def values(self) -> list[list[Any]]:
        """The values of each column, as Python's."""
        return [column if isinstance(column, list) else column.to_pylist() for column in self.columns]

    def arrays(self) -> list[Any]:
        """The columns as Arrow arrays; a column of a sheet with values of several kinds holds texts."""
        import pyarrow as pa

        arrays: list[Any] = []
        for column in self.columns:
            if not isinstance(column, list):
                arrays.append(column)
                continue
            try:
                arrays.append(pa.array(column))
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
                arrays.append(pa.array([None if v is None else cell_of_text(v) for v in column], pa.string()))
        return arrays


def cell_of_text(value: Any) -> str:
    """A value as a cell of a table of text; empty where it is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, datetime.datetime) and value.time() == datetime.time() and value.tzinfo is None:
        return str(value.date())
    if isinstance(value, list | dict | bytes):
        return json.dumps(plain_value(value), ensure_ascii=False)
    return str(value)


def plain_value(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, dict):
        return {str(name): plain_value(one) for name, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [plain_value(one) for one in value]
    return value.hex() if isinstance(value, bytes) else cell_of_text(value)

"""Read a table of data, find its columns by name, and encode their cells as integer codes."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.data.biology.darwin_core_archive import is_archive, read_archive
from labeltree.data.table_text import text_options
from labeltree.errors import DataError
from labeltree.safe_files import Reader, read_parquet, stack_lists

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions

__all__ = ["PARQUET", "Cells", "DataTable", "cell_text", "read_header", "text_batches"]

_TABLE = Reader("a table", "write it again, or as .csv")
PARQUET = (".parquet", ".pq")
_TRIED = 1000  # cells that tell whether a column holds numbers
_MISSING = ("na", "n/a", "null", "none")  # texts for a missing number
_BLOCK = 4 << 20  # bytes of a text file that are read at once where it is not read as a whole
_LONGEST_ROW = 64 << 20  # bytes; the reader of text files takes blocks of this size


@dataclass(frozen=True)
class Cells:
    """The cells of a column.

    Attributes:
        texts: The distinct texts, without surrounding white space, in the order in which they first occur.
        codes: Index into `texts` for each row `(n,)` int64; -1 where the cell is missing or blank.
    """

    texts: list[str]
    codes: np.ndarray[Any, Any]

    def rows_of(self, text: str) -> np.ndarray[Any, Any]:
        """The rows with this text, counted from 1."""
        return np.flatnonzero(self.codes == self.texts.index(text)) + 1


class DataTable:
    """A table whose cells are texts or numbers; `str()` gives its description for error messages.

    Args:
        path: Path of the table, for error messages.
        table: The Arrow table.

    Attributes:
        path: Path of the table.
        columns: Names of the columns, without surrounding white space.
        num_rows: Number of rows.

    Raises:
        DataError: If two columns have the same name.
    """

    def __init__(self, path: Path, table: pa.Table) -> None:
        self.path = path
        self.columns: list[str] = [name.strip() for name in table.column_names]
        self.num_rows: int = table.num_rows
        self._table = table
        for name in self.columns:
            if self.columns.count(name) > 1:
                raise DataError(f"{self} has {self.columns.count(name)} columns '{name}'; rename them")

    @property
    def label_hint(self) -> str:
        """What else gives labels, for the error that no column does."""
        return ""

    def __str__(self) -> str:
        return f"the table '{self.path}'"

    @classmethod
    def read(cls, path: Path) -> DataTable:
        """Read a Parquet file (`.parquet`, `.pq`), a zip file, or text, with cells that may be missing.

        For zip files, such as GBIF's downloads, see `read_archive`.

        The first line of a text file names its columns. Its cells are separated by commas, or by semicolons
        or tabs if the first line has no comma.

        Raises:
            DataError: If the file is missing, malformed or not UTF-8, or two columns have the same name.
        """
        with _reading(path):
            if is_archive(path):
                return cls(path, read_archive(path))
            parquet = path.suffix.lower() in PARQUET
            return cls(path, read_parquet(path, _TABLE) if parquet else _read_text(path))

    def usual(self, names: Sequence[str]) -> str | None:
        """The first of the usual names (in lower case) that is a column of the table; None if none is."""
        by_name = {column.lower(): column for column in reversed(self.columns)}
        return next((by_name[name] for name in names if name in by_name), None)

    def find(self, name: str) -> str:
        """Look up the name of a required column.

        Raises:
            DataError: If there is no such column; the message has the nearest name.
        """
        if name in self.columns:
            return name
        near = difflib.get_close_matches(name, self.columns, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"it has {', '.join(self.columns)}"
        raise DataError(f"{self} has no column '{name}'; {hint}")

    def cells(self, column: str) -> Cells:
        """The cells of a column as text; whole numbers have no decimal point.

        Raises:
            DataError: If the column holds neither text nor numbers.
        """
        import pyarrow as pa

        values = self._table.column(self.columns.index(column))
        kind = values.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
            values = values.cast(kind)
        if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            raise DataError(
                f"{self}: the column '{column}' holds {kind}, not text or numbers; write one text a cell, "
                "and several in several columns"
            )
        if pa.types.is_string(kind):
            values = values.cast(pa.large_string())  # else more than 2 GiB of text would not fit in one array
        if pa.types.is_null(kind):
            return Cells([], np.full(len(values), -1, np.int64))
        encoded = values.combine_chunks().dictionary_encode()
        places: dict[str, int] = {}
        distinct = [cell_text(value) for value in encoded.dictionary.to_pylist()]
        place = [-1 if text is None else places.setdefault(text, len(places)) for text in distinct]
        codes = encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)
        return Cells(list(places), np.array([*place, -1], np.int64)[codes])

    def holds_lists(self, column: str) -> bool:
        """Whether the cells of a column are lists."""
        import pyarrow as pa

        kind = self._table.column(self.columns.index(column)).type
        return bool(
            pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
        )

    def list_cells(self, column: str) -> tuple[list[str], np.ndarray[Any, Any]]:
        """The entries of a column of lists as text, and the row of each; empty entries are left out.

        Raises:
            DataError: If the entries are neither text nor numbers.
        """
        import pyarrow.compute as pc

        values = self._table.column(self.columns.index(column)).combine_chunks()
        rows = pc.list_parent_indices(values).to_numpy(zero_copy_only=False)
        entries = DataTable(self.path, _make_table(column, pc.list_flatten(values))).cells(column)
        there = np.flatnonzero(entries.codes >= 0)
        return [entries.texts[code] for code in entries.codes[there].tolist()], rows[there].astype(np.int64)

    def head(self, column: str) -> list[str]:
        """The texts of the first thousand cells of a column, without those that are empty."""
        values = self._table.column(self.columns.index(column))[:_TRIED].to_pylist()
        return [text for value in values if (text := cell_text(value)) is not None]

    def holds_numbers(self, column: str) -> bool:
        """Whether most cells of a column, among the first thousand, are numbers, which may be texts."""
        import pyarrow as pa

        values = self._table.column(self.columns.index(column))
        if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
            return True
        if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
            return False
        texts = [text for text in self.head(column) if text.lower() not in _MISSING]
        return bool(texts) and 2 * sum(map(_is_number, texts)) > len(texts)

    def numbers(self, column: str) -> np.ndarray[Any, Any]:
        """The numbers of a column `(n,)` float64, NaN where one is missing.

        Raises:
            DataError: If it holds something else.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        values = self._table.column(self.columns.index(column))
        if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
            return np.asarray(values.cast(pa.float64(), safe=False).to_numpy())
        try:
            texts = pc.utf8_trim_whitespace(values)
            return np.asarray(pc.if_else(pc.equal(texts, ""), None, texts).cast(pa.float64()).to_numpy())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            cells = self.cells(column)
        parsed = [math.nan if text.lower() in _MISSING else _number(text) for text in cells.texts]
        bad = next((text for text, number in zip(cells.texts, parsed, strict=True) if number is None), None)
        if bad is not None:
            row = cells.rows_of(bad)[0]
            raise DataError(
                f"{self}, row {row}: the column '{column}' has {bad[:50]!r}, no number; correct it, or leave "
                "the column out of the vectors"
            )
        numbers: np.ndarray[Any, Any] = np.array([*parsed, math.nan], np.float64)[cells.codes]
        return numbers

    def holds_vectors(self, column: str) -> bool:
        """Whether the cells of a column are lists of real numbers."""
        import pyarrow as pa

        return self.holds_lists(column) and pa.types.is_floating(
            self._table.column(self.columns.index(column)).type.value_type
        )

    def vectors(self, column: str) -> np.ndarray[Any, Any]:
        """The lists of numbers of a column as an array `(n, d)`; the row of a missing one is NaN.

        Raises:
            DataError: If they hold no numbers, or differ in length.
        """
        import pyarrow as pa

        values = self._table.column(self.columns.index(column))
        kind = values.type.value_type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise DataError(f"{self}: the lists of the column '{column}' hold {kind}, not numbers")
        try:
            return stack_lists(values, np.float32)
        except ValueError as error:
            raise DataError(f"{self}, column '{column}': {error}; vectors are of one length") from error

    @property
    def arrow(self) -> pa.Table:
        """The Arrow table."""
        return self._table

    def replace_columns(self, table: pa.Table) -> DataTable:
        """The table with other columns."""
        return DataTable(self.path, table)

    def take(self, rows: np.ndarray[Any, Any] | pa.Array) -> pa.Table:
        """The Arrow table of some rows; a missing number of a row gives a row without cells."""
        return self._table.take(rows)

    def row_name(self, row: int) -> str:
        """The name of a row, counted from 0."""
        return f"row {row + 1}"

    def filled(self, column: str) -> list[str]:
        """The text of every row of a required column.

        Raises:
            DataError: If there is no such column, or a cell is missing or blank.
        """
        cells = self.cells(self.find(column))
        missing = np.flatnonzero(cells.codes < 0) + 1
        if missing.size:
            raise DataError(f"{self}, row {missing[0]}: the column '{column}' is empty")
        return [cells.texts[code] for code in cells.codes.tolist()]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_number(text: str) -> bool:
    return _number(text) is not None


def _make_table(column: str, values: pa.Array) -> pa.Table:
    import pyarrow as pa

    return pa.table({column: values})


def _rephrase(reason: str) -> str:
    """Rephrase Arrow's error about a text file."""
    if uneven := re.search(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)", reason):
        row, expected, cells = uneven.groups()
        return f"{f'row {row}' if row else 'a row'} has {cells} cells where the first line has {expected}"
    return reason if reason.startswith("it ") else "it is no table: a cell is not closed, or a row too long"


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Convert any error caused by a missing or malformed table within the block to a DataError."""
    if not path.is_file():
        raise DataError(f"there is no table '{path}'")
    try:
        yield
    except DataError:
        raise
    except UnicodeDecodeError as error:
        where = f"byte {error.start}"
        raise DataError(f"the table '{path}' is not UTF-8 ({where}); save it as UTF-8") from error
    except OSError as error:
        raise DataError(f"the table '{path}' cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # from Arrow, or from the check of the header
        reason = str(error).strip().splitlines()[0]
        if "invalid UTF8" in reason:
            raise DataError(f"the table '{path}' is not UTF-8 ({reason}); save it as UTF-8") from error
        raise DataError(f"the table '{path}' cannot be read: {_rephrase(reason)}") from error


def _read_text(path: Path) -> pa.Table:
    from pyarrow import csv as arrow_csv

    return arrow_csv.read_csv(path, *_text_options(path, arrow_csv.ReadOptions(block_size=_LONGEST_ROW)))


def _text_options(path: Path, reading: ReadOptions) -> tuple[ReadOptions, ParseOptions, ConvertOptions]:
    with path.open("rb") as file:
        return text_options(file, path.name, reading)


def read_header(path: Path) -> DataTable:
    """The columns of a table, without its rows.

    Raises:
        DataError: As for `DataTable.read`.
    """
    import pyarrow.parquet as pq
    from pyarrow import csv as arrow_csv

    with _reading(path):
        if path.suffix.lower() in PARQUET:
            with _TABLE.reading(path, "it is damaged, or no Parquet file"), path.open("rb"):
                return DataTable(path, pq.read_schema(path).empty_table())
        if is_archive(path):
            return DataTable(path, read_archive(path).slice(0, 0))
        with arrow_csv.open_csv(path, *_text_options(path, _block_options())) as reader:
            return DataTable(path, reader.schema.empty_table())


def text_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The rows of a text file in batches of some megabytes; a zip file is read as a whole.

    Raises:
        DataError: As for `DataTable.read`, which may be found after some batches.
    """
    from pyarrow import csv as arrow_csv

    if is_archive(path):
        with _reading(path):
            yield from read_archive(path).to_batches()
        return
    with _reading(path), arrow_csv.open_csv(path, *_text_options(path, _block_options())) as reader:
        yield from reader


def _block_options() -> ReadOptions:
    from pyarrow import csv as arrow_csv

    return arrow_csv.ReadOptions(block_size=_BLOCK, use_threads=False)


def cell_text(value: Any) -> str | None:
    """A cell as text; None if it is missing or blank."""
    if isinstance(value, float):
        if math.isnan(value):
            return None
        value = int(value) if value.is_integer() else value
    return None if value is None else str(value).strip() or None

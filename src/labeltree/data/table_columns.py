"""Read a table of data, find its columns by name, and encode their cells as integer codes."""

from __future__ import annotations

import difflib
import lzma
import math
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.data.biology.darwin_core_archive import is_archive, read_archive
from labeltree.data.table_forms.record_tables import read_records
from labeltree.errors import DataError
from labeltree.file_kinds import PARQUET, RECORDS, SHEETS, TEXTS
from labeltree.safe_files import Reader, read_parquet, stack_lists
from labeltree.taxonomy.column_names import letters
from labeltree.taxonomy.ranks import term_of
from labeltree.text_files import PACKED, find_encoding, open_unpacked, split_packed
from labeltree.text_tables import TextTable, cast_numbers, parse_numbers
from labeltree.workbooks import read_sheet, sheet_names

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "TRIED",
    "Cells",
    "DataTable",
    "cell_text",
    "place_below",
    "placed_batches",
    "read_header",
    "settings_of_another",
]

_TABLE = Reader("a table", "write it again, or as .csv")
_START = 1 << 20  # bytes that tell the encoding of another table
_SHOWN = 5  # rows that a message names
TRIED = 1000  # cells that tell whether a column holds numbers
_MISSING = ("na", "n/a", "null", "none")  # texts for a missing number


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
        """The rows with this text, from 0."""
        return np.flatnonzero(self.codes == self.texts.index(text))


@dataclass(frozen=True)
class RowNumbers:
    """Where the rows of a table stand in its file, as a person sees them.

    Attributes:
        of_row: The number of each row, or what gives them: they are counted when one is asked for.
        is_sheet: Whether they are rows of a sheet, rather than lines of a text.
    """

    of_row: Sequence[int] | Callable[[], Sequence[int]]
    is_sheet: bool = False

    @cached_property
    def values(self) -> np.ndarray[Any, Any]:
        """The number of each row `(n,)` int64."""
        numbers = self.of_row() if callable(self.of_row) else self.of_row
        return np.asarray(numbers, np.int64)


class DataTable:
    """A table whose cells are texts or numbers; `str()` gives its description for error messages.

    Columns of which several have one name are left out, and an error if one is asked for by that name.

    Args:
        path: Path of the table, for error messages.
        table: The Arrow table.
        notes: Sentences on how it was read.
        numbers: Where its rows stand in the file; None = they are counted from 1.

    Attributes:
        path: Path of the table.
        columns: Names of the columns, without surrounding white space.
        num_rows: Number of rows.
        whole: The Arrow table with all columns, as they stand in the file.
        notes: Sentences on how it was read, and on what was left out.
        sheet_words: Which sheet of a workbook it is, for messages; empty if that has no other.
        lists_may_be_paths: Whether a list may be a path of names, as in JSON, rather than several labels.
    """

    def __init__(
        self,
        path: Path,
        table: pa.Table,
        notes: Sequence[str] = (),
        numbers: RowNumbers | None = None,
        sheet_words: str = "",
    ) -> None:
        self.path = path
        self.sheet_words = sheet_words
        self.whole = table
        self._numbers = numbers
        names = [name.strip() for name in table.column_names]
        counts = Counter(names)
        self._repeated = {name: count for name, count in counts.items() if count > 1}
        self.columns: list[str] = [name for name in names if name not in self._repeated]
        self.num_rows: int = table.num_rows
        self._table = table
        self.notes = tuple(notes)
        self.lists_may_be_paths = False
        if self._repeated:
            self._table = table.select([place for place, name in enumerate(names) if counts[name] == 1])
            told = ", ".join(
                f"{count} columns " + (f"'{name}'" if name else "without a name")
                for name, count in self._repeated.items()
            )
            self.notes += (f"{self} has {told}, which are not read; rename those that are needed",)

    @property
    def label_hint(self) -> str:
        """What else gives labels, for the error that no column does."""
        return ""

    def __str__(self) -> str:
        return f"the table '{self.path}'{self.sheet_words}"

    @classmethod
    def read(cls, path: Path, encoding: str | None = None, sheet: str | None = None) -> DataTable:
        """Read a table with cells that may be missing, by its suffix; see `labeltree.file_kinds`.

        For zip files, such as GBIF's downloads, see `read_archive`; for text `find_text_form`; for JSON
        `read_records`; for workbooks `read_sheet`.

        Args:
            path: The file.
            encoding: Encoding of text and JSON; None = found.
            sheet: The sheet of a workbook; None = the first that is not empty.

        Raises:
            DataError: If the file is missing or malformed, or has neither text nor such a sheet.
            ImportError: For a workbook, if openpyxl is not installed.
        """
        kind = _check_settings(path, encoding, sheet)
        with _reading(path):
            if kind in SHEETS:
                cells = read_sheet(path, sheet)
                numbers = RowNumbers(cells.numbers, is_sheet=True)
                return cls(path, cells.as_texts(), cells.notes, numbers, cells.words)
            if kind in RECORDS:
                records, lines = read_records(path, kind, encoding)
                table = cls(path, records, numbers=None if lines is None else RowNumbers(lines))
                table.lists_may_be_paths = True
                return table
            if is_archive(path):
                rows, notes, line_numbers = read_archive(path, encoding)
                return cls(path, rows, notes, RowNumbers(line_numbers))
            if kind in PARQUET:
                return cls(path, read_parquet(path, _TABLE))
            text = TextTable.at(path, encoding)
            rows = text.read()
            numbers = RowNumbers(partial(text.row_lines, rows.num_rows))
            return cls(path, rows, text.form.notes, numbers)

    def usual(self, names: Sequence[str], named: Collection[str] = ()) -> str | None:
        """The first of the usual names (in lower case) that is a column of the table; None if none is.

        Terms may have a prefix: `dwc:catalogNumber` is `catalognumber`, and `File name` is `file_name`.
        Columns that are `named` for something else are passed over.

        Raises:
            DataError: If several columns have that name.
        """
        columns = [*self._repeated, *(column for column in self.columns if column not in named)]
        by_name = {term_of(column).lower(): column for column in reversed(columns)}
        by_name |= {column.lower(): column for column in reversed(columns)}
        by_letters = {letters(term_of(column)): column for column in reversed(columns)}
        by_name = by_letters | by_name
        sought = (one for name in names for one in (name, letters(name)))
        name = next((by_name[name] for name in sought if name in by_name), None)
        return None if name is None else self._once(name)

    def _once(self, name: str) -> str:
        if name in self._repeated:
            raise DataError(f"{self} has {self._repeated[name]} columns '{name}'; rename them")
        return name

    def find(self, name: str, setting: str = "") -> str:
        """Look up the name of a required column.

        Args:
            name: The name, or a term without the prefix of a namespace.
            setting: The setting that names it, which a message then tells.

        Raises:
            DataError: If there is no such column, the message has the nearest name; or several have it.
        """
        if name in self.columns:
            return name
        self._once(name)
        with_prefix = [column for column in self.columns if term_of(column) == name]
        if len(with_prefix) == 1:
            return with_prefix[0]
        near = difflib.get_close_matches(name, self.columns, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"it has {', '.join(self.columns)}"
        hint += f"; --table.{setting} names another" if setting else ""
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
        values = self._table.column(self.columns.index(column))[:TRIED].to_pylist()
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
        commas = any("," in text for text in texts)
        numbers = parse_numbers(texts, may_be_lists=commas and not self._has_decimal_commas)
        return 2 * sum(number is not None for number in numbers) > len(texts)

    @cached_property
    def _has_decimal_commas(self) -> bool:
        """Whether the commas of a column can be nothing but decimal, so that those of others are so, too."""
        import pyarrow as pa

        for column in self.columns:
            kind = self._table.column(self.columns.index(column)).type
            if pa.types.is_string(kind) or pa.types.is_large_string(kind):
                texts = [text for text in self.head(column) if "," in text]
                if texts and None not in parse_numbers(texts, may_be_lists=True):
                    return True
        return False

    def numbers(self, column: str) -> np.ndarray[Any, Any]:
        """The numbers of a column `(n,)` float64, NaN where one is missing; see `parse_numbers`.

        Raises:
            DataError: If it holds something else.
        """
        import pyarrow as pa

        values = self._table.column(self.columns.index(column))
        if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
            return np.asarray(values.cast(pa.float64(), safe=False).to_numpy())
        if (numbers := cast_numbers(values)) is not None:
            return numbers
        cells = self.cells(column)
        parsed = parse_numbers(["nan" if text.lower() in _MISSING else text for text in cells.texts])
        bad = next((text for text, number in zip(cells.texts, parsed, strict=True) if number is None), None)
        if bad is not None:
            where = self.place(cells.rows_of(bad)[0])
            correct = "write all decimals of the column with points" if "," in bad else "correct it"
            raise DataError(
                f"{self}, {where}: the column '{column}' has {bad[:50]!r}, no number; {correct}, or leave "
                "the column out of the vectors"
            )
        by_row: np.ndarray[Any, Any] = np.array([*parsed, math.nan], np.float64)[cells.codes]
        return by_row

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
        other = DataTable(self.path, table, self.notes, self._numbers, self.sheet_words)
        other.lists_may_be_paths = self.lists_may_be_paths
        return other

    def take(self, rows: np.ndarray[Any, Any] | pa.Array) -> pa.Table:
        """The Arrow table of some rows; a missing number of a row gives a row without cells."""
        return self._table.take(rows)

    def place(self, row: int) -> str:
        """Where a row stands in its file, given its number from 0, which is also the name of its sample.

        `line 7` of a text or of JSON Lines, `row 7 of the sheet` of a workbook, and `row 7`, counted from 1,
        of a file that has neither, such as Parquet.
        """
        if self._numbers is None:
            return f"row {row + 1}"
        number = int(self._numbers.values[row])
        return f"row {number} of the sheet" if self._numbers.is_sheet else f"line {number}"

    def places(self, rows: np.ndarray[Any, Any]) -> str:
        """Where the first of some rows stand: `lines 7, 9`."""
        if len(rows) == 1:
            return self.place(int(rows[0]))
        shown = ", ".join(map(str, self.numbers_of(rows[:_SHOWN]))) + (" …" if len(rows) > _SHOWN else "")
        is_sheet = self._numbers is not None and self._numbers.is_sheet
        return f"{self.unit}s {shown}{' of the sheet' if is_sheet else ''}"

    @property
    def unit(self) -> str:
        """What the numbers of rows count: `line` or `row`."""
        return "row" if self._numbers is None or self._numbers.is_sheet else "line"

    def numbers_of(self, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Numbers of rows `(m,)` in the file, as a person sees them, given those from 0."""
        return rows + 1 if self._numbers is None else self._numbers.values[rows]

    def filled(self, column: str) -> list[str]:
        """The text of every row of a required column.

        Raises:
            DataError: If there is no such column, or a cell is missing or blank.
        """
        cells = self.cells(self.find(column))
        missing = np.flatnonzero(cells.codes < 0)
        if missing.size:
            raise DataError(f"{self}, {self.place(missing[0])}: the column '{column}' is empty")
        return [cells.texts[code] for code in cells.codes.tolist()]


def _make_table(column: str, values: pa.Array) -> pa.Table:
    import pyarrow as pa

    return pa.table({column: values})


def _check_settings(path: Path, encoding: str | None, sheet: str | None) -> str:
    """The suffix of a table without that of its packing; settings that have no effect are refused."""
    kind, packing = split_packed(path)
    if sheet is not None and kind not in SHEETS:
        raise DataError(f"table.sheet is '{sheet}', but '{path}' is not a workbook (.xlsx); leave it out")
    if encoding is not None and kind in (*SHEETS, *PARQUET):
        raise DataError(f"table.encoding is '{encoding}', but '{path}' is not text; leave it out")
    if packing and kind not in (*TEXTS, *RECORDS):
        raise DataError(f"'{path}' is packed, and {kind or 'such'} files are read as they are; unpack it")
    return kind


def settings_of_another(path: Path, encoding: str | None, sheet: str | None) -> dict[str, str | None]:
    """The encoding and the sheet of a table that were given for another one, where this one needs them.

    The only sheet of a workbook is read whatever its name.
    """
    kind, _ = split_packed(path)
    is_unknown = False
    if sheet is not None and kind in SHEETS and path.is_file():
        with _reading(path):
            names = sheet_names(path)
        sheet = None if len(names) == 1 else sheet
    if encoding is not None and kind in (*TEXTS, *RECORDS) and path.is_file():
        with _reading(path), open_unpacked(path) as file:
            try:
                is_unknown = find_encoding(file.read(_START), cut=True).is_guess
            except ValueError:
                is_unknown = True
    return {"encoding": encoding if is_unknown else None, "sheet": sheet if kind in SHEETS else None}


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Convert any error caused by a missing or malformed table within the block to a DataError."""
    if not path.is_file():
        raise DataError(f"there is no table '{path}'")
    try:
        yield
    except DataError:
        raise
    except OSError as error:
        damaged = split_packed(path)[1] in PACKED and error.errno is None
        reason = f"its packing is damaged ({error})" if damaged else error.strerror or error
        raise DataError(f"the table '{path}' cannot be read: {reason}") from error
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"the table '{path}' cannot be read: its packing is damaged ({error})") from error
    except ValueError as error:  # the message is the reason
        raise DataError(f"the table '{path}' cannot be read: {error}") from error


def read_header(path: Path, encoding: str | None = None, sheet: str | None = None) -> DataTable:
    """The columns of a table, without its rows.

    Raises:
        DataError: As for `DataTable.read`.
    """
    import pyarrow.parquet as pq

    kind = _check_settings(path, encoding, sheet)
    with _reading(path):
        if kind in PARQUET:
            with _TABLE.reading(path, "it is damaged, or no Parquet file"), path.open("rb"):
                return DataTable(path, pq.read_schema(path).empty_table())
        if kind in TEXTS:
            text = TextTable.at(path, encoding)
            return DataTable(path, text.header(), text.form.notes)
    table = DataTable.read(path, encoding, sheet)
    return DataTable(path, table.arrow.slice(0, 0), table.notes)


def placed_batches(
    path: Path, encoding: str | None = None, sheet: str | None = None
) -> Iterator[tuple[pa.RecordBatch, Callable[[int], str]]]:
    """The rows of a text file in batches of some megabytes; other files are read as a whole.

    Yields:
        A batch, and the place of a row of it, given its number therein from 0; see `DataTable.place`.

    Raises:
        DataError: As for `DataTable.read`, which may be found after some batches.
    """
    if _check_settings(path, encoding, sheet) in TEXTS and not is_archive(path):
        with _reading(path):
            text = TextTable.at(path, encoding)
            lines = text.list_lines()
            for batch in text.batches():
                numbers = list(islice(lines, len(batch)))
                yield batch, partial(_name_line, numbers)
        return
    table, start = DataTable.read(path, encoding, sheet), 0
    for batch in table.arrow.to_batches():
        yield batch, partial(place_below, table.place, start)
        start += len(batch)


def place_below(place: Callable[[int], str], start: int, row: int) -> str:
    """The place of a row that is counted from another one."""
    return place(start + row)


def _name_line(numbers: Sequence[int], row: int) -> str:
    return f"line {numbers[row]}"


def cell_text(value: Any) -> str | None:
    """A cell as text; None if it is missing or blank."""
    if isinstance(value, float):
        if math.isnan(value):
            return None
        value = int(value) if value.is_integer() else value
    return None if value is None else str(value).strip() or None

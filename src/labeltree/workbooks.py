"""Workbooks (`.xlsx`): the values of a sheet as a table, without links, formulas and macros; writing them."""

from __future__ import annotations

import csv
import datetime
import io
import math
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeltree.file_kinds import SHEETS
from labeltree.merged_cells import FilledCells, Merged, merged_cells
from labeltree.safe_files import Reader
from labeltree.text_files import decode_text, read_unpacked, split_packed
from labeltree.text_form import START, find_text_form, lines_above

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "SheetTable",
    "change_workbook",
    "choose_sheet",
    "read_sheet",
    "require_openpyxl",
    "sheet_names",
    "spreadsheet_rows",
    "write_workbook",
]

_UNPACKED = 512 << 20  # bytes of all members
_DECLARATIONS = 1 << 16  # first bytes of a member in which a document type is sought
_CELLS = 50_000_000
_EMPTY = 10_000  # rows after which nothing is sought
_TITLES = 256  # rows among which the header is sought
_MOST_ROWS = 1_048_576  # of a sheet, and
_LONGEST = 32_767  # characters of a cell, as Excel has them
_EXACT = 10**15  # numbers from here on lose digits in Excel
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # what XML does not have


_chosen: ContextVar[str | None] = ContextVar("sheet", default=None)


@contextmanager
def choose_sheet(name: str | None) -> Iterator[None]:
    """Within the block, read this sheet of workbooks where none is named; None = the first."""
    token = _chosen.set(name)
    try:
        yield
    finally:
        _chosen.reset(token)


@dataclass(frozen=True)
class SheetTable:
    """The cells of a sheet.

    Attributes:
        header: Names of the columns, as they stand there.
        columns: The values of each column: texts, numbers, dates or None.
        numbers: The number of each row in the sheet.
        notes: Sentences on what was left out.
        header_row: The number of the row of the header.
        name: Name of the sheet.
        others: Names of the other sheets of the workbook, if nobody chose this one.
        is_only: Whether the workbook has no other sheet.
    """

    header: list[str]
    columns: list[list[Any]]
    numbers: list[int]
    notes: tuple[str, ...]
    header_row: int = 1
    name: str = ""
    others: tuple[str, ...] = ()
    is_only: bool = True

    @property
    def words(self) -> str:
        """Which sheet of several it is, and how another one is read; empty if there is no other."""
        if self.is_only:
            return ""
        if not self.others:
            return f" (its sheet '{self.name}')"
        return f" (its sheet '{self.name}'; --table.sheet NAME reads another: {_listed(self.others)})"

    def as_texts(self) -> pa.Table:
        """The table with texts as cells, and names without surrounding white space."""
        import pyarrow as pa

        columns = [pa.array([_text(value) for value in column], pa.string()) for column in self.columns]
        return pa.Table.from_arrays(columns, names=[name.strip() for name in self.header])


def require_openpyxl(path: str | Path, instead: str) -> None:
    """Raise an ImportError that says what to do `instead` if openpyxl is not installed."""
    try:
        import openpyxl  # type: ignore[import-untyped,import-not-found,unused-ignore]  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"'{path}' is a workbook, which needs the package openpyxl: pip install 'labeltree[formats]'; or "
            f"{instead}"
        ) from error


def read_sheet(path: Path, sheet: str | None = None) -> SheetTable:
    """The values of a sheet.

    Args:
        path: The workbook.
        sheet: Name of the sheet; None = the first that is not empty.

    Raises:
        ImportError: If openpyxl is not installed.
        OSError: If it cannot be read.
        ValueError: If it is damaged, would unpack to an excessive size, or has no such sheet; the message is
            the reason.
    """
    with _opened(path) as book:
        return _read(book, sheet, path)


def spreadsheet_rows(path: Path, reader: Reader) -> list[tuple[int, list[str]]]:
    """The rows of a table that a spreadsheet has saved: a workbook, or text as data tables are read.

    Args:
        path: The file; text if its name does not end like that of a workbook.
        reader: What the table is.

    Returns:
        The number and the cells of each row, that of the names of the columns first; none if it is empty.

    Raises:
        ImportError: For a workbook, if openpyxl is not installed.
        LabeltreeError: Of the reader's class, if the file is missing or malformed.
    """
    try:
        if split_packed(path)[0] in SHEETS:
            table = read_sheet(path)
            cells = [[_text(value) or "" for value in column] for column in table.columns]
            rows = zip(table.numbers, map(list, zip(*cells, strict=True)), strict=True)
            return [(table.header_row, list(table.header)), *rows]
        data = read_unpacked(path)
        text, encoding, _ = decode_text(data)
        if not text.strip():
            return []
        form = find_text_form(data[:START], path.name, encoding)
        lines = io.StringIO(text, newline="")
        for _ in range(form.skip):
            lines.readline()
        table_rows = csv.reader(lines, delimiter=form.delimiter, strict=True)
        return list(enumerate(table_rows, form.skip + 1))
    except csv.Error as error:
        raise reader.failure(path, "it is not CSV") from error
    except OSError as error:
        raise reader.failure(path, (error.strerror or str(error)).lower()) from error
    except ValueError as error:  # the message is the reason
        raise reader.failure(path, str(error)) from error


def sheet_names(path: Path) -> list[str]:
    """The names of the sheets of a workbook.

    Raises:
        ImportError: If openpyxl is not installed.
        OSError: If it cannot be read.
        ValueError: As for `read_sheet`.
    """
    with _opened(path) as book:
        return [one.title for one in book.worksheets]


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A workbook whose size and parts were checked."""
    require_openpyxl(path, "save the sheet as CSV")
    from openpyxl import load_workbook  # type: ignore[import-untyped,import-not-found,unused-ignore]

    _check(path)
    try:
        book = load_workbook(path, read_only=True, data_only=True, keep_links=False, keep_vba=False)
    except OSError:
        raise
    except Exception as error:  # a damaged workbook can raise any error in the reader
        raise ValueError("it is damaged, or no workbook of Excel (.xlsx)") from error
    try:
        yield book
    finally:
        book.close()


def _check(path: Path) -> None:
    """Refuse what would unpack to an excessive size, and documents that declare entities."""
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
            if unpacked > _UNPACKED:
                raise ValueError(
                    f"it unpacks to {unpacked:,} bytes, and {_UNPACKED:,} are the most; save the sheet as CSV"
                )
            for member in archive.infolist():
                with archive.open(member) as file:
                    start = file.read(_DECLARATIONS).replace(b"\0", b"")
                if b"<!DOCTYPE" in start or b"<!ENTITY" in start:
                    raise ValueError(
                        f"its part '{member.filename[:80]}' declares a document type, which may hide anything"
                    )
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise ValueError("it is damaged, encrypted, or no workbook of Excel (.xlsx)") from error


def _read(book: Any, sheet: str | None, path: Path) -> SheetTable:
    names = [one.title for one in book.worksheets]
    sheet = _chosen.get() if sheet is None else sheet
    if sheet is not None and sheet not in names:
        listed = ", ".join(repr(name) for name in names[:10])
        raise ValueError(f"it has no sheet '{sheet}', but {listed}; name one by --table.sheet NAME")
    notes: list[str] = []
    for one in book.worksheets:
        if sheet not in (None, one.title):
            continue
        table = _table(one, merged_cells(path, one.title))
        if table is None:
            continue
        others = [name for name in names if name != one.title]
        if sheet is None and others:
            notes.append(
                f"the sheet '{one.title}' is read; for another ({_listed(others)}), set --table.sheet NAME"
            )
        unchosen = tuple(others) if sheet is None else ()
        return replace(table, notes=(*notes, *table.notes), others=unchosen, is_only=not others)
    raise ValueError("it is empty; the first row of a sheet names the columns")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:5]) + (" …" if len(names) > 5 else "")


def _table(sheet: Any, merged: Merged) -> SheetTable | None:
    notes: list[str] = []
    rows = _rows(sheet, notes)
    start = list(islice(rows, _TITLES))
    if not start:
        return None
    width = max(len(cells) for _, cells in start)
    padded = [[_text(cell) or "" for cell in cells] + [""] * (width - len(cells)) for _, cells in start]
    above = lines_above(padded)
    if above:
        notes.append(
            f"{'a row' if above == 1 else f'{above} rows'} above the header (row {start[above][0]}) "
            f"{'is' if above == 1 else 'are'} not part of the table: "
            + ", ".join(f"'{' '.join(filter(None, cells))[:40]}'" for cells in padded[:above])
        )
    header = ["" if _text(cell) is None else str(cell) for cell in start[above][1]]
    columns: list[list[Any]] = [[] for _ in header]
    numbers: list[int] = []
    count, filler = 0, FilledCells(merged, start[above][0])
    for number, given in (*start[above + 1 :], *rows):
        cells = filler.fill(number, given)
        if any(_text(cell) is not None for cell in cells[len(header) :]):
            raise ValueError(
                f"row {number} has {len(cells)} cells where the header (row {start[above][0]}) has "
                f"{len(header)}; name each column"
            )
        count += len(header)
        if count > _CELLS:
            raise ValueError(f"it has more than {_CELLS:,} cells; save the sheet as CSV")
        for column, cell in zip(columns, [*cells, *[None] * (len(header) - len(cells))], strict=False):
            column.append(cell)
        numbers.append(number)
    if filler.filled:
        named = ", ".join(f"'{header[column]}'" for column in sorted(filler.filled) if column < len(header))
        notes.append(f"merged cells of {named} are read as the same value in each of their rows")
    return SheetTable(header, columns, numbers, tuple(notes), start[above][0], sheet.title)


def _rows(sheet: Any, notes: list[str]) -> Iterator[tuple[int, list[Any]]]:
    """Number and values of the rows that are not empty, without empty cells at the end.

    Nothing is sought below very many empty rows, which a sentence in `notes` says.
    """
    sheet.reset_dimensions()  # what a workbook says of its size may be wrong
    seen, filled = 0, 0
    try:
        for number, values in enumerate(sheet.iter_rows(values_only=True), 1):
            seen += len(values)
            if seen > _CELLS:
                raise _TooLarge
            if number - filled > _EMPTY:
                notes.append(f"{_EMPTY:,} empty rows follow row {filled}; what may stand below is not read")
                return
            if not values or all(value is None for value in values):
                continue
            cells = list(values)
            while cells and _text(cells[-1]) is None:
                cells.pop()
            if cells:
                filled = number
                yield number, cells
    except _TooLarge:
        raise ValueError(f"it has more than {_CELLS:,} cells; save the sheet as CSV") from None
    except Exception as error:  # a damaged sheet can raise any error in the reader
        raise ValueError(f"its sheet '{sheet.title}' is damaged") from error


class _TooLarge(Exception):
    pass


def _text(value: Any) -> str | None:
    """A value as text; whole numbers have no decimal point, dates without a time no time."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    return None if value is None else str(value).strip() or None


def change_workbook(
    path: Path,
    out: Path,
    changed: Mapping[str, Mapping[int, str]],
    added: Mapping[str, Sequence[str]],
    sheet: str | None = None,
) -> None:
    """Write a workbook with other texts in some cells of a sheet, and further columns behind its last.

    Other sheets, formulas and formats stay; charts and pictures are lost.

    Args:
        path: The workbook.
        out: The new one.
        changed: By column, the new texts of rows as `read_sheet` counts them.
        added: The texts of new columns, for every row.
        sheet: The sheet that is read; None as for `read_sheet`.

    Raises:
        ImportError: If openpyxl is not installed.
        ValueError: If it cannot be read, or a cell that changes is merged with others; the message is the
            reason.
    """
    known = read_sheet(path, sheet)
    from openpyxl import load_workbook

    book = load_workbook(path, keep_vba=path.suffix.lower() == ".xlsm")
    cells = book[known.name]
    names = [name.strip() for name in known.header]
    new: dict[tuple[int, int], str] = {
        (known.numbers[row], names.index(name) + 1): text
        for name, texts in changed.items()
        for row, text in texts.items()
    }
    for column, (name, texts) in enumerate(added.items(), len(names) + 1):
        new[known.header_row, column] = name
        new |= {(known.numbers[row], column): text for row, text in enumerate(texts) if text}
    for merged in cells.merged_cells.ranges:
        first, *others = [place for place in merged.cells if place in new] or [(0, 0)]
        if first == (0, 0):
            continue
        if {new[place] for place in others} - {new[first]} or len(
            others
        ) + 1 < merged.max_row - merged.min_row + 1:
            raise ValueError(f"the cells {merged} are merged, and no longer equal; unmerge them")
        text = new[first]
        for place in (first, *others):
            del new[place]
        new[merged.min_row, merged.min_col] = text
    for (row, column), text in new.items():
        cell = cells.cell(row, column)
        cell.value = _writable(text) or None
        if text:
            cell.data_type = "s"
    book.save(out)


def write_workbook(path: Path, sheets: Mapping[str, tuple[Sequence[str], Sequence[Sequence[Any]]]]) -> None:
    """Write sheets of values: texts stay texts, even those that look like formulas.

    Args:
        path: The file.
        sheets: By name, the header of a sheet and its rows.

    Raises:
        ImportError: If openpyxl is not installed.
        ValueError: If there are more rows than a sheet holds, or a text is too long for a cell.
    """
    require_openpyxl(path, "write .csv")
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell  # type: ignore[import-untyped,import-not-found,unused-ignore]

    book = Workbook(write_only=True)
    for name, (header, rows) in sheets.items():
        if len(rows) >= _MOST_ROWS:
            raise ValueError(
                f"a sheet has {_MOST_ROWS:,} rows at most, and these are {len(rows) + 1:,}; write .csv or "
                ".parquet"
            )
        sheet = book.create_sheet(name)
        for number, row in enumerate([header, *rows], 1):
            cells = []
            for value in row:
                value = _writable(value)
                if isinstance(value, str) and len(value) > _LONGEST:
                    raise ValueError(
                        f"row {number} has a text of {len(value):,} characters, and a cell of a sheet has "
                        f"{_LONGEST:,} at most; write .csv or .parquet"
                    )
                cell = WriteOnlyCell(sheet, value)
                if isinstance(value, str):
                    cell.data_type = "s"  # no formula, even if it begins with =
                cells.append(cell)
            sheet.append(cells)
    book.save(path)


def _writable(value: Any) -> Any:
    """A value as a sheet can hold it."""
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        return value.date() if value.time() == datetime.time() else value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _EXACT:
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if value is None or isinstance(value, bool | int | float | datetime.date | datetime.time):
        aware = getattr(value, "tzinfo", None) is not None
        return str(value) if aware else value
    return _CONTROLS.sub("\ufffd", str(value))

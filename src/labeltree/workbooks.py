"""Workbooks (`.xlsx`): the values of a sheet as a table, without links, formulas and macros."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeltree.merged_cells import FilledCells, Merged, merged_cells
from labeltree.text_form import lines_above

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_sheet"]

_UNPACKED = 512 << 20  # bytes of all members
_DECLARATIONS = 1 << 16  # first bytes of a member in which a document type is sought
_CELLS = 50_000_000
_EMPTY = 10_000  # rows after which nothing is sought
_TITLES = 256  # rows among which the header is sought


def read_sheet(path: Path, sheet: str | None = None) -> tuple[pa.Table, tuple[str, ...]]:
    """The values of a sheet as texts, and sentences on what was left out.

    Args:
        path: The workbook.
        sheet: Name of the sheet; None = the first that is not empty.

    Raises:
        ImportError: If openpyxl is not installed.
        OSError: If it cannot be read.
        ValueError: If it is damaged, would unpack to an excessive size, or has no such sheet; the message is
            the reason.
    """
    try:
        from openpyxl import load_workbook  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError as error:
        raise ImportError(
            f"'{path}' is a workbook, which needs the package openpyxl: pip install 'labeltree[formats]'; or "
            "save the sheet as CSV"
        ) from error
    _check(path)
    try:
        book = load_workbook(path, read_only=True, data_only=True, keep_links=False, keep_vba=False)
    except OSError:
        raise
    except Exception as error:  # a damaged workbook can raise any error in the reader
        raise ValueError("it is damaged, or no workbook of Excel (.xlsx)") from error
    try:
        return _read(book, sheet, path)
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


def _read(book: Any, sheet: str | None, path: Path) -> tuple[pa.Table, tuple[str, ...]]:
    names = [one.title for one in book.worksheets]
    if sheet is not None and sheet not in names:
        raise ValueError(f"it has no sheet '{sheet}', but {', '.join(repr(name) for name in names[:10])}")
    notes: list[str] = []
    for one in book.worksheets:
        if sheet not in (None, one.title):
            continue
        table, told = _table(one, merged_cells(path, one.title))
        if table is None:
            continue
        others = [name for name in names if name != one.title]
        if sheet is None and others:
            listed = ", ".join(f"'{name}'" for name in others[:5]) + (" …" if len(others) > 5 else "")
            notes.append(f"the sheet '{one.title}' is read; for another ({listed}), set --table.sheet NAME")
        return table, (*notes, *told)
    raise ValueError("it is empty; the first row of a sheet names the columns")


def _table(sheet: Any, merged: Merged) -> tuple[pa.Table | None, list[str]]:
    import pyarrow as pa

    notes: list[str] = []
    rows = _rows(sheet, notes)
    start = list(islice(rows, _TITLES))
    if not start:
        return None, []
    width = max(len(cells) for _, cells in start)
    padded = [[cell or "" for cell in cells] + [""] * (width - len(cells)) for _, cells in start]
    above = lines_above(padded)
    if above:
        notes.append(
            f"{'a row' if above == 1 else f'{above} rows'} above the header (row {start[above][0]}) "
            f"{'is' if above == 1 else 'are'} not part of the table: "
            + ", ".join(f"'{' '.join(filter(None, cells))[:40]}'" for cells in padded[:above])
        )
    header = [(cell or "").strip() for cell in start[above][1]]
    columns: list[list[str | None]] = [[] for _ in header]
    count, filler = 0, FilledCells(merged, start[above][0])
    for number, given in (*start[above + 1 :], *rows):
        cells = filler.fill(number, given)
        if any(cell is not None for cell in cells[len(header) :]):
            raise ValueError(
                f"row {number} has {len(cells)} cells where the header (row {start[above][0]}) has "
                f"{len(header)}; name each column"
            )
        count += len(header)
        if count > _CELLS:
            raise ValueError(f"it has more than {_CELLS:,} cells; save the sheet as CSV")
        for column, cell in zip(columns, [*cells, *[None] * (len(header) - len(cells))], strict=False):
            column.append(cell)
    if filler.filled:
        named = ", ".join(f"'{header[column]}'" for column in sorted(filler.filled) if column < len(header))
        notes.append(f"merged cells of {named} are read as the same value in each of their rows")
    return pa.Table.from_arrays([pa.array(column, pa.string()) for column in columns], names=header), notes


def _rows(sheet: Any, notes: list[str]) -> Iterator[tuple[int, list[str | None]]]:
    """Number and texts of the rows that are not empty, without empty cells at the end.

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
            cells = [_text(value) for value in values]
            while cells and cells[-1] is None:
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

"""Merged cells of a workbook (`.xlsx`): where they lie, and the value that they have in all of their rows."""

from __future__ import annotations

import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias
from xml.etree import ElementTree

__all__ = ["FilledCells", "Merged", "merged_cells"]

Merged: TypeAlias = Mapping[int, Sequence[tuple[int, int]]]
"""Column, from 0 → the first and the last row of each of its merged cells, from 1, ascending."""

_CHUNK = 1 << 20
_LONGEST = 200  # bytes of the mark of a merged cell
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\s[^>]*?ref="([A-Z]{1,3})(\d{1,7}):[A-Z]{1,3}(\d{1,7})"')
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


def merged_cells(path: Path, sheet: str) -> Merged:
    """The cells of a sheet that are merged over several rows.

    Of cells that are merged over several columns, too, the first column counts. A workbook in which the part
    of the sheet is not to be seen has none.

    Args:
        path: The workbook, which has been checked.
        sheet: The name of the sheet.
    """
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    with zipfile.ZipFile(path) as archive:
        part = _part_of_sheet(archive, sheet)
        for letters, first, last in () if part is None else _marks(archive, part):
            if last > first:
                spans[_column(letters)].append((first, last))
    return {column: sorted(rows) for column, rows in spans.items()}


def _part_of_sheet(archive: zipfile.ZipFile, sheet: str) -> str | None:
    """The member of the archive that holds a sheet."""
    try:
        book = ElementTree.fromstring(archive.read("xl/workbook.xml"))
        relations = ElementTree.fromstring(archive.read("xl/_rels/workbook.xml.rels"))
    except (KeyError, ElementTree.ParseError):
        return None
    key = next(
        (
            each.get(_RELATION)
            for each in book.iter()
            if each.tag.endswith("}sheet") and each.get("name") == sheet
        ),
        None,
    )
    target = next(
        (each.get("Target") for each in relations if key is not None and each.get("Id") == key), None
    )
    if target is None:
        return None
    part = target.lstrip("/") if target.startswith("/") else str(PurePosixPath("xl") / target)
    return part if part in archive.NameToInfo else None


def _marks(archive: zipfile.ZipFile, part: str) -> Iterator[tuple[bytes, int, int]]:
    """The column, the first and the last row of all merged cells of a sheet."""
    with archive.open(part) as file:
        kept = b""
        while chunk := file.read(_CHUNK):
            text = kept + chunk
            end = 0
            for mark in _MERGED.finditer(text):
                yield mark[1], int(mark[2]), int(mark[3])
                end = mark.end()
            kept = text[max(end, len(text) - _LONGEST) :]


def _column(letters: bytes) -> int:
    """The number of a column, from 0."""
    number = 0
    for letter in letters:
        number = 26 * number + letter - ord("A") + 1
    return number - 1


class FilledCells:
    """Fills the rows of a sheet, which come in order, with the values of merged cells.

    Args:
        merged: The merged cells.
        header: The row of the header; only cells below it are filled.

    Attributes:
        filled: The columns in which a cell was filled.
    """

    def __init__(self, merged: Merged, header: int) -> None:
        self._left = {
            column: [rows for rows in reversed(spans) if rows[0] > header] for column, spans in merged.items()
        }
        self._value: dict[int, Any] = {}
        self.filled: set[int] = set()

    def fill(self, number: int, cells: list[Any]) -> list[Any]:
        """The cells of a row."""
        for column, spans in self._left.items():
            while spans and spans[-1][1] < number:
                spans.pop()
            if not spans or spans[-1][0] > number:
                continue
            if spans[-1][0] == number:
                self._value[column] = cells[column] if column < len(cells) else None
            elif (value := self._value.get(column)) is not None and (
                column >= len(cells) or cells[column] is None
            ):
                cells = [*cells, *[None] * (column + 1 - len(cells))]
                cells[column] = value
                self.filled.add(column)
        return cells

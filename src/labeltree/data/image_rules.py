"""Which files in a folder are the images of a row: a rule from its cells to names of files."""

from __future__ import annotations

import bisect
import os
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labeltree.data.table_columns import DataTable
from labeltree.data.unused_rows import UnusedRows
from labeltree.errors import DataError
from labeltree.file_kinds import names_image
from labeltree.system_files import is_system_file

__all__ = ["FileNames", "ImageRule", "RowImages", "images_by_rule", "is_url", "list_files"]

Array = np.ndarray[Any, Any]
_MOST = 1000  # images of one row
_LAST = "\U0010ffff"  # sorts behind every character of a name


def is_url(text: str) -> bool:
    """Whether a text is the address of a file that would have to be fetched."""
    return text[:8].lower().startswith(("http://", "https://", "ftp://"))


class ImageRule:
    """A rule such as `{gbifID}.jpg` or `{catalogNumber}_*.jpg`.

    Names in braces are columns; `*` stands for any characters but `/`, `?` for one.

    Args:
        rule: The rule.

    Attributes:
        columns: The columns that it names.

    Raises:
        DataError: If it names no column, or a brace is not closed.
    """

    def __init__(self, rule: str) -> None:
        self.rule = rule
        try:
            parts = list(string.Formatter().parse(rule))
        except ValueError as error:
            raise DataError(f"image_name is '{rule}': {error}; write it as '{{gbifID}}.jpg'") from error
        if any(conversion for _, _, _, conversion in parts):
            raise DataError(f"image_name is '{rule}'; in braces there must be only names of columns")
        # What follows a colon is part of the name: dwc:catalogNumber.
        self._parts = [(text, f"{name}:{spec}" if name and spec else name) for text, name, spec, _ in parts]
        self.columns = [column for _, column in self._parts if column]
        if not self.columns:
            raise DataError(f"image_name is '{rule}', which names no column; write it as '{{gbifID}}.jpg'")
        self.has_wildcards = any(mark in text for text, _ in self._parts for mark in "*?")
        self._pattern = self._compile()

    def name(self, cells: Mapping[str, str]) -> str:
        """The name of the file of a row without wildcards."""
        return "".join(text + (cells[column] if column else "") for text, column in self._parts)

    def _compile(self) -> re.Pattern[str]:
        """The pattern of the row's cells and the name of one of its files, each followed or led by a null."""
        groups = {column: number for number, column in enumerate(self.columns, 1)}
        pattern = "([^\\0]*)\\0" * len(self.columns)
        for text, column in self._parts:
            for piece in re.split(r"([*?])", text):
                pattern += {"*": "[^/]*", "?": "[^/]"}.get(piece, re.escape(piece))
            pattern += f"(?:\\{groups[column]})" if column else ""
        return re.compile(pattern, re.DOTALL)

    def _pieces(self, cells: Mapping[str, str]) -> list[str]:
        """What stands before, between and after the wildcards."""
        pieces = [""]
        for text, column in self._parts:
            first, *others = re.split(r"[*?]", text)
            pieces[-1] += first
            pieces += others
            pieces[-1] += cells[column] if column else ""
        return pieces

    def files(self, listed: FileNames, cells: Mapping[str, str]) -> list[str]:
        """The files of a row, sorted."""
        if not self.has_wildcards:
            name = self.name(cells)
            return [name] if name in listed else []
        start = "".join(f"{cells[column]}\0" for column in self.columns)
        return sorted(
            name
            for name in listed.candidates(self._pieces(cells))
            if self._pattern.fullmatch(start + name) and names_image(name)
        )


class FileNames:
    """The names of the files in a folder and below it, found by how they begin or end.

    Args:
        names: The names, with `/` between folders.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(names)
        self._sorted: list[tuple[list[str], list[str]]] = []

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def candidates(self, pieces: Sequence[str]) -> list[str]:
        """The names among which those are that have these pieces in this order, the first at the beginning
        and the last at the end, and no `/` between them."""
        if not self._sorted:
            for key in (str, _backwards, _strip_folder):
                names = sorted(self._names, key=key)
                self._sorted.append(([key(name) for name in names], names))
        last = next((piece for piece in reversed(pieces) if "/" in piece), pieces[0])
        ranges = []
        for (keys, names), start in zip(
            self._sorted, (pieces[0], _backwards(pieces[-1]), _strip_folder(last)), strict=True
        ):
            begin = bisect.bisect_left(keys, start)
            end = bisect.bisect_left(keys, start + _LAST, begin)
            ranges.append((end - begin, begin, names))
        number, begin, names = min(ranges, key=lambda choice: choice[0])
        return names[begin : begin + number]


def _backwards(name: str) -> str:
    return name[::-1]


def _strip_folder(name: str) -> str:
    return name.rpartition("/")[2]


@dataclass(frozen=True)
class RowImages:
    """The images of the rows of a table.

    Attributes:
        files: The absolute paths of the files.
        rows: The row of each image `(n,)` int64, from 0, ascending.
        numbers: The number of each image within its row `(n,)` int64, from 0.
        places: Index of each image into `files` `(n,)` int64.
        most: The most images of one row.
        unused: The rows without an image.
    """

    files: list[str]
    rows: Array
    numbers: Array
    places: Array
    most: int
    unused: UnusedRows


def images_by_rule(table: DataTable, folder: Path, rule: ImageRule) -> RowImages:
    """Find the images of every row in a folder, and below it.

    Raises:
        DataError: If the folder or a column is missing, no row has an image, or a file would be the image of
            rows with different cells.
    """
    import pandas as pd

    columns = [table.find(column) for column in rule.columns]
    listed = FileNames(list_files(folder))
    cells = [table.cells(column) for column in columns]
    codes = cells[0].codes
    for column in cells[1:]:
        codes = pd.factorize(codes * (len(column.texts) + 1) + column.codes + 1)[0]
    codes = pd.factorize(codes)[0]
    first = np.unique(codes, return_index=True)[1]
    places: dict[str, int] = {}
    owner: dict[str, str] = {}
    file_numbers: list[int] = []
    counts, why = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)
    reasons: list[tuple[str, str]] = []
    for number, row in enumerate(first.tolist()):
        texts = {
            name: column.texts[code] if (code := int(column.codes[row])) >= 0 else ""
            for name, column in zip(columns, cells, strict=True)
        }
        shown = rule.name(texts)
        empty = [name for name, text in texts.items() if not text]
        files = [] if empty else rule.files(listed, texts)
        for file in files:
            if owner.setdefault(file, shown) != shown:
                raise DataError(
                    f"{table}: image_name '{rule.rule}' finds '{file}' for '{owner[file]}' and '{shown}'; "
                    "put a character between the column and the *, such as '{gbifID}_*.jpg'"
                )
        if len(files) > _MOST:
            raise DataError(f"{table}: {len(files):,} files are '{shown}'; at most {_MOST:,}")
        file_numbers += [places.setdefault(file, len(places)) for file in files]
        counts[number] = len(files)
        if not files:
            why[number] = len(reasons)
            reason = f"'{empty[0]}' is empty" if empty else f"no file is called '{shown}'"
            reasons.append((", ".join(columns), f"it has no image: {reason}"))
    if not file_numbers:
        raise DataError(
            f"{table}: no row has an image: {reasons[0][1].partition(': ')[2]} in '{folder}', which holds "
            f"{len(listed):,} files; correct image_folder or image_name ('{rule.rule}')"
        )
    of_row = counts[codes]
    rows = np.repeat(np.arange(len(codes)), of_row)
    numbers = np.arange(len(rows)) - np.repeat(np.cumsum(of_row) - of_row, of_row)
    lacking = np.flatnonzero(of_row == 0)
    return RowImages(
        files=[os.path.join(os.path.abspath(folder), file) for file in places],
        rows=rows,
        numbers=numbers,
        places=np.array(file_numbers)[(np.cumsum(counts) - counts)[codes[rows]] + numbers],
        most=int(counts.max()),
        unused=UnusedRows(lacking, why[codes[lacking]], tuple(reasons)),
    )


def list_files(folder: Path) -> list[str]:
    """The sorted names of the files in a folder and below it; folders that are links are not entered.

    What systems leave there (see `is_system_file`) is left out.

    Raises:
        DataError: If there is no such folder.
    """
    if not folder.is_dir():
        raise DataError(f"there is no folder '{folder}', in which image_folder says the images are")
    names = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not is_system_file(name)]  # those that are entered
        files = [name for name in files if not is_system_file(name)]
        below = os.path.relpath(place, folder)
        names += files if below == "." else [f"{below}/{file}" for file in files]
    return sorted(names)

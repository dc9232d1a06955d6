"""Which files in a folder are the images of a row: a rule from its cells to names of files."""

from __future__ import annotations

import bisect
import os
import re
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from labeltree.data.images.decode import EXTENSIONS
from labeltree.data.table_columns import DataTable
from labeltree.data.unused_rows import UnusedRows
from labeltree.errors import DataError

__all__ = ["ImageRule", "images_by_rule", "is_url", "list_files"]

Array = np.ndarray[Any, Any]
_MOST = 1000  # images of one row


def is_url(text: str) -> bool:
    """Whether a text is the address of a file that would have to be fetched."""
    return text[:8].lower().startswith(("http://", "https://", "ftp://"))


class ImageRule:
    """A rule such as ``{gbifID}.jpg`` or ``{catalogNumber}_*.jpg``.

    Names in braces are columns; ``*`` stands for any characters but ``/``, ``?`` for one.

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
        if any(spec or conversion for _, _, spec, conversion in parts):
            raise DataError(f"image_name is '{rule}'; in braces there must be only names of columns")
        self.columns = [column for _, column, _, _ in parts if column]
        if not self.columns:
            raise DataError(f"image_name is '{rule}', which names no column; write it as '{{gbifID}}.jpg'")
        self._parts = [(text, column) for text, column, _, _ in parts]
        self.has_wildcards = any(mark in text for text, _ in self._parts for mark in "*?")

    def name(self, cells: Mapping[str, str]) -> str:
        """The name of the file of a row without wildcards."""
        return "".join(text + (cells[column] if column else "") for text, column in self._parts)

    def _pattern(self, cells: Mapping[str, str]) -> tuple[str, re.Pattern[str]]:
        """What the names of a row's files begin with, and their pattern."""
        prefix, pattern, open_end = "", "", False
        for text, column in self._parts:
            for piece in re.split(r"([*?])", text):
                open_end |= piece in ("*", "?")
                pattern += {"*": "[^/]*", "?": "[^/]"}.get(piece, re.escape(piece))
                prefix += "" if open_end else piece
            value = cells[column] if column else ""
            pattern += re.escape(value)
            prefix += "" if open_end else value
        return prefix, re.compile(pattern)

    def files(self, listed: Sequence[str], cells: Mapping[str, str]) -> list[str]:
        """The files of a row among sorted names."""
        if not self.has_wildcards:
            name = self.name(cells)
            place = bisect.bisect_left(listed, name)
            return [name] if place < len(listed) and listed[place] == name else []
        prefix, pattern = self._pattern(cells)
        found = []
        for place in range(bisect.bisect_left(listed, prefix), len(listed)):
            if not listed[place].startswith(prefix):
                break
            if pattern.fullmatch(listed[place]) and Path(listed[place]).suffix.lower() in EXTENSIONS:
                found.append(listed[place])
        return found


def images_by_rule(table: DataTable, folder: Path, rule: ImageRule) -> tuple[list[str], Array, UnusedRows]:
    """Find the images of every row in a folder, and below it.

    Returns:
        The absolute paths of the files; the index of each row's files ``(rows, k)`` int64, -1 for none; and
        the rows without an image.

    Raises:
        DataError: If the folder or a column is missing, no row has an image, or a file would be the image of
            rows with different cells.
    """
    import pandas as pd

    columns = [table.find(column) for column in rule.columns]
    listed = list_files(folder)
    cells = [table.cells(column) for column in columns]
    codes = cells[0].codes
    for column in cells[1:]:
        codes = pd.factorize(codes * (len(column.texts) + 1) + column.codes + 1)[0]
    codes = pd.factorize(codes)[0]
    first = np.unique(codes, return_index=True)[1]
    places: dict[str, int] = {}
    owner: dict[str, str] = {}
    found: list[list[int]] = []
    why: list[tuple[str, str]] = []
    for row in first.tolist():
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
        found.append([places.setdefault(file, len(places)) for file in files])
        reason = f"'{empty[0]}' is empty" if empty else f"no file is called '{shown}'"
        why.append((", ".join(columns), "" if files else f"it has no image: {reason}"))
    width = max(map(len, found), default=0)
    if not width:
        raise DataError(
            f"{table}: no row has an image: {why[0][1].partition(': ')[2]} in '{folder}', which holds "
            f"{len(listed):,} files; correct image_folder or image_name ('{rule.rule}')"
        )
    of_label = np.full((len(found), width), -1, np.int64)
    for number, numbers in enumerate(found):
        of_label[number, : len(numbers)] = numbers
    lacking = np.array([not numbers for numbers in found])
    rows = np.flatnonzero(lacking[codes])
    unused = UnusedRows(rows, codes[rows].astype(np.int64), tuple(why))
    return [os.path.join(os.path.abspath(folder), file) for file in places], of_label[codes], unused


def list_files(folder: Path) -> list[str]:
    """The sorted names of the files in a folder and below it; folders that are links are not entered.

    Raises:
        DataError: If there is no such folder.
    """
    if not folder.is_dir():
        raise DataError(f"there is no folder '{folder}', in which image_folder says the images are")
    names = []
    for place, _, files in os.walk(folder):
        below = os.path.relpath(place, folder)
        names += files if below == "." else [f"{below}/{file}" for file in files]
    return sorted(names)

"""Text files that list a data set: one record per line, columns separated by white space or commas."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from labeltree.data.source import printable
from labeltree.errors import DataError

__all__ = ["Listing", "legible", "read_listing"]

Value = TypeVar("Value")


@dataclass(frozen=True)
class Listing:
    """The records of a file.

    Attributes:
        path: Path of the file, for errors.
        columns: Names of the fields of a record.
        records: The fields of each record.
        lines: Number of each record's line, from 1.
    """

    path: Path
    columns: tuple[str, ...]
    records: list[tuple[str, ...]]
    lines: list[int]

    def __len__(self) -> int:
        return len(self.records)

    def texts(self, column: str) -> list[str]:
        """A column, as it is written: bytes that are not UTF-8 are kept as `os.fsdecode` keeps them."""
        place = self.columns.index(column)
        return [record[place] for record in self.records]

    def whole(self, column: str) -> np.ndarray[Any, np.dtype[np.int64]]:
        """A column of whole numbers `(n,)`."""
        texts = self.texts(column)
        try:
            return np.array([int(text) for text in texts], np.int64)
        except (ValueError, OverflowError):
            return np.array([self._number(column, row, int) for row in range(len(texts))], np.int64)

    def reals(self, *columns: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Columns of numbers `(n, k)`."""
        cells = [[self._number(column, row, float) for column in columns] for row in range(len(self))]
        return np.array(cells, np.float64).reshape(len(self), len(columns))

    def choices(self, column: str, meanings: Mapping[str, Value]) -> list[Value]:
        """A column of a few possible values, each replaced by its meaning."""
        texts = self.texts(column)
        for row, text in enumerate(texts):
            if text not in meanings:
                raise self.error(row, f"the {column} is '{legible(text)}', expected {' or '.join(meanings)}")
        return [meanings[text] for text in texts]

    def files(self, column: str) -> list[str]:
        """A column of files, relative to some folder and below it."""
        texts = self.texts(column)
        for row, text in enumerate(texts):
            if os.path.isabs(text) or os.path.normpath(text).split(os.sep)[0] == os.pardir:
                raise self.error(row, f"'{printable(text)}' lies outside the data set's folder")
        return texts

    def by(self, column: str, keys: Iterable[str], whose: str) -> Listing:
        """The records with these values of `column`, in the order of `keys`; others are left out.

        Args:
            column: Column of the keys.
            keys: Keys to select.
            whose: Name of the keyed objects in error messages, such as `image`.

        Raises:
            DataError: If a key has no record or several.
        """
        rows: dict[str, int] = {}
        for row, key in enumerate(self.texts(column)):
            if key in rows:
                where = self.lines[rows[key]]
                raise self.error(row, f"the {whose} '{printable(key)}' has a line already, {where}")
            rows[key] = row
        order = []
        for key in keys:
            if key not in rows:
                raise DataError(f"'{self.path}' has no line for the {whose} '{printable(key)}'")
            order.append(rows[key])
        return Listing(
            self.path, self.columns, [self.records[r] for r in order], [self.lines[r] for r in order]
        )

    def where(self, keep: Iterable[Any]) -> Listing:
        """The records for which `keep` is true."""
        rows = [row for row, good in enumerate(keep) if good]
        return Listing(
            self.path, self.columns, [self.records[r] for r in rows], [self.lines[r] for r in rows]
        )

    def error(self, row: int, what: str) -> DataError:
        """An error about a record, to be raised."""
        return DataError(f"'{self.path}', line {self.lines[row]}: {what}")

    def _number(self, column: str, row: int, kind: type[int] | type[float]) -> int | float:
        text = self.records[row][self.columns.index(column)]
        try:
            value = kind(text)
            if abs(value) < 2**63:  # false for NaN
                return value
        except ValueError:
            pass
        what = "a whole number" if kind is int else "a number"
        raise self.error(row, f"the {column} is '{legible(text)}', expected {what}")


def legible(text: str) -> str:
    """A name from a listing as readable text: bytes that are not UTF-8 are read as Latin-1."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return os.fsencode(text).decode("latin-1")


def read_listing(
    path: Path, columns: Sequence[str], *, heading: int = 0, separator: str | None = None
) -> Listing:
    """Read a file of records.

    Lines may end as on any system; empty ones are left out. The last column is the rest of its line, white
    space within it included.

    Args:
        path: The file.
        columns: Names of the fields.
        heading: Number of lines above the first record.
        separator: What separates the fields, white space around it aside; None = white space.

    Raises:
        DataError: If the file cannot be read, holds no records, or a line has too few columns.
    """
    try:
        text = os.fsdecode(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    except FileNotFoundError as error:
        raise DataError(f"there is no '{path}'") from error
    except OSError as error:
        raise DataError(f"cannot read '{path}': {error.strerror}") from error
    records, lines = [], []
    for number, line in enumerate(text.split("\n"), 1):
        fields = tuple(field.strip() for field in line.strip().split(separator, len(columns) - 1))
        if number <= heading or not any(fields):
            continue
        if len(fields) < len(columns):
            raise DataError(
                f"'{path}', line {number}: it has {len(fields)} column(s), expected {len(columns)}: "
                f"{', '.join(columns)}"
            )
        records.append(fields)
        lines.append(number)
    if not records:
        raise DataError(f"'{path}' lists nothing; it may be half written: unpack it again")
    return Listing(path, tuple(columns), records, lines)

"""The rows of a table that are not used as they stand, each with its reason."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from labeltree.atomic import atomic_write
from labeltree.cache import data_home
from labeltree.counted_nouns import plural, say_count, say_list

__all__ = ["UnusedRows"]

Array = np.ndarray[Any, Any]
_SHOWN = 3  # reasons that an error names, and rows of each


@dataclass(frozen=True)
class UnusedRows:
    """Rows of a table that are not used, or only in part.

    Attributes:
        rows: Numbers of the rows `(n,)` int64, from 0; a row may have several reasons.
        numbers: Their numbers as a person sees them `(n,)` int64: lines of a text, rows of a sheet;
            None = counted from 1.
        why: Index of each row's reason `(n,)` int64.
        reasons: Pairs of columns and a reason.
        ids: The id of each row `(n,)`, empty where it has none; None = the table has no column of ids.
    """

    rows: Array
    why: Array
    reasons: tuple[tuple[str, str], ...]
    numbers: Array | None = None
    ids: Array | None = None

    @classmethod
    def none(cls) -> UnusedRows:
        """No rows."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), ())

    @classmethod
    def because(cls, rows: Array, columns: Sequence[str], reason: str) -> UnusedRows:
        """Rows `(n,)` with one reason, which completes "the row is not used: …"."""
        if not len(rows):
            return cls.none()
        numbers = np.asarray(rows, np.int64)
        return cls(numbers, np.zeros(len(numbers), np.int64), ((", ".join(columns), reason),))

    def __len__(self) -> int:
        return len(self.rows)

    def __add__(self, other: UnusedRows) -> UnusedRows:
        return UnusedRows(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.why, other.why + len(self.reasons)]),
            self.reasons + other.reasons,
            None
            if self.numbers is None and other.numbers is None
            else np.concatenate([self._shown(), other._shown()]),
            None if self.ids is None and other.ids is None else np.concatenate([self._ids(), other._ids()]),
        )

    def numbered(self, number: Callable[[Array], Array], ids: Array | None = None) -> UnusedRows:
        """The same with the numbers that a person sees, which `number` gives for rows `(n,)`.

        Args:
            number: Gives the numbers.
            ids: The ids of all rows of the table, if it has a column of them.
        """
        return replace(self, numbers=number(self.rows), ids=None if ids is None else ids[self.rows])

    def _shown(self) -> Array:
        return self.rows + 1 if self.numbers is None else self.numbers

    def _ids(self) -> Array:
        return np.full(len(self), "") if self.ids is None else self.ids

    def lines(self) -> list[tuple[int, str, str]]:
        """Number as a person sees it, columns and reason of each row, in the order of the rows."""
        order = np.argsort(self.rows, kind="stable")
        return [
            (number, *self.reasons[why])
            for number, why in zip(self._shown()[order].tolist(), self.why[order].tolist(), strict=True)
        ]

    def save(self, path: Path) -> None:
        """Write a CSV file with the columns `row`, `columns`, `reason` and, with ids, `id`, atomically."""
        order = np.argsort(self.rows, kind="stable")
        ids = None if self.ids is None else self.ids[order].tolist()
        with atomic_write(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["row", "columns", "reason", *([] if ids is None else ["id"])])
            writer.writerows(
                self.lines()
                if ids is None
                else ((*line, name) for line, name in zip(self.lines(), ids, strict=True))
            )

    def in_words(self, table: Path, unit: str = "row") -> str:
        """The first reasons with rows of each, and the file in the cache folder to which all are written.

        Args:
            table: Path of the table, after which the file is named.
            unit: What numbers count: `row` or `line`.
        """
        by_reason: dict[tuple[str, str], list[int]] = {}
        for number, *reason in self.lines():
            by_reason.setdefault((reason[0], reason[1]), []).append(number)
        said = [
            f"{_some_numbers(numbers, unit)}, {columns}: {reason}"
            for (columns, reason), numbers in [*by_reason.items()][:_SHOWN]
        ]
        if more := sum(map(len, [*by_reason.values()][_SHOWN:])):
            said.append(f"and {say_count(more, f'more {unit}')}")
        text = "; ".join(said)
        name = hashlib.sha256(str(table.absolute()).encode("utf-8", "surrogateescape")).hexdigest()[:8]
        path = data_home() / "bad-rows" / f"{table.stem}-{name}.csv"
        try:
            self.save(path)
        except OSError as error:  # the rows shown say more than a full disk
            return f"{text}; the list of all cannot be written: {error}"
        return f"{text}; all are listed in '{path}'"


def _some_numbers(numbers: Sequence[int], unit: str) -> str:
    """The first numbers of rows, and how many more there are: `rows 2, 3, 4 and 5 more`."""
    more = [f"{len(numbers) - _SHOWN:,} more"] * (len(numbers) > _SHOWN)
    return f"{unit if len(numbers) == 1 else plural(unit)} {say_list([*map(str, numbers[:_SHOWN]), *more])}"

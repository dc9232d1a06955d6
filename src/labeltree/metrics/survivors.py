"""The best few of many scores: a bound from a sample leaves little more to sort."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labeltree.metrics.ordering import COLUMN, LAST, pack

__all__ = ["Survivors", "few_true"]


class Survivors:
    """The scores of some rows that reach the row's bound, gathered from tiles.

    Args:
        bound: (b,) of each row, b at most 65,536.
        wanted: how many of each row are wanted.
        limit: with more survivors than this, none is kept.
        own: (b,) a column of each row that is left out.

    """

    def __init__(
        self, bound: NDArray[np.float32], wanted: int, limit: int, own: NDArray[np.int64] | None
    ) -> None:
        self._bound = bound
        self._wanted = wanted
        self._own = own
        if own is not None:
            self._own_from, self._own_to = int(own.min()), int(own.max())
        self._rows: list[NDArray[np.uint16]] = []
        self._packed: list[NDArray[np.int64]] = []
        self._stored = 0
        self._limit = limit

    def add(self, scores: NDArray[np.float32], first: int) -> None:
        """Read a tile: `scores` (b, c) of the columns `first` … `first + c`."""
        if self._stored <= self._limit:
            flat = few_true(scores >= self._bound[:, None])
            row = flat // scores.shape[1]
            column = flat - row * scores.shape[1]
            self._keep(row, scores.reshape(-1)[flat], column + first, first, scores.shape[1])

    def add_transposed(self, scores: NDArray[np.float32], first: int) -> None:
        """Read a tile whose columns are the rows: `scores` (c, b)."""
        if self._stored <= self._limit:
            flat = few_true(scores >= self._bound)
            column = flat // scores.shape[1]
            row = flat - column * scores.shape[1]
            self._keep(row, scores.reshape(-1)[flat], column + first, first, scores.shape[0])

    def _keep(
        self,
        row: NDArray[np.int64],
        scores: NDArray[np.float32],
        column: NDArray[np.int64],
        first: int,
        width: int,
    ) -> None:
        if self._own is not None and self._own_from < first + width and self._own_to >= first:
            others = column != self._own[row]
            row, scores, column = row[others], scores[others], column[others]
        self._rows.append(row.astype(np.uint16))
        self._packed.append(pack(scores, column))
        self._stored += len(row)
        if self._stored > self._limit:  # the sample misled, or most scores are equal
            self._rows, self._packed = [], []

    def order(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """(b, wanted) columns, best first; and (b,) the rows that this found too few for."""
        count, wanted = len(self._bound), self._wanted
        if self._stored > self._limit:
            return np.empty((count, wanted), dtype=np.int64), np.ones(count, dtype=np.bool_)
        row, packed = np.concatenate(self._rows), np.concatenate(self._packed)
        found = np.bincount(row, minlength=count)
        by_row = np.argsort(row, kind="stable")
        place = np.arange(len(row)) - np.repeat(found.cumsum() - found, found)
        sorted_rows = np.full((count, max(wanted, int(found.max()))), LAST)
        sorted_rows[row[by_row], place] = packed[by_row]
        sorted_rows.sort(axis=1)
        return sorted_rows[:, :wanted] & COLUMN, found < wanted


def few_true(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Flat indices of the few entries of `mask` that are true, eight looked at in one."""
    if mask.size % 8:
        return np.flatnonzero(mask)
    words = np.flatnonzero(mask.reshape(-1).view(np.uint64) != 0)
    inside = np.flatnonzero(mask.reshape(-1, 8)[words])
    flat: NDArray[np.int64] = words[inside >> 3] * 8 + (inside & 7)
    return flat

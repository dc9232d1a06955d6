"""The best few of many scores: a bound from a sample leaves little more to sort."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labeltree.metrics.left_out import LeftOut
from labeltree.metrics.ordering import COLUMN, LAST, pack

__all__ = ["Survivors", "few_true"]


class Survivors:
    """The scores of some rows that reach the row's bound, gathered from tiles.

    Args:
        bound: (b,) of each row, b at most 65,536.
        wanted: how many of each row are wanted.
        limit: with more survivors than this, none is kept.
        left_out: which columns each row leaves out.

    """

    def __init__(self, bound: NDArray[np.float32], wanted: int, limit: int, left_out: LeftOut | None) -> None:
        self._bound = bound
        self._wanted = wanted
        self._left_out = left_out
        if left_out is not None:
            self._left_from, self._left_to = left_out.reach()
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
        out = self._left_out
        if out is not None and self._left_from < first + width and self._left_to >= first:
            others = out.items[column] != out.numbers[row]
            row, scores, column = row[others], scores[others], column[others]
        self._rows.append(row.astype(np.uint16))
        self._packed.append(pack(scores, column))
        self._stored += len(row)
        if self._stored > self._limit:  # the sample misled, or most scores are equal
            self._rows, self._packed = [], []

    def order(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """(b, wanted) columns, best first; and (b,) the rows that this found too few for.

        Where a row leaves out so many that there are fewer, 0 stands in the other places.
        """
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
        best = sorted_rows[:, :wanted]
        if self._left_out is None:
            return best & COLUMN, found < wanted
        there = np.minimum(wanted, len(self._left_out.items) - self._left_out.counts)
        return np.where(best == LAST, 0, best & COLUMN), found < there


def few_true(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Flat indices of the few entries of `mask` that are true, eight looked at in one."""
    if mask.size % 8:
        return np.flatnonzero(mask)
    words = np.flatnonzero(mask.reshape(-1).view(np.uint64) != 0)
    inside = np.flatnonzero(mask.reshape(-1, 8)[words])
    flat: NDArray[np.int64] = words[inside >> 3] * 8 + (inside & 7)
    return flat

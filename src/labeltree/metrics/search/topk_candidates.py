"""Exact sorting of float32 scores: of whole rows, or of the best few of each row.

For the best few, a bound from a sample leaves few candidates to sort.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from labeltree.metrics.search.results_left_out import LeftOut

__all__ = ["COLUMN", "LAST", "TopkCandidates", "falling_order", "few_true", "pack"]

COLUMN = 0xFFFFFFFF
"""The bits of a packed integer that hold the column."""
LAST = np.iinfo(np.int64).max
"""Sorts behind every packed integer."""
# Several short rows are processed at once.
_BLOCK = 2**12
_Number = TypeVar("_Number", bound=np.generic)


def pack(scores: NDArray[np.float32], columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Integers that sort by falling score, then by column: bits of the score in order, above the column's."""
    packed: NDArray[np.int64] = (_rising_bits(scores).astype(np.int64) << 32) | columns
    return packed


def falling_order(
    scores: NDArray[np.float32], last: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
) -> NDArray[np.int64]:
    """Columns of every row of `scores` (b, m) in order of falling score, equal scores in order of column.

    A radix sort by 16 bits at a time, each of which is stable. On CPUs whose AVX-512 compresses slowly
    (AMD Zen 4) it takes less than half the time of a vectorised sort of packed integers, on others not much
    more.

    Args:
        scores: (b, m).
        last: Rows (ascending) and columns of entries that come last in their row whatever their score.

    Returns:
        (b, m) int64.

    """
    count, size = scores.shape
    order = np.empty((count, size), dtype=np.int64)
    step = max(1, _BLOCK // max(size, 1))
    starts = np.arange(0, count, step)
    bounds = None if last is None else np.searchsorted(last[0], [*starts, count])
    for number, start in enumerate(starts.tolist()):
        rows = slice(start, start + step)
        bits = _rising_bits(scores[rows])
        if last is not None and bounds is not None:
            here = slice(*bounds[number : number + 2])
            bits[last[0][here] - start, last[1][here]] = np.iinfo(np.int32).max
        by_low = np.argsort(bits.astype(np.uint16), axis=1, kind="stable")
        high = (bits >> 16).astype(np.int16)
        by_high = np.argsort(_along(high, by_low), axis=1, kind="stable")
        order[rows] = _along(by_low, by_high)
    return order


def _along(values: NDArray[_Number], order: NDArray[np.int64]) -> NDArray[_Number]:
    """Each row of `values` in its `order`."""
    if len(values) == 1:  # several times faster
        return np.take(values[0], order)
    return np.take_along_axis(values, order, axis=1)


def _rising_bits(scores: NDArray[np.float32]) -> NDArray[np.int32]:
    """Integers that increase as the scores decrease."""
    # 0 - s and not -s: it turns both zeros into +0, whose bits are equal as the ties demand
    bits = (np.float32(0.0) - scores).view(np.int32)
    rising: NDArray[np.int32] = np.bitwise_xor(bits, (bits >> 31) & 0x7FFFFFFF)
    return rising


class TopkCandidates:
    """The scores that reach the bound of their row, gathered from tiles.

    Args:
        bound: (b,) bound of each row, b at most 65,536.
        wanted: Number of results wanted for each row.
        limit: With more candidates than this, none is kept.
        left_out: The columns that each row leaves out.

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
        """Read a transposed tile: `scores` (c, b)."""
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
        if self._stored > self._limit:  # the sample was misleading, or most scores are equal
            self._rows, self._packed = [], []

    def order(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """(b, wanted) columns, best first; and (b,) mask of the rows with too few candidates.

        If a row leaves out so many that fewer remain, the other entries are 0.
        """
        count, wanted = len(self._bound), self._wanted
        if self._stored > self._limit:
            return np.empty((count, wanted), dtype=np.int64), np.ones(count, dtype=np.bool_)
        row, packed = np.concatenate(self._rows), np.concatenate(self._packed)
        counts = np.bincount(row, minlength=count)
        by_row = np.argsort(row, kind="stable")
        place = np.arange(len(row)) - np.repeat(counts.cumsum() - counts, counts)
        sorted_rows = np.full((count, max(wanted, int(counts.max()))), LAST)
        sorted_rows[row[by_row], place] = packed[by_row]
        sorted_rows.sort(axis=1)
        best = sorted_rows[:, :wanted]
        if self._left_out is None:
            return best & COLUMN, counts < wanted
        there = np.minimum(wanted, len(self._left_out.items) - self._left_out.counts)
        return np.where(best == LAST, 0, best & COLUMN), counts < there


def few_true(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Flat indices of the few true entries of `mask`, testing eight at a time."""
    if mask.size % 8:
        return np.flatnonzero(mask)
    words = np.flatnonzero(mask.reshape(-1).view(np.uint64) != 0)
    inside = np.flatnonzero(mask.reshape(-1, 8)[words])
    flat: NDArray[np.int64] = words[inside >> 3] * 8 + (inside & 7)
    return flat

"""The exact ranks of a query's few relevant items, without sorting the many others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labeltree.metrics.left_out import LeftOut
from labeltree.metrics.ordering import COLUMN, LAST, pack
from labeltree.metrics.relevance import RelevanceScores
from labeltree.metrics.survivors import few_true

__all__ = ["Placing"]

# more buckets than this, and float32 could not tell them apart
_BUCKETS = (2**10, 2**22)
# items per candidate from which sorting all above the worst relevant one is faster than buckets
_FEW = 16


class _Found(NamedTuple):
    """Items of one row that share a bucket with a relevant one, by column."""

    columns: NDArray[np.int64]
    before: NDArray[np.int64]
    """How many better items are not among them, in order of falling score."""


class Placing:
    """Finds where relevant items stand in whole rankings.

    The scores of a row fall into buckets of equal width. Counting says how many items lie in better buckets
    than a relevant one has; only within its own bucket is there anything to sort.

    Args:
        scores: what is relevant, for one or several kinds of labels, none of which skips items.
        key_codes: (m,) codes of the items, those of `scores`.

    """

    def __init__(self, scores: Sequence[RelevanceScores], key_codes: NDArray[np.int32]) -> None:
        self._scores = scores
        self._classes = [each.code_classes[key_codes] for each in scores]
        self._members = [np.argsort(classes, kind="stable") for classes in self._classes]
        self._ranges = []
        for each, classes, members in zip(scores, self._classes, self._members, strict=True):
            rising = classes[members]
            first = np.searchsorted(rising, each.query_classes, side="left")
            self._ranges.append((first, np.searchsorted(rising, each.query_classes, side="right")))
        self._buckets = int(np.clip(len(key_codes) // 2, *_BUCKETS))
        self._marked = np.zeros(self._buckets + 1, dtype=np.bool_)
        self._place = np.empty(len(key_codes), dtype=np.float32)
        self._numbers = np.empty(len(key_codes), dtype=np.int64)

    def add(self, rows: NDArray[np.int64], scores: NDArray[np.float32], left_out: LeftOut | None) -> None:
        """Place the relevant items of the queries `rows` (b,) by their float32 scores (b, m), and score them.

        `left_out` says which columns these queries leave out.
        """
        found = [
            self._near_relevant(row, line, None if left_out is None else left_out.of(i))
            for i, (row, line) in enumerate(zip(rows.tolist(), scores, strict=True))
        ]
        sizes = np.array([len(each.columns) for each in found])
        columns = np.concatenate([each.columns for each in found])
        before = np.concatenate([each.before for each in found])
        line = np.repeat(np.arange(len(rows)), sizes)
        place = np.arange(len(line)) - np.repeat(sizes.cumsum() - sizes, sizes)
        packed = np.full((len(rows), int(sizes.max(initial=0))), LAST)
        packed[line, place] = pack(scores[line, columns], columns)
        packed.sort(axis=1)
        columns, ranks = packed[line, place] & COLUMN, before + place + 1
        for each, classes in zip(self._scores, self._classes, strict=True):
            hits = np.flatnonzero(classes[columns] == each.query_classes[rows[line]])
            each.add_ranks(rows, np.bincount(line[hits], minlength=len(rows)), ranks[hits])

    def _near_relevant(self, row: int, scores: NDArray[np.float32], out: NDArray[np.int64] | None) -> _Found:
        relevant = np.concatenate(
            [members[first[row] : stop[row]] for members, (first, stop) in self._of_each()]
        )
        if out is not None:
            relevant = relevant[relevant != out[0] if len(out) == 1 else ~np.isin(relevant, out)]
        if not len(relevant):
            return _Found(relevant, relevant)
        above = scores >= scores[relevant].min()
        if out is not None:
            above[out] = False
        if np.count_nonzero(above) * _FEW <= len(scores):
            columns = few_true(above)
            return _Found(columns, np.zeros(len(columns), dtype=np.int64))
        bucket = self._bucket(scores)
        if out is not None:
            bucket[out] = self._buckets
        counts = np.bincount(bucket, minlength=self._buckets + 1)
        self._marked[bucket[relevant]] = True
        marked = np.flatnonzero(self._marked)
        columns = few_true(self._marked.take(bucket))
        self._marked[marked] = False
        inside = counts[marked]
        better = counts.cumsum()[marked] - inside.cumsum()
        return _Found(columns, np.repeat(better, inside))

    def _of_each(self) -> Iterator[tuple[NDArray[np.int64], tuple[NDArray[np.int64], NDArray[np.int64]]]]:
        return zip(self._members, self._ranges, strict=True)

    def _bucket(self, scores: NDArray[np.float32]) -> NDArray[np.int64]:
        """(m,) bucket of each score, falling: a better score never falls into a worse one."""
        best = scores.max()
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            scale = np.float32(self._buckets - 1) / (best - scores.min())
        if not 0 < scale < np.inf:
            self._numbers[:] = 0
            return self._numbers
        # rounding is monotone, so all of this is
        np.subtract(best, scores, out=self._place)
        np.multiply(self._place, scale, out=self._place)
        # a cast in two steps is the faster
        self._numbers[:] = self._place.astype(np.int32)
        return self._numbers

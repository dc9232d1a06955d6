"""The ranks of relevant results, and recall@k, MAP@R and mAP computed from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.metrics.search.results_left_out import LeftOut
from labeltree.metrics.search.topk_candidates import COLUMN, LAST, few_true, pack

__all__ = ["RelevanceScores", "RelevantRanks"]

# with more buckets than this, float32 could not represent their indices
_BUCKETS = (2**10, 2**22)
# items per candidate from which sorting all items above the worst relevant item is faster than buckets
_FEW = 16


class RelevanceScores:
    """Per-query scores, filled from chunks of rankings.

    A result is relevant if its class is that of the query. Queries of class -1 get no score, and results of
    class -1 are skipped as if they were not in the database.

    Args:
        query_classes: (n,) int64.
        code_classes: (c,) int64 class of each code of the database.
        key_codes: (m,) code of each item.
        left_out: The items that the rankings leave out, such as the query itself; they are not relevant.

    Attributes:
        query_classes, code_classes: As given, but renumbered without gaps; -1 stays.
        first: (n,) int64 rank of the first relevant result, from 1; 0 if the ranking has none.
        average_precision: (n,) float64, NaN without a relevant item; correct only if rankings were complete.
        precision_at_r: (n,) float64 AP@R, NaN without a relevant item; correct if rankings reach rank R.
        relevant: (n,) int64 number of relevant items R in the database.
        counted: (n,) bool, queries that have a class.
        skips: Whether any item has class -1.

    """

    def __init__(
        self,
        query_classes: Tensor,
        code_classes: Tensor,
        key_codes: NDArray[np.int32],
        *,
        left_out: LeftOut | None,
    ) -> None:
        mine, theirs = query_classes.numpy(), code_classes.numpy()
        distinct, places = np.unique(np.concatenate([[-1], mine, theirs]), return_inverse=True)
        numbers: NDArray[np.int32] = (places - 1).astype(np.int32)
        self.query_classes = numbers[1 : 1 + len(mine)]
        self.code_classes = numbers[1 + len(mine) :]
        items = np.bincount(key_codes, minlength=len(theirs))
        sizes = np.bincount(self.code_classes + 1, items, minlength=len(distinct)).astype(np.int64)
        counted = self.query_classes >= 0
        self.skips = bool((self.code_classes[key_codes] < 0).any())
        self.counted = torch.from_numpy(counted)
        relevant = sizes[self.query_classes + 1]
        self._eligible = len(key_codes)
        self._left_out = left_out
        if left_out is not None:
            relevant = relevant - left_out.count_own_class(self.query_classes, self.code_classes[key_codes])
        self.relevant = torch.from_numpy(np.where(counted, relevant, 0))
        self.first = torch.zeros(len(counted), dtype=torch.int64)
        nothing = torch.where(self.relevant > 0, 0.0, torch.nan).double()
        self.average_precision, self.precision_at_r = nothing, nothing.clone()

    def add(self, rows: NDArray[np.int64], codes: NDArray[np.int32]) -> None:
        """Read the rankings of the queries `rows` (b,), whose results have the `codes` (b, w)."""
        count, width = codes.shape
        classes = self.code_classes.take(codes)
        wanted = self.query_classes[rows]
        relevant = classes == np.where(wanted < 0, -2, wanted)[:, None]
        if self._left_out is not None and not self._left_out.alike:
            ends = self._eligible - self._left_out.counts[rows]
            relevant &= np.arange(width) < ends[:, None]
        hits = np.flatnonzero(relevant)
        counts = np.diff(np.searchsorted(hits, np.arange(count + 1) * width))
        if self.skips:
            ranks = (classes >= 0).cumsum(axis=1).reshape(-1)[hits]
        else:
            ranks = hits - np.repeat(np.arange(count) * width, counts) + 1
        self.add_ranks(rows, counts, ranks)

    def add_ranks(self, rows: NDArray[np.int64], counts: NDArray[np.int64], ranks: NDArray[np.int64]) -> None:
        """Read the ranks of the relevant results.

        Args:
            rows: (b,) queries.
            counts: (b,) number of relevant results of each query.
            ranks: Ranks of these results, from 1, ascending, query after query.

        """
        present = np.flatnonzero(counts)
        if not len(present):
            return
        counts = counts[present]
        starts = counts.cumsum() - counts
        numbers = np.arange(1, len(ranks) + 1) - np.repeat(starts, counts)
        queries = torch.from_numpy(rows[present])
        relevant = self.relevant[queries].numpy()
        precision = numbers / ranks
        self.first[queries] = torch.from_numpy(ranks[starts])
        self.average_precision[queries] = torch.from_numpy(np.add.reduceat(precision, starts) / relevant)
        precision[ranks > np.repeat(relevant, counts)] = 0.0
        self.precision_at_r[queries] = torch.from_numpy(np.add.reduceat(precision, starts) / relevant)

    def recall(self, k: int) -> Tensor:
        """(n,) float64: 1 where one of the first `k` results is relevant, else 0; NaN where no item is."""
        recalled = ((self.first > 0) & (self.first <= k)).double()
        return torch.where(self.relevant > 0, recalled, torch.nan)


class _Found(NamedTuple):
    """Items of one row that share a bucket with a relevant item, by column."""

    columns: NDArray[np.int64]
    before: NDArray[np.int64]
    """How many better items are not among them, in order of falling score."""


class RelevantRanks:
    """Finds the ranks of relevant items without sorting whole rows.

    The scores of a row fall into buckets of equal width. Counting gives the number of items in better buckets
    than that of a relevant item; only the items in its own bucket are sorted.

    Args:
        scores: The scores to fill, for one or several kinds of labels, none of which skips items.
        key_codes: (m,) codes of the items, as in `scores`.

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
        """Rank the relevant items of the queries `rows` (b,) by float32 scores (b, m), and score them.

        `left_out` gives the columns that these queries leave out.
        """
        added = [
            self._near_relevant(row, line, None if left_out is None else left_out.of(i))
            for i, (row, line) in enumerate(zip(rows.tolist(), scores, strict=True))
        ]
        sizes = np.array([len(each.columns) for each in added])
        columns = np.concatenate([each.columns for each in added])
        before = np.concatenate([each.before for each in added])
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
            [members[first[row] : stop[row]] for members, (first, stop) in self._spans()]
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

    def _spans(self) -> Iterator[tuple[NDArray[np.int64], tuple[NDArray[np.int64], NDArray[np.int64]]]]:
        return zip(self._members, self._ranges, strict=True)

    def _bucket(self, scores: NDArray[np.float32]) -> NDArray[np.int64]:
        """(m,) bucket of each score, best first: a better score never falls into a worse bucket."""
        best = scores.max()
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            scale = np.float32(self._buckets - 1) / (best - scores.min())
        if not 0 < scale < np.inf:
            self._numbers[:] = 0
            return self._numbers
        # rounding is monotone, so all of this is
        np.subtract(best, scores, out=self._place)
        np.multiply(self._place, scale, out=self._place)
        # a cast in two steps is faster
        self._numbers[:] = self._place.astype(np.int32)
        return self._numbers

"""Scores of rankings whose results are relevant or not: recall@k, MAP@R and mAP from one reading."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.metrics.left_out import LeftOut

__all__ = ["RelevanceScores"]


class RelevanceScores:
    """Per-query scores, filled from chunks of rankings.

    A result is relevant if its class is that of the query. A class of -1 takes no part: such queries get no
    score, and such results are skipped as if they were not in the database.

    Args:
        query_classes: (n,) int64.
        code_classes: (c,) int64 class of each of the codes that stand for labels in the database.
        key_codes: (m,) code of each item.
        left_out: which items the rankings leave out, such as the query itself: they are not relevant.

    Attributes:
        query_classes, code_classes: as given, but renumbered without gaps; -1 stays.
        first: (n,) int64 rank of the first relevant result, from 1; 0 where the ranking holds none.
        average_precision: (n,) float64, NaN without a relevant item; right only if rankings were complete.
        precision_at_r: (n,) float64 AP@R, NaN without a relevant item; right if rankings reach rank R.
        relevant: (n,) int64 number of relevant items R in the database.
        counted: (n,) bool, queries that take part.
        skips: whether any item takes no part.

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
            relevant = relevant - left_out.of_class(self.query_classes, self.code_classes[key_codes])
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
        """Read where the relevant results are.

        Args:
            rows: (b,) queries.
            counts: (b,) how many relevant results each has.
            ranks: their ranks from 1, rising, query after query.

        """
        found = np.flatnonzero(counts)
        if not len(found):
            return
        counts = counts[found]
        starts = counts.cumsum() - counts
        numbers = np.arange(1, len(ranks) + 1) - np.repeat(starts, counts)
        queries = torch.from_numpy(rows[found])
        relevant = self.relevant[queries].numpy()
        precision = numbers / ranks
        self.first[queries] = torch.from_numpy(ranks[starts])
        self.average_precision[queries] = torch.from_numpy(np.add.reduceat(precision, starts) / relevant)
        precision[ranks > np.repeat(relevant, counts)] = 0.0
        self.precision_at_r[queries] = torch.from_numpy(np.add.reduceat(precision, starts) / relevant)

    def recall(self, k: int) -> Tensor:
        """(n,) float64: 1 where one of the first `k` results is relevant, else 0; NaN where no item is."""
        found = ((self.first > 0) & (self.first <= k)).double()
        return torch.where(self.relevant > 0, found, torch.nan)

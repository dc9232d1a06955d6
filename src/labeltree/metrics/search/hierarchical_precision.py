"""Hierarchical precision of rankings: HP@k and AHP@K of Barz & Denzler, from the first K results."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.metrics.search.results_left_out import LeftOut
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["HierarchicalPrecisionScores"]

_TABLE_ELEMENTS = 2**22
_BLOCK_ELEMENTS = 2**20


class HierarchicalPrecisionScores:
    """Per-query HP@k, filled from chunks of rankings (Eq. 11 of Hierarchy-based Image Embeddings):

        HP@k = Σ_{i≤k} s(y_q, y_i) / max over rankings of the same sum,    s(u, v) = 1 − height(lca(u, v)) / H

    The best ranking needs no sorting: a query's similarities take at most H + 1 values, so the number of
    database items of each value gives it. Items that the rankings leave out (the query itself, or its group)
    are left out of the best ranking, too.

    Args:
        taxonomy: The taxonomy that defines s.
        query_nodes: (n,) int64, none missing.
        code_nodes: (c,) int64 distinct nodes, one for each code of the database.
        key_codes: (m,) code of each item.
        left_out: The items that the rankings leave out.
        k: K of `mean`, `trapezoid` and `curve`; a smaller database is read to its end.
        ks: The k for which every query's HP@k is kept.

    Attributes:
        length: Largest number of results read from each ranking.
        at: k -> (n,) float64 HP@k; NaN for a query whose similarity to every item is 0. For k beyond the size
            of the database, the value at its end.
        mean: (n,) float64, mean of HP@1 … HP@K.
        trapezoid: (n,) float64, (1/K)·[Σ HP@k − (HP@1 + HP@K)/2].
        curve_sum: (K,) float64, sums of HP@1 … HP@K over the counted queries.
        curve_count: int64 scalar, the number of counted queries.

    """

    def __init__(
        self,
        taxonomy: AnyTaxonomy,
        query_nodes: Tensor,
        code_nodes: Tensor,
        key_codes: NDArray[np.int32],
        *,
        left_out: LeftOut | None,
        k: int,
        ks: tuple[int, ...] = (),
    ) -> None:
        self.taxonomy = taxonomy
        self.left_out, self.key_codes = left_out, key_codes
        database = len(key_codes) if left_out is None else len(key_codes) - left_out.fewest
        self.k = min(k, database)
        self.length = min(max(k, *ks, 1), database)
        self.query_nodes, self.code_nodes = query_nodes, code_nodes
        self.sizes = np.bincount(key_codes, minlength=len(code_nodes)).astype(np.float64)
        top_height = max(taxonomy.max_height, 1)
        self.levels = 1.0 - np.arange(top_height + 1) / top_height
        self.distinct, codes = torch.unique(query_nodes, return_inverse=True)
        # queries with equal labels and equal left-out items have the same best ranking
        self.query_codes: NDArray[np.int64] = codes.numpy()
        self.node_of = np.arange(len(self.distinct))
        self.groups: LeftOut | None = None
        if left_out is not None and not left_out.own:
            pairs = np.stack([self.query_codes, left_out.numbers], axis=1)
            _, first, places = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
            self.node_of, self.query_codes = self.query_codes[first], places.reshape(-1)
            self.groups = left_out.subset(first)
        small = len(self.distinct) * len(code_nodes) <= _TABLE_ELEMENTS
        self.table = self._heights(np.arange(len(self.distinct))) if small else None
        nothing = torch.full((len(query_nodes),), torch.nan, dtype=torch.float64)
        self.at = {k: nothing.clone() for k in ks}
        self.mean, self.trapezoid = nothing.clone(), nothing.clone()
        self.curve_sum = torch.zeros(self.k, dtype=torch.float64)
        self.curve_count = torch.zeros((), dtype=torch.int64)

    def _heights(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """(u, c) height of the LCA of the distinct query nodes `codes` (u,) and each code's node."""
        mine = self.distinct[torch.from_numpy(codes)]
        heights: NDArray[np.int64] = self.taxonomy.lca_height(mine[:, None], self.code_nodes[None, :]).numpy()
        return heights

    def add(self, rows: NDArray[np.int64], codes: NDArray[np.int32]) -> None:
        """Read the first `length` results of the queries `rows` (b,), which have the `codes` (b, w)."""
        codes = codes[:, : self.length]
        length = codes.shape[1]
        if length == 0 or len(rows) == 0:
            return
        distinct, own = np.unique(self.query_codes[rows], return_inverse=True)
        kinds, kind = np.unique(self.node_of[distinct], return_inverse=True)
        heights = self._heights(kinds) if self.table is None else self.table[kinds]
        similarity = self.levels[heights]
        best = self._best_sums(distinct, kinds, kind, heights, length)
        gained = similarity.take(codes + kind[own][:, None] * similarity.shape[1])
        ends = np.full(len(rows), self.k)
        if self.left_out is not None and not self.left_out.alike:
            eligible = len(self.key_codes) - self.left_out.counts[rows]
            gained[np.arange(length) >= eligible[:, None]] = 0.0
            ends = np.minimum(eligible, self.k)
        # numpy takes three times as long for this sum
        precision: NDArray[np.float64] = torch.from_numpy(gained).cumsum(dim=1).numpy()
        # the two sums add the same numbers in different orders: a perfect ranking must not exceed 1 by a
        # rounding
        with np.errstate(invalid="ignore"):
            precision /= best[own]
        np.minimum(precision, 1.0, out=precision)
        queries = torch.from_numpy(rows)
        for k, values in self.at.items():
            values[queries] = torch.from_numpy(precision[:, min(k, length) - 1])
        precision = precision[:, : self.k]
        # after the last result, the last value is repeated
        total = precision.sum(axis=1) - (self.k - ends) * precision[:, -1]
        ends = np.maximum(ends, 1)  # without any result all values are NaN
        self.mean[queries] = torch.from_numpy(total / ends)
        outer = (precision[:, 0] + precision[:, -1]) / 2
        self.trapezoid[queries] = torch.from_numpy((total - outer) / ends)
        counted = best[own, 0] > 0
        self.curve_sum += torch.from_numpy(precision.sum(axis=0, where=counted[:, None]))
        self.curve_count += int(counted.sum())

    def _best_sums(
        self,
        codes: NDArray[np.int64],
        kinds: NDArray[np.int64],
        kind: NDArray[np.int64],
        heights: NDArray[np.int64],
        length: int,
    ) -> NDArray[np.float64]:
        """(u, length) largest possible sums of the similarities of 1 … length items, by query code (u,).

        `kind` (u,) is the index of each query's node in `kinds`, which have the `heights` (v, c).
        """
        count, levels = len(codes), len(self.levels)
        available = np.empty((len(kinds), levels))
        step = max(1, _BLOCK_ELEMENTS // max(heights.shape[1], 1))
        for start in range(0, len(kinds), step):
            here = heights[start : start + step]
            cells = here + levels * np.arange(len(here))[:, None]
            sizes = np.broadcast_to(self.sizes, here.shape)
            sums = np.bincount(cells.reshape(-1), sizes.reshape(-1), minlength=levels * len(here))
            available[start : start + step] = sums.reshape(-1, levels)
        available = np.take(available, kind, axis=0)
        if self.groups is not None:
            queries, items = self.groups.subset(codes).pairs()
            cells = heights[kind[queries], self.key_codes[items]] + levels * queries
            lost = np.bincount(cells, minlength=levels * count)
            available -= lost.reshape(count, levels)
        elif self.left_out is not None:
            own_height = self.taxonomy.height[self.distinct[torch.from_numpy(codes)]].numpy()
            available[np.arange(count), own_height] -= 1
        taken = np.minimum(available.cumsum(axis=1), length).astype(np.int64)
        taken = np.diff(taken, axis=1, prepend=0, append=length)  # after the last item nothing is added
        gained = np.repeat(np.tile(np.append(self.levels, 0.0), count), taken.reshape(-1))
        best: NDArray[np.float64] = torch.from_numpy(gained.reshape(count, length)).cumsum(dim=1).numpy()
        return best

    @property
    def curve(self) -> Tensor:
        """(K,) mean HP@1 … HP@K over the counted queries; NaN if there is none."""
        return self.curve_sum / (self.curve_count if self.curve_count else torch.nan)

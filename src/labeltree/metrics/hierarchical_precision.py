"""Hierarchical precision of rankings: HP@k and AHP@K of Barz & Denzler, from the first K results."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.taxonomy import AnyTaxonomy

__all__ = ["HierarchicalPrecisionScores"]

_TABLE_ELEMENTS = 2**22


class HierarchicalPrecisionScores:
    """Per-query HP@k, filled from chunks of rankings (Eq. 11 of Hierarchy-based Image Embeddings):

        HP@k = Σ_{i≤k} s(y_q, y_i) / max over rankings of the same sum,    s(u, v) = 1 − height(lca(u, v)) / H

    The best ranking needs no sorting: a query's similarities take at most H + 1 values, so the number of
    database items of each value gives it. Where the rankings leave out the query itself, so does the best
    ranking.

    Args:
        taxonomy: gives s.
        query_nodes: (n,) int64, none missing.
        key_nodes: (m,) int64, none missing.
        leave_one_out: whether the rankings leave out the query itself.
        k: K of `mean`, `trapezoid` and `curve`; a smaller database is read to its end.
        ks: the k for which every query's HP@k is kept.

    Attributes:
        length: how many results of each ranking are read.
        at: k -> (n,) float64 HP@k; NaN for a query whose similarity to every item is 0. Beyond the end of the
            database, the value at its end.
        mean: (n,) float64, mean of HP@1 … HP@K.
        trapezoid: (n,) float64, (1/K)·[Σ HP@k − (HP@1 + HP@K)/2].
        curve: (K,) float64, mean over the counted queries of HP@1 … HP@K.

    """

    def __init__(
        self,
        taxonomy: AnyTaxonomy,
        query_nodes: Tensor,
        key_nodes: Tensor,
        *,
        leave_one_out: bool,
        k: int,
        ks: tuple[int, ...] = (),
    ) -> None:
        count, device = query_nodes.shape[0], query_nodes.device
        self.taxonomy = taxonomy
        self.leave_one_out = leave_one_out
        database = max(key_nodes.shape[0] - leave_one_out, 0)
        self.k = min(k, database)
        self.length = min(max(k, *ks, 1), database)
        self.query_nodes, self.query_codes = torch.unique(query_nodes, return_inverse=True)
        self.key_nodes, self.key_codes, sizes = torch.unique(
            key_nodes, return_inverse=True, return_counts=True
        )
        self.sizes = sizes.double()
        self.own_height = taxonomy.height.to(device)[self.query_nodes]
        top_height = max(taxonomy.max_height, 1)
        self.levels = 1.0 - torch.arange(top_height + 1, device=device, dtype=torch.float64) / top_height
        small = self.query_nodes.shape[0] * self.key_nodes.shape[0] <= _TABLE_ELEMENTS
        everyone = torch.arange(self.query_nodes.shape[0], device=device)
        self.table = self._heights(everyone) if small else None
        nothing = torch.full((count,), torch.nan, dtype=torch.float64, device=device)
        self.at = {k: nothing.clone() for k in ks}
        self.mean, self.trapezoid = nothing.clone(), nothing.clone()
        self._curve_sum = torch.zeros(self.k, dtype=torch.float64, device=device)
        self._curve_count = 0

    def _heights(self, codes: Tensor) -> Tensor:
        """(u, C) height of the LCA of the query nodes `codes` (u,) and each distinct database node."""
        return self.taxonomy.lca_height(self.query_nodes[codes][:, None], self.key_nodes[None, :])

    def add(self, start: int, order: Tensor) -> None:
        """Read the first `length` results of rankings `order` (b, w) of queries `start` … `start + b`."""
        order = order[:, : self.length]
        length = order.shape[1]
        if length == 0 or order.shape[0] == 0:
            return
        codes, row = torch.unique(self.query_codes[start : start + order.shape[0]], return_inverse=True)
        heights = self._heights(codes) if self.table is None else self.table[codes]
        gained = self.levels[heights[row[:, None], self.key_codes[order]]].cumsum(dim=1)
        best = self._best_sums(codes, heights, length)[row]
        # the sums add up the same numbers in different orders: a perfect ranking may not exceed 1 by a
        # rounding
        precision = (gained / best).clamp(max=1.0)

        rows = slice(start, start + order.shape[0])
        for k, values in self.at.items():
            values[rows] = precision[:, min(k, length) - 1]
        precision = precision[:, : self.k]
        total = precision.sum(dim=1)
        self.mean[rows] = total / self.k
        self.trapezoid[rows] = (total - (precision[:, 0] + precision[:, -1]) / 2) / self.k
        counted = best[:, 0] > 0
        self._curve_sum += precision[counted].sum(dim=0)
        self._curve_count += int(counted.sum())

    def _best_sums(self, codes: Tensor, heights: Tensor, length: int) -> Tensor:
        """(u, length) largest possible sums of the similarities of 1 … length items, per query node."""
        available = torch.zeros(len(codes), len(self.levels), dtype=torch.float64, device=heights.device)
        available.scatter_add_(1, heights, self.sizes.expand(len(codes), -1))
        if self.leave_one_out:
            itself = self.own_height[codes][:, None]
            available.scatter_add_(1, itself, -torch.ones_like(itself, dtype=torch.float64))
        before = available.cumsum(dim=1) - available
        ranks = torch.arange(1, length + 1, device=heights.device, dtype=torch.float64)
        best = torch.zeros(len(codes), length, dtype=torch.float64, device=heights.device)
        for height, similarity in enumerate(self.levels.tolist()):
            taken = (ranks - before[:, height, None]).clamp(min=0.0)
            best += similarity * torch.minimum(taken, available[:, height, None])
        return best

    @property
    def curve(self) -> Tensor:
        """(K,) mean HP@1 … HP@K over the counted queries; NaN if there is none."""
        return self._curve_sum / (self._curve_count or torch.nan)

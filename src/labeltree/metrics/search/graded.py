"""Retrieval judged by the depth that a query and a result share: H-AP, ASI, NDCG, and AP at each depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.metrics.search.results_left_out import LeftOut
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["GradedScores", "shared_depths"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Depths = NDArray[np.unsignedinteger[Any]]

_TABLE_ELEMENTS = 2**22
_Number = TypeVar("_Number", bound=np.generic)


def shared_depths(taxonomy: AnyTaxonomy, u: Tensor, v: Tensor) -> Tensor:
    """Depth of the LCA of labels, in steps that all leaves take: a leaf continues itself to the last depth.

    Args:
        taxonomy: The taxonomy of the labels; its `max_depth` is the last depth.
        u: Nodes, none missing.
        v: Nodes, none missing, of a shape that broadcasts with that of `u`.

    Returns:
        int64, 0 to `max_depth`.
    """
    depth = taxonomy.lca_depth(u, v)
    same_leaf = (u == v) & (taxonomy.height[u] == 0)
    return torch.where(same_leaf, taxonomy.max_depth, depth)


class _Hits(NamedTuple):
    """Results that share something with their query, query after query, by rank."""

    counts: Integers
    """(b,) how many each query has."""
    rank: Integers
    """From 1."""
    depth: Depths
    """The depth that each shares with its query."""

    def where(self, chosen: NDArray[np.bool_]) -> _Hits:
        counts = _totals(chosen, self.counts).astype(np.int64)
        return _Hits(counts, self.rank[chosen], self.depth[chosen])

    def numbers(self) -> Integers:
        """Which of its query's hits each one is, from 1."""
        before: Integers = self.counts.cumsum() - self.counts
        return np.arange(1, len(self.rank) + 1) - self.per_hit(before)

    def per_hit(self, values: NDArray[_Number]) -> NDArray[_Number]:
        """(h,) the value of each hit's query, of values (b,)."""
        return np.repeat(values, self.counts)

    def totals(self, values: NDArray[Any]) -> Floats:
        """(b,) sum over each query's hits of values (h,)."""
        return _totals(values, self.counts).astype(np.float64)


def _totals(values: NDArray[Any], counts: Integers) -> NDArray[Any]:
    """Sums of values (h,) over the hits of every query, which has so many (b,); bool is counted."""
    some = np.flatnonzero(counts)
    dtype = np.int64 if values.dtype == np.bool_ else values.dtype
    totals = np.zeros(len(counts), dtype=dtype)
    if len(some):
        starts = (counts.cumsum() - counts)[some]
        totals[some] = np.add.reduceat(values, starts, dtype=dtype)
    return totals


class GradedScores:
    """Per-query scores of whole rankings, read once. With l the depth that query and result share, 0 to L:

        H-AP = Σ_k (1/k) Σ_{j≤k} min(rel(j), rel(k)) / Σ_k rel(k)       (Ramzi et al. 2022, Section 3)
        ASI  = (1/R) Σ_{k≤R} (1/k) Σ_l min(c_l(k), c*_l(k))             (Sun et al. 2021)
        NDCG = Σ_k (2^l(k) − 1)/log2(1 + k), divided by the same of the best ranking
        AP at depth l: results at exactly l are relevant, finer ones are left out of the ranking

    k runs over the results from 1; R results have l > 0; c_l(k) of the first k results are at depth l, and
    c*_l(k) in the best ranking. rel(k) is (l/L)^α / |results at exactly l| ("pop"), or Σ_{p≤l} w_p / |results
    at p or deeper| ("map"), with which H-AP is the mean of the APs at p or deeper, weighted by w_p.

    Every sum over the ranking is one over hits alone, the results with l > 0. With relevances r_1 ≤ r_2 ≤ …,
    H-AP is Σ_l (r_l − r_{l−1}) times the sum of precisions among the hits at l or deeper. A hit that is the
    i-th at its depth is in both sets of ASI from the rank on at which both rankings have i of them: it adds
    1/k for every later k ≤ R.

    Args:
        taxonomy: Defines l, see `shared_depths`.
        query_nodes: (n,) int64, none missing.
        code_nodes: (c,) int64 distinct nodes, one for each code of the database.
        key_codes: (m,) code of each item.
        left_out: The items that the rankings leave out.
        alpha: α ≥ 0 of "pop".
        weights: w_p ≥ 0 of "map", one for each depth, coarse to fine; None: all the same.

    Attributes:
        pop: (n,) float64 H-AP with the relevance "pop"; like all scores NaN for a query without hits.
        map: (n,) float64 H-AP with the relevance "map".
        asi: (n,) float64 ASI.
        ndcg: (n,) float64 NDCG.
        at_depth: (L, n) float64 AP at each depth; NaN without a result at exactly this depth.
    """

    def __init__(
        self,
        taxonomy: AnyTaxonomy,
        query_nodes: Tensor,
        code_nodes: Tensor,
        key_codes: NDArray[np.int32],
        *,
        left_out: LeftOut | None,
        alpha: float = 1.0,
        weights: Sequence[float] | None = None,
    ) -> None:
        self._taxonomy, self._left_out = taxonomy, left_out
        self._depths = depths = taxonomy.max_depth
        self._dtype = np.min_scalar_type(depths)
        self._alpha = alpha
        self._weights = np.ones(depths) if weights is None else np.asarray(weights, dtype=np.float64)
        self._size = size = len(key_codes)
        self._code_nodes = code_nodes
        self._distinct, codes = torch.unique(query_nodes, return_inverse=True)
        self._query_codes: Integers = codes.numpy()
        small = len(self._distinct) * len(code_nodes) <= _TABLE_ELEMENTS
        self._table = self._shared(np.arange(len(self._distinct))) if small else None
        # at a depth, items whose label is an inner node above it are left out: they decide nothing there
        decided = torch.where(taxonomy.height[code_nodes] == 0, depths, taxonomy.depth[code_nodes])
        self._decided = decided.numpy().astype(self._dtype)
        self._least_decided = int(self._decided.min(initial=depths))
        # by rank, from 1, and their sums
        ranks = np.arange(1, size + 1)
        self._inverse = np.append(0.0, 1.0 / ranks)
        self._harmonic = self._inverse.cumsum()
        self._discount = np.append(0.0, 1.0 / np.log2(1.0 + ranks))
        self._discounts = self._discount.cumsum()
        nothing = torch.full((len(query_nodes),), torch.nan, dtype=torch.float64)
        self.pop, self.map, self.asi, self.ndcg = (nothing.clone() for _ in range(4))
        self.at_depth = nothing.repeat(depths, 1)

    @property
    def by_row(self) -> tuple[Tensor, ...]:
        """All scores, (n,) each."""
        return (self.pop, self.map, self.asi, self.ndcg, *self.at_depth)

    def _shared(self, codes: Integers) -> Depths:
        """(u, c) depth that the distinct query nodes `codes` (u,) share with each code's node."""
        mine = self._distinct[torch.from_numpy(codes)]
        depths = shared_depths(self._taxonomy, mine[:, None], self._code_nodes[None, :])
        return depths.numpy().astype(self._dtype)

    def add(self, rows: Integers, codes: NDArray[np.int32]) -> None:
        """Read the whole rankings of the queries `rows` (b,), whose results have the `codes` (b, m)."""
        count, width = codes.shape
        if not count or not width or not self._depths:
            return
        kinds, kind = np.unique(self._query_codes[rows], return_inverse=True)
        table = self._shared(kinds) if self._table is None else self._table[kinds]
        shared = np.take(table, codes + (kind * table.shape[1])[:, None])
        if self._left_out is not None and not self._left_out.alike:
            ends = self._size - self._left_out.counts[rows]
            shared[np.arange(width) >= ends[:, None]] = 0
        flat = np.flatnonzero(shared)
        counts = np.diff(np.searchsorted(flat, np.arange(count + 1) * width))
        rank = flat - np.repeat(np.arange(count) * width - 1, counts)
        self._score(rows, _Hits(counts, rank, shared.reshape(-1)[flat]), codes)

    def _score(self, rows: Integers, hits: _Hits, codes: NDArray[np.int32]) -> None:
        """Score the queries `rows` from all their hits; see the class."""
        count, depths = len(rows), self._depths
        reach = hits.counts
        precision, within = np.zeros((depths, count)), np.zeros((depths, count), dtype=np.int64)
        best, overlap = np.zeros(count), np.zeros(count)
        exact = np.zeros((depths, count), dtype=np.int64)
        at_depth = np.full((depths, count), np.nan)
        gains = 2.0 ** np.arange(-depths, 1) - 2.0**-depths  # in units of 2^L
        gained = hits.totals(gains[hits.depth] * self._discount[hits.rank])
        left = hits
        for at in range(depths):
            place, within[at] = left.numbers(), left.counts
            precision[at] = left.totals(place * self._inverse[left.rank])
            best += 2.0 ** (at - depths) * self._discounts[left.counts]
            here = left.depth == at + 1
            own, finer = left.where(here), left.where(~here)
            exact[at] = own.counts
            index = own.numbers()
            # among results no finer than this depth
            rank = own.rank - (place[here] - index) - self._undecided(at + 1, own, codes)
            with np.errstate(invalid="ignore"):
                at_depth[at] = own.totals(index * self._inverse[rank]) / own.counts
            since = np.maximum(own.rank, own.per_hit(finer.counts) + index)
            last = own.per_hit(reach)
            shares = self._harmonic[last] - self._harmonic[np.minimum(since - 1, last)]
            overlap += own.totals(shares)
            left = finer
        some = reach > 0
        weights = np.where(within > 0, self._weights[:, None], 0.0)
        means = precision / np.maximum(within, 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            scores = {
                "pop": self._pop(hits, precision, exact),
                "map": (weights * means).sum(0) / weights.sum(0),
                "asi": overlap / reach,
                "ndcg": gained / best,
            }
        queries = torch.from_numpy(rows)
        for name, values in scores.items():
            # the sums of a perfect ranking must not exceed 1 by a rounding
            values = np.where(some, np.minimum(values, 1.0), np.nan)
            getattr(self, name)[queries] = torch.from_numpy(values)
        self.at_depth[:, queries] = torch.from_numpy(np.minimum(at_depth, 1.0))

    def _undecided(self, depth: int, hits: _Hits, codes: NDArray[np.int32]) -> Integers | int:
        """(h,) number of better results that `depth` leaves out."""
        if depth <= self._least_decided or not len(hits.rank):
            return 0
        before = (self._decided.take(codes) < depth).cumsum(axis=1)
        ranks: Integers = before[hits.per_hit(np.arange(len(codes))), hits.rank - 1]
        return ranks

    def _pop(self, hits: _Hits, precision: Floats, exact: Integers) -> Floats:
        """(b,) H-AP with the relevance "pop", from the sums of precisions at each depth or deeper (L, b)."""
        depths = self._depths
        steps = (np.arange(1, depths + 1) / depths) ** self._alpha
        relevance = np.where(exact > 0, steps[:, None] / np.maximum(exact, 1), 0.0)
        total = (relevance * exact).sum(0)
        risen = np.maximum.accumulate(relevance, axis=0)
        precision_sums = (np.diff(risen, axis=0, prepend=0.0) * precision).sum(0)
        # a deeper result counts less than a coarser one if there are many of them: in order of relevance
        mixed: NDArray[np.bool_] = np.any((relevance < risen) & (exact > 0), axis=0)
        if mixed.any():
            order = np.argsort(relevance, axis=0, kind="stable")
            places = np.argsort(order, axis=0, kind="stable").astype(self._dtype)
            query = hits.per_hit(np.arange(len(mixed)))
            some = hits._replace(depth=places[hits.depth - 1, query]).where(mixed[query])
            rising = np.diff(np.take_along_axis(relevance, order, axis=0), axis=0, prepend=0.0)
            sums = np.zeros_like(precision_sums)
            for at in range(depths):
                some = some.where(some.depth >= at)
                sums += rising[at] * some.totals(some.numbers() * self._inverse[some.rank])
            precision_sums = np.where(mixed, sums, precision_sums)
        result: Floats = precision_sums / total
        return result

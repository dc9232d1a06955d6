"""Pair statistics tile by tile, for any relation, similarity and set of keys.

A forward walks over all tiles and merges the dense statistics of each; the backward walks over them again and
lets autograd take the derivative of one tile's similarities at a time.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.pairs.dense import statistics as dense
from labeltree.pairs.implementation import Plan
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.similarity import Similarity, pair_similarity
from labeltree.pairs.streaming.once import once
from labeltree.pairs.streaming.tiles import tiles
from labeltree.pairs.summary import PairStatistics, PairWeight, Statistic

__all__ = ["pair_counts", "pair_statistics"]


@dataclass(frozen=True, eq=False)
class _Walk:
    relation: PairRelation
    geometry: Geometry
    similarity: Similarity
    pair_weight: PairWeight | None
    want: frozenset[Statistic]
    tile: int | None


def pair_statistics(
    queries: Tensor,
    keys: Tensor,
    relation: PairRelation,
    geometry: Geometry,
    temperature: float | Tensor,
    *,
    similarity: Similarity,
    scale: Tensor | None,
    pair_weight: PairWeight | None,
    want: Collection[Statistic],
    plan: Plan,
) -> PairStatistics:
    """As `labeltree.pairs.pair_statistics`."""
    walk = _Walk(relation, geometry, similarity, pair_weight, frozenset(want), plan.tile)
    found = _Chunked.apply(queries, keys, scale, temperature, walk)
    given = (None if name not in want else value for name, value in zip(_OF, found, strict=True))
    return PairStatistics(*given)


# the wanted statistic that each field of `PairStatistics` belongs to
_OF: tuple[Statistic, ...] = ("count", "sum", "lse", "least", "least", "weighted", "weighted")


def pair_counts(relation: PairRelation, plan: Plan) -> Tensor:
    """As `labeltree.pairs.pair_counts`."""
    n, size = relation.num_queries, relation.num_relations
    count = torch.zeros(n, size, dtype=torch.int64, device=relation.queries.nodes.device)
    for rows, cols in tiles(n, relation.num_keys, plan.tile):
        codes = relation.codes(rows, cols)
        count[rows] += dense.sum_by_code(torch.ones_like(codes), codes, size)
    return count


class _Chunked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        keys: Tensor,
        scale: Tensor | None,
        temperature: float | Tensor,
        walk: _Walk,
    ) -> tuple[Tensor, ...]:
        n, m, size = len(queries), len(keys), walk.relation.num_relations
        dtype = torch.promote_types(queries.dtype, keys.dtype)
        dtype = dtype if dtype == torch.float64 else torch.float32
        count = torch.zeros(n, size, dtype=torch.int64, device=queries.device)
        total = torch.zeros(n, size, dtype=dtype, device=queries.device)
        lse, least = torch.full_like(total, -torch.inf), torch.full_like(total, torch.inf)
        index = torch.full_like(count, -1)
        weight, weighted = total.new_zeros(n), total.new_zeros(n)
        factor = None if scale is None else torch.cat([scale.to(dtype), scale.new_ones(1, dtype=dtype)])
        for rows, cols in tiles(n, m, walk.tile):
            s = pair_similarity(queries[rows], keys[cols], walk.geometry, temperature, walk.similarity)
            codes = walk.relation.codes(rows, cols)
            if "count" in walk.want:
                count[rows] += dense.sum_by_code(torch.ones_like(codes), codes, size)
            if "sum" in walk.want:
                total[rows] += dense.sum_by_code(s, codes, size)
            if "lse" in walk.want:
                scaled = s if factor is None else s * factor[codes]
                lse[rows] = torch.logaddexp(lse[rows], dense.lse_by_code(scaled, codes, size))
            if "least" in walk.want:
                here, at = dense.least_by_code(s, codes, size)
                nearer = here < least[rows]
                least[rows] = torch.where(nearer, here, least[rows])
                index[rows] = torch.where(nearer, at + cols.start, index[rows])
            if "weighted" in walk.want:
                assert walk.pair_weight is not None
                w = walk.pair_weight(rows, cols).to(dtype).masked_fill(codes == size, 0.0)
                weight[rows] += w.sum(1)
                weighted[rows] += (w * s).sum(1)
        ctx.walk, ctx.temperature = walk, temperature
        ctx.save_for_backward(queries, keys, scale, lse, index)
        ctx.mark_non_differentiable(count, index, weight)
        ctx.set_materialize_grads(False)
        return count, total, lse, least, index, weight, weighted

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        queries, keys, scale, lse, index = ctx.saved_tensors
        walk: _Walk = ctx.walk
        _, of_sum, of_lse, of_least, _, _, of_weighted = grads
        size, dtype = walk.relation.num_relations, lse.dtype
        excluded = lse.new_zeros(len(lse), 1)
        factor = None if scale is None else torch.cat([scale.detach().to(dtype), lse.new_ones(1)])
        scale_grad = None if scale is None else lse.new_zeros(size + 1)
        sums = _Gradients(queries, keys, ctx.temperature)
        with torch.no_grad():
            if of_sum is not None:
                of_sum = torch.cat([of_sum.detach(), excluded], dim=1)
            if of_lse is not None:
                of_lse = torch.cat([of_lse.detach(), excluded], dim=1)
                lse = torch.cat([lse, excluded + torch.inf], dim=1)
            for rows, cols in tiles(len(queries), len(keys), walk.tile):
                s = sums.similarities(walk, rows, cols)
                codes = walk.relation.codes(rows, cols)
                slope = torch.zeros_like(s)
                if of_sum is not None:
                    slope += of_sum[rows].gather(1, codes)
                if of_lse is not None:
                    omega = None if factor is None else factor[codes]
                    scaled = s.detach() if omega is None else s.detach() * omega
                    share = (scaled - lse[rows].gather(1, codes)).exp_() * of_lse[rows].gather(1, codes)
                    slope += share if omega is None else share * omega
                    if scale_grad is not None:
                        scale_grad.index_add_(0, codes.flatten(), (share * s.detach()).flatten())
                if of_least is not None:
                    at = index[rows] - cols.start
                    i, r = ((at >= 0) & (at < s.shape[1])).nonzero(as_tuple=True)
                    slope.index_put_((i, at[i, r]), of_least[rows][i, r].detach(), accumulate=True)
                if of_weighted is not None:
                    assert walk.pair_weight is not None
                    w = walk.pair_weight(rows, cols).to(dtype).masked_fill(codes == size, 0.0)
                    slope += w * of_weighted[rows].detach()[:, None]
                sums.add(s, slope, rows, cols)
        wanted = [sums.of_queries, sums.of_keys, None, sums.of_temperature]
        if scale is not None and scale_grad is not None:
            wanted[2] = scale_grad[:size].to(scale.dtype)
        needed = zip(wanted, ctx.needs_input_grad[:4], strict=True)
        return *(once(g) if g is not None and need else None for g, need in needed), None


class _Gradients:
    """The gradients of embeddings and temperature, summed up over tiles."""

    def __init__(self, queries: Tensor, keys: Tensor, temperature: float | Tensor) -> None:
        self.queries, self.keys = queries.detach(), keys.detach()
        self.temperature = temperature.detach() if isinstance(temperature, Tensor) else temperature
        self.of_queries, self.of_keys = torch.zeros_like(self.queries), torch.zeros_like(self.keys)
        self.of_temperature = torch.zeros_like(temperature) if isinstance(temperature, Tensor) else None
        self._leaves: list[Tensor] = []

    def similarities(self, walk: _Walk, rows: slice, cols: slice) -> Tensor:
        """The similarities of a tile, with a graph."""
        with torch.enable_grad():
            leaves = [self.queries[rows].clone().requires_grad_(), self.keys[cols].clone().requires_grad_()]
            temperature = self.temperature
            if isinstance(temperature, Tensor):
                temperature = temperature.clone().requires_grad_()
                leaves.append(temperature)
            self._leaves = leaves
            return pair_similarity(leaves[0], leaves[1], walk.geometry, temperature, walk.similarity)

    def add(self, s: Tensor, slope: Tensor, rows: slice, cols: slice) -> None:
        """Add the gradients of Σ slope·s of the tile that `similarities` gave last."""
        found = torch.autograd.grad(s, self._leaves, slope)
        self.of_queries[rows] += found[0]
        self.of_keys[cols] += found[1]
        if self.of_temperature is not None:
            self.of_temperature += found[2]

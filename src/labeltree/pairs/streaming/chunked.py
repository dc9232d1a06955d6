"""Pair statistics tile by tile, for any relation, similarity and set of keys.

A forward walks over all tiles and merges the dense statistics of each; the backward walks over them again and
lets autograd take the derivative of one tile's similarities at a time.

Of the union of all ranks' batches every rank walks over the rows of its shard alone. The row statistics of
the others come from them; and since all ranks go on to compute the same value from the same statistics, the
slopes of all rows are known to each in the backward, and with them all of the gradient of its own rows, as
queries and as keys: dL/dz_i = Σ_k (g_ik + g_ki)·ds_ik/dz_i.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.pairs.dense import statistics as dense
from labeltree.pairs.gather import num_ranks, rows_of_all_ranks
from labeltree.pairs.implementation import Plan
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.similarity import Similarity, pair_similarity
from labeltree.pairs.streaming.gradients import TileGradients
from labeltree.pairs.streaming.once import by_hand, once
from labeltree.pairs.streaming.running_lse import RunningLse
from labeltree.pairs.streaming.slopes import Slopes
from labeltree.pairs.streaming.tiles import relation_tiles
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
    shard: slice | None


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
    shard = relation.shard if queries is keys else None
    walk = _Walk(relation, geometry, similarity, pair_weight, frozenset(want), plan.tile, shard)
    found = _Chunked.apply(queries, keys, scale, temperature, walk)
    given = (None if name not in want else value for name, value in zip(_OF, found, strict=True))
    return PairStatistics(*given)


# the wanted statistic that each field of `PairStatistics` belongs to
_OF: tuple[Statistic, ...] = ("count", "sum", "lse", "least", "least_index", "weighted", "weighted")


def pair_counts(relation: PairRelation, plan: Plan) -> Tensor:
    """As `labeltree.pairs.pair_counts`."""
    n, size, shard = relation.num_queries, relation.num_relations, relation.shard
    count = torch.zeros(n, size, dtype=torch.int64, device=relation.queries.nodes.device)
    for rows, cols in relation_tiles(relation, shard, plan.tile):
        codes = relation.codes(rows, cols)
        count[rows] += dense.sum_by_code(torch.ones_like(codes), codes, size)
    return count if shard is None else rows_of_all_ranks(count[shard], shard, n)


_Found = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


class _Chunked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        keys: Tensor,
        scale: Tensor | None,
        temperature: float | Tensor,
        walk: _Walk,
    ) -> _Found:
        n, size = len(queries), walk.relation.num_relations
        dtype = torch.promote_types(queries.dtype, keys.dtype)
        dtype = dtype if dtype == torch.float64 else torch.float32
        count = torch.zeros(n, size, dtype=torch.int64, device=queries.device)
        total = torch.zeros(n, size, dtype=dtype, device=queries.device)
        lse, least = RunningLse(n, size, dtype, queries.device), torch.full_like(total, torch.inf)
        index = torch.full_like(count, -1)
        weight, weighted = total.new_zeros(n), total.new_zeros(n)
        factor = None if scale is None else torch.cat([scale.to(dtype), scale.new_ones(1, dtype=dtype)])
        for rows, cols in relation_tiles(walk.relation, walk.shard, walk.tile):
            s = pair_similarity(queries[rows], keys[cols], walk.geometry, temperature, walk.similarity)
            codes = walk.relation.codes(rows, cols)
            if "count" in walk.want:
                count[rows] += dense.sum_by_code(torch.ones_like(codes), codes, size)
            if "sum" in walk.want:
                total[rows] += dense.sum_by_code(s, codes, size)
            if "lse" in walk.want:
                scaled = s if factor is None else s * factor[codes]
                lse.add(scaled, codes, rows)
            if walk.want & {"least", "least_index"}:
                here, at = dense.least_by_code(s, codes, size)
                nearer = here < least[rows]
                least[rows] = torch.where(nearer, here, least[rows])
                index[rows] = torch.where(nearer, at + cols.start, index[rows])
            if "weighted" in walk.want:
                assert walk.pair_weight is not None
                w = walk.pair_weight(rows, cols).to(dtype).masked_fill(codes == size, 0.0)
                weight[rows] += w.sum(1)
                weighted[rows] += (w * s).sum(1)
        found = (count, total, lse.value, least, index, weight, weighted)
        if walk.shard is not None:
            found = _from_all_ranks(found, walk.shard, walk.want)
        count, total, exact_lse, least, index, weight, weighted = found
        ctx.walk, ctx.temperature, ctx.dtype = walk, temperature, dtype
        ctx.save_for_backward(queries, keys, scale, exact_lse, index)
        ctx.mark_non_differentiable(count, index, weight)
        ctx.set_materialize_grads(False)
        return count, total, exact_lse.to(dtype), least, index, weight, weighted

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        queries, keys, scale, lse, index = ctx.saved_tensors
        walk: _Walk = ctx.walk
        with by_hand(queries.device):
            slopes = Slopes(scale, lse, index, grads, walk.pair_weight, ctx.dtype)
            kind = walk.geometry, walk.similarity
            sums = TileGradients(queries, keys, *kind, ctx.temperature, shard=walk.shard)
            for rows, cols in relation_tiles(walk.relation, walk.shard, walk.tile):
                s = sums.similarities(rows, cols)
                codes = walk.relation.codes(rows, cols)
                slope = slopes.tile(s.detach(), codes, rows, cols)
                if walk.shard is not None:
                    slope += slopes.tile(s.detach().T, codes.T, cols, rows, of_scale=False).T
                sums.add(s, slope, rows, cols)
        of_scale = slopes.of_scale
        if walk.shard is not None and of_scale is not None:
            of_scale = of_scale * num_ranks()  # of this rank's share, as DDP takes the mean over ranks
        wanted = (sums.of_queries, sums.of_keys, of_scale, sums.of_temperature)
        needed = zip(wanted, ctx.needs_input_grad[:4], strict=True)
        return *(once(g) if g is not None and need else None for g, need in needed), None


def _from_all_ranks(found: _Found, shard: slice, want: frozenset[Statistic]) -> _Found:
    """The statistics with the rows of other shards, in one collective for each type of number."""
    n, used = len(found[0]), want | ({"least_index"} if "least" in want else set())
    wide = [x if x.ndim == 2 else x[:, None] for x in found]
    whole = list(found)
    for real in (False, True):
        here = [at for at, name in enumerate(_OF) if name in used and found[at].is_floating_point() == real]
        if not here:
            continue
        rows = rows_of_all_ranks(torch.cat([wide[at][shard] for at in here], dim=1), shard, n)
        for at in here:
            width = wide[at].shape[1]
            whole[at], rows = rows[:, :width].reshape(found[at].shape).to(found[at]), rows[:, width:]
    count, total, lse, least, index, weight, weighted = whole
    return count, total, lse, least, index, weight, weighted

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
from labeltree.geometry.hand_written import single_backward
from labeltree.geometry.precision import widen
from labeltree.pairs import dense
from labeltree.pairs.gather_ranks import num_ranks, rows_of_all_ranks
from labeltree.pairs.manual_gradient import manual_gradient
from labeltree.pairs.pair_results import PairStatistics, PairWeight, Statistic
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.similarity import Similarity, pair_similarity
from labeltree.pairs.tiles.tile_gradients import TileGradients, relation_tiles

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
    tile: int | None,
) -> PairStatistics:
    """As `labeltree.pairs.pair_statistics`."""
    shard = relation.shard if queries is keys else None
    walk = _Walk(relation, geometry, similarity, pair_weight, frozenset(want), tile, shard)
    statistics = _Chunked.apply(queries, keys, scale, temperature, walk)
    given = (None if name not in want else value for name, value in zip(_OF, statistics, strict=True))
    return PairStatistics(*given)


# the wanted statistic that each field of `PairStatistics` belongs to
_OF: tuple[Statistic, ...] = ("count", "sum", "lse", "least", "least_index", "weighted", "weighted")


def pair_counts(relation: PairRelation, tile: int | None) -> Tensor:
    """As `labeltree.pairs.pair_counts`."""
    n, size, shard = relation.num_queries, relation.num_relations, relation.shard
    count = torch.zeros(n, size, dtype=torch.int64, device=relation.queries.nodes.device)
    for rows, cols in relation_tiles(relation, shard, tile):
        codes = relation.codes(rows, cols)
        count[rows] += dense.sum_by_code(torch.ones_like(codes), codes, size)
    return count if shard is None else rows_of_all_ranks(count[shard], shard, n)


_Statistics = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


class _Chunked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        keys: Tensor,
        scale: Tensor | None,
        temperature: float | Tensor,
        walk: _Walk,
    ) -> _Statistics:
        n, size = len(queries), walk.relation.num_relations
        dtype = torch.promote_types(queries.dtype, keys.dtype)
        dtype = dtype if dtype == torch.float64 else torch.float32
        count = torch.zeros(n, size, dtype=torch.int64, device=queries.device)
        total = torch.zeros(n, size, dtype=dtype, device=queries.device)
        lse, least = _RunningLse(n, size, dtype, queries.device), torch.full_like(total, torch.inf)
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
        statistics = (count, total, lse.value, least, index, weight, weighted)
        if walk.shard is not None:
            statistics = _gather_ranks(statistics, walk.shard, walk.want)
        count, total, exact_lse, least, index, weight, weighted = statistics
        ctx.walk, ctx.temperature, ctx.dtype = walk, temperature, dtype
        ctx.save_for_backward(queries, keys, scale, exact_lse, index)
        ctx.mark_non_differentiable(count, index, weight)
        ctx.set_materialize_grads(False)
        return count, total, exact_lse.to(dtype), least, index, weight, weighted

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        queries, keys, scale, lse, index = ctx.saved_tensors
        walk: _Walk = ctx.walk
        with manual_gradient(queries.device):
            slopes = _Slopes(scale, lse, index, grads, walk.pair_weight, ctx.dtype)
            kind = walk.geometry, walk.similarity
            sums = TileGradients(queries, keys, *kind, ctx.temperature, shard=walk.shard)
            for rows, cols in relation_tiles(walk.relation, walk.shard, walk.tile):
                s = sums.similarities(rows, cols)
                codes = walk.relation.codes(rows, cols)
                slope = slopes.tile(s.detach(), codes, rows, cols)
                if walk.shard is not None:
                    slope += slopes.tile(s.detach().T, codes.T, cols, rows, grad_scale=False).T
                sums.add(s, slope, rows, cols)
        grad_scale = slopes.grad_scale
        if walk.shard is not None and grad_scale is not None:
            grad_scale = grad_scale * num_ranks()  # of this rank's share, as DDP takes the mean over ranks
        wanted = (sums.grad_queries, sums.grad_keys, grad_scale, sums.grad_temperature)
        needed = zip(wanted, ctx.needs_input_grad[:4], strict=True)
        inputs = (*grads, queries, keys, scale)
        return *(single_backward(g, *inputs) if g is not None and need else None for g, need in needed), None


def _gather_ranks(own: _Statistics, shard: slice, want: frozenset[Statistic]) -> _Statistics:
    """The statistics with the rows of other shards, in one collective for each type of number."""
    n, used = len(own[0]), want | ({"least_index"} if "least" in want else set())
    wide = [x if x.ndim == 2 else x[:, None] for x in own]
    whole = list(own)
    for real in (False, True):
        here = [at for at, name in enumerate(_OF) if name in used and own[at].is_floating_point() == real]
        if not here:
            continue
        rows = rows_of_all_ranks(torch.cat([wide[at][shard] for at in here], dim=1), shard, n)
        for at in here:
            width = wide[at].shape[1]
            whole[at], rows = rows[:, :width].reshape(own[at].shape).to(own[at]), rows[:, width:]
    count, total, lse, least, index, weight, weighted = whole
    return count, total, lse, least, index, weight, weighted


class _RunningLse:
    """log Σ exp(s_ij) of every row i and relation, over all keys j so far.

    In float64, and so that terms are taken as differences to the greatest: softmax weights found from it have
    no error in common, which is what rounding a log-sum-exp of large similarities would give a whole row.

    Args:
        n: Number of rows.
        size: Number R of relations.
        dtype: Dtype of the similarities.
        device: Their device.
    """

    def __init__(self, n: int, size: int, dtype: torch.dtype, device: torch.device) -> None:
        self._top = torch.full((n, size), -torch.inf, dtype=dtype, device=device)
        self._mass = widen(torch.zeros_like(self._top))

    def add(self, s: Tensor, codes: Tensor, rows: slice) -> None:
        """Take in `s (b, c)` of some rows, whose pairs have relations `codes (b, c)`; R of excluded pairs."""
        old, size = self._top[rows], self._top.shape[1]
        known = torch.cat([old, old.new_full((len(old), 1), -torch.inf)], dim=1)
        top = known.scatter_reduce(1, codes, s, "amax")
        reached = torch.where(top == -torch.inf, 0.0, top)
        here = dense.sum_by_code((s - reached.gather(1, codes)).exp_(), codes, size)
        self._mass[rows] *= (old - reached[:, :size]).exp_()
        self._mass[rows] += here
        self._top[rows] = top[:, :size]

    @property
    def value(self) -> Tensor:
        """`(n, R)` float64; −∞ where there is no pair."""
        return self._mass.log() + self._top


class _Slopes:
    """The derivative of the loss with respect to the similarities of a tile, from those of the statistics.

    Args:
        scale: `(R,)` ω, or None.
        lse: `(n, R)`, in float64.
        index: `(n, R)` indices of the least similar keys.
        grads: Gradients of the fields of `PairStatistics`, in their order.
        pair_weight: As in `pair_statistics`.
        dtype: Dtype of the similarities.
    """

    def __init__(
        self,
        scale: Tensor | None,
        lse: Tensor,
        index: Tensor,
        grads: tuple[Tensor | None, ...],
        pair_weight: PairWeight | None,
        dtype: torch.dtype,
    ) -> None:
        _, grad_sum, grad_lse, self._grad_least, _, _, self._grad_weighted = grads
        self._index, self._size = index, lse.shape[1]
        self._pair_weight = pair_weight
        self._grad_sum, self._grad_lse = grad_sum, grad_lse
        self._factor, self._of_factor = None, None
        excluded = lse.new_zeros(len(lse), 1, dtype=dtype)
        if scale is not None:
            self._factor = torch.cat([scale.to(dtype), scale.new_ones(1, dtype=dtype)])
            self._of_factor, self._scale_dtype = widen(torch.zeros_like(self._factor[:-1])), scale.dtype
        if grad_sum is not None:
            self._grad_sum = torch.cat([grad_sum, excluded], dim=1)
        if grad_lse is not None:
            # exp(s − lse) = exp(s − rounded)·exp(rounded − lse)
            rounded = lse.to(dtype)
            rest = torch.where(lse == -torch.inf, 0.0, rounded - lse).exp_()
            self._grad_lse = torch.cat([(grad_lse * rest).to(dtype), excluded], dim=1)
            self._lse = torch.cat([rounded, excluded + torch.inf], dim=1)

    @property
    def grad_scale(self) -> Tensor | None:
        """The gradient of the scale, of the tiles so far."""
        return None if self._of_factor is None else self._of_factor.to(self._scale_dtype)

    def tile(self, s: Tensor, codes: Tensor, rows: slice, cols: slice, *, grad_scale: bool = True) -> Tensor:
        """Slopes `(b, c)` of the anchors `rows`; adds to the gradient of the scale unless told not to."""
        slope = torch.zeros_like(s)
        if self._grad_sum is not None:
            slope += self._grad_sum[rows].gather(1, codes)
        if self._grad_lse is not None:
            omega = None if self._factor is None else self._factor[codes]
            scaled = s if omega is None else s * omega
            share = (scaled - self._lse[rows].gather(1, codes)).exp_() * self._grad_lse[rows].gather(1, codes)
            slope += share if omega is None else share * omega
            if grad_scale and self._of_factor is not None:
                self._of_factor += dense.sum_by_code(share * s, codes, self._size).sum(0)
        if self._grad_least is not None:
            at = self._index[rows] - cols.start
            i, r = ((at >= 0) & (at < s.shape[1])).nonzero(as_tuple=True)
            slope.index_put_((i, at[i, r]), self._grad_least[rows][i, r], accumulate=True)
        if self._grad_weighted is not None:
            assert self._pair_weight is not None
            w = self._pair_weight(rows, cols).to(s.dtype).masked_fill(codes == self._size, 0.0)
            slope += w * self._grad_weighted[rows][:, None]
        return slope

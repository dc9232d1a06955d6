"""Pair statistics of a batch with itself, by cosine, where kinds of rows say how they are related."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from labeltree.pairs.implementation import Plan
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.streaming.exponents import exponent_dtype
from labeltree.pairs.streaming.kind_walk import SIZE, WEIGHT, WEIGHTED, KindWalk, kind_slopes
from labeltree.pairs.streaming.kinds import KindRelation, KindTiles, rows_by_kind
from labeltree.pairs.streaming.once import by_hand, once
from labeltree.pairs.streaming.order import LabelOrder
from labeltree.pairs.streaming.tiles import TILE
from labeltree.pairs.streaming.unit import take_to_tangent, unit_rows, working_dtype
from labeltree.pairs.summary import PairStatistics, PairWeight, Statistic
from labeltree.taxonomy.relations import INSTANCE

__all__ = ["fits", "pair_statistics"]


def fits(
    z: Tensor,
    relation: PairRelation,
    temperature: float,
    scale: Tensor | None,
    pair_weight: PairWeight | None,
    want: Collection[Statistic],
) -> bool:
    """Whether this walk can compute what is wanted of a batch with itself."""
    if not isinstance(relation, KindRelation) or scale is not None or relation.max_depth:
        return False
    if not {"count", "lse", "weighted"}.issuperset(want) or relation.queries is not relation.keys:
        return False
    if relation.offset != 0 or ("weighted" in want and pair_weight != relation.weight):
        return False
    if exponent_dtype(working_dtype(z), temperature, None) is None:
        return False
    return LabelOrder.fits(rows_by_kind(relation, relation.kinds))


def pair_statistics(
    z: Tensor, relation: PairRelation, temperature: float, want: Collection[Statistic], plan: Plan
) -> PairStatistics:
    """As `labeltree.pairs.pair_statistics`, of a batch `z (n, d)` with itself."""
    tiles = KindTiles(relation, plan.tile or TILE)
    keep = plan.keep if z.requires_grad and torch.is_grad_enabled() else 0
    # a small part of all tiles is not worth the memory
    walk = KindWalk(tiles, temperature, 0 if 10 * keep < 2 * len(z) ** 2 else keep)
    count, lse, weight, weighted = _Weighted.apply(z, walk)
    return PairStatistics(
        count=count if "count" in want else None,
        lse=lse if "lse" in want else None,
        weight=weight if "weighted" in want else None,
        weighted_sum=weighted if "weighted" in want else None,
    )


class _Weighted(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, walk: KindWalk) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        order = walk.tiles.order
        u, _ = unit_rows(z, order.order)
        found = order.from_ranks(walk.statistics(u).T)
        assert found is not None
        found = walk.with_views(found, u)
        ctx.walk = walk
        ctx.set_materialize_grads(False)
        sums, counts = found[:, :SIZE].clone(), found[:, SIZE:WEIGHT].long()
        ctx.save_for_backward(z, sums)
        weight, weighted = found[:, WEIGHT].to(u.dtype), found[:, WEIGHTED].to(u.dtype)
        count, weight = order.unsorted(counts), order.unsorted(weight)
        ctx.mark_non_differentiable(count, weight)
        return count, order.unsorted(sums.log().to(u.dtype)), weight, order.unsorted(weighted)

    @staticmethod
    def backward(
        ctx: Any, _count: None, of_lse: Tensor | None, _weight: None, of_weighted: Tensor | None
    ) -> tuple[Tensor, None]:
        z, sums = ctx.saved_tensors
        walk: KindWalk = ctx.walk
        with by_hand(z.device):
            order = walk.tiles.order
            u, inverse = unit_rows(z, order.order)
            slope = torch.zeros_like(sums)
            if of_lse is not None:
                slope = torch.where(sums > 0, of_lse[order.order].double() / sums, 0.0)
            of_weight = u.new_zeros(len(u)) if of_weighted is None else of_weighted[order.order].to(u.dtype)
            own = torch.zeros_like(walk.tiles.own(u))
            walk.add_gradient(own, u, kind_slopes(slope, sums, u.dtype), of_weight)
            of_u = own
            if order.shard is not None:
                of_u = torch.zeros_like(u)
                of_u[order.shard] = own
            walk.add_gradient_of_views(of_u, u, slope[:, INSTANCE], of_weight)
            take_to_tangent(of_u, u, inverse)
            del u, own
            of_z = order.unsorted(of_u).to(z.dtype)
        return once(of_z), None

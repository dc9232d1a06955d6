"""Pair statistics over tiles: the fast walk where the batch allows it, the general one elsewhere."""

from __future__ import annotations

from collections.abc import Collection

from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.pairs.implementation import Plan
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.similarity import Similarity
from labeltree.pairs.streaming import chunked, symmetric, weighted
from labeltree.pairs.streaming.order import LabelOrder, order_of
from labeltree.pairs.summary import PairStatistics, PairWeight, Statistic, by_relation

__all__ = ["pair_counts", "pair_statistics"]


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
    alone = similarity == "cosine" and queries is keys and not isinstance(temperature, Tensor)
    few = symmetric.tile_of(plan)
    if alone and symmetric.fits(queries, relation, float(temperature), scale, want, few):
        return symmetric.pair_statistics(queries, relation, float(temperature), scale, want, plan)
    want = by_relation(want)
    if alone and weighted.fits(queries, relation, float(temperature), scale, pair_weight, want):
        return weighted.pair_statistics(queries, relation, float(temperature), want, plan)
    return chunked.pair_statistics(
        queries,
        keys,
        relation,
        geometry,
        temperature,
        similarity=similarity,
        scale=scale,
        pair_weight=pair_weight,
        want=want,
        plan=plan,
    )


def pair_counts(relation: PairRelation, plan: Plan) -> Tensor:
    """As `labeltree.pairs.pair_counts`."""
    if not LabelOrder.fits(relation):
        return chunked.pair_counts(relation, plan)
    order = order_of(relation)
    return order.unsorted(order.sums.counts())

"""Pair statistics, dense: the reference, which holds the (n, m) similarities.

It is as short as the definitions allow, and differentiable as often as one likes.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.similarity import Similarity, pair_similarity
from labeltree.pairs.summary import PairStatistics, PairWeight, Statistic

__all__ = ["least_by_code", "lse_by_code", "pair_counts", "pair_statistics", "sum_by_code"]


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
) -> PairStatistics:
    """As `labeltree.pairs.pair_statistics`."""
    s = pair_similarity(queries, keys, geometry, temperature, similarity)
    codes, size = relation.codes(), relation.num_relations
    count = total = lse = least = least_index = weight = weighted_sum = None
    if "count" in want:
        count = sum_by_code(torch.ones_like(codes), codes, size)
    if "sum" in want:
        total = sum_by_code(s, codes, size)
    if "lse" in want:
        scaled = s if scale is None else s * torch.cat([scale.to(s.dtype), scale.new_ones(1)])[codes]
        lse = lse_by_code(scaled, codes, size)
    if "least" in want or "least_index" in want:
        least, least_index = least_by_code(s, codes, size)
    if "weighted" in want:
        assert pair_weight is not None
        w = pair_weight(None, None).to(s.dtype).masked_fill(codes == size, 0.0)
        weight, weighted_sum = w.sum(1), (w * s).sum(1)
    return PairStatistics(
        count,
        total,
        lse,
        least if "least" in want else None,
        least_index if "least_index" in want else None,
        weight,
        weighted_sum,
    )


def pair_counts(relation: PairRelation) -> Tensor:
    """As `labeltree.pairs.pair_counts`."""
    codes = relation.codes()
    return sum_by_code(torch.ones_like(codes), codes, relation.num_relations)


def sum_by_code(values: Tensor, codes: Tensor, size: int) -> Tensor:
    return values.new_zeros(len(values), size + 1).scatter_add(1, codes, values)[:, :size]


def lse_by_code(s: Tensor, codes: Tensor, size: int) -> Tensor:
    with torch.no_grad():
        greatest = s.new_full((len(s), size + 1), -torch.inf).scatter_reduce(1, codes, s, "amax")
    total = sum_by_code((s - greatest.gather(1, codes)).exp(), codes, size)
    present = total != 0  # NaN stays NaN
    return torch.where(present, torch.where(present, total, 1.0).log() + greatest[:, :size], -torch.inf)


def least_by_code(s: Tensor, codes: Tensor, size: int) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        empty = s.new_full((len(s), size + 1), torch.inf)
        least = empty.scatter_reduce(1, codes, s, "amin")
        keys = torch.arange(s.shape[1], device=s.device).expand_as(codes)
        keys = torch.where(s == least.gather(1, codes), keys, s.shape[1])
        index = torch.full_like(least, s.shape[1], dtype=torch.int64).scatter_reduce(1, codes, keys, "amin")
        index, present = index[:, :size], index[:, :size] < s.shape[1]
    least = s.gather(1, torch.where(present, index, 0)) if s.shape[1] else empty[:, :size]
    return torch.where(present, least, torch.inf), torch.where(present, index, -1)

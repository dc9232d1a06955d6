"""The primitives computed from their definitions, all pairs at once: the reference implementation.

They can be differentiated any number of times, and do not depend on the other implementations.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from labeltree.geometry import Geometry, Sphere
from labeltree.pairs.pair_results import PairStatistics, PairWeight, QueueContrast, Statistic
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.similarity import Similarity, pair_similarity, prototype_distances

__all__ = [
    "bounded_sum",
    "least_by_code",
    "lse_by_code",
    "nearest_other",
    "pair_counts",
    "pair_statistics",
    "soft_target_contrast",
    "sum_by_code",
]


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
    """See `labeltree.pairs.pair_statistics`."""
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


def bounded_sum(
    queries: Tensor,
    keys: Tensor,
    relation: PairRelation,
    geometry: Geometry,
    temperature: float | Tensor,
    *,
    members: Tensor,
    offset: Tensor,
    bound: Tensor,
    similarity: Similarity,
) -> Tensor:
    """As `labeltree.pairs.bounded_sum`."""
    s = pair_similarity(queries, keys, geometry, temperature, similarity)
    codes = relation.codes()
    excluded = members.new_zeros(len(members), 1)
    sums = []
    for member, term_offset, term_bound in zip(
        torch.cat([members, excluded], dim=1), offset.unbind(1), bound, strict=True
    ):
        loss = term_offset[:, None] - s
        bounded = torch.where(loss >= term_bound, loss, term_bound)
        sums.append(torch.where(member[codes], bounded, 0.0).sum(1))
    return torch.stack(sums, dim=1)


def soft_target_contrast(
    queries: Tensor,
    keys: Tensor,
    stored: Tensor,
    relation: PairRelation,
    *,
    positive: Tensor | None,
    members: Tensor,
    temperature: float,
    target_temperature: float,
) -> QueueContrast:
    """As `labeltree.pairs.soft_target_contrast`."""
    sphere = Sphere()
    own = sphere.similarity(queries, keys) / temperature
    s = sphere.pairwise_similarity(queries, stored) / temperature
    codes, excluded = relation.codes(), members.new_zeros(len(members), 1)
    lse = [
        torch.cat([own[:, None], s.masked_fill(~member[codes], -torch.inf)], dim=1).logsumexp(1)
        for member in torch.cat([members, excluded], dim=1)
    ]
    if positive is None:
        none = torch.zeros_like(own.detach())
        return QueueContrast(own, torch.stack(lse, dim=1), none + 1, own, none)
    near = sphere.pairwise_similarity(keys, stored)
    candidate = torch.cat([positive, excluded[0]])[codes]
    z, entropy = _targets(near, candidate, target_temperature)
    return QueueContrast(own, torch.stack(lse, dim=1), 1 + z.sum(1), own + (z * s).sum(1), entropy)


@torch.no_grad()
def _targets(near: Tensor, candidate: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """z' `(b, m)`, 0 but for candidates, and its normalised entropy `(b,)`."""
    floor = near.new_full((len(near), 1), -torch.inf)
    nearest = torch.cat([near.masked_fill(~candidate, -torch.inf), floor], dim=1).amax(1, keepdim=True)
    behind = torch.where(candidate, nearest - near, 0.0)
    if temperature >= torch.finfo(near.dtype).tiny:
        z = torch.where(candidate, (-behind / temperature).exp(), 0.0)
    else:
        z = (candidate & (behind == 0)).to(near.dtype)
    total = z.sum(1)
    entropy = total.clamp(min=1).log() - torch.xlogy(z, z).sum(1) / total.clamp(min=1)  # total ≥ 1 or 0
    count = candidate.sum(1)
    uniform = count.clamp(min=2).to(near.dtype).log()
    return z, torch.where(count > 1, (entropy / uniform).clamp(0, 1), 0.0)


def nearest_other(
    points: Tensor, prototypes: Tensor, own: Tensor, geometry: Geometry, similarity: Similarity
) -> tuple[Tensor, Tensor, Tensor]:
    """As `labeltree.pairs.nearest_other`."""
    distances = prototype_distances(points, prototypes, geometry, similarity)
    others = distances.scatter(1, own[:, None], torch.inf)
    nearest, index = others.min(1)
    return distances.gather(1, own[:, None])[:, 0], nearest, index

"""Pair statistics, dense: what losses need to know of the similarities, summed up per anchor and relation.

This is the reference: it holds the (n, m) similarities and is as short as the definitions allow. A loss
written over these statistics does not care how they were computed, so an implementation that never holds
the (n, m) matrix can take its place under the same signatures.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from labeltree.geometry import Geometry, Sphere
from labeltree.pairs.relation import PairRelation, Rows

__all__ = [
    "PairStatistics",
    "PairWeight",
    "Similarity",
    "Statistic",
    "pair_counts",
    "pair_similarity",
    "pair_statistics",
]

Similarity = Literal["cosine", "distance"]
Statistic = Literal["count", "sum", "lse", "least", "weighted"]
PairWeight = Callable[[Rows, Rows], Tensor]


@dataclass(frozen=True, eq=False)
class PairStatistics:
    """Statistics of the similarities s_ik of n anchors, per relation r; None where not asked for.

    Attributes:
        count: `(n, R)` int64, number of keys in relation r to anchor i.
        sum: `(n, R)` Σ s_ik.
        lse: `(n, R)` log Σ exp(ω(r)·s_ik); −∞ where there is no such key.
        least: `(n, R)` min s_ik; +∞ where there is no such key.
        least_index: `(n, R)` int64, the first key that attains it; −1 where there is none.
        weight: `(n,)` Σ w_ik over all keys.
        weighted_sum: `(n,)` Σ w_ik·s_ik over all keys.
    """

    count: Tensor | None = None
    sum: Tensor | None = None
    lse: Tensor | None = None
    least: Tensor | None = None
    least_index: Tensor | None = None
    weight: Tensor | None = None
    weighted_sum: Tensor | None = None


def pair_similarity(
    queries: Tensor,
    keys: Tensor,
    geometry: Geometry,
    temperature: float | Tensor,
    similarity: Similarity = "cosine",
) -> Tensor:
    """Similarities over temperature `(n, m)`: cos/τ, or −d/τ in the geometry (Eq. 1 of the HWC paper)."""
    if similarity == "cosine":
        return Sphere().pairwise_similarity(queries, keys) / temperature
    if similarity == "distance":
        return -geometry.pairwise_distance(queries, keys) / temperature
    raise ValueError(f"similarity must be one of {', '.join(get_args(Similarity))}; got {similarity!r}")


def pair_statistics(
    queries: Tensor,
    keys: Tensor,
    relation: PairRelation,
    geometry: Geometry,
    temperature: float | Tensor,
    *,
    similarity: Similarity = "cosine",
    scale: Tensor | None = None,
    pair_weight: PairWeight | None = None,
    want: Collection[Statistic] = ("count", "sum", "lse"),
) -> PairStatistics:
    """Statistics of the similarities of every query to all keys, by relation.

    Differentiable with respect to `queries`, `keys` and `scale`; computed in float32 or better, also under
    autocast. Excluded pairs (a sample with itself) count nowhere.

    Args:
        queries: `(n, d)` embeddings of the anchors.
        keys: `(m, d)` embeddings they are compared with.
        relation: relation of every query to every key, R codes.
        geometry: where `similarity="distance"` measures.
        temperature: τ > 0.
        similarity: `"cosine"` (of the vectors, in any geometry) or `"distance"`.
        scale: `(R,)` ω(r), the factor on s inside `lse`; None: 1.
        pair_weight: for `want="weighted"`: a function of (rows, cols) that gives the weights w_ik `(b, c)`
            of a tile, such as soft targets or the overlap of ratings.
        want: the statistics to compute: `"count"`, `"sum"`, `"lse"`, `"least"`, `"weighted"`.

    Returns:
        The statistics asked for.

    Example:
        >>> relation = PairRelation.of_instances(torch.tensor([0, 0, 1]), 3)
        >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> pair_statistics(z, z, relation, Sphere(), 0.5).sum  # codes: 3 is "same instance", 4 "unknown"
        tensor([[0., 0., 0., 2., 0.],
                [0., 0., 0., 2., 0.],
                [0., 0., 0., 0., 0.]])
    """
    with torch.autocast(queries.device.type, enabled=False):
        s = pair_similarity(queries, keys, geometry, temperature, similarity)
        codes, size = relation.codes(), relation.num_relations
        count = total = lse = least = least_index = weight = weighted_sum = None
        if "count" in want:
            count = _sum_by_code(torch.ones_like(codes), codes, size)
        if "sum" in want:
            total = _sum_by_code(s, codes, size)
        if "lse" in want:
            scaled = s if scale is None else s * torch.cat([scale.to(s.dtype), scale.new_ones(1)])[codes]
            lse = _lse_by_code(scaled, codes, size)
        if "least" in want:
            least, least_index = _least_by_code(s, codes, size)
        if "weighted" in want:
            if pair_weight is None:
                raise ValueError('want="weighted" needs pair_weight, a function of (rows, cols)')
            w = pair_weight(None, None).to(s.dtype).masked_fill(codes == size, 0.0)
            weight, weighted_sum = w.sum(1), (w * s).sum(1)
    return PairStatistics(count, total, lse, least, least_index, weight, weighted_sum)


def pair_counts(relation: PairRelation) -> Tensor:
    """Number of keys in each relation to each query, `(n, R)` int64."""
    codes = relation.codes()
    return _sum_by_code(torch.ones_like(codes), codes, relation.num_relations)


def _sum_by_code(values: Tensor, codes: Tensor, size: int) -> Tensor:
    return values.new_zeros(len(values), size + 1).scatter_add(1, codes, values)[:, :size]


def _lse_by_code(s: Tensor, codes: Tensor, size: int) -> Tensor:
    with torch.no_grad():
        greatest = s.new_full((len(s), size + 1), -torch.inf).scatter_reduce(1, codes, s, "amax")
    total = _sum_by_code((s - greatest.gather(1, codes)).exp(), codes, size)
    present = total > 0
    return torch.where(present, torch.where(present, total, 1.0).log() + greatest[:, :size], -torch.inf)


def _least_by_code(s: Tensor, codes: Tensor, size: int) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        empty = s.new_full((len(s), size + 1), torch.inf)
        least = empty.scatter_reduce(1, codes, s, "amin")
        keys = torch.arange(s.shape[1], device=s.device).expand_as(codes)
        keys = torch.where(s == least.gather(1, codes), keys, s.shape[1])
        index = torch.full_like(least, s.shape[1], dtype=torch.int64).scatter_reduce(1, codes, keys, "amin")
        index, present = index[:, :size], index[:, :size] < s.shape[1]
    least = s.gather(1, torch.where(present, index, 0)) if s.shape[1] else empty[:, :size]
    return torch.where(present, least, torch.inf), torch.where(present, index, -1)

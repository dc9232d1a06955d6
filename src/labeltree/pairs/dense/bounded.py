"""The bounded sum, dense: the reference, which holds the (n, m) similarities."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.similarity import Similarity, pair_similarity

__all__ = ["bounded_sum"]


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

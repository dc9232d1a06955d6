"""Contrast with a queue under soft targets, dense: the reference, which holds the (b, m) similarities."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.geometry import Sphere
from labeltree.pairs.queue_contrast import QueueContrast
from labeltree.pairs.relation import PairRelation

__all__ = ["soft_target_contrast"]


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

"""The primitive of the queue losses, dense: attention of the keys over the queue becomes the query's target.

This is the reference: it holds the (b, m) similarities. A loss is row arithmetic on what it returns, so an
implementation that walks over the queue in tiles can take its place under the same signature.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.geometry import Sphere
from labeltree.pairs import PairRelation

__all__ = ["QueueContrast", "soft_target_contrast"]


@dataclass(frozen=True, eq=False)
class QueueContrast:
    """What a loss needs to know of every query i, its own key 0 and the queue j = 1 … m.

    Attributes:
        own: `(b,)` s_i0, the similarity to its own key over the temperature.
        lse: `(b, T)` log(exp(s_i0) + Σ_j exp(s_ij)), over the members of each of the T softmaxes.
        mass: `(b,)` 1 + Σ_j z'_ij, the target's sum before it is normalised; no gradient.
        attraction: `(b,)` s_i0 + Σ_j z'_ij·s_ij.
        entropy: `(b,)` entropy of z'_i as a distribution (Eq. 11 of MaskCon) over that of the uniform one, in
            [0, 1]; 0 where the queue has fewer than two candidates; no gradient.
    """

    own: Tensor
    lse: Tensor
    mass: Tensor
    attraction: Tensor
    entropy: Tensor


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
    """Contrast of every query with its own key and a queue of stored keys, under soft targets.

        s_ij = cos(q_i, h_j)/τ0,   s_i0 = cos(q_i, k_i)/τ0                   (Eq. 8 of MaskCon)
        z'_ij = exp(d_ij/τ) / max_j' exp(d_ij'/τ),   d_ij = cos(k_i, h_j)    (Eq. 11 to 13)

    The maximum is over the candidates of row i; the sum in Eq. 11 cancels. It is subtracted before the
    exponential, so nothing under- or overflows, whatever τ. τ = 0 leaves the nearest candidate (all of them,
    if several are equally near), τ = ∞ counts all candidates alike. Computed in float32 or better, also under
    autocast. Differentiable with respect to `queries` alone.

    Args:
        queries: `(b, d)`.
        keys: `(b, d)`, of the same samples.
        stored: `(m, d)` keys of the queue; m may be 0.
        relation: of every query to every stored key, R codes; excluded pairs count nowhere.
        positive: `(R,)` bool, the relations of candidates: stored keys that can be a target. None: none.
        members: `(T, R)` bool, the relations that compete in each softmax; the own key always does.
        temperature: τ0 > 0.
        target_temperature: τ ≥ 0, ∞ included.

    Example:
        A batch as its own queue, in which a row is not its own candidate. Of two candidates, the nearer one
        is as positive as the own key:

        >>> z = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> relation = PairRelation.of_instances(torch.tensor([0, 1, 2]), 3)
        >>> every = torch.ones(1, relation.num_relations, dtype=torch.bool)
        >>> soft_target_contrast(
        ...     z, z, z, relation, positive=every[0], members=every, temperature=1.0, target_temperature=1.0
        ... ).mass  # 1 + 1 + exp(0 − 0.8), ...
        tensor([2.4493, 2.8187, 2.5488])
    """
    sphere = Sphere()
    keys, stored = keys.detach(), stored.detach()
    with torch.autocast(queries.device.type, enabled=False):
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

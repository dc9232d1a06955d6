"""The primitive of the queue losses: attention of the keys over the queue becomes the query's target.

A loss is row arithmetic on what it returns, and does not care how it was computed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labeltree.pairs.dense import contrast as dense
from labeltree.pairs.implementation import planned
from labeltree.pairs.kernels import contrast as kernels
from labeltree.pairs.precision import at_least_single
from labeltree.pairs.queue_contrast import QueueContrast
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.streaming import contrast as streaming

__all__ = ["QueueContrast", "soft_target_contrast"]


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
    if several are equally near to the last digit), τ = ∞ counts all candidates alike. Computed in float32 or
    better, also of half-precision vectors and under autocast. Differentiable with respect to `queries` alone.

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
    plan = planned(queries.device, len(queries) * len(stored))
    options: dict[str, Any] = {
        "positive": positive,
        "members": members,
        "temperature": temperature,
        "target_temperature": target_temperature,
    }
    with torch.autocast(queries.device.type, enabled=False):
        keys, stored = keys.detach(), stored.detach()
        # With a target, the gradient is the difference of two mean keys. The kernel finds each by itself, and
        # loses the difference to rounding in tight clusters; the streaming walk adds up differences.
        fits = positive is None and kernels.supports(queries, keys, stored, relation)
        if plan.name == "triton" and fits:
            return kernels.soft_target_contrast(queries, keys, stored, relation, **options, tile=plan.tile)
        queries, keys, stored = at_least_single(queries, keys, stored)
        if plan.name == "dense":
            return dense.soft_target_contrast(queries, keys, stored, relation, **options)
        return streaming.soft_target_contrast(queries, keys, stored, relation, **options, plan=plan)

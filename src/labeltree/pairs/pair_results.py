"""Results of the primitives: statistics of similarities by anchor and relation, contrasts with a queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from labeltree.pairs.relation import Rows

__all__ = ["PairStatistics", "PairWeight", "QueueContrast", "Statistic"]

Statistic = Literal["count", "sum", "lse", "least", "least_index", "weighted"]
PairWeight = Callable[[Rows, Rows], Tensor]


@dataclass(frozen=True, eq=False)
class PairStatistics:
    """Statistics of the similarities s_ik of n anchors, per relation r; None if not requested.

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


@dataclass(frozen=True, eq=False)
class QueueContrast:
    """Contrast of every query i with its own key 0 and the queue j = 1 … m.

    Attributes:
        own: `(b,)` s_i0, the similarity to the query's own key over the temperature.
        lse: `(b, T)` log(exp(s_i0) + Σ_j exp(s_ij)), over the members of each of the T softmaxes.
        mass: `(b,)` 1 + Σ_j z'_ij, the target's sum before it is normalised; no gradient.
        attraction: `(b,)` s_i0 + Σ_j z'_ij·s_ij.
        entropy: `(b,)` entropy of z'_i as a distribution (Eq. 11 of MaskCon) relative to the uniform
            distribution, in [0, 1]; 0 where the queue has fewer than two candidates; no gradient.
    """

    own: Tensor
    lse: Tensor
    mass: Tensor
    attraction: Tensor
    entropy: Tensor

"""What the contrast of queries with a queue of keys amounts to, row by row."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

__all__ = ["QueueContrast"]


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

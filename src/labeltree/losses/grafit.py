"""Grafit: SupCon over a queue beside instance discrimination."""

from __future__ import annotations

import math

from labeltree.geometry import Geometry
from labeltree.losses.queue_loss import ExcludeSelf, QueueLoss
from labeltree.losses.reduction import Reduction
from labeltree.losses.table import Undecided
from labeltree.taxonomy import Taxonomy

__all__ = ["GrafitLoss"]


class GrafitLoss(QueueLoss):
    """SupCon and SelfCon over a queue (Touvron et al. 2021, as Eq. 9 of MaskCon has it).

        L = w·L_supcon + (1 − w)·L_selfcon

    L_supcon is the mean of −log q over a sample's own key and all keys of its class in the queue, L_selfcon
    −log q of its own key; q as in `MaskConLoss`, of which this is τ = ∞.

    Args:
        taxonomy: the tree of the labels, at the depth that is known.
        temperature: τ0 > 0.
        w: share of SupCon, 0 (SelfCon) to 1 (SupCon over a queue).
        exclude_self: `"drop"`, `"negative"` (Eq. 11's j ≠ i) or `"keep"`; see `MaskConLoss`. The published
            code of MaskCon, which has this loss as a baseline, keeps.
        undecided: as in `MaskConLoss`.
        reduction: the mean over queries, `"sum"` or `"none"`; see `QueueLoss`.
        geometry: the sphere, which None is; there is no other.

    Call with `queries (b, d)`, `keys (b, d)`, `queue`, `nodes (b,)` and `instances (b,)`; see `QueueLoss`.
    """

    schedulable = ("w",)

    def __init__(
        self,
        taxonomy: Taxonomy,
        temperature: float = 0.1,
        w: float = 0.5,
        *,
        exclude_self: ExcludeSelf = "drop",
        undecided: Undecided = "ignore",
        reduction: Reduction = "valid",
        geometry: Geometry | str | None = None,
    ) -> None:
        super().__init__(
            taxonomy,
            temperature=temperature,
            target_temperature=math.inf,
            w=w,
            exclude_self=exclude_self,
            undecided=undecided,
            reduction=reduction,
            geometry=geometry,
        )

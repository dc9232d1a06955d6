"""SelfCon: instance discrimination against a queue."""

from __future__ import annotations

from labeltree.geometry import Geometry
from labeltree.losses.queue_loss import ExcludeSelf, QueueLoss
from labeltree.losses.reduction import Reduction

__all__ = ["SelfConLoss"]


class SelfConLoss(QueueLoss):
    """Every sample is a class of its own (MoCo, He et al. 2020; L_selfcon of MaskCon, Eq. 6); no labels.

        L_i = −log( exp(cos(q_i, k_i)/τ0) / (exp(cos(q_i, k_i)/τ0) + Σ_j exp(cos(q_i, h_j)/τ0)) )

    Args:
        temperature: τ0 > 0.
        exclude_self: `"drop"` leaves a sample's own old keys out; with `"negative"` and `"keep"`, which are
            the same here, they compete, as in MoCo.
        reduction: the mean over queries, `"sum"` or `"none"`; see `QueueLoss`.
        geometry: the sphere, which None is; there is no other.

    Call with `queries (b, d)`, `keys (b, d)`, `queue`, `nodes` (ignored) and `instances (b,)`; see
    `QueueLoss`.
    """

    def __init__(
        self,
        temperature: float = 0.1,
        *,
        exclude_self: ExcludeSelf = "drop",
        reduction: Reduction = "valid",
        geometry: Geometry | str | None = None,
    ) -> None:
        super().__init__(
            None,
            temperature=temperature,
            target_temperature=0.0,
            w=0.0,
            exclude_self=exclude_self,
            reduction=reduction,
            geometry=geometry,
        )

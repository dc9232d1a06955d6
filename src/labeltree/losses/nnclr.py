"""NNCLR: a sample's nearest neighbour is as positive as its other view."""

from __future__ import annotations

from labeltree.geometry import Geometry
from labeltree.losses.queue_loss import ExcludeSelf, QueueLoss
from labeltree.losses.reduction import Reduction

__all__ = ["NNCLRLoss"]


class NNCLRLoss(QueueLoss):
    """The own key and its nearest neighbour in the queue attract, half each; no labels.

        L_i = −½·log q_i0 − ½·log q_iν,   ν = argmax_j cos(k_i, h_j)

    NNCLR (Dwibedi et al. 2021) as a special case of MaskCon (section 3.2 there): w = 1, τ = 0, no mask. The
    paper of NNCLR replaces the key by its neighbour instead, against the batch, and keeps a predictor head.
    With an empty queue, only the own key attracts; of several equally near neighbours, all do.

    Args:
        temperature: τ0 > 0.
        exclude_self: with `"drop"` and `"negative"` a sample's own old key is no neighbour, and with
            `"drop"` it does not compete either; with `"keep"` it can be the nearest.
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
            w=1.0,
            exclude_self=exclude_self,
            reduction=reduction,
            geometry=geometry,
        )

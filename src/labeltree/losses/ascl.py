"""ASCL: soft relations to the whole queue, trusted sample by sample."""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.losses.queue_loss import ExcludeSelf, QueueLoss
from labeltree.losses.reduction import Reduction
from labeltree.pairs import QueueContrast

__all__ = ["ASCLLoss"]

Trust = Literal["entropy", "confidence"]


class ASCLLoss(QueueLoss):
    """MaskCon without labels, in which every sample has its own w from its similarities to the queue.

        w_i = H(z'_i) / log m     or, with `trust="confidence"`,     w_i = 1 − H(z'_i) / log m

    H is the entropy of z' as a distribution over the m candidates. Adaptive soft contrastive learning (Feng &
    Patras 2022) as a special case of MaskCon, section 3.2 there, which says `"entropy"`: w is large where no
    key stands out. The paper of ASCL has it the other way round, `"confidence"`: neighbours count where few
    of them stand out; and there the target is min(1, K·w_i·z'_ij) with z' the softmax itself, not divided by
    its maximum.

    Args:
        temperature: τ0 > 0.
        target_temperature: τ ≥ 0; 0.05 is that of ASCL's published code.
        trust: how w follows from the entropy.
        exclude_self: what becomes of a sample's own old keys; see `MaskConLoss`.
        reduction: the mean over queries, `"sum"` or `"none"`; see `QueueLoss`.
        geometry: the sphere, which None is; there is no other.

    Call with `queries (b, d)`, `keys (b, d)`, `queue`, `nodes` (ignored) and `instances (b,)`; see
    `QueueLoss`. A queue of fewer than two candidates has entropy 0.
    """

    schedulable = ("target_temperature",)

    def __init__(
        self,
        temperature: float = 0.1,
        target_temperature: float = 0.05,
        *,
        trust: Trust = "entropy",
        exclude_self: ExcludeSelf = "drop",
        reduction: Reduction = "valid",
        geometry: Geometry | str | None = None,
    ) -> None:
        if trust not in get_args(Trust):
            raise ValueError(f"trust must be 'entropy' or 'confidence'; got {trust!r}")
        super().__init__(
            None,
            temperature=temperature,
            target_temperature=target_temperature,
            w=1.0,
            exclude_self=exclude_self,
            reduction=reduction,
            geometry=geometry,
        )
        self.trust = trust

    def share(self, contrast: QueueContrast) -> Tensor:
        """w of each query, `(b,)`."""
        return contrast.entropy if self.trust == "entropy" else 1 - contrast.entropy

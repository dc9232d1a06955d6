"""MaskCon: coarse labels mask, similarities weigh what a sample is attracted to."""

from __future__ import annotations

from typing import Literal, get_args

from labeltree.geometry import Geometry
from labeltree.losses.queue_loss import ExcludeSelf, QueueLoss
from labeltree.losses.reduction import Reduction
from labeltree.losses.table import Undecided
from labeltree.taxonomy import Taxonomy

__all__ = ["MaskConLoss"]

MaskConVariant = Literal["paper", "reference"]


class MaskConLoss(QueueLoss):
    """Masked contrastive learning with coarse labels (Feng & Patras 2023).

        L_i = w·(−Σ_j z_ij log q_ij) + (1 − w)·(−log q_i0)                               (Eq. 15)
        q_i = softmax([cos(q_i, k_i), cos(q_i, h_1), …, cos(q_i, h_m)]/τ0)               (Eq. 8)
        z_i ∝ [1, z'_i1, …, z'_im],   z'_ij = 1(y_j = y_i)·exp(cos(k_i, h_j)/τ) / max    (Eq. 11 to 14)

    Of the keys of a sample's own class in the queue, the nearest is as positive as the sample's own key, and
    the others by how near they are: samples of one finer, unknown class attract without being told. The
    class of a sample is its node in `taxonomy`. A class that the queue has no key of leaves the own key.

    Args:
        taxonomy: the tree of the labels, at the depth that is known.
        temperature: τ0 > 0.
        target_temperature: τ ≥ 0. ∞ (`float("inf")`) is Grafit; 0 keeps the nearest key alone.
        w: share of the masked part, 0 (SelfCon) to 1.
        mask: False ignores the labels: all of the queue is of one class.
        exclude_self: what becomes of a sample's own old keys: `"drop"`: left out of target and softmax;
            `"negative"`: left out of the target alone, they repel; `"keep"`: like all keys of the class.
            None: `"drop"`, under `variant="reference"` `"keep"`.
        variant: `"reference"` gives what the authors' published code gives: own old keys stay. Where that
            code divides 0 by 0, this loss is defined as above.
        undecided: keys of which the labels leave open whether they are of the sample's class (one is an
            ancestor of the other, or missing) are left out of the masked part (`"ignore"`) or compete there
            (`"negative"`). In the other part everything competes.
        reduction: the mean over queries, `"sum"` or `"none"`; see `QueueLoss`.
        geometry: the sphere, which None is; there is no other.

    Call with `queries (b, d)`, `keys (b, d)`, `queue`, `nodes (b,)` and `instances (b,)`; see `QueueLoss`.

    Example:
        >>> import torch
        >>> from labeltree.models import KeyQueue
        >>> taxonomy = Taxonomy.from_paths(["pet", "plant"])
        >>> queue = KeyQueue(size=8, dim=2)
        >>> nodes = taxonomy.encode(["pet", "pet", "plant"])
        >>> queue.enqueue(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]), nodes, torch.arange(3))
        >>> q, k = torch.tensor([[1.0, 0.1]]), torch.tensor([[1.0, 0.0]])
        >>> loss, grafit = MaskConLoss(taxonomy, 0.5), MaskConLoss(taxonomy, 0.5, float("inf"))
        >>> loss(q, k, queue, nodes[:1], torch.tensor([9]))  # the first key attracts, the second hardly
        tensor(0.9917)
        >>> grafit(q, k, queue, nodes[:1], torch.tensor([9]))  # both attract alike
        tensor(1.5887)
    """

    schedulable = ("w", "target_temperature")

    def __init__(
        self,
        taxonomy: Taxonomy,
        temperature: float = 0.1,
        target_temperature: float = 0.1,
        w: float = 1.0,
        *,
        mask: bool = True,
        exclude_self: ExcludeSelf | None = None,
        variant: MaskConVariant = "paper",
        undecided: Undecided = "ignore",
        reduction: Reduction = "valid",
        geometry: Geometry | str | None = None,
    ) -> None:
        if variant not in get_args(MaskConVariant):
            raise ValueError(f"variant must be 'paper' or 'reference'; got {variant!r}")
        if variant == "reference" and exclude_self not in (None, "keep"):
            raise ValueError(
                "variant='reference' keeps a sample's own old keys, as the published code does; for "
                f"exclude_self={exclude_self!r} leave variant out"
            )
        if exclude_self is None:
            exclude_self = "keep" if variant == "reference" else "drop"
        super().__init__(
            taxonomy if mask else None,
            temperature=temperature,
            target_temperature=target_temperature,
            w=w,
            exclude_self=exclude_self,
            undecided=undecided,
            reduction=reduction,
            geometry=geometry,
        )
        self.mask = mask
        self.variant = variant

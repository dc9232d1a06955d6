"""The losses over a queue of keys: SelfCon, CoIns, NNCLR, ASCL, Grafit and MaskCon."""

from __future__ import annotations

import math
from typing import Literal

from torch import Tensor

from labeltree.checks import check_choice
from labeltree.geometry import Geometry, as_geometry
from labeltree.losses.classifiers.cross_entropy import CrossEntropyLoss
from labeltree.losses.loss_base import Loss
from labeltree.losses.queues.queue_loss import ExcludeSelf, QueueLoss, StoredKeys, check_share
from labeltree.losses.reduction import Reduction
from labeltree.losses.relation_table import Undecided
from labeltree.pairs import QueueContrast
from labeltree.taxonomy import Taxonomy

__all__ = ["ASCLLoss", "CoInsLoss", "GrafitLoss", "MaskConLoss", "NNCLRLoss", "SelfConLoss"]

Trust = Literal["entropy", "confidence"]
MaskConVariant = Literal["paper", "reference"]


class _UnlabelledLoss(QueueLoss):
    """Base of the losses without labels; w and the target temperature are fixed as class attributes."""

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
            target_temperature=self.target_temperature,
            w=self.w,
            exclude_self=exclude_self,
            reduction=reduction,
            geometry=geometry,
        )


class SelfConLoss(_UnlabelledLoss):
    """Every sample is a class of its own (MoCo, He et al. 2020; L_selfcon of MaskCon, Eq. 6); no labels.

        L_i = −log( exp(cos(q_i, k_i)/τ0) / (exp(cos(q_i, k_i)/τ0) + Σ_j exp(cos(q_i, h_j)/τ0)) )

    Args:
        temperature: τ0 > 0.
        exclude_self: `"drop"` leaves a sample's own old keys out; with `"negative"` and `"keep"`, which are
            the same here, they compete, as in MoCo.
        reduction: The mean over queries, `"sum"` or `"none"`; see `QueueLoss`.
        geometry: The sphere or None, which mean the same: no other geometry is supported.

    Call with `queries (b, d)`, `keys (b, d)`, `queue`, `nodes` (ignored) and `instances (b,)`; see
    `QueueLoss`.
    """

    target_temperature = 0.0
    w = 0.0


class CoInsLoss(Loss):
    """Cross entropy of the labels and SelfCon (Xu et al. 2021, as Eq. 10 of MaskCon has it).

        L = w·L_ce + (1 − w)·L_selfcon

    Args:
        taxonomy: The tree of the labels, at the depth that is known; its leaves are the classes.
        temperature: τ0 > 0, of SelfCon.
        w: Share of the cross entropy, 0 (SelfCon) to 1 (cross entropy alone).
        exclude_self: Of SelfCon; see `SelfConLoss`.
        geometry: The sphere or None, which mean the same: no other geometry is supported.

    Call with `logits (b, C)` in the order of `classes`, `queries (b, d)`, `keys (b, d)`, `queue`, `nodes
    (b,)` and `instances (b,)`. The cross entropy is the mean over labelled rows, see `CrossEntropyLoss`;
    SelfCon is the mean over all queries, see `QueueLoss`.

    Raises:
        ValueError: An argument of the wrong shape, type or range, or another geometry than the sphere.
    """

    schedulable = ("w",)

    def __init__(
        self,
        taxonomy: Taxonomy,
        temperature: float = 0.1,
        w: float = 0.5,
        *,
        exclude_self: ExcludeSelf = "drop",
        geometry: Geometry | str | None = None,
    ) -> None:
        super().__init__()
        self.w = check_share(w)
        self.exclude_self = exclude_self
        self.geometry = as_geometry(geometry)
        self.cross_entropy = CrossEntropyLoss(taxonomy)
        self.selfcon = SelfConLoss(temperature, exclude_self=exclude_self, geometry=geometry)

    @property
    def classes(self) -> Tensor:
        """`(C,)` int64, the node of each column of the logits."""
        return self.cross_entropy.classes

    @property
    def temperature(self) -> float:
        """τ0 of SelfCon."""
        return self.selfcon.temperature

    @temperature.setter
    def temperature(self, value: float) -> None:
        self.selfcon.temperature = value

    def predict(self, logits: Tensor) -> Tensor:
        """The node of the most likely class of each row, `(n,)` int64."""
        return self.cross_entropy.predict(logits)

    def forward(
        self,
        logits: Tensor,
        queries: Tensor,
        keys: Tensor,
        queue: StoredKeys,
        nodes: Tensor,
        instances: Tensor | None = None,
    ) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        of_classes = self.cross_entropy(logits, nodes)
        of_samples = self.selfcon(queries, keys, queue, nodes, instances)
        total: Tensor = self.w * of_classes + (1 - self.w) * of_samples
        return total


class NNCLRLoss(_UnlabelledLoss):
    """The own key and its nearest neighbour in the queue attract, half each; no labels.

        L_i = −½·log q_i0 − ½·log q_iν,   ν = argmax_j cos(k_i, h_j)

    NNCLR (Dwibedi et al. 2021) as a special case of MaskCon (section 3.2 there): w = 1, τ = 0, no mask. The
    NNCLR paper instead replaces the key by its neighbour, contrasts it with the batch, and has a predictor
    head. With an empty queue only the own key attracts; of several equally near neighbours, all do.

    Args:
        temperature: τ0 > 0.
        exclude_self: With `"drop"` and `"negative"` a sample's own old key is no neighbour, and with
            `"drop"` it does not compete either; with `"keep"` it can be the nearest.
        reduction: The mean over queries, `"sum"` or `"none"`; see `QueueLoss`.
        geometry: The sphere or None, which mean the same: no other geometry is supported.

    Call with `queries (b, d)`, `keys (b, d)`, `queue`, `nodes` (ignored) and `instances (b,)`; see
    `QueueLoss`.
    """

    target_temperature = 0.0
    w = 1.0


class ASCLLoss(QueueLoss):
    """MaskCon without labels, where the w of each sample follows from its similarities to the queue.

        w_i = H(z'_i) / log m     or, with `trust="confidence"`,     w_i = 1 − H(z'_i) / log m

    H is the entropy of z' as a distribution over the m candidates. This is adaptive soft contrastive learning
    (Feng & Patras 2022) as a special case of MaskCon, whose section 3.2 says `"entropy"`: w is large where no
    key stands out. The ASCL paper says the opposite, `"confidence"`: neighbours count where few stand out.
    Its target is min(1, K·w_i·z'_ij), where z' is the softmax itself, not divided by its maximum.

    Args:
        temperature: τ0 > 0.
        target_temperature: τ ≥ 0; 0.05 is that of ASCL's published code.
        trust: How w follows from the entropy.
        exclude_self: How a sample's own old keys are treated; see `MaskConLoss`.
        reduction: The mean over queries, `"sum"` or `"none"`; see `QueueLoss`.
        geometry: The sphere or None, which mean the same: no other geometry is supported.

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
        check_choice("trust", trust, Trust)
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


class GrafitLoss(QueueLoss):
    """SupCon and SelfCon over a queue (Touvron et al. 2021, as Eq. 9 of MaskCon has it).

        L = w·L_supcon + (1 − w)·L_selfcon

    L_supcon is the mean of −log q over a sample's own key and all keys of its class in the queue, L_selfcon
    −log q of its own key; q as in `MaskConLoss`, of which this is τ = ∞.

    Args:
        taxonomy: The tree of the labels, at the depth that is known.
        temperature: τ0 > 0.
        w: Share of SupCon, 0 (SelfCon) to 1 (SupCon over a queue).
        exclude_self: `"drop"`, `"negative"` (Eq. 11's j ≠ i) or `"keep"`; see `MaskConLoss`. The published
            code of MaskCon, which has this loss as a baseline, keeps.
        undecided: As in `MaskConLoss`.
        reduction: The mean over queries, `"sum"` or `"none"`; see `QueueLoss`.
        geometry: The sphere or None, which mean the same: no other geometry is supported.

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


class MaskConLoss(QueueLoss):
    """Masked contrastive learning with coarse labels (Feng & Patras 2023).

        L_i = w·(−Σ_j z_ij log q_ij) + (1 − w)·(−log q_i0)                               (Eq. 15)
        q_i = softmax([cos(q_i, k_i), cos(q_i, h_1), …, cos(q_i, h_m)]/τ0)               (Eq. 8)
        z_i ∝ [1, z'_i1, …, z'_im],   z'_ij = 1(y_j = y_i)·exp(cos(k_i, h_j)/τ) / max    (Eq. 11 to 14)

    Of the queue's keys of a sample's own class, the nearest one is as positive as the sample's own key, and
    the others are the less so the further away they are. Samples of one finer class thus attract each other
    although that class is unknown. The class of a sample is its node in `taxonomy`. If the queue has no key
    of that class, only the own key attracts.

    Args:
        taxonomy: The tree of the labels, at the depth that is known.
        temperature: τ0 > 0.
        target_temperature: τ ≥ 0. ∞ (`float("inf")`) is Grafit; 0 keeps only the nearest key.
        w: Share of the masked part, 0 (SelfCon) to 1.
        mask: False ignores the labels: all of the queue is of one class.
        exclude_self: How a sample's own old keys are treated: `"drop"` leaves them out of target and softmax;
            `"negative"` leaves them out of the target, so that they repel; `"keep"` treats them as all keys
            of the class. None: `"drop"`, under `variant="reference"` `"keep"`.
        variant: `"reference"` computes what the authors' published code does, which keeps own old keys. Where
            that code divides 0 by 0, this loss is defined as above.
        undecided: Keys whose labels leave open whether they are of the sample's class (one is an ancestor of
            the other, or missing) are left out of the masked part (`"ignore"`) or compete there
            (`"negative"`). In the other part all keys compete.
        reduction: The mean over queries, `"sum"` or `"none"`; see `QueueLoss`.
        geometry: The sphere or None, which mean the same: no other geometry is supported.

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
        check_choice("variant", variant, MaskConVariant)
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

"""Cross entropy at any depth of the tree, with labels of any depth."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from labeltree.losses.classifier import ClassifierLoss
from labeltree.losses.logit_adjustment import count_classes, log_prior
from labeltree.losses.soft_targets import soft_cross_entropy
from labeltree.taxonomy import Taxonomy

__all__ = ["CrossEntropyLoss"]


class CrossEntropyLoss(ClassifierLoss):
    """The cross entropy of a classifier whose classes are the leaves, or the nodes of one depth.

        L = mean over labelled rows of −log p(y_i),   p(v) = Σ_{c∈v} softmax(x)_c

    A label at an inner node is as likely as its classes together; a label below the classes counts as the
    class that it lies under.

    Args:
        taxonomy: the tree of the labels.
        depth: the classes are the nodes of this depth, 1 (coarsest) to L, and the leaves above it; None: the
            leaves.
        logit_adjustment: τ ≥ 0; the loss sees x_c + τ log π_c, with π_c the share of class c in the training
            labels (Menon et al. 2021), and `predict` sees x_c, which then ranks classes as if all were
            equally frequent. 0: off. Above 0, `observe_labels` must be called before training.
        label_smoothing: ε in [0, 1); the target is (1 − ε) on the label's class and ε spread evenly over all
            classes (Szegedy et al. 2016).

    Call with `logits (n, C)`, in the order of `classes`, and `nodes (n,)`, −1 where missing. The mean is over
    labelled rows, of all ranks in training; without any it is exactly 0. Missing labels and the root, which
    any answer satisfies, have no gradient; the root counts in the mean.

    Raises:
        ValueError: an argument of the wrong shape or type, a node that is not of the taxonomy, or logits to
            be adjusted before `observe_labels` was called.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant",)])
        >>> loss = CrossEntropyLoss(taxonomy)
        >>> logits = torch.tensor([[0.5, 0.2, 0.3]]).log()
        >>> [loss(logits, taxonomy.encode([label])).exp().item() for label in ("dog", "animal", None)]
        [2.0, 1.4285714626312256, 1.0]
    """

    class_counts: Tensor

    def __init__(
        self,
        taxonomy: Taxonomy,
        depth: int | None = None,
        *,
        logit_adjustment: float = 0.0,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(taxonomy, depth)
        if not 0 <= logit_adjustment < math.inf:
            raise ValueError(f"logit_adjustment must be finite and not negative; got {logit_adjustment}")
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"label_smoothing must be at least 0 and below 1; got {label_smoothing}")
        self.logit_adjustment = logit_adjustment
        self.label_smoothing = label_smoothing
        self.register_buffer("class_counts", torch.zeros(len(self.classes)))

    @torch.no_grad()
    def observe_labels(self, nodes: Tensor) -> None:
        """Learn how frequent the classes are; what was learned before is forgotten.

        Args:
            nodes: `(m,)` int64, the labels of all training samples, the same on every rank; inner nodes count
                in equal parts for their classes, −1 not at all.
        """
        counts = count_classes(nodes, self.ranges.to(nodes.device), len(self.classes))
        self.class_counts.copy_(counts)

    def forward(self, logits: Tensor, nodes: Tensor) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        logits, nodes = self.prepare(logits, nodes)
        if self.logit_adjustment:
            logits = logits + self.logit_adjustment * self._log_prior(logits)
        if not self.label_smoothing:
            return self.mean(-self.log_likelihood(logits, nodes), nodes)
        smooth, own = self.label_smoothing, self.members(nodes).to(logits.dtype)
        targets = (1 - smooth) * own / own.sum(1, keepdim=True) + smooth / len(self.classes)
        return self.mean(soft_cross_entropy(logits, nodes, self.ranges, targets), nodes)

    def _log_prior(self, logits: Tensor) -> Tensor:
        if not bool(self.class_counts.any()):
            raise ValueError(
                f"logit_adjustment={self.logit_adjustment} needs to know how frequent the classes are; call "
                "observe_labels(nodes) with the labels of all training samples, not all of them missing"
            )
        return log_prior(self.class_counts.to(logits))

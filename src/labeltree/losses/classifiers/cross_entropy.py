"""Cross entropy over the classes of any depth, for labels of any depth, with optional logit adjustment."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from labeltree.losses.classifiers.classes import soft_cross_entropy
from labeltree.losses.classifiers.classifier import ClassifierLoss
from labeltree.taxonomy import Taxonomy

__all__ = ["CrossEntropyLoss", "count_classes", "log_prior"]


def count_classes(nodes: Tensor, ranges: Tensor, num_classes: int) -> Tensor:
    """The number of labels of each class, `(C,)` float64.

    A label that stands for several classes is divided equally among them; missing labels do not count.

    Args:
        nodes: `(n,)` labels, −1 where missing.
        ranges: `(N + 1, 2)` from `class_ranges`.
        num_classes: C, the number of classes.

    Example:
        >>> from labeltree.losses import class_nodes, class_ranges
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant",)])
        >>> ranges = class_ranges(taxonomy, class_nodes(taxonomy))
        >>> count_classes(taxonomy.encode(["dog", "dog", "animal", "plant", None]), ranges, 3).tolist()
        [2.5, 0.5, 1.0]
    """
    labels = torch.bincount(nodes[nodes >= 0], minlength=len(ranges) - 1).to(torch.float64).cpu()
    first, end = ranges[:-1].cpu().unbind(1)
    share = labels / (end - first)
    steps = torch.zeros(num_classes + 1, dtype=torch.float64)
    steps = steps.index_add(0, first, share).index_add(0, end, -share)
    return steps.cumsum(0)[:-1].clamp(min=0)


def log_prior(counts: Tensor) -> Tensor:
    """The log frequency of each class in the training labels, `(C,)`; counts below 1 are replaced by 1.

    Logit adjustment adds τ times this to the logits in the loss (Eq. 10 of Menon et al. 2021, Long-Tail
    Learning via Logit Adjustment), so that the logits without it rank the classes as if all were equally
    frequent.

    Args:
        counts: `(C,)` number of labels of each class.
    """
    counts = counts.clamp(min=1)
    return (counts / counts.sum()).log()


class CrossEntropyLoss(ClassifierLoss):
    """The cross entropy of a classifier whose classes are the leaves, or the nodes of one depth.

        L = mean over labelled rows of −log p(y_i),   p(v) = Σ_{c∈v} softmax(x)_c

    A label at an inner node is as likely as its classes together; a label below the classes counts as the
    class that it lies under.

    Args:
        taxonomy: The tree of the labels.
        depth: The classes are the nodes of this depth, 1 (coarsest) to L, and the leaves above it; None: the
            leaves.
        logit_adjustment: τ ≥ 0; the loss sees x_c + τ log π_c, with π_c the share of class c in the training
            labels (Menon et al. 2021), and `predict` sees x_c, which then ranks classes as if all were
            equally frequent. 0: off. Above 0, `observe_labels` must be called before training.
        label_smoothing: ε in [0, 1); the target is (1 − ε) on the label's class and ε spread evenly over all
            classes (Szegedy et al. 2016).

    Call with `logits (n, C)`, in the order of `classes`, and `nodes (n,)`, −1 where missing. The mean is over
    labelled rows, of all ranks in training; without any it is exactly 0. Missing labels and labels at the
    root give no gradient; labels at the root count in the mean.

    Raises:
        ValueError: An argument of the wrong shape or type, a node that is not in the taxonomy, or logit
            adjustment before `observe_labels` was called.

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
        """Count the labels of each class; earlier counts are replaced.

        Args:
            nodes: `(m,)` int64, the labels of all training samples, the same on every rank; an inner node is
                divided equally among its classes, −1 does not count.
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

"""The base class of the losses over the logits of a classifier: classes, checks, predictions."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.geometry.precision import answer_dtype
from labeltree.losses.batch import check_batch, describe, follow_device
from labeltree.losses.classifiers.classes import class_members, class_nodes, class_ranges, node_log_likelihood
from labeltree.losses.loss_base import LabelSets, Loss
from labeltree.losses.reduction import labelled_mean
from labeltree.taxonomy import Taxonomy

__all__ = ["ClassifierLoss"]


class ClassifierLoss(Loss):
    """Base of the losses that are called with `logits (n, C)` and `nodes (n,)`.

    Args:
        taxonomy: The tree of the labels.
        depth: The classes are the nodes of this depth and the leaves above it; None: the leaves.

    Attributes:
        classes: `(C,)` int64, the node of each column of the logits.
        ranges: `(N + 1, 2)` int64, the columns that each label stands for, see `class_ranges`.
    """

    label_sets: LabelSets | None = "rows"
    classes: Tensor
    ranges: Tensor

    def __init__(self, taxonomy: Taxonomy, depth: int | None = None) -> None:
        super().__init__()
        self.depth = depth
        classes = class_nodes(taxonomy, depth)
        self.register_buffer("classes", classes, persistent=False)
        self.register_buffer("ranges", class_ranges(taxonomy, classes), persistent=False)

    @torch.no_grad()
    def predict(self, logits: Tensor) -> Tensor:
        """The node of the most likely class of each row, `(n,)` int64; ties go to the first."""
        self._check_logits(logits)
        follow_device(self, self.classes, logits.device)
        return self.classes[logits.argmax(1)]

    def log_likelihood(self, logits: Tensor, nodes: Tensor) -> Tensor:
        """log p of every row's label, `(n,)`; see `node_log_likelihood`."""
        return node_log_likelihood(logits, nodes, self.ranges)

    def members(self, nodes: Tensor) -> Tensor:
        """Mask of the classes that each label stands for, `(n, C)` bool."""
        return class_members(nodes, self.ranges, len(self.classes))

    def mean(self, rows: Tensor, nodes: Tensor) -> Tensor:
        """The mean loss over labelled rows, of all ranks in training; 0 if no row is labelled."""
        return labelled_mean(rows, nodes >= 0, over_ranks=self.training)

    def prepare(self, logits: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Check a batch; return the logits in float32 or better, and the nodes on their device.

        Raises:
            ValueError: An argument of the wrong shape or type, or a node that is not in the taxonomy.
        """
        self._check_logits(logits)
        if not isinstance(nodes, Tensor) or nodes.shape != logits.shape[:1]:
            got = tuple(nodes.shape) if isinstance(nodes, Tensor) else type(nodes).__name__
            raise ValueError(
                f"nodes must be a tensor of shape ({len(logits)},), one label per row of logits; got {got}"
            )
        checked, _ = check_batch(logits, nodes, None, len(self.ranges) - 1, self)
        assert checked is not None
        follow_device(self, self.classes, logits.device)
        return logits.to(answer_dtype(logits)), checked

    def _check_logits(self, logits: Tensor) -> None:
        fits = isinstance(logits, Tensor) and logits.shape[1:] == self.classes.shape
        if not fits or not logits.is_floating_point():
            raise ValueError(
                f"logits must be a floating-point tensor of shape (n, {len(self.classes)}), one column per "
                f"class; got {describe(logits)}"
            )

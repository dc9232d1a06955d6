"""Soft labels: the target is spread over all leaves, the more the nearer they lie in the tree."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.losses.classifiers.classes import class_members, label_paths, merge_targets, soft_cross_entropy
from labeltree.losses.classifiers.classifier import ClassifierLoss
from labeltree.taxonomy import Taxonomy

__all__ = ["SoftLabelLoss"]

Variant = Literal["paper", "reference"]


class SoftLabelLoss(ClassifierLoss):
    """Cross entropy against soft labels (those of Bertinetto et al. 2020, Making Better Mistakes).

        L = mean over labelled rows of −Σ_c t_c log softmax(x)_c,   t_c ∝ exp(−β·d(y_i, c)) over the leaves c
        d(y, c) = height(lca(y, c)) / H

    β = ∞ is the cross entropy, β = 0 a uniform target. An inner-node label v has the mean of the soft labels
    of its leaves as target, with those leaves merged into one event of probability p(v) = Σ_{c∈v} p_c: how it
    is spread over them is left open.

    Args:
        taxonomy: The tree of the labels.
        beta: β ≥ 0, ∞ included.
        variant: `"paper"`: as above. `"reference"`: what the published code trains with, the Kullback-Leibler
            divergence to the targets, averaged over rows *and* classes (1/C of the mean over rows, less the
            entropy of the targets: the gradient is that of `"paper"` divided by C); H is then the largest
            height of a node that two leaves have as LCA, which differs where the root has a single child.

    Call with `logits (n, num_leaves)` and `nodes (n,)`, −1 where missing. The mean is over labelled rows, of
    all ranks in training; without any it is exactly 0.

    Raises:
        ValueError: An argument of the wrong shape or type, or a node that is not in the taxonomy.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant",)])
        >>> loss = SoftLabelLoss(taxonomy, beta=4.0)
        >>> loss.targets(taxonomy.encode(["dog", "plant"]))
        tensor([[0.8668, 0.1173, 0.0159],
                [0.0177, 0.0177, 0.9647]])
        >>> loss(torch.tensor([[0.5, 0.2, 0.3]]).log(), taxonomy.encode(["dog"]))
        tensor(0.8087)
    """

    schedulable = ("beta",)
    paths: Tensor
    heights: Tensor
    rings: Tensor

    def __init__(self, taxonomy: Taxonomy, beta: float = 10.0, *, variant: Variant = "paper") -> None:
        super().__init__(taxonomy)
        if not beta >= 0:
            raise ValueError(f"beta must not be negative; got {beta}")
        check_choice("variant", variant, Variant)
        self.beta = beta
        self.variant = variant
        paths = label_paths(taxonomy)
        self._largest = _largest_height(taxonomy, variant)
        size = self.ranges[:-1, 1] - self.ranges[:-1, 0]
        leaf_sizes = size[paths[taxonomy.leaves]]
        nearer = torch.cat([leaf_sizes[:, 1:], torch.zeros_like(leaf_sizes[:, :1])], dim=1)
        heights = torch.where(paths < 0, 0, taxonomy.height[paths])
        self.register_buffer("paths", paths[:, 1:], persistent=False)
        self.register_buffer("heights", heights, persistent=False)
        # (C, L + 1): how many leaves share just so much of a leaf's path
        self.register_buffer("rings", leaf_sizes - nearer, persistent=False)

    def targets(self, nodes: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """The soft labels of labels `(n,)`, `(n, C)`; rows add up to 1.

        The weight of the leaves of an inner node is divided evenly among them; for a missing label, as for
        the root, this gives a uniform target.
        """
        own = self.members(nodes)
        # 1/Z, and for an inner node the mean of its leaves' 1/Z
        inverse = 1 / (self.rings * self._decay(self.heights[self.classes], dtype)).sum(1)
        inverse = own.to(dtype) @ inverse / own.sum(1)
        shared = torch.zeros_like(own, dtype=torch.int64)  # depth of the LCA of label and class
        for path in self.paths[nodes].unbind(1):
            shared += class_members(path, self.ranges, len(self.classes))
        others = self._decay(self.heights[nodes], dtype).gather(1, shared) * inverse[:, None]
        others = others.masked_fill(own, 0.0)
        inside = (1 - others.sum(1)) / own.sum(1)
        return torch.where(own, inside[:, None], others)

    def forward(self, logits: Tensor, nodes: Tensor) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        logits, nodes = self.prepare(logits, nodes)
        with torch.autocast(logits.device.type, enabled=False):
            targets = self.targets(nodes, logits.dtype)
        rows = soft_cross_entropy(logits, nodes, self.ranges, targets)
        if self.variant == "reference":
            merged, others = merge_targets(targets, nodes, self.ranges)
            rows = rows + torch.xlogy(others, others).sum(1) + torch.xlogy(merged, merged)
            rows = rows / len(self.classes)
        return self.mean(rows, nodes)

    def _decay(self, heights: Tensor, dtype: torch.dtype) -> Tensor:
        decay = torch.exp(-self.beta / self._largest * heights.to(dtype))
        return torch.where(heights > 0, decay, 1.0)  # also where β is ∞, or is in this precision


def _largest_height(taxonomy: Taxonomy, variant: Variant) -> int:
    if variant == "paper":
        return taxonomy.max_height
    children = torch.bincount(taxonomy.parent[1:], minlength=len(taxonomy))
    branching = taxonomy.height[children > 1]
    return int(branching.max()) if len(branching) else taxonomy.max_height

"""HXE: the cross entropy of every step on the path from the root to the label."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.losses.classifiers.classes import label_paths
from labeltree.losses.classifiers.classifier import ClassifierLoss
from labeltree.taxonomy import Taxonomy

__all__ = ["HXELoss"]

StepWeights = Literal["depth", "height"]
Variant = Literal["paper", "reference"]

_LARGEST_EXPONENT = 80.0  # of a weight that float32 can write


class HXELoss(ClassifierLoss):
    """The hierarchical cross entropy (HXE of Bertinetto et al. 2020, Making Better Mistakes).

        L = mean over labelled rows of Σ_v w(v)·(−log p(v | parent of v)),   v: the path from depth 1 to y_i
        p(v | parent) = p(v) / p(parent),   p(v) = Σ_{c∈v} softmax(x)_c over the leaves c below v

    With α = 0 it is the cross entropy. The path of an inner-node label ends at that node.

    Args:
        taxonomy: The tree of the labels.
        alpha: α, finite; how fast the weights of the steps fall.
        weights: `"depth"`: w(v) = exp(−α·depth(v)), coarse steps weigh most (the published code).
            `"height"`: w(v) = exp(−α·height(v)), a leaf has weight 1 and finer steps weigh most (the paper's
            text). Up to a factor, they fall in opposite directions.
        variant: `"paper"`: the sum as it stands. `"reference"`: divided by Σ w over all nodes of the tree, as
            the published code does, so that α = 0 is cross entropy / number of nodes. Two defects of that
            code are not reproduced: a loss of 0 where a probability vanishes, and a division by 0 where a
            leaf lies directly below the root.

    Call with `logits (n, num_leaves)` and `nodes (n,)`, −1 where missing. The mean is over labelled rows, of
    all ranks in training; without any it is exactly 0.

    Raises:
        ValueError: An argument of the wrong shape or type, or a node that is not in the taxonomy.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant",)])
        >>> logits = torch.tensor([[0.5, 0.25, 0.25]]).log()
        >>> dog, animal = taxonomy.encode(["dog"]), taxonomy.encode(["animal"])
        >>> loss = HXELoss(taxonomy, alpha=1.0)
        >>> loss(logits, dog), loss(logits, animal)  # e⁻¹·log(4/3) + e⁻²·log(3/2), and e⁻¹·log(4/3)
        (tensor(0.1607), tensor(0.1058))
    """

    schedulable = ("alpha",)
    paths: Tensor
    steps: Tensor

    def __init__(
        self,
        taxonomy: Taxonomy,
        alpha: float = 0.1,
        *,
        weights: StepWeights = "depth",
        variant: Variant = "paper",
    ) -> None:
        super().__init__(taxonomy)
        check_choice("weights", weights, StepWeights)
        check_choice("variant", variant, Variant)
        steps = taxonomy.depth if weights == "depth" else taxonomy.height
        if not (math.isfinite(alpha) and -alpha * int(steps.max()) < _LARGEST_EXPONENT):
            raise ValueError(f"alpha must be finite, and exp(−alpha·{weights}) must be; got {alpha}")
        self.alpha = alpha
        self.weights = weights
        self.variant = variant
        # a further step below the label has probability 1
        self.register_buffer("paths", label_paths(taxonomy)[:, 1:], persistent=False)
        self.register_buffer("steps", steps, persistent=False)

    def forward(self, logits: Tensor, nodes: Tensor) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        logits, nodes = self.prepare(logits, nodes)
        weight = torch.exp(-self.alpha * self.steps.to(logits.dtype))  # per node
        weight = torch.where(self.steps > 0, weight, 1.0)  # also where α is ∞ in this precision
        above = rows = torch.zeros_like(logits[:, 0])
        for path in self.paths[nodes].unbind(1):
            here = self.log_likelihood(logits, path)
            rows = rows + weight[path] * (above - here)
            above = here
        if self.variant == "reference":
            rows = rows / weight.sum()
        return self.mean(rows, nodes)

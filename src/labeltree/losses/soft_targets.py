"""Cross entropy against a distribution over classes, of a label that may leave several classes open."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.losses.classes import class_members, node_log_likelihood

__all__ = ["merge_targets", "soft_cross_entropy"]


def merge_targets(targets: Tensor, nodes: Tensor, ranges: Tensor) -> tuple[Tensor, Tensor]:
    """The share of a target that falls on the label's own classes, and the rest.

    Args:
        targets: `(n, C)`, rows that add up to 1.
        nodes: `(n,)` labels, −1 where missing.
        ranges: `(N + 1, 2)` from `class_ranges`.

    Returns:
        `(n,)` Σ_{c∈v} t_c, and `(n, C)` the targets with 0 in the place of the label's own classes.
    """
    own = class_members(nodes, ranges, targets.shape[1])
    return targets.masked_fill(~own, 0.0).sum(1), targets.masked_fill(own, 0.0)


def soft_cross_entropy(logits: Tensor, nodes: Tensor, ranges: Tensor, targets: Tensor) -> Tensor:
    """−Σ_{c∉v} t_c log p_c − (Σ_{c∈v} t_c)·log p(v) of every row, `(n,)`, p the softmax of its logits.

    For a label v that is a class it is the cross entropy against the target. The classes of an inner node
    are one event: how its share is spread over them is left open. 0 for the root and for missing labels.

    Args:
        logits: `(n, C)` floating point.
        nodes: `(n,)` labels, −1 where missing.
        ranges: `(N + 1, 2)` from `class_ranges`.
        targets: `(n, C)`, rows that add up to 1.
    """
    own, others = merge_targets(targets, nodes, ranges)
    log_likelihood = node_log_likelihood(logits, nodes, ranges)
    return -(others * torch.log_softmax(logits, 1)).sum(1) - own * log_likelihood

"""Class frequencies of the training labels, and what they add to the logits of a long-tailed classifier."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["count_classes", "log_prior"]


def count_classes(nodes: Tensor, ranges: Tensor, num_classes: int) -> Tensor:
    """How many labels each class has, `(C,)` float64.

    A label that stands for several classes counts in equal parts for each; missing labels do not count.

    Args:
        nodes: `(n,)` labels, −1 where missing.
        ranges: `(N + 1, 2)` from `class_ranges`.
        num_classes: C.

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
    """The log of the share of each class in the training labels, `(C,)`; counts below 1 are taken for 1.

    Logit adjustment adds τ times this to the logits that the loss sees (Eq. 10 of Menon et al. 2021,
    Long-Tail Learning via Logit Adjustment), so that the logits themselves, without it, rank the classes as
    if all were equally frequent.

    Args:
        counts: `(C,)` how many labels each class has.
    """
    counts = counts.clamp(min=1)
    return (counts / counts.sum()).log()

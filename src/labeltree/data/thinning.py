"""A random order of the samples of every label, and fewer samples, of every label alike."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

__all__ = ["ranked_in_label", "thin_out"]


def thin_out(rows: Tensor, nodes: Tensor, limit: int, seed: int) -> Tensor:
    """At most ``limit`` of the rows, taken from every label in turn, in their old order: ``(m,)``."""
    if len(rows) <= limit:
        return rows
    rank, size = ranked_in_label(nodes, seed)
    share = rank.double() / size  # 0 for one row of every label, so that none vanishes; then equal shares
    keep = torch.argsort(share, stable=True)[:limit]
    return rows[keep.sort().values]


def ranked_in_label(nodes: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """A random place of every row among the rows of its label, and how many those are."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(nodes)))
    order = order[torch.argsort(nodes[order], stable=True)]
    _, inverse, sizes = torch.unique_consecutive(nodes[order], return_inverse=True, return_counts=True)
    starts = sizes.cumsum(0) - sizes
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order)) - starts[inverse]
    size = torch.empty_like(order)
    size[order] = sizes[inverse]
    return rank, size

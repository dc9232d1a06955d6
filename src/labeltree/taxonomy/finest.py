"""Which nodes are the finest labels of some samples, and which lie at or above a label."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.taxonomy.tree import Taxonomy

__all__ = ["covered_nodes", "finest_labels"]


def finest_labels(nodes: Tensor, taxonomy: Taxonomy) -> Tensor:
    """Which nodes are labels with no other label below them, ``(num_nodes,)`` bool."""
    used = torch.unique(nodes[nodes > 0])  # in preorder the first label below a node comes right after it
    following = torch.cat([used[1:], torch.tensor([taxonomy.num_nodes])])
    finest = torch.zeros(taxonomy.num_nodes, dtype=torch.bool)
    finest[used] = following >= taxonomy.subtree_end[used]
    return finest


def covered_nodes(nodes: Tensor, taxonomy: Taxonomy) -> Tensor:
    """Which nodes are a label or lie above one, ``(num_nodes,)`` bool; no label may be missing."""
    covered = torch.zeros(taxonomy.num_nodes, dtype=torch.bool)
    above = taxonomy.ancestors[torch.unique(nodes)]
    covered[above[above >= 0]] = True
    return covered

"""What the labels of samples, which may be any nodes, leave of a tree: its classes, and what is above."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.taxonomy.tree import Taxonomy

__all__ = ["covered_nodes", "finest_labels"]


def finest_labels(nodes: Tensor, taxonomy: Taxonomy) -> Tensor:
    """Say which nodes are among the labels and have none of the labels below them: ``(num_nodes,)`` bool."""
    used = torch.unique(nodes[nodes > 0])  # in preorder the first label below a node comes right after it
    following = torch.cat([used[1:], torch.tensor([taxonomy.num_nodes])])
    finest = torch.zeros(taxonomy.num_nodes, dtype=torch.bool)
    finest[used] = following >= taxonomy.subtree_end[used]
    return finest


def covered_nodes(nodes: Tensor, taxonomy: Taxonomy) -> Tensor:
    """Say which nodes are one of some labels, none missing, or above one: ``(num_nodes,)`` bool."""
    covered = torch.zeros(taxonomy.num_nodes, dtype=torch.bool)
    above = taxonomy.ancestors[torch.unique(nodes)]
    covered[above[above >= 0]] = True
    return covered

"""Sets of labels: the finest labels, all nodes above them, and the depths that they share."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.taxonomy.tree import Taxonomy

__all__ = ["covered_nodes", "finest_labels", "shared_depth", "shared_note"]


def finest_labels(nodes: Tensor, taxonomy: Taxonomy) -> Tensor:
    """Mask of the labels with no other label below them, ``(num_nodes,)`` bool."""
    used = torch.unique(nodes[nodes > 0])  # in preorder the first label below a node comes right after it
    following = torch.cat([used[1:], torch.tensor([taxonomy.num_nodes])])
    finest = torch.zeros(taxonomy.num_nodes, dtype=torch.bool)
    finest[used] = following >= taxonomy.subtree_end[used]
    return finest


def covered_nodes(nodes: Tensor, taxonomy: Taxonomy) -> Tensor:
    """Mask of the labels and all nodes above them, ``(num_nodes,)`` bool; no label may be missing."""
    covered = torch.zeros(taxonomy.num_nodes, dtype=torch.bool)
    above = taxonomy.ancestors[torch.unique(nodes)]
    covered[above[above >= 0]] = True
    return covered


def shared_depth(classes: Tensor, tree: Taxonomy) -> int:
    """The depth down to which all classes lie below one node; 0 if they have only the root in common.

    At these depths no prediction among the classes can be wrong, so accuracy and recall are not defined.

    Args:
        classes: ``(c,)`` nodes, none missing and none above another; a node may occur several times.
        tree: the tree of the nodes.

    Example:
        >>> tree = Taxonomy.from_paths([("life", "cat"), ("life", "dog")])
        >>> shared_depth(tree.leaves, tree)
        1
    """
    if not len(classes):
        return 0
    lines = tree.paths[classes]
    same = ((lines == lines[:1]) & (lines >= 0)).all(dim=0)
    return int(same.long().cumprod(0).sum())


def shared_note(
    classes: Tensor, tree: Taxonomy, whose: str = "", what: str = "accuracy and recall"
) -> list[str]:
    """One sentence about the depths that the classes share; an empty list if they share only the root."""
    shared = shared_depth(classes, tree)
    if not shared:
        return []
    node = tree.path_name(int(tree.paths[classes[0], shared - 1]))
    where = "depth 1" if shared == 1 else f"depths 1 to {shared}"
    return [
        f"All {whose}classes lie at or below '{node}': {what} at {where} are not defined, for "
        "nothing can be wrong there."
    ]

"""Sets of labels: the finest, the nodes above them, the depths that they share; several labels a sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labeltree.lazy import torch
from labeltree.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "common_ancestors",
    "covered_nodes",
    "distinct_labels",
    "finest_classes",
    "finest_labels",
    "labels_by_row",
    "shared_depth",
    "shared_note",
]


def finest_labels(nodes: Tensor, taxonomy: Taxonomy) -> Tensor:
    """Mask of the labels with no other label below them, `(num_nodes,)` bool."""
    finest = torch.zeros(taxonomy.num_nodes, dtype=torch.bool)
    finest[finest_classes(nodes, taxonomy)] = True
    return finest


def finest_classes(labels: Tensor, taxonomy: Taxonomy) -> Tensor:
    """The distinct labels with no other label below them, ascending: the classes a classifier can learn.

    Missing labels and the root are left out; the labels may have any shape.
    """
    used = torch.unique(labels[labels > 0])  # in preorder the first label below a node comes right after it
    following = torch.cat([used[1:], torch.tensor([taxonomy.num_nodes])])
    finest: Tensor = used[following >= taxonomy.subtree_end[used]]
    return finest


def covered_nodes(nodes: Tensor, taxonomy: Taxonomy) -> Tensor:
    """Mask of the labels and all nodes above them, `(num_nodes,)` bool; no label may be missing."""
    covered = torch.zeros(taxonomy.num_nodes, dtype=torch.bool)
    above = taxonomy.ancestors[torch.unique(nodes)]
    covered[above[above >= 0]] = True
    return covered


def shared_depth(classes: Tensor, tree: Taxonomy) -> int:
    """The depth down to which all classes lie below one node; 0 if they have only the root in common.

    At these depths no prediction among the classes can be wrong, so accuracy and recall are not defined.

    Args:
        classes: `(c,)` nodes, none missing and none above another; a node may occur several times.
        tree: The tree of the nodes.

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


def labels_by_row(nodes: Tensor, rows: Tensor, count: int) -> Tensor:
    """Labels `(m,)` of rows `(m,)` as a table `(count, k)`, a row each, filled up with −1.

    Missing labels are left out; k is the largest number of labels of a row, at least 1.

    Example:
        >>> labels_by_row(torch.tensor([5, 7, -1, 3]), torch.tensor([2, 0, 1, 2]), 3).tolist()
        [[7, -1], [-1, -1], [5, 3]]
    """
    nodes, rows = nodes[nodes >= 0], rows[nodes >= 0]
    order = rows.argsort(stable=True)
    nodes, rows = nodes[order], rows[order]
    sizes = torch.bincount(rows, minlength=count)
    place = torch.arange(len(rows)) - (sizes.cumsum(0) - sizes)[rows]
    listed = torch.full((count, max(int(sizes.max()) if count else 0, 1)), -1)
    listed[rows, place] = nodes
    return listed


def distinct_labels(label_sets: Tensor, tree: Taxonomy) -> Tensor:
    """The labels `(n, k)` of each sample without repetitions and without labels above another of them.

    Labels of a row are in ascending order, filled up with −1; k shrinks to the largest number left.

    Args:
        label_sets: `(n, k)` nodes, −1 where there is none.
        tree: The tree of the labels.

    Example:
        >>> tree = Taxonomy.from_paths([("animal", "dog"), ("plant",)])
        >>> distinct_labels(torch.tensor([[2, 1, 2], [3, 1, -1]]), tree).tolist()
        [[2, -1], [1, 3]]
    """
    last = tree.num_nodes
    ordered = torch.where(label_sets >= 0, label_sets, last).sort(1).values
    following = torch.cat([ordered[:, 1:], torch.full_like(ordered[:, :1], last)], 1)
    # In preorder, the first label after a node lies below it if any does; or it is the node again.
    above = (ordered < last) & (following < tree.subtree_end[ordered.clamp(max=last - 1)])
    kept = torch.where(above, last, ordered).sort(1).values
    width = max(int((kept < last).sum(1).max()) if len(kept) else 0, 1)
    return torch.where(kept < last, kept, -1)[:, :width]


def common_ancestors(label_sets: Tensor, tree: Taxonomy) -> Tensor:
    """The lowest common ancestor `(n,)` of the labels `(n, k)` of each sample, −1 where it has none."""
    common = label_sets[:, 0]
    for column in label_sets.unbind(1)[1:]:
        both = (common >= 0) & (column >= 0)
        meeting = tree.lca(common.clamp_min(0), column.clamp_min(0))
        common = torch.where(both, meeting, torch.maximum(common, column))
    return common

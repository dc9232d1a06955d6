"""Depths of the tree at which all classes are one: nothing can be wrong there, no number is defined."""

from __future__ import annotations

from torch import Tensor

from labeltree.taxonomy.tree import Taxonomy

__all__ = ["shared_depth", "shared_note"]


def shared_depth(classes: Tensor, tree: Taxonomy) -> int:
    """Down to which depth these classes share one node; 0 where only the root.

    Args:
        classes: ``(c,)`` nodes, none missing and none above another; several rows may be of one.
        tree: of the nodes.

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
    """A sentence on the depths that these classes share; none where they share the root alone."""
    shared = shared_depth(classes, tree)
    if not shared:
        return []
    node = tree.path_name(int(tree.paths[classes[0], shared - 1]))
    where = "depth 1" if shared == 1 else f"depths 1 to {shared}"
    return [
        f"All {whose}classes lie at or below '{node}': {what} at {where} are not defined, for "
        "nothing can be wrong there."
    ]

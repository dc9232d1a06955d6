"""Samples sorted into the classes of one depth of a tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from labeltree.sampling.base import IntArray

if TYPE_CHECKING:
    from labeltree.taxonomy import Taxonomy

__all__ = ["SampleClasses", "classes_at_depth"]


@dataclass(frozen=True)
class SampleClasses:
    """The classes that have samples.

    Attributes:
        nodes: (c,) the node of each class, ascending.
        members: (m,) the samples with a class, class by class.
        firsts: (c,) where each class begins there.
        sizes: (c,) how many samples it has.
    """

    nodes: IntArray
    members: IntArray
    firsts: IntArray
    sizes: IntArray


def classes_at_depth(taxonomy: Taxonomy, nodes: IntArray, depth: int) -> SampleClasses:
    """The samples by the node of their label at a depth; a leaf above it is a class too.

    Samples whose label is missing or coarser than the depth have no class.

    Args:
        taxonomy: the tree.
        nodes: (n,) the label of every sample, -1 where it is missing.
        depth: 1 (coarsest) to that of the tree.

    Raises:
        ValueError: if the tree has no such depth, or no such node.
    """
    if not 1 <= depth <= taxonomy.max_depth:
        raise ValueError(f"depth is {depth}, expected 1 to {taxonomy.max_depth}, the depth of the taxonomy")
    if len(nodes) and nodes.max() >= taxonomy.num_nodes:
        most = taxonomy.num_nodes - 1
        raise ValueError(f"nodes holds {nodes.max()}, expected at most {most}, the last of the taxonomy")
    column = taxonomy.paths[:, depth - 1].numpy()
    classes = np.where(nodes < 0, -1, column[nodes])
    order = np.argsort(classes, kind="stable")
    members = order[np.searchsorted(classes[order], 0) :]
    found, firsts, sizes = np.unique(classes[members], return_index=True, return_counts=True)
    return SampleClasses(found, members, firsts, sizes)

"""The names of two taxonomies as numbers, so that nodes of one are found in the other by arrays."""

from __future__ import annotations

from itertools import chain

import numpy as np

from labeltree.taxonomy.naming import compose
from labeltree.taxonomy.numbering import IntArray
from labeltree.taxonomy.taxonomy_graph import Graph

__all__ = ["PairedNames"]


class PairedNames:
    """The names of an old and a new taxonomy as numbers, equal if the composed names are.

    Args:
        old: N_old nodes.
        new: N_new nodes.

    Attributes:
        count: How many different names there are.
        old: (N_old,) the number of each old node's name.
        new: (N_new,) the number of each new node's name.
    """

    def __init__(self, old: Graph, new: Graph) -> None:
        both = [
            tree.names if all(map(str.isascii, tree.names)) else list(map(compose, tree.names))
            for tree in (old, new)
        ]
        numbers = dict.fromkeys(chain(*both), 0)
        numbers = dict(zip(numbers, range(len(numbers)), strict=True))
        self.old, self.new = (
            np.fromiter(map(numbers.__getitem__, names), np.int64, len(names)) for names in both
        )
        self.count = len(numbers)
        children, parents = new.numbering.edges
        keys = parents * self.count + self.new[children]
        order = np.argsort(keys)
        self._keys, self._children = keys[order], children[order]

    def child(self, parents: IntArray, names: IntArray) -> IntArray:
        """(n,) the child of each new node that has the name, -1 if there is none.

        Args:
            parents: (n,) new nodes, -1 for none.
            names: (n,) numbers of names.
        """
        keys = parents * self.count + names
        at = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
        return np.where((parents >= 0) & (self._keys[at] == keys), self._children[at], -1)

    def same_paths(self, source: Graph) -> IntArray:
        """(N_old,) the new node at the path of each old one, -1 if there is none; `source` is the old one."""
        parent, depth = source.numbering.main_parent, source.numbering.depth
        by_depth = np.argsort(depth, kind="stable")
        ends = np.cumsum(np.bincount(depth))
        places = np.full(len(parent), -1)
        places[0] = 0
        for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            nodes = by_depth[start:end]
            places[nodes] = self.child(places[parent[nodes]], self.old[nodes])
        return places

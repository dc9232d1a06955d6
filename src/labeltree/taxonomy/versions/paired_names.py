"""The names of two taxonomies as numbers, so that nodes of one are found in the other by arrays."""

from __future__ import annotations

from itertools import chain

import numpy as np

from labeltree.taxonomy.naming import compose, some
from labeltree.taxonomy.numbering import IntArray
from labeltree.taxonomy.taxonomy_graph import Graph

__all__ = ["PairedNames", "list_differences", "match_orders"]


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


def match_orders(first: Graph, second: Graph) -> IntArray | None:
    """(N,) for each node that of the same path in another taxonomy, if they differ in the order of siblings.

    None if one has a path or an edge that the other lacks. The names of the roots do not count.
    """
    if first == second:
        return np.arange(first.num_nodes)
    if first.num_nodes != second.num_nodes:
        return None
    places = PairedNames(first, second).same_paths(first)
    if not np.array_equal(np.sort(places), np.arange(len(places))):
        return None
    (children, parents), (others, above) = first.numbering.edges, second.numbering.edges
    mine = np.sort(places[children] * len(places) + places[parents])
    theirs = np.sort(others * len(places) + above)
    return places if np.array_equal(mine, theirs) else None


def list_differences(first: Graph, second: Graph, names: tuple[str, str]) -> str:
    """What only one of two trees has, three paths of each at most: `'a/b' is in NAME alone`.

    Args:
        first: A tree.
        second: Another.
        names: What the two are called.
    """
    told = []
    for tree, other, name in ((first, second, names[0]), (second, first, names[1])):
        there = PairedNames(tree, other).same_paths(tree) >= 0
        above = tree.numbering.main_parent
        outermost = np.flatnonzero(~there & there[above.clip(0)])
        if len(outermost):
            paths = [tree.path_name(node) for node in outermost.tolist()]
            told.append(f"{some(paths, 3)} {'is' if len(paths) == 1 else 'are'} in {name} alone")
    return ", ".join(told) or "siblings have names that are written alike"

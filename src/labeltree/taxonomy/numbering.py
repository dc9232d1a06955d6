"""Numbering: from nodes in any order to arrays in which the root is first and parents precede children."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.naming import some

__all__ = ["IntArray", "Numbering", "depth_of", "number", "subtree_end"]

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Numbering:
    """A tree or a DAG in topological order. Arrays with one entry per node have shape (N,).

    Attributes:
        order: For each node, its index in the input.
        parent_start: (N+1,) index in `parents` of the first parent of each node.
        parents: (E,) the parents of node 0, then of node 1, ...; ascending for each node.
        child_start: (N+1,) index in `children` of the first child of each node.
        children: (E,) the children of node 0, then of node 1, ...; ascending for each node.
        main_parent: The parent nearest the root, ties going to the first; -1 for the root.
        depth: Number of edges of the shortest path from the root.
        height: Number of edges of the longest path down to a leaf.
    """

    order: IntArray
    parent_start: IntArray
    parents: IntArray
    child_start: IntArray
    children: IntArray
    main_parent: IntArray
    depth: IntArray
    height: IntArray

    @property
    def is_leaf(self) -> NDArray[np.bool_]:
        """Whether a node has no child."""
        leaf: NDArray[np.bool_] = self.height == 0
        return leaf

    @property
    def num_children(self) -> IntArray:
        """The number of children of each node."""
        return np.diff(self.child_start)

    @property
    def num_parents(self) -> IntArray:
        """The number of parents of each node."""
        return np.diff(self.parent_start)

    @property
    def edges(self) -> tuple[IntArray, IntArray]:
        """(E,) the child and the parent of each edge, children ascending."""
        return np.repeat(np.arange(len(self.order)), np.diff(self.parent_start)), self.parents


def number(
    names: Sequence[str], children: Sequence[int] | IntArray, parents: Sequence[int] | IntArray
) -> Numbering:
    """Number nodes depth first, children in input order, each node after all its parents.

    In a tree this is preorder: the subtree of a node is a range of numbers.

    Args:
        names: (N,) a name for each node, used in errors only.
        children: (E,) the child of each edge, an index of `names`.
        parents: (E,) the parent of each edge.

    Raises:
        TaxonomyError: If there is no root, more than one, or a cycle.
    """
    child, parent = (np.asarray(ends, dtype=np.int64) for ends in (children, parents))
    waiting = np.bincount(child, minlength=len(names))  # number of parents of each node without a number
    roots = np.flatnonzero(waiting == 0).tolist()
    if len(roots) > 1:
        raise TaxonomyError(
            f"the taxonomy has {len(roots)} roots, {some([names[r] for r in roots])}; "
            "a taxonomy has one: give all but one of them a parent, or add a common parent"
        )
    last_first = np.argsort(parent[::-1], kind="stable")  # so that the first child is taken next
    below = child[::-1][last_first].tolist()
    start = [0, *np.cumsum(np.bincount(parent, minlength=len(names))).tolist()]
    unnumbered = waiting.tolist() if int(waiting.max()) > 1 else None
    order, stack = [], roots
    while stack:
        node = stack.pop()
        order.append(node)
        first, end = start[node], start[node + 1]
        if first == end:
            continue
        if unnumbered is None:
            stack += below[first:end]
            continue
        for one in below[first:end]:
            unnumbered[one] -= 1
            if not unnumbered[one]:
                stack.append(one)
    if len(order) < len(names):
        raise TaxonomyError(_cycle_sentence(names, child.tolist(), parent.tolist(), set(order)))
    return _measure(np.asarray(order, dtype=np.int64), child, parent)


def _measure(order: IntArray, children: IntArray, parents: IntArray) -> Numbering:
    """The arrays, given the order of the nodes and the edges, both as indices of the input."""
    n = len(order)
    number_of = np.empty(n, dtype=np.int64)
    number_of[order] = np.arange(n)
    child, parent = number_of[children], number_of[parents]
    if is_tree := len(child) == n - 1:
        upward = np.empty(n - 1, dtype=np.int64)
        upward[child - 1] = parent
        child, parent = np.arange(1, n), upward
    else:
        by_child = np.lexsort((parent, child))
        child, parent = child[by_child], parent[by_child]
    by_parent = np.argsort(parent, kind="stable")
    parent_start = np.searchsorted(child, np.arange(n + 1))
    child_start = np.concatenate([[0], np.cumsum(np.bincount(parent, minlength=n))])
    above = parent.tolist()
    main = [-1, *above] if is_tree else [-1] * n
    start = [] if is_tree else parent_start.tolist()
    depth, height = [0] * n, [0] * n
    for node in range(1, n):
        if not is_tree:
            main[node] = min(above[start[node] : start[node + 1]], key=depth.__getitem__)
        depth[node] = depth[main[node]] + 1
    for node, higher in zip(reversed(child.tolist()), reversed(above), strict=True):
        if height[higher] <= height[node]:
            height[higher] = height[node] + 1
    lists = (np.asarray(values, dtype=np.int64) for values in (main, depth, height))
    return Numbering(order, parent_start, parent, child_start, child[by_parent], *lists)


def depth_of(parent: Sequence[int]) -> list[int]:
    """The depth of each node of a tree in preorder."""
    depth = [0] * len(parent)
    for node in range(1, len(parent)):
        depth[node] = depth[parent[node]] + 1
    return depth


def subtree_end(parent: Sequence[int]) -> list[int]:
    """One past the last node of each subtree of a tree in preorder."""
    end = list(range(1, len(parent) + 1))
    for node in range(len(parent) - 1, 0, -1):
        if end[parent[node]] < end[node]:
            end[parent[node]] = end[node]
    return end


def _cycle_sentence(
    names: Sequence[str], children: Sequence[int], parents: Sequence[int], reached: set[int]
) -> str:
    """A sentence that names a cycle: every node unreachable from the root has an unreachable parent."""
    above: dict[int, int] = {}
    for child, parent in zip(children, parents, strict=True):
        if parent not in reached:
            above.setdefault(child, parent)
    node = next(i for i in range(len(names)) if i not in reached)
    seen: dict[int, int] = {}
    walk: list[int] = []
    while node not in seen:
        seen[node] = len(walk)
        walk.append(node)
        node = above[node]
    cycle = [*walk[seen[node] :], node]
    if len(cycle) == 2:
        return f"node {names[node]!r} is its own parent; remove that edge"
    shown = cycle if len(cycle) <= 9 else [*cycle[:4], *cycle[-4:]]
    links = [repr(names[i]) for i in shown]
    if len(cycle) > 9:
        links.insert(4, f"... ({len(cycle) - 8} more)")
    return f"the parents form a cycle, {' -> '.join(links)}; remove one of these edges"

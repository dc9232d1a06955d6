"""Topological numbering of a DAG: every node after its parents, the root first."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.naming import some
from labeltree.taxonomy.numbering import cycle_sentence

__all__ = ["GraphNumbering", "number_graph"]

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class GraphNumbering:
    """A DAG in topological order. Arrays over the nodes have shape (N,), `order` indexes the input.

    Attributes:
        order: for each node, its index in the input.
        parent_start: (N+1,) where the parents of each node begin.
        parents: (E,) the parents' numbers, ascending for each node.
        child_start: (N+1,) where the children of each node begin.
        children: (E,) the children's numbers, ascending for each node.
        main_parent: the parent nearest the root, of equal ones the first; -1 for the root.
        depth: edges of the shortest path from the root.
        height: edges of the longest path down to a leaf.
    """

    order: IntArray
    parent_start: IntArray
    parents: IntArray
    child_start: IntArray
    children: IntArray
    main_parent: IntArray
    depth: IntArray
    height: IntArray


def number_graph(names: Sequence[str], parents: Sequence[Sequence[int]]) -> GraphNumbering:
    """Number a DAG: depth first, each node when the last of its parents has its number.

    A tree gets the numbers that it has as a `Taxonomy`.

    Args:
        names: a name for each entry, used in errors only.
        parents: the indices of each entry's parents, none for the root.

    Raises:
        TaxonomyError: if there is no root, more than one, or a cycle.
    """
    children: list[list[int]] = [[] for _ in parents]
    for child, above in enumerate(parents):
        for parent in above:
            children[parent].append(child)
    roots = [node for node, above in enumerate(parents) if not above]
    if len(roots) > 1:
        raise TaxonomyError(
            f"the taxonomy has {len(roots)} roots, {some([names[r] for r in roots])}; a DAG here has one: "
            "give all but one of them a parent, or add a common one"
        )
    order, missing, stack = [], [len(above) for above in parents], roots[:]
    while stack:
        node = stack.pop()
        order.append(node)
        for child in reversed(children[node]):
            missing[child] -= 1
            if not missing[child]:
                stack.append(child)
    if len(order) < len(parents):
        raise TaxonomyError(_cycle(names, parents, set(order)))
    return _measure(order, parents)


def _cycle(names: Sequence[str], parents: Sequence[Sequence[int]], reached: set[int]) -> str:
    """Name a cycle: every node that is not reached has a parent that is not reached either."""
    unreached = [next((p for p in above if p not in reached), -1) for above in parents]
    return cycle_sentence(names, unreached, reached)


def _measure(order: list[int], parents: Sequence[Sequence[int]]) -> GraphNumbering:
    n = len(order)
    number_of = [0] * n
    for new, old in enumerate(order):
        number_of[old] = new
    above = [sorted(number_of[parent] for parent in parents[old]) for old in order]
    below: list[list[int]] = [[] for _ in order]
    main, depth, height = [-1] * n, [0] * n, [0] * n
    for node in range(1, n):
        for parent in above[node]:
            below[parent].append(node)
        main[node] = min(above[node], key=depth.__getitem__)  # of equal ones the first
        depth[node] = depth[main[node]] + 1
    for node in range(n - 1, 0, -1):
        for parent in above[node]:
            height[parent] = max(height[parent], height[node] + 1)
    arrays = (order, *_rows(above), *_rows(below), main, depth, height)
    return GraphNumbering(*(np.asarray(values, dtype=np.int64) for values in arrays))


def _rows(lists: list[list[int]]) -> tuple[IntArray, list[int]]:
    """Lists one after the other, and where each begins."""
    start = np.concatenate([[0], np.cumsum([len(row) for row in lists])])
    return start, [entry for row in lists for entry in row]

"""Depth-first numbering: from parents in any order to arrays in which a subtree is a range."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.naming import some

__all__ = ["Numbering", "cycle_sentence", "depth_of", "number"]

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Numbering:
    """A tree in preorder. Every array has shape (N,) and is indexed by the node's number, except `order`.

    Attributes:
        order: for each node, its index in the input.
        parent: the parent's number, -1 for the root.
        depth: edges from the root.
        height: edges of the longest path down to a leaf.
        end: one past the last node of the subtree, so that the subtree of v is `range(v, end[v])`.
    """

    order: IntArray
    parent: IntArray
    depth: IntArray
    height: IntArray
    end: IntArray


def number(names: Sequence[str], parents: Sequence[int]) -> Numbering:
    """Number a tree depth first, children in input order.

    Args:
        names: a name for each entry, used in errors only.
        parents: the index of each entry's parent, -1 for the root.

    Raises:
        TaxonomyError: if there is no root, more than one, or a cycle.
    """
    children: list[list[int]] = [[] for _ in parents]
    roots: list[int] = []
    for child, parent in enumerate(parents):
        (children[parent] if parent >= 0 else roots).append(child)
    if len(roots) > 1:
        raise TaxonomyError(
            f"the taxonomy has {len(roots)} roots, {some([names[r] for r in roots])}; "
            "a tree has one: give all but one of them a parent, or add a common one"
        )
    order = _preorder(children, roots)
    if len(order) < len(parents):
        raise TaxonomyError(cycle_sentence(names, parents, set(order)))
    return _measure(order, parents)


def _preorder(children: list[list[int]], roots: list[int]) -> list[int]:
    order = []
    stack = roots[:]
    while stack:
        node = stack.pop()
        order.append(node)
        stack.extend(reversed(children[node]))
    return order


def _measure(order: list[int], parents: Sequence[int]) -> Numbering:
    n = len(order)
    number_of = [0] * n
    for new, old in enumerate(order):
        number_of[old] = new
    parent = [number_of[parents[old]] if parents[old] >= 0 else -1 for old in order]
    depth, height, end = depth_of(parent), [0] * n, list(range(1, n + 1))
    for v in range(n - 1, 0, -1):
        p = parent[v]
        height[p] = max(height[p], height[v] + 1)
        end[p] = max(end[p], end[v])
    return Numbering(*(np.asarray(x, dtype=np.int64) for x in (order, parent, depth, height, end)))


def depth_of(parent: Sequence[int]) -> list[int]:
    """The depth of each node of a tree in preorder."""
    depth = [0] * len(parent)
    for node in range(1, len(parent)):
        depth[node] = depth[parent[node]] + 1
    return depth


def cycle_sentence(names: Sequence[str], parents: Sequence[int], reached: set[int]) -> str:
    """Name the cycle: whatever the root does not reach leads, from parent to parent, into one."""
    node = next(i for i in range(len(parents)) if i not in reached)
    seen: dict[int, int] = {}
    walk: list[int] = []
    while node not in seen:
        seen[node] = len(walk)
        walk.append(node)
        node = parents[node]
    cycle = [*walk[seen[node] :], node]
    if len(cycle) == 2:
        return f"node {names[node]!r} is its own parent; remove that edge"
    shown = cycle if len(cycle) <= 9 else [*cycle[:4], *cycle[-4:]]
    links = [repr(names[i]) for i in shown]
    if len(cycle) > 9:
        links.insert(4, f"... ({len(cycle) - 8} more)")
    return f"the parents form a cycle, {' -> '.join(links)}; remove one of these edges"

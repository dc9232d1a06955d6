"""Lowest common ancestors of many pairs at once: of a tree by range minima, of a DAG by sets of ancestors."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from labeltree.errors import TaxonomyError
from labeltree.lazy import torch
from labeltree.taxonomy.numbering import IntArray

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["AncestorSets", "RangeMinima"]

LARGEST = 2**27
"""The most pairs of a node and an ancestor that are listed; they take 2 GiB."""


class RangeMinima:
    """A sparse table over the parents in preorder: O(N log N) to build, O(1) per pair.

    For u < v in preorder, the lowest common ancestor is the smallest parent among the nodes u+1 ... v: all
    of them lie below it, and one of them is its child. (If u is an ancestor of v, this is u itself.)

    Args:
        parent: Parents in preorder, shape (N,), -1 for the root.
    """

    def __init__(self, parent: Tensor) -> None:
        rows = [parent.to(torch.int32)]
        width = 1
        while 2 * width <= len(parent):
            previous = rows[-1]
            row = previous.clone()  # the tail keeps minima of shorter ranges, which no query reads
            row[: len(row) - width] = torch.minimum(previous[:-width], previous[width:])
            rows.append(row)
            width *= 2
        self._minima = torch.stack(rows).flatten()
        self._n = len(parent)
        lengths = torch.arange(len(parent) + 1, dtype=torch.float64)
        # float64 holds every power of two exactly, so frexp gives the exact floor of the binary logarithm
        self._level = (torch.frexp(lengths).exponent - 1).clamp(min=0).to(torch.int64)

    def __call__(self, u: Tensor, v: Tensor) -> Tensor:
        """Return the lowest common ancestors of int64 nodes (no -1), elementwise after broadcasting."""
        first, last = torch.minimum(u, v), torch.maximum(u, v)
        level = self._level[last - first]
        start = level * self._n
        left = self._minima[(start + first + 1).clamp_(max=self._minima.numel() - 1)]
        right = self._minima[start + last + 1 - (1 << level)]
        return torch.where(first == last, first, torch.minimum(left, right).to(torch.int64))


class AncestorSets:
    """All (node, ancestor) pairs of a DAG with the edges between them; each node is one of its ancestors.

    The ancestors of a node are sorted by height, then by number: the first common ancestor of two nodes is
    their LCA, and the last is the root.

    Args:
        start: (N+1,) index in `parents` of the first parent of each node.
        parents: (E,) the parents; every parent has a smaller number than its children.
        height: (N,) number of edges of the longest path down to a leaf.

    Attributes:
        first: (N+1,) index in `rank` of the first ancestor of each node.
        rank: The ancestors, as ranks in the order by height and number.
        edges: Number of edges of the shortest path up to each ancestor.
        node: (N,) the node of each rank.

    Raises:
        TaxonomyError: If there are too many pairs to hold in memory.
    """

    def __init__(self, start: IntArray, parents: IntArray, height: IntArray) -> None:
        n = len(height)
        self.node = np.lexsort((np.arange(n), height))
        own_rank = np.empty(n, dtype=np.int64)
        own_rank[self.node] = np.arange(n)
        level = _levels(start, parents)
        _check_size(int((level + 1).sum()), n)  # no node has fewer ancestors than its longest path
        order = np.argsort(level, kind="stable")
        bounds = np.searchsorted(level[order], np.arange(level.max() + 2))
        # pairs in the order in which they are found, level by level from the root down
        at, size = np.zeros(n, dtype=np.int64), np.ones(n, dtype=np.int64)
        rank, edges = _Growing(own_rank[:1]), _Growing(np.zeros(1, dtype=np.int64))
        for below, end in pairwise(bounds[1:]):
            nodes = order[below:end]
            child = np.repeat(np.arange(len(nodes)), start[nodes + 1] - start[nodes])
            parent = parents[_ranges(start[nodes], start[nodes + 1] - start[nodes])]
            places = _ranges(at[parent], size[parent])
            row = np.concatenate([np.arange(len(nodes)), np.repeat(child, size[parent])])
            ranks = np.concatenate([own_rank[nodes], rank.values[places]])
            steps = np.concatenate([np.zeros(len(nodes), dtype=np.int64), edges.values[places] + 1])
            key = row * n + ranks
            by_key = np.lexsort((steps, key))
            key = key[by_key]
            nearest = by_key[np.concatenate([[True], key[1:] != key[:-1]])]
            size[nodes] = np.bincount(row[nearest], minlength=len(nodes))
            at[nodes] = rank.count + np.cumsum(size[nodes]) - size[nodes]
            _check_size(rank.count + len(nearest), n)
            rank.append(ranks[nearest])
            edges.append(steps[nearest])
        self.first = np.concatenate([[0], np.cumsum(size)])
        in_order = _ranges(at, size)
        self.rank, self.edges = rank.values[in_order], edges.values[in_order]

    def of(self, node: int) -> IntArray:
        """The ancestors of a node, itself first and the root last, by height and number."""
        ancestors: IntArray = self.node[self.rank[self.first[node] : self.first[node + 1]]]
        return ancestors

    def lowest_common(self, u: IntArray, v: IntArray) -> IntArray:
        """The common ancestor of least height of pairs (p,), ties going to the first."""
        i, j = self.first[u], self.first[v]
        ranks = np.empty(len(u), dtype=np.int64)
        pair = np.arange(len(u))
        while len(pair):
            a, b = self.rank[i], self.rank[j]
            met = a == b
            ranks[pair[met]] = a[met]
            i, j, pair = (i + (a < b))[~met], (j + (b < a))[~met], pair[~met]
        common: IntArray = self.node[ranks]
        return common

    def meetings(self, u: IntArray, v: IntArray) -> tuple[IntArray, IntArray]:
        """For pairs (p,), the number of common ancestors, and the fewest edges by way of one."""
        i, j = self.first[u], self.first[v]
        count, fewest = np.zeros(len(u), dtype=np.int64), np.full(len(u), 2 * len(self.node))
        pair, root = np.arange(len(u)), len(self.node) - 1
        while len(pair):
            a, b = self.rank[i], self.rank[j]
            met = a == b
            here = pair[met]
            count[here] += 1
            fewest[here] = np.minimum(fewest[here], (self.edges[i] + self.edges[j])[met])
            goes_on = ~(met & (a == root))
            i, j, pair = (i + (a <= b))[goes_on], (j + (b <= a))[goes_on], pair[goes_on]
        return count, fewest


def _check_size(entries: int, nodes: int) -> None:
    if entries > LARGEST:
        raise TaxonomyError(
            f"the {nodes} nodes have more than {LARGEST} pairs of a node and an ancestor, too many to list; "
            "project the DAG to a tree, which needs no such list"
        )


class _Growing:
    """An array to append to; its capacity is doubled when it is full."""

    def __init__(self, values: IntArray) -> None:
        self._space, self.count = values.copy(), len(values)

    def append(self, more: IntArray) -> None:
        """Add entries at the end."""
        needed = self.count + len(more)
        if needed > len(self._space):
            space = np.empty(max(needed, 2 * len(self._space)), dtype=np.int64)
            space[: self.count] = self.values
            self._space = space
        self._space[self.count : needed] = more
        self.count = needed

    @property
    def values(self) -> IntArray:
        """The entries so far."""
        return self._space[: self.count]


def _levels(start: IntArray, parents: IntArray) -> IntArray:
    """(N,) edges of the longest path from the root: all ancestors lie at smaller levels."""
    level = [0] * (len(start) - 1)
    bounds, above = start.tolist(), parents.tolist()
    for node in range(1, len(level)):
        level[node] = 1 + max(level[parent] for parent in above[bounds[node] : bounds[node + 1]])
    return np.asarray(level, dtype=np.int64)


def _ranges(first: IntArray, size: IntArray) -> IntArray:
    """The numbers first[0], first[0] + 1, ..., first[0] + size[0] - 1, first[1], ... in one array."""
    offset = np.cumsum(size) - size
    numbers: IntArray = np.arange(int(size.sum())) + np.repeat(first - offset, size)
    return numbers

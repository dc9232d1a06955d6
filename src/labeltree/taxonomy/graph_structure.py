"""The DAG as numbers: arrays over the nodes, and queries on pairs of nodes without a Python loop."""

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.taxonomy.ancestor_sets import AncestorSets
from labeltree.taxonomy.graph_numbering import GraphNumbering
from labeltree.taxonomy.nodes import as_node
from labeltree.taxonomy.pairs_of_nodes import PairsOfNodes

__all__ = ["GraphStructure"]

IntArray = NDArray[np.int64]

PAIRS_AT_ONCE = 2**20


class GraphStructure(PairsOfNodes):
    """An immutable DAG in topological order: root 0, every node after its parents.

    A tree seen as a DAG has the numbers of the tree and gives all its answers.

    Depth and height follow the shortest and the longest path: depth is how near the root a node can be
    reached, which both projections ask for, and height is that of Barz & Denzler, by which an ancestor is
    always taller than its descendants, so that the common ancestor of least height is a lowest one. On a
    DAG a child may therefore lie no deeper than a parent.

    Attributes:
        main_parent: (N,) the parent nearest the root, of equal ones the first; -1 for the root.
        depth: (N,) edges of the shortest path from the root.
        height: (N,) edges of the longest path down to a leaf.
        is_leaf: (N,) bool.
        leaves: (num_leaves,) the leaves, ascending.
        num_nodes: N, the root included.
        num_edges: E.
        num_leaves: how many leaves there are.
        max_depth: L, the largest depth of a node (on a DAG perhaps not of a leaf).
        max_height: H, the height of the root.
    """

    main_parent: Tensor
    num_edges: int

    def __init__(self, numbering: GraphNumbering) -> None:
        is_leaf = numbering.height == 0
        self.__dict__.update(
            _numbering=numbering,
            main_parent=torch.from_numpy(numbering.main_parent),
            depth=torch.from_numpy(numbering.depth),
            height=torch.from_numpy(numbering.height),
            is_leaf=torch.from_numpy(is_leaf),
            leaves=torch.from_numpy(np.flatnonzero(is_leaf)),
            num_nodes=len(numbering.depth),
            num_edges=len(numbering.parents),
            num_leaves=int(is_leaf.sum()),
            max_depth=int(numbering.depth.max()),
            max_height=int(numbering.height[0]),
        )

    _numbering: GraphNumbering

    def parents(self, node: int) -> list[int]:
        """The parents of a node, ascending; the root has none."""
        node = as_node(node, self.num_nodes)
        start = self._numbering.parent_start
        found: list[int] = self._numbering.parents[start[node] : start[node + 1]].tolist()
        return found

    def children(self, node: int) -> list[int]:
        """The children of a node, ascending."""
        node = as_node(node, self.num_nodes)
        start = self._numbering.child_start
        found: list[int] = self._numbering.children[start[node] : start[node + 1]].tolist()
        return found

    def ancestors_of(self, node: int) -> list[int]:
        """The proper ancestors of a node, ascending; the root has none."""
        node = as_node(node, self.num_nodes)
        return sorted(self._sets.of(node)[1:].tolist())

    def descendants(self, node: int) -> Tensor:
        """The nodes at or below a node, ascending."""
        node = as_node(node, self.num_nodes)
        below = np.zeros(self.num_nodes, dtype=bool)
        below[node] = True
        frontier = self.children(node)
        while frontier:
            child = frontier.pop()
            if not below[child]:
                below[child] = True
                frontier.extend(self.children(child))
        return torch.from_numpy(np.flatnonzero(below))

    def descendant_leaves(self, node: int) -> Tensor:
        """The leaves at or below a node, ascending; a leaf's own is itself."""
        below = self.descendants(node)
        return below[self.is_leaf[below]]

    @cached_property
    def ancestor_count(self) -> Tensor:  # type: ignore[override]
        """(N,) how many ancestors each node has, itself included."""
        return torch.from_numpy(np.diff(self._sets.first))

    @cached_property
    def _sets(self) -> AncestorSets:
        numbering = self._numbering
        return AncestorSets(numbering.parent_start, numbering.parents, numbering.height)

    def _lca_of(self, u: Tensor, v: Tensor) -> Tensor:
        return self._by_pairs(u, v, self._sets.lowest_common)

    def _edges_between(self, u: Tensor, v: Tensor) -> Tensor:
        return self._by_pairs(u, v, lambda a, b: self._sets.meetings(a, b)[1])

    def _shared_ancestors(self, u: Tensor, v: Tensor) -> Tensor:
        return self._by_pairs(u, v, lambda a, b: self._sets.meetings(a, b)[0])

    def _by_pairs(self, u: Tensor, v: Tensor, ask: Callable[[IntArray, IntArray], IntArray]) -> Tensor:
        """Ask once for every pair that differs, in parts of limited size; all that is asked is symmetric."""
        low, high = torch.minimum(u, v).reshape(-1), torch.maximum(u, v).reshape(-1)
        pairs, place = torch.unique(low * self.num_nodes + high, return_inverse=True)
        parts = [
            ask((part // self.num_nodes).numpy(), (part % self.num_nodes).numpy())
            for part in torch.split(pairs, PAIRS_AT_ONCE)
        ]
        answers = torch.from_numpy(np.concatenate(parts))
        return answers[place].reshape(u.shape)

    def cut_to_labels(self, nodes: Tensor, labels: Tensor) -> Tensor:
        """Nodes (n,) as far as labels (n,) judge them: below an inner-node label, that label itself.

        A node that is neither above nor below its inner-node label is cut to the depth of the label along
        its shortest path from the root (`main_parent`). On a tree both are the ancestor at that depth.

        Args:
            nodes: none missing.
            labels: none missing; a leaf judges a node as it is.
        """
        lca = self.lca(nodes, labels)
        depth, parent = self.depth.to(labels.device), self.main_parent.to(labels.device)
        found = nodes.clone()
        too_deep = ~self.is_leaf.to(labels.device)[labels] & (depth[found] > depth[labels]) & (lca != nodes)
        while bool(too_deep.any()):
            found[too_deep] = parent[found[too_deep]]
            too_deep &= depth[found] > depth[labels]
        return torch.where(lca == labels, labels, found)

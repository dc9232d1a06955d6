"""The tree as numbers: arrays over the nodes, and queries on pairs of nodes without a Python loop."""

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.lca import LowestCommonAncestor
from labeltree.taxonomy.nodes import NodesLike, as_node
from labeltree.taxonomy.numbering import Numbering
from labeltree.taxonomy.pairs_of_nodes import PairsOfNodes
from labeltree.taxonomy.relations import APART, KIN, SAME, RelationTable, unknown_relation

__all__ = ["TreeStructure"]

LARGEST_TABLE = 2**28  # entries of the path table; 2 GiB of int64


class TreeStructure(PairsOfNodes):
    """An immutable tree, numbered depth first: root 0, the subtree of v is `range(v, subtree_end[v])`.

    Tensors are int64 on the CPU unless said otherwise, and must not be written to.

    Attributes:
        parent: (N,) the parent of each node, -1 for the root.
        depth: (N,) edges from the root.
        height: (N,) edges of the longest path down to a leaf.
        subtree_end: (N,) one past the last node of the subtree.
        is_leaf: (N,) bool.
        leaves: (num_leaves,) the leaves, ascending.
        num_nodes: N, the root included.
        num_leaves: how many leaves there are.
        max_depth: L, the largest depth of a leaf.
        max_height: H, the height of the root; equal to L on a tree.
    """

    parent: Tensor
    subtree_end: Tensor

    def __init__(self, numbering: Numbering) -> None:
        is_leaf = numbering.height == 0
        self.__dict__.update(
            parent=torch.from_numpy(numbering.parent),
            depth=torch.from_numpy(numbering.depth),
            height=torch.from_numpy(numbering.height),
            subtree_end=torch.from_numpy(numbering.end),
            is_leaf=torch.from_numpy(is_leaf),
            leaves=torch.from_numpy(np.flatnonzero(is_leaf)),
            num_nodes=len(numbering.parent),
            num_leaves=int(is_leaf.sum()),
            max_depth=int(numbering.depth.max()),
            max_height=int(numbering.height[0]),
        )

    def children(self, node: int) -> list[int]:
        """The children of a node, in order."""
        node = as_node(node, self.num_nodes)
        found, child, end = [], node + 1, self.subtree_end.numpy()
        while child < end[node]:
            found.append(child)
            child = int(end[child])
        return found

    def ancestors_of(self, node: int) -> list[int]:
        """The proper ancestors of a node from the root to its parent; the root has none."""
        node = as_node(node, self.num_nodes)
        found, parent = [], self.parent.numpy()
        while node > 0:
            node = int(parent[node])
            found.append(node)
        return found[::-1]

    def descendant_leaves(self, node: int) -> Tensor:
        """The leaves of a node's subtree, ascending; a leaf's own is itself."""
        node = as_node(node, self.num_nodes)
        first, last = torch.searchsorted(
            self.leaves, torch.stack([torch.tensor(node), self.subtree_end[node]])
        )
        return self.leaves[first:last]

    @cached_property
    def ancestors(self) -> Tensor:
        """(N, L+1) the ancestor at depth 0 ... L, the node itself at its own depth, -1 below it."""
        self._check_table_size()
        nodes, depth = np.arange(self.num_nodes), self.depth.numpy()
        table = np.full((self.num_nodes, self.max_depth + 1), -1, dtype=np.int64)
        for level in range(self.max_depth + 1):
            # In preorder the last node of a depth at or before v is v's ancestor, if v lies that deep at all.
            latest = np.maximum.accumulate(np.where(depth == level, nodes, -1))
            table[:, level] = np.where(depth >= level, latest, -1)
        return torch.from_numpy(table)

    @cached_property
    def paths(self) -> Tensor:
        """(N, L) the node on the path at depth 1 ... L; a shallow leaf repeats itself, an inner node has -1.

        Two labels agree at depth l if and only if `paths[u, l-1] == paths[v, l-1] != -1`. They differ at
        depth l if two entries other than -1 differ at depth l or coarser; in all other cases it is
        undecided. The root's row is all -1.
        """
        paths = self.ancestors[:, 1:]
        own = torch.arange(self.num_nodes)[:, None]
        return torch.where((paths < 0) & self.is_leaf[:, None], own, paths)

    def _check_table_size(self) -> None:
        if self.num_nodes * (self.max_depth + 1) > LARGEST_TABLE:
            raise TaxonomyError(
                f"the table of paths of {self.num_nodes} nodes down to depth {self.max_depth} would take "
                f"{self.num_nodes * (self.max_depth + 1) / 2**27:.0f} GiB; shorten the tree with cut(depth)"
            )

    @cached_property
    def ancestor_count(self) -> Tensor:  # type: ignore[override]
        """(N,) how many ancestors each node has, itself included: its depth + 1."""
        return self.depth + 1

    @cached_property
    def _lowest_common_ancestor(self) -> LowestCommonAncestor:
        return LowestCommonAncestor(self.parent)

    def _lca_of(self, u: Tensor, v: Tensor) -> Tensor:
        return self._lowest_common_ancestor(u, v)

    def _edges_between(self, u: Tensor, v: Tensor) -> Tensor:
        return self.depth[u] + self.depth[v] - 2 * self.depth[self._lca_of(u, v)]

    def _shared_ancestors(self, u: Tensor, v: Tensor) -> Tensor:
        return self.depth[self._lca_of(u, v)] + 1

    def cut_to_labels(self, nodes: Tensor, labels: Tensor) -> Tensor:
        """Nodes (n,) as far as labels (n,) judge them: under an inner-node label, the ancestor at its depth.

        Args:
            nodes: none missing.
            labels: none missing; a leaf judges a node as it is.
        """
        depth, is_leaf = self.depth.to(labels.device), self.is_leaf.to(labels.device)
        cut = torch.where(is_leaf[labels], depth[nodes], torch.minimum(depth[nodes], depth[labels]))
        return self.ancestors.to(labels.device)[nodes, cut]

    def relation(self, u: NodesLike, v: NodesLike) -> Tensor:
        """Relation codes of pairs of labels, int64, elementwise after broadcasting; never INSTANCE.

        `Taxonomy.relations` says what each code means.
        """
        u, v, device = self._pair(u, v)
        ancestor = self.lca(u, v)
        kind = torch.where((ancestor == u) | (ancestor == v), KIN, APART)
        kind.masked_fill_((u == v) & self.is_leaf[u], SAME)
        codes = kind * (self.max_depth + 1) + self.depth[ancestor]
        return codes.masked_fill_(ancestor < 0, unknown_relation(self.max_depth)).to(device)

    @cached_property
    def relations(self) -> RelationTable:
        """What the codes of `relation` mean."""
        return RelationTable(self.max_depth)

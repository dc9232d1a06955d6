"""The tree as numbers: arrays over the nodes, and queries on pairs of nodes without a Python loop."""

from functools import cached_property
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.lca import LowestCommonAncestor
from labeltree.taxonomy.nodes import NodesLike, as_node, as_nodes
from labeltree.taxonomy.numbering import Numbering
from labeltree.taxonomy.relations import APART, KIN, SAME, RelationTable, unknown_relation

__all__ = ["TreeStructure"]

LARGEST_TABLE = 2**28  # entries of the path table; 2 GiB of int64


class TreeStructure:
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
    depth: Tensor
    height: Tensor
    subtree_end: Tensor
    is_leaf: Tensor
    leaves: Tensor
    num_nodes: int
    num_leaves: int
    max_depth: int
    max_height: int

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

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is immutable; {name!r} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is immutable; {name!r} cannot be deleted")

    def __len__(self) -> int:
        return self.num_nodes

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
    def _lowest_common_ancestor(self) -> LowestCommonAncestor:
        return LowestCommonAncestor(self.parent)

    def lca(self, u: NodesLike, v: NodesLike) -> Tensor:
        """Lowest common ancestors, elementwise after broadcasting; -1 where a label is missing.

        Args:
            u: node ids of any shape, -1 where missing.
            v: node ids of any shape that broadcasts with u's.

        Returns:
            int64, on the device of the arguments.
        """
        u, v, device = self._pair(u, v)
        found: Tensor = self._lowest_common_ancestor(u.clamp(min=0), v.clamp(min=0))
        return found.masked_fill_((u < 0) | (v < 0), -1).to(device)

    def lca_depth(self, u: NodesLike, v: NodesLike) -> Tensor:
        """Depth of the lowest common ancestor, int64; -1 where a label is missing."""
        return self._look_up(self.depth, self.lca(u, v))

    def lca_height(self, u: NodesLike, v: NodesLike) -> Tensor:
        """Height of the lowest common ancestor, int64; -1 where a label is missing."""
        return self._look_up(self.height, self.lca(u, v))

    def path_length(self, u: NodesLike, v: NodesLike) -> Tensor:
        """Number of edges between two nodes, int64; -1 where a label is missing."""
        u, v, device = self._pair(u, v)
        ancestor = self.lca(u, v)
        edges = self.depth[u] + self.depth[v] - 2 * self.depth[ancestor]
        return edges.masked_fill_(ancestor < 0, -1).to(device)

    def lca_height_dissimilarity(self, u: NodesLike, v: NodesLike) -> Tensor:
        """`height(lca) / H`, float64 in [0, 1] (Eq. 1 of Barz & Denzler 2019); NaN where missing."""
        height = self.lca_height(u, v)
        return (height.to(torch.float64) / self.max_height).masked_fill_(height < 0, torch.nan)

    def lca_depth_dissimilarity(self, u: NodesLike, v: NodesLike) -> Tensor:
        """`1 - depth(lca) / L`, float64 in [0, 1] (1 - ρ, Eq. 4 of Climbing the Label Tree); NaN if missing.

        Above 0 for a leaf shallower than L with itself.
        """
        depth = self.lca_depth(u, v)
        return (1 - depth.to(torch.float64) / self.max_depth).masked_fill_(depth < 0, torch.nan)

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

    def _pair(self, u: NodesLike, v: NodesLike) -> tuple[Tensor, Tensor, torch.device]:
        left, right = as_nodes(u, self.num_nodes, "u"), as_nodes(v, self.num_nodes, "v")
        device = right.device if left.device.type == "cpu" else left.device
        try:
            shape = np.broadcast_shapes(left.shape, right.shape)
        except ValueError:
            raise ValueError(
                f"u of shape {tuple(left.shape)} and v of shape {tuple(right.shape)} do not broadcast"
            ) from None
        return left.cpu().expand(shape), right.cpu().expand(shape), device

    @staticmethod
    def _look_up(values: Tensor, nodes: Tensor) -> Tensor:
        found = values.to(nodes.device)[nodes]  # a missing node, -1, reads the last entry and is masked
        return found.masked_fill_(nodes < 0, -1)

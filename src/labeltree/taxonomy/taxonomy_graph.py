"""A graph of named nodes with one root: the common base of a tree and a DAG."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from labeltree.lazy import torch
from labeltree.taxonomy.check_nodes import NodesLike, as_node, as_nodes
from labeltree.taxonomy.files.entries import Entries
from labeltree.taxonomy.lca import AncestorSets
from labeltree.taxonomy.named_graph import NamedGraph
from labeltree.taxonomy.numbering import IntArray

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Graph"]

PAIRS_AT_ONCE = 2**20


class Graph(NamedGraph):
    """A graph of named nodes with one root, and how they are related: the base of a tree and of a DAG."""

    def subgraph(self, nodes: Tensor) -> tuple[Self, Tensor]:
        """The taxonomy of some nodes and of the edges between them.

        Args:
            nodes: (m,) the nodes that stay, ascending; the first is the root, the others lie below it.

        Returns:
            The smaller taxonomy, and the new id of each node, shape (N,), -1 for nodes that do not stay.
        """
        place = np.full(self.num_nodes, -1)
        place[nodes.numpy()] = np.arange(len(nodes))
        child, parent = (place[ends] for ends in self.numbering.edges)
        between = (child > 0) & (parent >= 0)
        names = [self.names[node] for node in nodes.tolist()]
        aliases = [self.aliases[node] for node in nodes.tolist()] if self.aliases else ()
        edges = child[between].tolist(), parent[between].tolist()
        subgraph = self._of(Entries(names, *edges, aliases=aliases))
        place[nodes.numpy()[subgraph.order.numpy()]] = np.arange(len(nodes))
        return subgraph, torch.from_numpy(place)

    def parents(self, node: int) -> list[int]:
        """The parents of a node, ascending; the root has none."""
        node = as_node(node, self.num_nodes)
        start = self.numbering.parent_start
        parents: list[int] = self.numbering.parents[start[node] : start[node + 1]].tolist()
        return parents

    def children(self, node: int) -> list[int]:
        """The children of a node, ascending."""
        node = as_node(node, self.num_nodes)
        start = self.numbering.child_start
        children: list[int] = self.numbering.children[start[node] : start[node + 1]].tolist()
        return children

    @cached_property
    def num_children(self) -> Tensor:
        """(N,) number of children of each node."""
        return torch.from_numpy(self.numbering.num_children)

    @cached_property
    def num_parents(self) -> Tensor:
        """(N,) number of parents of each node."""
        return torch.from_numpy(self.numbering.num_parents)

    def ancestors_of(self, node: int) -> list[int]:
        """The proper ancestors of a node, ascending, so that the root comes first; the root has none."""
        node = as_node(node, self.num_nodes)
        return sorted(self._sets.of(node)[1:].tolist())

    def descendants(self, node: int) -> Tensor:
        """The ids of the nodes at or below a node, ascending."""
        return torch.from_numpy(self._subtree(as_node(node, self.num_nodes)))

    def num_below(self, node: int) -> int:
        """The number of nodes below a node."""
        return len(self._subtree(as_node(node, self.num_nodes))) - 1

    def _subtree(self, node: int) -> IntArray:
        below = np.zeros(self.num_nodes, dtype=bool)
        below[node] = True
        frontier = self.children(node)
        while frontier:
            child = frontier.pop()
            if not below[child]:
                below[child] = True
                frontier.extend(self.children(child))
        return np.flatnonzero(below)

    def descendant_leaves(self, node: int) -> Tensor:
        """The leaves at or below a node, ascending; for a leaf, the leaf itself."""
        below = self.descendants(node)
        return below[self.is_leaf[below]]

    @cached_property
    def ancestor_count(self) -> Tensor:
        """(N,) number of ancestors of each node, including the node itself."""
        return torch.from_numpy(np.diff(self._sets.first))

    def cut_to_labels(self, nodes: Tensor, labels: Tensor) -> Tensor:
        """Truncate nodes (n,) to what labels (n,) decide: a node below an inner-node label becomes the label.

        A node that is neither above nor below its inner-node label is truncated to the depth of the label
        along its shortest path from the root (`main_parent`). On a tree both cases give the ancestor at that
        depth.

        Args:
            nodes: (n,) nodes, none missing.
            labels: (n,) labels, none missing; a leaf label leaves a node unchanged.
        """
        lca = self.lca(nodes, labels)
        depth, parent = self.depth.to(labels.device), self.main_parent.to(labels.device)
        cut = nodes.clone()
        too_deep = ~self.is_leaf.to(labels.device)[labels] & (depth[cut] > depth[labels]) & (lca != nodes)
        while bool(too_deep.any()):
            cut[too_deep] = parent[cut[too_deep]]
            too_deep &= depth[cut] > depth[labels]
        return torch.where(lca == labels, labels, cut)

    def lca(self, u: NodesLike, v: NodesLike) -> Tensor:
        """Lowest common ancestors, elementwise after broadcasting; -1 where a label is missing.

        In a DAG, the common ancestor of least height, ties going to the first.

        Args:
            u: Node ids of any shape, -1 where missing.
            v: Node ids of any shape that broadcasts with the shape of u.

        Returns:
            int64, on the device of the arguments.
        """
        return self._ask_pairs(u, v, self._lca_of)

    def lca_depth(self, u: NodesLike, v: NodesLike) -> Tensor:
        """Depth of the lowest common ancestor, int64; -1 where a label is missing."""
        return self._look_up(self.depth, self.lca(u, v))

    def lca_height(self, u: NodesLike, v: NodesLike) -> Tensor:
        """Height of the lowest common ancestor, int64; -1 where a label is missing."""
        return self._look_up(self.height, self.lca(u, v))

    def path_length(self, u: NodesLike, v: NodesLike) -> Tensor:
        """Fewest edges from u up to a common ancestor and down to v, int64; -1 where missing."""
        return self._ask_pairs(u, v, self._edges_between)

    def common_ancestor_count(self, u: NodesLike, v: NodesLike) -> Tensor:
        """Number of common ancestors, a node being its own ancestor, int64; -1 where missing."""
        return self._ask_pairs(u, v, self._shared_ancestors)

    def lca_height_dissimilarity(self, u: NodesLike, v: NodesLike) -> Tensor:
        """`height(lca) / H`, float64 in [0, 1] (Eq. 1 of Barz & Denzler 2019); NaN where missing."""
        height = self.lca_height(u, v)
        return (height.to(torch.float64) / self.max_height).masked_fill_(height < 0, torch.nan)

    def lca_depth_dissimilarity(self, u: NodesLike, v: NodesLike) -> Tensor:
        """`1 - depth(lca) / L`, float64 in [0, 1] (1 - ρ, Eq. 4 of Climbing the Label Tree); NaN if missing.

        For a leaf shallower than L it is above 0 even with itself.
        """
        depth = self.lca_depth(u, v)
        return (1 - depth.to(torch.float64) / self.max_depth).masked_fill_(depth < 0, torch.nan)

    @cached_property
    def _sets(self) -> AncestorSets:
        numbering = self.numbering
        return AncestorSets(numbering.parent_start, numbering.parents, numbering.height)

    def _lca_of(self, u: Tensor, v: Tensor) -> Tensor:
        """Lowest common ancestors of nodes on the CPU, none missing, in tensors of one shape."""
        return self._ask_distinct(u, v, self._sets.lowest_common)

    def _edges_between(self, u: Tensor, v: Tensor) -> Tensor:
        return self._ask_distinct(u, v, lambda a, b: self._sets.meetings(a, b)[1])

    def _shared_ancestors(self, u: Tensor, v: Tensor) -> Tensor:
        return self._ask_distinct(u, v, lambda a, b: self._sets.meetings(a, b)[0])

    def _ask_distinct(self, u: Tensor, v: Tensor, ask: Callable[[IntArray, IntArray], IntArray]) -> Tensor:
        """Call `ask` once per distinct pair, in parts of limited size; `ask` must be symmetric."""
        low, high = torch.minimum(u, v).reshape(-1), torch.maximum(u, v).reshape(-1)
        pairs, place = torch.unique(low * self.num_nodes + high, return_inverse=True)
        parts = [
            ask((part // self.num_nodes).numpy(), (part % self.num_nodes).numpy())
            for part in torch.split(pairs, PAIRS_AT_ONCE)
        ]
        answers = torch.from_numpy(np.concatenate(parts))
        return answers[place].reshape(u.shape)

    def _ask_pairs(self, u: NodesLike, v: NodesLike, ask: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Call `ask` for the pairs without a missing label; -1 for the others."""
        u, v, device = self._pair(u, v)
        answers = ask(u.clamp(min=0), v.clamp(min=0))
        return answers.masked_fill((u < 0) | (v < 0), -1).to(device)

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
        looked_up = values.to(nodes.device)[nodes]  # a missing node, -1, reads the last entry and is masked
        return looked_up.masked_fill(nodes < 0, -1)  # of one node, what was looked up is a view of the values

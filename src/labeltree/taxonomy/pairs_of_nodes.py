"""What a tree and a DAG answer alike about pairs of nodes: all of it follows from three lookups."""

from abc import abstractmethod
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from labeltree.taxonomy.nodes import NodesLike, as_nodes

__all__ = ["PairsOfNodes"]


class PairsOfNodes:
    """An immutable set of nodes, numbered so that the root is 0 and every node comes after those above it.

    Tensors are int64 on the CPU unless said otherwise, and must not be written to. Queries on pairs take
    node ids of any shapes that broadcast, -1 where a label is missing, and answer on their device.
    """

    depth: Tensor
    height: Tensor
    is_leaf: Tensor
    leaves: Tensor
    num_nodes: int
    num_leaves: int
    max_depth: int
    max_height: int
    ancestor_count: Tensor

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is immutable; {name!r} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is immutable; {name!r} cannot be deleted")

    def __len__(self) -> int:
        return self.num_nodes

    @abstractmethod
    def _lca_of(self, u: Tensor, v: Tensor) -> Tensor:
        """Lowest common ancestors of existing nodes on the CPU, of one shape."""

    @abstractmethod
    def _edges_between(self, u: Tensor, v: Tensor) -> Tensor:
        """Edges from u up to a common ancestor and down to v, as few as possible."""

    @abstractmethod
    def _shared_ancestors(self, u: Tensor, v: Tensor) -> Tensor:
        """How many nodes are ancestors of both, where a node is one of its own."""

    def lca(self, u: NodesLike, v: NodesLike) -> Tensor:
        """Lowest common ancestors, elementwise after broadcasting; -1 where a label is missing.

        Args:
            u: node ids of any shape, -1 where missing.
            v: node ids of any shape that broadcasts with u's.

        Returns:
            int64, on the device of the arguments.
        """
        u, v, device = self._pair(u, v)
        found = self._lca_of(u.clamp(min=0), v.clamp(min=0))
        return found.masked_fill((u < 0) | (v < 0), -1).to(device)

    def lca_depth(self, u: NodesLike, v: NodesLike) -> Tensor:
        """Depth of the lowest common ancestor, int64; -1 where a label is missing."""
        return self._look_up(self.depth, self.lca(u, v))

    def lca_height(self, u: NodesLike, v: NodesLike) -> Tensor:
        """Height of the lowest common ancestor, int64; -1 where a label is missing."""
        return self._look_up(self.height, self.lca(u, v))

    def path_length(self, u: NodesLike, v: NodesLike) -> Tensor:
        """Edges from u up to a common ancestor and down to v, as few as possible, int64; -1 where missing."""
        u, v, device = self._pair(u, v)
        edges = self._edges_between(u.clamp(min=0), v.clamp(min=0))
        return edges.masked_fill((u < 0) | (v < 0), -1).to(device)

    def common_ancestor_count(self, u: NodesLike, v: NodesLike) -> Tensor:
        """How many nodes are ancestors of both, each node one of its own, int64; -1 where missing."""
        u, v, device = self._pair(u, v)
        count = self._shared_ancestors(u.clamp(min=0), v.clamp(min=0))
        return count.masked_fill((u < 0) | (v < 0), -1).to(device)

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

"""The nodes that the rows of a batch lie in, as a tree of its own: nodes with the same rows are one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.pairs.streaming.tiles import blocks

__all__ = ["RowTree", "Window"]

_BLOCK = 256  # rows of a window: so many that a product is worth it, so few that they lie in few nodes
_ADDED = 512


@dataclass(frozen=True, eq=False)
class Window:
    """Some rows, and the nodes that one of them lies in.

    Attributes:
        rows: the b rows.
        nodes: `(k,)` the nodes; one may be there twice.
        place: `(b, L + 1)` which of them is each row's of each depth.
    """

    rows: slice
    nodes: Tensor
    place: Tensor


class RowTree:
    """The tree over n rows in the order of their labels, none of which is missing.

    A chain of nodes that no row enters or leaves between is one node. Nodes are numbered in preorder.

    Args:
        at: `(L + 1, n)` what rows of one node have in common at each depth, and neighbours of two do not.

    Attributes:
        path: `(n, L + 1)` the node of each row at each depth.
        size: `(N,)` number of rows of each node.
        groups: `(L + 1, n)` the node that each row lies in, as a number of which no two depths have the same.
    """

    def __init__(self, at: Tensor) -> None:
        width, n = at.shape
        first = torch.ones((width, n), dtype=torch.bool, device=at.device)
        first[:, 1:] = at[:, 1:] != at[:, :-1]
        first = first.view(-1)
        group = first.cumsum(0) - 1
        begin = first.nonzero()[:, 0]
        above = group[(begin - n).clamp_(min=0)]
        above[0] = -1
        children = torch.bincount(above[1:], minlength=len(above))
        new = torch.ones_like(above, dtype=torch.bool)
        new[1:] = children[above[1:]] > 1
        depth, row = begin // n, begin % n
        preorder = row * width + depth
        number = torch.zeros_like(group).index_copy_(0, preorder, new.long()).cumsum_(0)[preorder] - 1
        self.groups = group.view(width, n)
        self.path = number[self.groups].T.contiguous()
        self.size = torch.bincount(self.path[:, -1], minlength=int(new.sum()))
        self._steps: list[tuple[Tensor, Tensor]] = []
        for level in range(width - 1, 0, -1):
            here = (new & (depth == level)).nonzero()[:, 0]
            if len(here):
                self._steps.append((number[here], number[above[here]]))
        for node, parent in self._steps:
            self.size.index_add_(0, parent, self.size[node])

    def totals(self, u: Tensor) -> Tensor:
        """Sums `(N, d)` of the rows `u (n, d)` of every node, added up in float64."""
        total = torch.zeros(len(self.size), u.shape[1], dtype=torch.float64, device=u.device)
        for rows in blocks(len(u), _ADDED):
            total.index_add_(0, self.path[rows, -1], u[rows].double())
        for node, parent in self._steps:
            total.index_add_(0, parent, total[node])
        return total.to(u.dtype)

    def add_to_rows(self, of_u: Tensor, of_nodes: Tensor) -> None:
        """Add to `of_u (n, d)` what every row has from all of its nodes, `of_nodes (N, d)`; changes that."""
        for node, parent in reversed(self._steps):
            of_nodes[node] += of_nodes[parent]
        for rows in blocks(len(of_u), _ADDED):
            of_u[rows] += of_nodes[self.path[rows, -1]]

    def windows(self) -> Iterator[Window]:
        """All rows, some at a time, with their nodes: those of the first, and those that begin later."""
        for rows in blocks(len(self.path), _BLOCK):
            path = self.path[rows]
            ends: list[int] = path[[0, -1], -1].tolist()
            later = torch.arange(ends[0] + 1, ends[1] + 1, device=path.device)
            place = path + (path.shape[1] - 1 - ends[0])
            depths = torch.arange(path.shape[1], device=path.device)
            yield Window(rows, torch.cat([path[0], later]), torch.where(path > ends[0], place, depths))

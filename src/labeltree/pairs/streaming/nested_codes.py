"""Sums over a tile by relation where all labels are leaves: up the tree, one depth after the other.

The rows of a tile are added up per leaf, the leaves per parent, and so on. Before each step a column takes
out the entry of its own node, so what it finds at its node one depth up are the rows that share just that
much of its path: every row is added once, into the sum of its relation, and nothing is ever subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.pairs.streaming.scratch import scratch

__all__ = ["NestedCodes"]


@dataclass(frozen=True, eq=False)
class _Depth:
    """The nodes of one depth that rows lie in.

    Attributes:
        parent: `(N + 1,)` the node of the depth above that each lies in; the last, of nobody, in the last.
        size: N of the depth above.
        own: `(1, c)` the node that each column lies in, N if no row does.
    """

    parent: Tensor
    size: int
    own: Tensor


class NestedCodes:
    """The codes of a tile whose rows and columns are sorted by label, all of them leaves.

    Args:
        row_paths: `(b, L)` paths of the rows, L ≥ 1.
        col_paths: `(c, L)` paths of the columns.
        row_codes: `(b,)` the code of each row with another of its label.
        col_codes: `(c,)` likewise.
        apart: the code of pairs that are apart below each depth 0 … L − 1.
        size: number R of codes.
    """

    def __init__(
        self,
        row_paths: Tensor,
        col_paths: Tensor,
        row_codes: Tensor,
        col_codes: Tensor,
        apart: list[int],
        size: int,
    ) -> None:
        self._rows, self._cols = (row_paths, row_codes), (col_paths, col_codes)
        self.apart, self.size = apart, size
        self._depths: list[_Depth] = []
        above, count = torch.zeros_like(row_codes), 1
        for row, col in zip(row_paths.unbind(1), col_paths.unbind(1), strict=True):
            nodes, run = torch.unique_consecutive(row, return_inverse=True)
            parent = run.new_full((len(nodes) + 1,), count)
            parent[run] = above
            own = run
            if row_paths is not col_paths:
                own = torch.searchsorted(nodes, col.contiguous()).clamp_(max=len(nodes) - 1)
                own = torch.where(nodes[own] == col, own, len(nodes))
            self._depths.append(_Depth(parent, count, own[None]))
            above, count = run, len(nodes)
        self._leaf, self._leaves = above, count
        self._symmetric = row_paths is col_paths

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return sum(depth.parent.nbytes + depth.own.nbytes for depth in self._depths) + 4 * self._leaf.nbytes

    @property
    def present(self) -> list[int]:
        """All codes that can occur."""
        own: list[int] = torch.unique(self._cols[1]).tolist()
        return [*self.apart, *own]

    @property
    def transposed(self) -> NestedCodes:
        """The codes of the tile with rows and columns exchanged."""
        if self._symmetric:
            return self
        (rows, of_rows), (cols, of_cols) = self._rows, self._cols
        return NestedCodes(cols, rows, of_cols, of_rows, self.apart, self.size)

    def column_sums(self, values: Tensor) -> Tensor:
        """Sums `(R, c)` of each column of a tile `(b, c)` by code."""
        found = values.new_zeros((self.size, values.shape[1]))
        total = _zeros(self._leaves, values, len(self._depths)).index_add_(0, self._leaf, values)
        code: Tensor | None = self._cols[1]
        for place in range(len(self._depths) - 1, -1, -1):
            depth = self._depths[place]
            own = depth.own
            here = total.gather(0, own)
            if code is not None:
                found.scatter_add_(0, code[None], here)
            else:
                found[self.apart[place + 1]] += here[0]
            total.scatter_(0, own, 0.0)
            total = _zeros(depth.size, values, place).index_add_(0, depth.parent, total)
            code = None
        found[self.apart[0]] += total[0]
        return found

    def spread_columns(self, table: Tensor) -> Tensor:
        """Each column's own entries `(b, c)` of a table `(R, c)`."""
        entries = table[self.apart[0]].expand(2, -1)
        for place, depth in enumerate(self._depths, start=1):
            above, shape = entries, (len(depth.parent), entries.shape[1])
            entries = torch.index_select(
                above, 0, depth.parent, out=scratch(f"entries {place % 2}", shape, above)
            )
            if place < len(self._depths):
                own = table[self.apart[place]][None]
            else:
                own = table.gather(0, self._cols[1][None])
            entries.scatter_(0, depth.own, own)
        return entries.index_select(0, self._leaf)

    def spread(self, table: Tensor) -> Tensor:
        """The entries `(b, c)` of a table `(R,)` over the codes."""
        return self.spread_columns(table[:, None].expand(-1, len(self._cols[1])))


def _zeros(size: int, values: Tensor, place: int) -> Tensor:
    """Sums `(size + 1, c)` to begin with; those of neighbouring depths are needed at once."""
    return scratch(f"sums {place % 2}", (size + 1, values.shape[1]), values).zero_()

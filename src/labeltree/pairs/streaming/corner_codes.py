"""The relation codes of a tile away from the diagonal: rectangles in its corner, one within the other.

Of sorted leaves a ≤ b ≤ c no two share more of their paths than their neighbours do, lca(a, c) is the
shallower of lca(a, b) and lca(b, c). So of a tile whose rows all come before its columns, the pairs that
share at least so much are the last rows with the first columns, and what depends on their relation is a
number for each of a few rectangles.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from labeltree.pairs.relation import LabelRows, PairRelation

__all__ = ["CornerCodes"]


class CornerCodes:
    """The codes of a tile `(b, c)`, as `TileCodes`.

    Args:
        corners: code, rows and columns of every rectangle, each within the one before; the first is the tile.
        size: number R of codes.
    """

    def __init__(self, corners: list[tuple[int, slice, slice]], size: int) -> None:
        self.corners, self.size = corners, size

    @classmethod
    def of(cls, relation: PairRelation, u: LabelRows, v: LabelRows, apart: list[int]) -> CornerCodes:
        """The codes of the tile of rows `u` and columns `v`, sorted leaves, those of `v` not before `u`.

        Args:
            relation: of the batch.
            u: of the rows.
            v: of the columns.
            apart: the code of pairs that are apart below each depth 0 … L − 1.
        """
        rows = (u.paths == v.paths[0]).sum(1).cpu().numpy()  # of little numbers, where numpy is quick
        cols = (v.paths == u.paths[-1]).sum(1).cpu().numpy()
        depths = np.unique(np.concatenate([rows, cols]))
        firsts, ends = rows.searchsorted(depths), len(cols) - cols[::-1].searchsorted(depths)
        codes = [*apart, int(relation.leaf_codes(u[-1:]))]
        corners = [
            (codes[depth], slice(first, len(u)), slice(0, end))
            for depth, first, end in zip(depths.tolist(), firsts.tolist(), ends.tolist(), strict=True)
        ]
        return cls(corners, relation.num_relations)

    @property
    def nbytes(self) -> int:
        """As `TileCodes.nbytes`."""
        return 0

    @property
    def present(self) -> list[int]:
        """As `TileCodes.present`."""
        return [code for code, _, _ in self.corners]

    @property
    def transposed(self) -> CornerCodes:
        """As `TileCodes.transposed`."""
        return CornerCodes([(code, cols, rows) for code, rows, cols in self.corners], self.size)

    def column_sums(self, values: Tensor) -> Tensor:
        """As `TileCodes.column_sums`."""
        found = values.new_zeros((self.size, values.shape[1]))
        for place, (code, rows, cols) in enumerate(self.corners):
            if place + 1 == len(self.corners):
                found[code, cols] += values[rows, cols].sum(0)
                break
            _, within, inner = self.corners[place + 1]
            for part in _without(rows, within):
                found[code, cols] += values[part, cols].sum(0)
            for part in _without(cols, inner):
                found[code, part] += values[within, part].sum(0)
        return found

    def spread_columns(self, table: Tensor) -> Tensor:
        """As `TileCodes.spread_columns`."""
        _, rows, cols = self.corners[0]
        entries = table.new_empty((rows.stop, cols.stop))
        for code, rows, cols in self.corners:
            entries[rows, cols] = table[code, cols]
        return entries

    def spread(self, table: Tensor) -> Tensor:
        """As `TileCodes.spread`."""
        _, rows, cols = self.corners[0]
        entries = table.new_empty((rows.stop, cols.stop))
        for code, rows, cols in self.corners:
            entries[rows, cols] = table[code]
        return entries


def _without(whole: slice, part: slice) -> list[slice]:
    """What is left of a slice at either side of a part of it."""
    sides = (slice(whole.start, part.start), slice(part.stop, whole.stop))
    return [side for side in sides if side.start < side.stop]

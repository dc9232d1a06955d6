"""The tiles of a batch in the order of its labels, and the relation of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.pairs.relation import PairRelation
from labeltree.pairs.streaming.order import LabelOrder, order_of
from labeltree.pairs.streaming.tile_codes import TileCodes, tile_codes
from labeltree.pairs.streaming.tiles import blocks

__all__ = ["Grid", "Tile", "grid_of"]

_ROOM = 16 << 20  # bytes of codes that are kept from one walk to the next


@dataclass(frozen=True, eq=False)
class Tile:
    """One tile.

    Attributes:
        at: number of its rows' block, and of its columns'.
        rows: slice of the grid's rows.
        cols: slice of all rows.
        code: the one relation of its pairs, or −1.
        codes: of each pair, where they have several; else None.
        both: whether it stands for the tile on the other side of the diagonal, too.
        diagonal: whether its rows are its columns.
    """

    at: tuple[int, int]
    rows: slice
    cols: slice
    code: int
    codes: TileCodes | None
    both: bool
    diagonal: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Its number of rows and columns."""
        return self.rows.stop - self.rows.start, self.cols.stop - self.cols.start


class Grid:
    """All pairs of a batch in tiles: those on and above the diagonal; or of some rows with all.

    A tile has one relation if its four corners have and its rows come before its columns, or after: sorted
    rows between two that share a path share it too, and where the rows on either side of a boundary differ,
    all beyond it do. The codes are those of labels; rows with themselves and views of one sample, which are
    something else, are masked.

    Args:
        order: the batch.
        side: rows and columns of a tile.
        places: `(m,)` the rows, ascending; None: all, and the tiles on and above the diagonal suffice.
    """

    def __init__(self, order: LabelOrder, side: int, places: Tensor | None = None) -> None:
        self.order, self.side, self.places = order, side, places
        self._cols = order.blocks(side)
        self._rows = self._cols if places is None else list(blocks(len(places), side))
        self._pure = self._pure_codes()
        self._others = self._no_pairs()
        self._kept: dict[tuple[int, int], TileCodes] = {}
        self._room = _ROOM

    def tiles(self) -> Iterator[Tile]:
        """The tiles, row block by row block."""
        for i, rows in enumerate(self._rows):
            for j in range(i if self.places is None else 0, len(self._cols)):
                code = self._pure[i][j]
                codes = None if code >= 0 else self._codes(i, j)
                diagonal = self.places is None and i == j
                both = self.places is None and i < j
                yield Tile((i, j), rows, self._cols[j], code, codes, both, diagonal)

    def mask(self, values: Tensor, tile: Tile, value: float) -> Tensor:
        """Set what is no pair of labels: a row with itself, and views of one sample."""
        i, j = tile.at
        if tile.diagonal:
            values.fill_diagonal_(value)
        row, col, ends = self._others
        at = i * len(self._cols) + j
        if ends[at] < ends[at + 1]:
            some = slice(ends[at], ends[at + 1])
            values[row[some], col[some]] = value
        return values

    def rows_of(self, x: Tensor) -> Tensor:
        """The grid's rows of `x (n, ...)`."""
        return x if self.places is None else x[self.places]

    def _ends(self, parts: list[slice]) -> Tensor:
        """The first and the last row of every block `(2·B,)`."""
        ends = [part.start for part in parts] + [part.stop - 1 for part in parts]
        return torch.tensor(ends, dtype=torch.int64, device=self.order.order.device)

    def _pure_codes(self) -> list[list[int]]:
        if not self._rows:
            return []
        rows, cols = self._ends(self._rows), self._ends(self._cols)
        rows = rows if self.places is None else self.places[rows]
        u, v = self.order.rows[rows], self.order.rows[cols]
        corners = self.order.relation.label_codes(u, v).view(2, len(self._rows), 2, len(self._cols))
        lowest, highest = corners.amin((0, 2)), corners.amax((0, 2))
        pure = lowest == highest
        if self.places is not None:
            (first, last), (left, right) = rows.view(2, -1, 1), cols.view(2, 1, -1)
            crossing = (first <= right) & (left <= last)
            alike = u.nodes.view(2, -1)[0] == u.nodes.view(2, -1)[1]
            pure &= ~crossing | alike[:, None] & (v.nodes.view(2, -1)[0] == v.nodes.view(2, -1)[1])
        codes: list[list[int]] = torch.where(pure, lowest, -1).tolist()
        return codes

    def _no_pairs(self) -> tuple[Tensor, Tensor, list[int]]:
        """What is masked besides the diagonal: places within the tile, and where each tile begins."""
        i, k = self.order.twins
        row, col = torch.cat([i, k]), torch.cat([k, i])
        if self.places is not None:
            itself = torch.arange(len(self.order.rows), device=row.device)
            row, col = torch.cat([row, itself]), torch.cat([col, itself])
            at = torch.full_like(itself, -1)
            at[self.places] = torch.arange(len(self.places), device=row.device)
            own = at[row] >= 0
            row, col = at[row[own]], col[own]
        of_row, row = _within(self._rows, row)
        of_col, col = _within(self._cols, col)
        if self.places is None:
            above = of_row <= of_col
            row, col, of_row, of_col = row[above], col[above], of_row[above], of_col[above]
        count = len(self._rows) * len(self._cols)
        tile, order = (of_row * len(self._cols) + of_col).sort(stable=True)
        ends = torch.searchsorted(tile, torch.arange(count + 1, device=tile.device)).tolist()
        return row[order], col[order], ends

    def _codes(self, i: int, j: int) -> TileCodes:
        if (i, j) in self._kept:
            return self._kept[i, j]
        places = self._rows[i] if self.places is None else self.places[self._rows[i]]
        u = self.order.rows[places]
        v = u if self.places is None and i == j else self.order.rows[self._cols[j]]
        codes = tile_codes(self.order.relation, u, v)
        if codes.nbytes <= self._room:
            self._room -= codes.nbytes
            self._kept[i, j] = codes
        return codes


def _within(parts: list[slice], places: Tensor) -> tuple[Tensor, Tensor]:
    """The block that each place lies in, and where in it."""
    starts = torch.tensor([part.start for part in parts], dtype=torch.int64, device=places.device)
    block = torch.searchsorted(starts, places, right=True) - 1
    return block, places - starts[block]


def grid_of(relation: PairRelation, side: int) -> Grid:
    """The grid of a batch with itself, or of the rows of its shard; one for all walks over a relation."""
    key = (side, relation.shard and (relation.shard.start, relation.shard.stop))
    if key not in relation.kept:
        order = order_of(relation)
        relation.kept[key] = Grid(order, side, order.shard)
    found: Grid = relation.kept[key]
    return found

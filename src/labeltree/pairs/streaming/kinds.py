"""The tiles of a batch whose rows are of kinds, where a kind says how a row is related to all others.

Rows are sorted by kind, and what depends on a pair of kinds is computed once and spread over the pairs of
rows. If every row is of a kind of its own that is as much as computing it for every pair, and no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from labeltree.pairs.relation import LabelRows, PairRelation, Rows
from labeltree.pairs.streaming.order import LabelOrder
from labeltree.pairs.streaming.scratch import scratch
from labeltree.pairs.streaming.tiles import blocks

__all__ = ["KindRelation", "KindTile", "KindTiles", "rows_by_kind"]


@runtime_checkable
class KindRelation(Protocol):
    """What a relation in the codes of a tree of depth 0 offers if it and the weights depend on kinds of rows.

    Views of one sample are `INSTANCE` and have the weight 1, whatever their kinds.
    """

    @property
    def kinds(self) -> Tensor:
        """The kind `(n,)` int64 of each row, from 0, every number up to the largest in use."""

    def weight(self, rows: Rows = None, cols: Rows = None) -> Tensor:
        """The weights of the pairs of rows, the `pair_weight` that goes with the relation."""

    def kind_weights(
        self, rows: slice | Tensor, cols: slice | Tensor, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor | None]:
        """Of kinds `(b,)` and `(c,)`: the weights `(b, c)`, above 0 where they are `SAME`, 0 where `APART`.

        And 1 where they are `UNKNOWN`, whose weight is 0, and else 0; or None, where none is.
        """


def rows_by_kind(relation: PairRelation, kinds: Tensor) -> PairRelation:
    """The batch with its kinds as labels."""
    labels = LabelRows(kinds, kinds.new_empty((len(kinds), 0)), relation.queries.instances, None)
    labelled = PairRelation(labels, labels, offset=0)
    labelled.shard = relation.shard
    return labelled


@dataclass(frozen=True, eq=False)
class _Block:
    """Consecutive rows, the kinds they are of, and which of them each row is; None: one after the other."""

    rows: slice
    kinds: slice | Tensor
    index: Tensor | None


@dataclass(frozen=True, eq=False)
class KindTile:
    """One tile.

    Attributes:
        at: its number.
        rows: slice of this rank's rows.
        cols: slice of all rows.
        both: whether it stands for the tile on the other side of the diagonal, too.
    """

    at: int
    rows: slice
    cols: slice
    both: bool
    of_rows: _Block
    of_cols: _Block

    @property
    def shape(self) -> tuple[int, int]:
        """Its number of rows and columns."""
        return self.rows.stop - self.rows.start, self.cols.stop - self.cols.start


class KindTiles:
    """All pairs of a batch in tiles: those on and above the diagonal; or of a shard's rows with all.

    Args:
        relation: a `KindRelation` of a batch with itself.
        side: rows and columns of a tile.

    Attributes:
        order: the batch, sorted by kind.
    """

    def __init__(self, relation: PairRelation, side: int) -> None:
        assert isinstance(relation, KindRelation)
        self._relation: KindRelation = relation
        self.order = LabelOrder(rows_by_kind(relation, relation.kinds))
        kinds, places = self.order.rows.nodes, self.order.shard
        self._side, self._alone = side, places is None
        self._cols = _blocks(kinds, side)
        self._rows = self._cols if places is None else _blocks(kinds[places], side)
        self._excluded = self._no_pairs()

    def tiles(self) -> Iterator[KindTile]:
        """The tiles, row block by row block."""
        for i, rows in enumerate(self._rows):
            for j in range(i if self._alone else 0, len(self._cols)):
                at, both = i * len(self._cols) + j, self._alone and i < j
                yield KindTile(at, rows.rows, self._cols[j].rows, both, rows, self._cols[j])

    def own(self, x: Tensor) -> Tensor:
        """This rank's rows of `x (n, ...)`."""
        return x if self.order.shard is None else x[self.order.shard]

    def mask(self, values: Tensor, tile: KindTile) -> Tensor:
        """Set to 0 what is no pair of kinds: a row with itself, and views of one sample."""
        row, col, ends = self._excluded
        some = slice(ends[tile.at], ends[tile.at + 1])
        if some.start < some.stop:
            values[row[some], col[some]] = 0.0
        return values

    def weights(self, tile: KindTile, dtype: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
        """The weights of a tile's pairs, and 1 where they are unknown; valid until the next call.

        None for the weights where all are 0, and for the others where nothing is unknown.
        """
        rows, cols = tile.of_rows, tile.of_cols
        weight, unknown = self._relation.kind_weights(rows.kinds, cols.kinds, dtype)
        if unknown is not None:
            unknown = self.mask(_spread(unknown, rows, cols, "unknown"), tile)
        if not weight.amax() > 0:
            return None, unknown
        return self.mask(_spread(weight, rows, cols, "weights"), tile), unknown

    def _no_pairs(self) -> tuple[Tensor, Tensor, list[int]]:
        """What is masked: places within the tile, and where each tile begins."""
        i, k = self.order.twins
        itself = torch.arange(len(self.order.rows), device=i.device)
        row, col = torch.cat([i, k, itself]), torch.cat([k, i, itself])
        if self.order.shard is not None:
            place = torch.full_like(itself, -1)
            place[self.order.shard] = torch.arange(len(self.order.shard), device=i.device)
            row = place[row]
        of_row, of_col = row.div(self._side, rounding_mode="floor"), col // self._side
        here = of_row <= of_col if self._alone else row >= 0
        tile, order = (of_row * len(self._cols) + of_col)[here].sort(stable=True)
        row, col = row[here][order] % self._side, col[here][order] % self._side
        count = len(self._rows) * len(self._cols)
        ends = torch.searchsorted(tile, torch.arange(count + 1, device=tile.device)).tolist()
        return row, col, ends


def _blocks(kinds: Tensor, side: int) -> list[_Block]:
    """Blocks of `side` rows, whose kinds are sorted."""
    found = []
    for rows in blocks(len(kinds), side):
        here, index = torch.unique_consecutive(kinds[rows], return_inverse=True)
        first, last = int(here[0]), int(here[-1])
        some = slice(first, last + 1) if last - first + 1 == len(here) else here
        found.append(_Block(rows, some, index if len(here) < len(index) else None))
    return found


def _spread(table: Tensor, rows: _Block, cols: _Block, name: str) -> Tensor:
    """The entries `(b, c)` of each row and column from a table over their kinds."""
    if cols.index is not None:
        table = table.index_select(1, cols.index)
    if rows.index is None:
        return table
    shape = len(rows.index), table.shape[1]
    return torch.index_select(table, 0, rows.index, out=scratch(name, shape, table))

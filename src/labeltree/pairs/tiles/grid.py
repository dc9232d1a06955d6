"""The tiles of a batch with itself, its rows sorted by label: most tiles then have one relation."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from labeltree.pairs.gather_ranks import rows_of_all_ranks
from labeltree.pairs.relation import LabelRows, PairRelation

__all__ = ["TILE", "Grid", "Tile", "blocks", "grid_of", "scratch"]

TILE = 512  # a float32 tile of this side fits the second-level cache
_LARGEST = 4 << 20  # bytes of a scratch tensor that is worth keeping
_ROOM = 16 << 20  # bytes of codes that are kept from one walk to the next


def blocks(size: int, length: int) -> Iterator[slice]:
    """Consecutive slices of `length` that cover 0 … size − 1."""
    for start in range(0, size, length):
        yield slice(start, min(start + length, size))


@dataclass(frozen=True, eq=False)
class _Labels:
    """The labels of a block of sorted rows.

    Attributes:
        first: `(B,)` the first row of each label.
        sizes: `(B,)` number of rows of each label.
        of_row: `(b,)` index of each row's label; None: each row has its own label.
    """

    first: Tensor
    sizes: Tensor
    of_row: Tensor | None

    def at(self, places: Tensor) -> Tensor:
        """The labels of rows at some places."""
        return places if self.of_row is None else self.of_row[places]

    def expand(self, table: Tensor) -> Tensor:
        """The columns of a table `(k, B)` for each row, `(k, b)`."""
        return table if self.of_row is None else table.index_select(1, self.of_row)

    def spread(self, table: Tensor) -> Tensor:
        """The rows of a table `(B, k)` for each row, `(b, k)`."""
        return table if self.of_row is None else table.index_select(0, self.of_row)


@dataclass(frozen=True, eq=False)
class Tile:
    """One tile `(b, c)` of the pairs.

    Attributes:
        at: Number of the tile.
        rows: Slice of the grid's rows.
        cols: Slice of all sorted rows.
        both: Whether the tile also stands for its mirror image across the diagonal.
        code: The one relation of all its pairs, or −1.
        row_labels: Labels of the rows.
        col_labels: Labels of the columns.
        selves: `(2, s)` places of rows with themselves.
        views: `(2, v)` places of views of one sample.
        view_codes: `(v,)` their codes.
    """

    at: int
    rows: slice
    cols: slice
    both: bool
    code: int
    row_labels: _Labels
    col_labels: _Labels
    selves: Tensor
    views: Tensor
    view_codes: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """Its number of rows and columns."""
        return self.rows.stop - self.rows.start, self.cols.stop - self.cols.start

    def spread(self, entries: Tensor, of_views: Tensor | float, name: str) -> Tensor:
        """Values `(b, c)` from those of pairs of labels `(B, C)`; 0 of a row with itself.

        Args:
            entries: Values of pairs of labels.
            of_views: Values of pairs of views of one sample, `(v,)` or a number.
            name: Name of the `scratch` memory to use.
        """
        rows, cols = self.row_labels.of_row, self.col_labels.of_row
        if cols is not None:  # selecting rows is fast
            entries = entries.T.index_select(0, cols).T
        out = scratch(name, self.shape, entries)
        if rows is None:
            out.copy_(entries)
        else:
            torch.index_select(entries.contiguous(), 0, rows, out=out)
        if self.views.shape[1]:
            out[self.views[0], self.views[1]] = of_views
        return self.clear(out)

    def clear(self, values: Tensor) -> Tensor:
        """Set the values of rows with themselves to 0."""
        if self.selves.shape[1]:
            values[self.selves[0], self.selves[1]] = 0.0
        return values


class Grid:
    """All pairs of a batch in tiles: those on and above the diagonal; or of a shard's rows with all.

    Rows are sorted by label, nodes being numbered in preorder, and then by instance; missing labels come
    last. A tile has one relation if its four corners have and its rows come before its columns, or after:
    sorted rows between two that share a path share it too, and where the rows on either side of a boundary
    differ, all beyond it do.

    Args:
        relation: Relation of a batch with itself.
        side: Rows and columns of a tile.

    Attributes:
        order: `(n,)` the row of the batch at each place.
        labels: Labels of the rows, in that order.
        relation: Relation of the rows, in that order.
        shard: Places `(m,)` of this rank's rows, ascending; None: all rows.
    """

    def __init__(self, relation: PairRelation, side: int) -> None:
        labels = relation.queries
        key = labels.nodes.masked_fill(labels.nodes < 0, torch.iinfo(torch.int64).max)
        if labels.instances is None:
            self.order = key.argsort(stable=True)
        else:
            by_instance = labels.instances.argsort(stable=True)
            self.order = by_instance[key[by_instance].argsort(stable=True)]
        self.labels = labels[self.order]
        self.relation = PairRelation(self.labels, self.labels, offset=0)
        self._batch_shard = relation.shard
        self.shard: Tensor | None = None
        if relation.shard is not None:
            own = (self.order >= relation.shard.start) & (self.order < relation.shard.stop)
            self.shard = own.nonzero()[:, 0]
        self._cols = self._blocks(side)
        self._rows = self._cols if self.shard is None else list(blocks(len(self.shard), side))
        self._kept: dict[int, Tensor] = {}
        self._room = _ROOM
        self._occurring: dict[int, list[int]] = {}

    def tiles(self) -> Iterator[Tile]:
        """The tiles, row block by row block."""
        row, col, codes, ends = self._special
        for i, rows in enumerate(self._rows):
            for j in range(i if self.shard is None else 0, len(self._cols)):
                at = i * len(self._cols) + j
                selves, views = (
                    slice(ends[2 * at], ends[2 * at + 1]),
                    slice(ends[2 * at + 1], ends[2 * at + 2]),
                )
                yield Tile(
                    at=at,
                    rows=rows,
                    cols=self._cols[j],
                    both=self.shard is None and i < j,
                    code=self._pure[i][j],
                    row_labels=self._row_labels[i],
                    col_labels=self._col_labels[j],
                    selves=torch.stack([row[selves], col[selves]]),
                    views=torch.stack([row[views], col[views]]),
                    view_codes=codes[views],
                )

    def codes(self, tile: Tile) -> Tensor:
        """The codes `(B, C)` of the labels of a tile."""
        if tile.at in self._kept:
            return self._kept[tile.at]
        u, v = self.labels[tile.row_labels.first], self.labels[tile.col_labels.first]
        codes = self.relation.label_codes(u, v)
        if codes.nbytes <= self._room:
            self._room -= codes.nbytes
            self._kept[tile.at] = codes
        return codes

    def present(self, tile: Tile) -> list[int]:
        """The codes that occur in a tile, and perhaps some that do not."""
        if tile.code >= 0:
            return [tile.code]
        if tile.at not in self._occurring:
            codes = torch.cat([self.codes(tile).flatten(), tile.view_codes])
            self._occurring[tile.at] = torch.bincount(codes).nonzero()[:, 0].tolist()
        return self._occurring[tile.at]

    def spread(self, tile: Tile, table: Tensor, name: str) -> Tensor:
        """The entries `(b, c)` of a table `(R,)` over the codes of a tile; 0 of a row with itself."""
        codes = self.codes(tile)
        entries = table.index_select(0, codes.flatten()).view_as(codes)
        return tile.spread(entries, table[tile.view_codes], name)

    def add_counts(self, total: Tensor, tile: Tile, of_code: Tensor) -> None:
        """Add to `total (G, m)` how many pairs of each kind `of_code (R,)` the rows of a tile have."""
        table, of_views = of_code[self.codes(tile)], of_code[tile.view_codes]
        special = torch.cat([tile.selves, tile.views], dim=1)
        no_pairs = table[tile.row_labels.at(special[0]), tile.col_labels.at(special[1])]
        for rows, labels, others, codes, side in self._sides(tile, table):
            counts = total.new_zeros((len(total), codes.shape[1]))
            counts.scatter_add_(0, codes, others.sizes.to(total.dtype)[:, None].expand(codes.shape))
            here = total[:, rows]
            here += counts if labels.of_row is None else counts[:, labels.of_row]
            for place, kind, by in ((special[side], no_pairs, -1.0), (tile.views[side], of_views, 1.0)):
                here.index_put_((kind, place), here.new_tensor(by), accumulate=True)

    def add_sums(self, total: Tensor, tile: Tile, values: Tensor, of_code: Tensor) -> None:
        """Add to `total (G, m)` the sums of a tile's values over each row's pairs, by kind.

        Every value is added once, into the sum of its label and then of its kind, and nothing is subtracted.
        """
        table, of_views = of_code[self.codes(tile)], of_code[tile.view_codes]
        views = values[tile.views[0], tile.views[1]]
        tile.clear(values)[tile.views[0], tile.views[1]] = 0.0
        for rows, labels, others, codes, side in self._sides(tile, table):
            across = values if side else scratch("turned", values.T.shape, values).copy_(values.T)
            by_label = across
            if others.of_row is not None:
                by_label = values.new_zeros((len(others.first), across.shape[1]))
                by_label.index_add_(0, others.of_row, across)
            sums = values.new_zeros((len(total), across.shape[1]))
            total[:, rows] += sums.scatter_add_(0, labels.expand(codes), by_label)
            total[:, rows].index_put_((of_views, tile.views[side]), views.to(total), accumulate=True)
        values[tile.views[0], tile.views[1]] = views

    def both_sides(self, tile: Tile, own: Tensor, every: Tensor, of_code: Tensor) -> Tensor:
        """For each pair `(b, c)`, the sum of both rows' entries for its kind in tables `(G, m)`, `(G, n)`."""
        table, of_views = of_code[self.codes(tile)], of_code[tile.view_codes]
        rows, cols = own[:, tile.rows], every[:, tile.cols]
        of_cols = tile.row_labels.spread(cols.gather(0, tile.col_labels.expand(table)))
        if self._diagonal(tile):
            of_rows = of_cols
        else:
            of_rows = tile.col_labels.spread(rows.gather(0, tile.row_labels.expand(table.T)))
        # a transpose is read slowly where its rows are as many as a cache has lines, so it is copied first
        both = scratch("slopes", tile.shape, of_cols).copy_(of_rows.T).add_(of_cols)
        both[tile.views[0], tile.views[1]] = rows[of_views, tile.views[0]] + cols[of_views, tile.views[1]]
        return tile.clear(both)

    def _diagonal(self, tile: Tile) -> bool:
        return self.shard is None and not tile.both

    def _sides(self, tile: Tile, table: Tensor) -> list[tuple[slice, _Labels, _Labels, Tensor, int]]:
        """Each side that a tile counts for: its rows, their labels, the others', codes `(others', theirs)`.

        And which side it is, 0 for the rows; on the diagonal the columns are these rows.
        """
        of_cols = (tile.cols, tile.col_labels, tile.row_labels, table, 1)
        if self._diagonal(tile):
            return [of_cols]
        of_rows = (tile.rows, tile.row_labels, tile.col_labels, table.T, 0)
        return [of_rows, of_cols] if tile.both else [of_rows]

    def own(self, x: Tensor) -> Tensor:
        """The grid's rows of `x (n, ...)`."""
        return x if self.shard is None else x[self.shard]

    def from_ranks(self, own: Tensor) -> Tensor:
        """Statistics `(n, ...)` of all rows, from those of the grid's rows; no gradient."""
        if self.shard is None or self._batch_shard is None:
            return own
        rows = torch.empty_like(own)
        rows[self.order[self.shard] - self._batch_shard.start] = own
        return rows_of_all_ranks(rows, self._batch_shard, len(self.order))[self.order]

    def unsorted(self, x: Tensor) -> Tensor:
        """Rows `x (n, ...)` in the order of the batch."""
        return torch.empty_like(x).index_copy_(0, self.order, x)

    def _blocks(self, side: int) -> list[slice]:
        """Consecutive blocks of about `side` rows that end where the coarsest nodes do.

        A block is no longer than 9/8 of it, and no shorter than half of it but for the last. Then most tiles
        lie within one pair of coarse nodes.
        """
        n = len(self.labels)
        shared = torch.zeros(n + 1)  # how much of its path a row shares with the one before
        paths, nodes = self.labels.paths, self.labels.nodes
        same = ((paths[1:] == paths[:-1]) & (paths[1:] >= 0)).sum(1) + 2 * (nodes[1:] == nodes[:-1])
        shared[1:n] = torch.where(nodes[1:] < 0, 2.0 * (nodes[:-1] < 0), same).to(shared)
        cuts, most = [0], max(side, side * 9 // 8)
        while n - cuts[-1] > most:
            least = cuts[-1] + max(side // 2, 1)
            window = shared[least : cuts[-1] + most + 1]
            ends = (window == window.min()).nonzero()[:, 0] + least
            cuts.append(int(ends[(ends - cuts[-1] - side).abs().argmin()]))
        return [slice(begin, end) for begin, end in zip(cuts, [*cuts[1:], n], strict=True)]

    @cached_property
    def _col_labels(self) -> list[_Labels]:
        return [self._runs(cols) for cols in self._cols]

    @cached_property
    def _row_labels(self) -> list[_Labels]:
        if self.shard is None:
            return self._col_labels
        return [self._runs(self.shard[rows]) for rows in self._rows]

    def _runs(self, rows: slice | Tensor) -> _Labels:
        nodes = self.labels.nodes[rows]
        places = torch.arange(rows.start, rows.stop, device=nodes.device) if isinstance(rows, slice) else rows
        _, run, sizes = torch.unique_consecutive(nodes, return_inverse=True, return_counts=True)
        new = torch.ones_like(run, dtype=torch.bool)
        new[1:] = run[1:] != run[:-1]
        first = places[new]
        return _Labels(first, sizes, run if len(first) < len(run) else None)

    @cached_property
    def _pure(self) -> list[list[int]]:
        """The relation of each tile that has but one, else −1; tiles with views or selves have several."""
        if not self._rows:
            return []
        rows, cols = self._ends(self._rows), self._ends(self._cols)
        rows = rows if self.shard is None else self.shard[rows]
        u, v = self.labels[rows], self.labels[cols]
        corners = self.relation.label_codes(u, v).view(2, len(self._rows), 2, len(self._cols))
        lowest, highest = corners.amin((0, 2)), corners.amax((0, 2))
        pure = lowest == highest
        (first, last), (left, right) = rows.view(2, -1, 1), cols.view(2, 1, -1)
        crossing = (first <= right) & (left <= last)
        alike = u.nodes.view(2, -1)[0] == u.nodes.view(2, -1)[1]
        pure &= ~crossing | alike[:, None] & (v.nodes.view(2, -1)[0] == v.nodes.view(2, -1)[1])
        if self.relation.refined:  # the depth of the shallower label counts, too
            pure &= self._level(self._rows, self.shard)[:, None] & self._level(self._cols, None)
        ends = torch.tensor(self._special[3], device=pure.device)
        pure &= (ends[2::2] == ends[:-1:2]).view_as(pure)
        codes: list[list[int]] = torch.where(pure, lowest, -1).tolist()
        return codes

    def _ends(self, parts: list[slice]) -> Tensor:
        """The first and the last row of every block `(2·B,)`."""
        ends = [part.start for part in parts] + [part.stop - 1 for part in parts]
        return torch.tensor(ends, dtype=torch.int64, device=self.order.device)

    def _level(self, parts: list[slice], places: Tensor | None) -> Tensor:
        """Whether all labels of each block lie at one depth `(B,)`."""
        assert self.labels.depth is not None
        depth = self.labels.depth if places is None else self.labels.depth[places]
        level = [bool(depth[part].min() == depth[part].max()) for part in parts]
        return torch.tensor(level, device=depth.device)

    @cached_property
    def _special(self) -> tuple[Tensor, Tensor, Tensor, list[int]]:
        """Rows with themselves and views of one sample: row and column in their tile, code, begin of tiles.

        Tile by tile, first rows with themselves, then views; entry 2t of the last is where tile t begins, and
        entry 2t + 1 where its views do.
        """
        i, k = _view_pairs(self.labels)
        of_views = self.relation.view_codes(self.relation.paired_codes(self.labels[i], self.labels[k]))
        itself = torch.arange(len(self.labels), device=i.device)
        row, col = torch.cat([itself, i, k]), torch.cat([itself, k, i])
        codes = torch.cat([torch.full_like(itself, -1), of_views, of_views])
        if self.shard is not None:
            at = torch.full_like(itself, -1)
            at[self.shard] = torch.arange(len(self.shard), device=row.device)
            here = at[row] >= 0
            row, col, codes = at[row[here]], col[here], codes[here]
        of_row, row = _within(self._rows, row)
        of_col, col = _within(self._cols, col)
        if self.shard is None:
            above = of_row <= of_col
            row, col, codes, of_row, of_col = (x[above] for x in (row, col, codes, of_row, of_col))
        count = len(self._rows) * len(self._cols)
        key, order = (2 * (of_row * len(self._cols) + of_col) + (codes >= 0)).sort(stable=True)
        ends = torch.searchsorted(key, torch.arange(2 * count + 1, device=key.device)).tolist()
        return row[order], col[order], codes[order], ends


def grid_of(relation: PairRelation, side: int) -> Grid:
    """The grid of a batch with itself, or of the rows of its shard; one for all walks over a relation."""
    key = ("grid", side, relation.shard and (relation.shard.start, relation.shard.stop))
    if key not in relation.kept:
        relation.kept[key] = Grid(relation, side)
    grid: Grid = relation.kept[key]
    return grid


def _view_pairs(rows: LabelRows) -> Tensor:
    """All pairs of rows of one instance, `(2, P)`."""
    if rows.instances is None:
        return rows.nodes.new_empty((2, 0))
    ids, row = rows.instances.sort(stable=True)
    pairs = [torch.empty((2, 0), dtype=torch.int64, device=ids.device)]
    for step in range(1, len(ids)):
        same = (ids[step:] == ids[:-step]).nonzero()[:, 0]
        if not len(same):
            break
        pairs.append(torch.stack([row[same], row[same + step]]))
    return torch.cat(pairs, dim=1)


def _within(parts: list[slice], places: Tensor) -> tuple[Tensor, Tensor]:
    """The block that each place lies in, and where in it."""
    starts = torch.tensor([part.start for part in parts], dtype=torch.int64, device=places.device)
    block = torch.searchsorted(starts, places, right=True) - 1
    return block, places - starts[block]


class _Buffers(threading.local):
    def __init__(self) -> None:
        self.of: dict[tuple[str, torch.dtype], Tensor] = {}


_BUFFERS = _Buffers()


def scratch(name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
    """An uninitialised tensor, valid until the next call with its name in this thread.

    A fresh megabyte costs as much time as the arithmetic on it.

    Args:
        name: Name of the use; tensors needed at the same time need different names.
        shape: Shape of the tensor.
        like: a tensor with the device and dtype.
    """
    dtype, size = like.dtype, math.prod(shape)
    if like.device.type != "cpu" or size * dtype.itemsize > _LARGEST:
        return torch.empty(shape, dtype=dtype, device=like.device)
    buffer = _BUFFERS.of.get((name, dtype))
    if buffer is None or buffer.numel() < size:
        with torch.inference_mode(False):
            buffer = _BUFFERS.of[name, dtype] = torch.empty(size, dtype=dtype)
    return buffer[:size].view(shape)

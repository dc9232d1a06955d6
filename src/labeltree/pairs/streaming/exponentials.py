"""Sums of exp(ω·s) by relation over the tiles of a batch with itself, each tile computed for both its sides.

Similarities of unit vectors are bounded, so exp(ω·s) needs no maximum taken off as long as ω/τ fits the
exponent of the number format: tiles are float32 up to ω/τ = 44, float64 beyond. A tile is symmetric: row sums
serve the rows, column sums the columns, and half of the tiles suffice. The gradient of the sums with respect
to the cosines is E_ik·ω·(a_i + a_k)/τ with a the slope of the loss in each row's sum, again one product for
each side.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from labeltree.pairs.streaming.grid import Grid, Tile
from labeltree.pairs.streaming.scratch import scratch
from labeltree.pairs.streaming.tile_codes import TileCodes, column_minima

__all__ = ["Exponentials"]


class Exponentials:
    """The walk over the tiles, forth and back.

    Args:
        grid: the tiles.
        temperature: τ.
        scale: `(R,)` ω, or None.
        dtype: of the exponentials, see `exponent_dtype`.
        keep: bytes of tiles to keep from `sums` for `add_gradient`.
        together: sum over all relations, rather than by relation: what stands here for R is then 1.
    """

    def __init__(
        self,
        grid: Grid,
        temperature: float,
        scale: Tensor | None,
        dtype: torch.dtype,
        keep: int,
        *,
        together: bool = False,
    ) -> None:
        self.together = together
        self.grid, self.temperature, self.dtype = grid, temperature, dtype
        self.size = grid.order.relation.num_relations
        self.base = math.log2(math.e) / temperature
        self._scale = scale
        self._omega = [1.0] * self.size if scale is None else scale.tolist()
        self._room = keep
        self._kept: dict[tuple[int, int], Tensor] = {}
        self._unscaled = False

    def see(self, u: Tensor) -> None:
        """Go over unit vectors `(n, d)` in the order of the labels, float32 or float64, from here on."""
        self.u, self.own = u, self.grid.rows_of(u)
        self.scale = None if self._scale is None else self._scale.to(u.dtype)

    def forget(self, *, tiles: bool = False) -> None:
        """Let go of the vectors, which the backward makes again, and of the tiles that are kept for it."""
        del self.u, self.own
        if tiles:
            self._kept.clear()

    def sums(self, *, lse: bool, least: bool) -> tuple[Tensor | None, Tensor | None]:
        """Σ exp(ω·s) float64, and the least cosine, +∞ where there is none: `(m, R)` of the grid's rows."""
        m = len(self.own)
        size = 1 if self.together else self.size
        total = self.u.new_zeros((size, m), dtype=torch.float64) if lse else None
        lowest = self.u.new_full((self.size, m), torch.inf) if least else None
        self._unscaled = least
        for tile in self.grid.tiles():
            keep = lse and self._room >= self._nbytes(tile)
            cosine = self._cosines(tile, keep=keep)
            if lowest is not None:
                _lower(lowest, self.grid.mask(cosine, tile, torch.inf), tile)
            if total is None:
                continue
            values = self._exponentials(cosine, tile)
            _add_up(total, values, tile, self.together)
            if keep:
                self._room -= values.nbytes
                self._kept[tile.at] = values
        return None if total is None else total.T, None if lowest is None else lowest.T

    def add_gradient(
        self, of_u: Tensor, slope: Tensor, common: Tensor | None, linear: Tensor | None = None
    ) -> None:
        """Add to the grid's rows of `of_u` the gradient of Σ slope·sums; forgets the tiles it has kept.

        Args:
            of_u: `(m, d)` for the grid's rows.
            slope: `(R, n)` for all rows, in the type of the tiles.
            common: `(n,)` from `common_slope`, or None.
            linear: `(R, n)` for all rows, likewise: what the loss has in each cosine of a relation besides.
        """
        besides = _Linear(linear, self.grid) if linear is not None else None
        each, each_own = slope, self.grid.rows_of(slope.T).T.contiguous()
        common_own = None if common is None else self.grid.rows_of(common)
        for tile in self.grid.tiles():
            rows, cols = tile.rows, tile.cols
            values = self._kept.pop(tile.at, None)
            if values is None:
                values = self._exponentials(self._cosines(tile, keep=False), tile)
            if tile.codes is None:
                omega = self._omega[tile.code] / self.temperature
                at = 0 if self.together else tile.code
                row, col = (each_own[at, rows] * omega)[:, None], each[at, cols] * omega
                both = torch.add(row, col, out=scratch("slopes", tile.shape, row))
            elif common is not None and common_own is not None:
                row, col = common_own[rows, None] / self.temperature, common[cols] / self.temperature
                both = torch.add(row, col, out=scratch("slopes", tile.shape, row))
            else:
                both = _both_sides(tile.codes, each_own[:, rows], each[:, cols], tile)
                both.div_(self.temperature)
            if tile.codes is not None and self.scale is not None:
                both.mul_(tile.codes.spread(self.scale))
            weight = values.mul_(both)
            if besides is not None and besides.add(weight, tile):
                self.grid.mask(weight, tile, 0.0)
            weight = weight.to(self.u.dtype)
            of_u[rows].addmm_(weight, self.u[cols])
            if tile.both:
                of_u[cols].addmm_(weight.T, self.u[rows])

    def _factor(self, tile: Tile) -> float:
        """What makes a cosine an exponent to base 2; of a tile of several codes, without ω."""
        return self.base * (1.0 if tile.codes is not None else self._omega[tile.code])

    def _nbytes(self, tile: Tile) -> int:
        rows, cols = tile.shape
        return rows * cols * self.dtype.itemsize

    def _cosines(self, tile: Tile, *, keep: bool) -> Tensor:
        """The cosines of a tile, unless they are wanted times their factor, in memory of their own or not."""
        own = self.own[tile.rows] if self._unscaled else self.own[tile.rows] * self._factor(tile)
        if keep and self.dtype == self.u.dtype:
            return own @ self.u[tile.cols].T
        return torch.mm(own, self.u[tile.cols].T, out=scratch("cosines", tile.shape, own))

    def _exponentials(self, exponent: Tensor, tile: Tile) -> Tensor:
        if self._unscaled:
            exponent.mul_(self._factor(tile))
        if tile.codes is not None and self.scale is not None:
            exponent.mul_(tile.codes.spread(self.scale))
        return self.grid.mask(exponent.to(self.dtype).exp2_(), tile, 0.0)


class _Linear:
    """A slope of the cosines that depends on a row and the relation alone."""

    def __init__(self, slope: Tensor, grid: Grid) -> None:
        self.each, self.own = slope, grid.rows_of(slope.T).T.contiguous()
        self.used = set((slope != 0).any(1).nonzero()[:, 0].tolist())

    def add(self, weight: Tensor, tile: Tile) -> bool:
        """Add what both rows of a pair have; whether there was anything."""
        rows, cols = tile.rows, tile.cols
        if tile.codes is None:
            if tile.code not in self.used:
                return False
            row, col = self.own[tile.code, rows, None], self.each[tile.code, cols]
            weight += torch.add(row, col, out=scratch("slopes", tile.shape, row))
            return True
        if self.used.isdisjoint(tile.codes.present):
            return False
        weight += _both_sides(tile.codes, self.own[:, rows], self.each[:, cols], tile)
        return True


def _both_sides(codes: TileCodes, rows: Tensor, cols: Tensor, tile: Tile) -> Tensor:
    """What both rows of a pair have for its relation, `(b, c)`, in tables `(R, b)` and `(R, c)`."""
    of_cols = codes.spread_columns(cols)
    of_rows = of_cols if tile.diagonal else codes.transposed.spread_columns(rows)
    # a transpose is read slowly where its rows are as many as a cache has lines, so it is copied first
    return of_cols + scratch("turned", tile.shape, of_cols).copy_(of_rows.T)


def _add_up(total: Tensor, values: Tensor, tile: Tile, together: bool) -> None:
    """Add a tile's row sums to `total (R, m)`; for both sides, its column sums, too."""
    if together or tile.codes is None:
        at = 0 if together else tile.code
        total[at, tile.rows] += values.sum(1)
        if tile.both:
            total[at, tile.cols] += values.sum(0)
        return
    for place, part, codes in _columns(tile, tile.codes, values):
        total[:, place] += codes.column_sums(part)


def _lower(lowest: Tensor, cosine: Tensor, tile: Tile) -> None:
    """Lower `lowest (R, m)` to the least cosines of a tile's rows; for both sides, of its columns, too."""
    if tile.codes is None:
        for place, dim in ((tile.rows, 1), (tile.cols, 0)) if tile.both else ((tile.rows, 1),):
            here = lowest[tile.code, place]
            torch.minimum(here, cosine.amin(dim), out=here)
        return
    for place, part, codes in _columns(tile, tile.codes, cosine):
        lowest[:, place] = torch.minimum(lowest[:, place], column_minima(codes, part, 1.1))


def _columns(tile: Tile, codes: TileCodes, values: Tensor) -> list[tuple[slice, Tensor, TileCodes]]:
    """The tile with its rows as columns, and for both sides as it is. On the diagonal that is the same."""
    if tile.diagonal:
        return [(tile.rows, values, codes)]
    across = scratch("turned", (values.shape[1], len(values)), values).copy_(values.T)
    turned = (tile.rows, across, codes.transposed)
    return [turned, (tile.cols, values, codes)] if tile.both else [turned]

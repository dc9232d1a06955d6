"""Sums of exp(ω·s) by relation over the tiles of a batch with itself, each tile computed for both its sides.

Similarities of unit vectors are bounded, so exp(ω·s) needs no maximum taken off as long as ω/τ fits the
exponent of the number format: tiles are float32 up to ω/τ = 69, float64 beyond. A tile is symmetric: row sums
serve the rows, column sums the columns, and half of the tiles suffice. The gradient of the sums with respect
to the cosines is E_ik·ω·(a_i + a_k)/τ with a the slope of the loss in each row's sum, again one product for
each side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.pairs.streaming.order import LabelOrder
from labeltree.pairs.streaming.tile_codes import TileCodes

__all__ = ["Exponentials"]


@dataclass(frozen=True, eq=False)
class _Scales:
    """ω of each code, in Python and as a tensor; both 1 everywhere where there is none."""

    values: list[float]
    table: Tensor | None


class Exponentials:
    """The walk over the tiles, forth and back.

    Args:
        order: the batch.
        u: `(n, d)` unit vectors in that order, float32 or float64.
        temperature: τ.
        scale: `(R,)` ω, or None.
        dtype: of the exponentials, see `exponent_dtype`.
        keep: bytes of tiles to keep from `sums` for `add_gradient`.
    """

    def __init__(
        self,
        order: LabelOrder,
        u: Tensor,
        temperature: float,
        scale: Tensor | None,
        dtype: torch.dtype,
        keep: int,
    ) -> None:
        self.order, self.u, self.dtype = order, u, dtype
        self.size = order.relation.num_relations
        self.base = math.log2(math.e) / temperature
        self.temperature = temperature
        if scale is None:
            self.scales = _Scales([1.0] * self.size, None)
        else:
            self.scales = _Scales(scale.tolist(), scale.to(u.dtype))
        self.room = keep
        self.kept: dict[tuple[int, int], Tensor] = {}
        self.kept_codes: dict[tuple[int, int], TileCodes] = {}

    def sums(self, lse: bool, least: bool) -> tuple[Tensor | None, Tensor | None]:
        """Σ exp(ω·s) `(n, R)` float64, and the least s `(n, R)`, +∞ where there is none."""
        n, blocks = len(self.u), self.order.blocks
        total = self.u.new_zeros((self.size, n), dtype=torch.float64) if lse else None
        lowest = self.u.new_full((self.size, n), torch.inf) if least else None
        for i, rows in enumerate(blocks):
            for j in range(i, len(blocks)):
                cols = blocks[j]
                code = self.order.pure[i][j]
                codes = None if code >= 0 else self._codes(i, j)
                cosine = self._cosines(i, j, 1.0 if lowest is not None else self._factor(code))
                if lowest is not None:
                    self.order.mask(cosine, i, j, torch.inf)
                    _lower(lowest, cosine, rows, cols, code, codes, both=i < j)
                if total is None:
                    continue
                if lowest is not None:
                    cosine.mul_(self._factor(code))
                tile = self._exponentials(cosine, codes)
                self.order.mask(tile, i, j, 0.0)
                _add_up(total, tile, rows, cols, code, codes, both=i < j)
                if self.room >= tile.nbytes:
                    self.room -= tile.nbytes
                    self.kept[i, j] = tile
        return (
            None if total is None else total.T,
            None if lowest is None else lowest.T / self.temperature,
        )

    def add_gradient(self, of_u: Tensor, slope: Tensor, common: Tensor | None) -> None:
        """Add to `of_u (n, d)` the gradient of Σ slope·sums; forgets the tiles it has kept.

        Args:
            of_u: `(n, d)`.
            slope: `(n, R)`.
            common: `(n,)` from `common_slope`, or None.
        """
        blocks = self.order.blocks
        slopes = slope.T.to(self.dtype).contiguous()
        common = None if common is None else common.to(self.dtype)
        for i, rows in enumerate(blocks):
            for j in range(i, len(blocks)):
                cols = blocks[j]
                code = self.order.pure[i][j]
                codes = None if code >= 0 else self._codes(i, j)
                tile = self.kept.pop((i, j), None)
                if tile is None:
                    tile = self._exponentials(self._cosines(i, j, self._factor(code)), codes)
                    self.order.mask(tile, i, j, 0.0)
                if codes is None:
                    row, col = slopes[code, rows], slopes[code, cols]
                    omega = self.scales.values[code] / self.temperature
                    weight = tile.mul_((row * omega)[:, None] + col * omega)
                elif common is not None:
                    omega = 1 / self.temperature
                    weight = tile.mul_((common[rows] * omega)[:, None] + common[cols] * omega)
                    if self.scales.table is not None:
                        weight.mul_(codes.spread(self.scales.table))
                else:
                    both = (
                        codes.spread_rows(slopes[:, rows].T)
                        + codes.transposed.spread_rows(slopes[:, cols].T).T
                    )
                    weight = tile.mul_(both.mul_(1 / self.temperature))
                    if self.scales.table is not None:
                        weight.mul_(codes.spread(self.scales.table))
                weight = weight.to(self.u.dtype)
                of_u[rows].addmm_(weight, self.u[cols])
                if i < j:
                    of_u[cols].addmm_(weight.T, self.u[rows])
                self.kept_codes.pop((i, j), None)

    def _factor(self, code: int) -> float:
        """What makes a cosine an exponent to base 2; of a tile of several codes, without ω."""
        return self.base * (1.0 if code < 0 else self.scales.values[code])

    def _codes(self, i: int, j: int) -> TileCodes:
        if (i, j) not in self.kept_codes:
            codes = self.order.codes(i, j)
            if self.room >= codes.nbytes:
                self.room -= codes.nbytes
                self.kept_codes[i, j] = codes
            return codes
        return self.kept_codes[i, j]

    def _cosines(self, i: int, j: int, factor: float) -> Tensor:
        rows, cols = self.order.blocks[i], self.order.blocks[j]
        return (self.u[rows] * factor) @ self.u[cols].T

    def _exponentials(self, exponent: Tensor, codes: TileCodes | None) -> Tensor:
        if codes is not None and self.scales.table is not None:
            exponent.mul_(codes.spread(self.scales.table))
        return exponent.to(self.dtype).exp2_()


def _add_up(
    total: Tensor, tile: Tensor, rows: slice, cols: slice, code: int, codes: TileCodes | None, *, both: bool
) -> None:
    """Add a tile's row sums, and its column sums, to `total (R, n)`."""
    if codes is None:
        total[code, rows] += tile.sum(1)
        if both:
            total[code, cols] += tile.sum(0)
        return
    total[:, rows] += codes.row_sums(tile).T
    if both:
        total[:, cols] += codes.transposed.row_sums(tile.T).T


def _lower(
    lowest: Tensor, tile: Tensor, rows: slice, cols: slice, code: int, codes: TileCodes | None, *, both: bool
) -> None:
    """Lower `lowest (R, n)` to the least cosines of a tile's rows, and of its columns."""
    for place, part, of_part in ((rows, tile, codes), (cols, tile.T, codes and codes.transposed)):
        if of_part is None:
            here = lowest[code, place]
            torch.minimum(here, part.amin(1), out=here)
        else:
            torch.minimum(lowest[:, place], of_part.row_minima(part, 1.1).T, out=lowest[:, place])
        if not both:
            return

"""Sums of exp(s) by relation and of w·s over the tiles of a batch whose rows are of kinds, forth and back.

Each tile serves its rows and its columns. As in `exponentials`, cosines are bounded, and their exponentials
need no maximum taken off. With E = exp(s), a and c the slopes of the loss in each row's sum of exponentials
and in its weighted sum, the gradient of a tile is E_ik·(a_i + a_k) + w_ik·(c_i + c_k), one product for each
side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.pairs.streaming.exponents import common_slope, exponent_dtype
from labeltree.pairs.streaming.kinds import KindTile, KindTiles
from labeltree.pairs.streaming.scratch import scratch
from labeltree.pairs.streaming.tiles import blocks
from labeltree.taxonomy.relations import APART, INSTANCE, SAME, UNKNOWN

__all__ = ["SIZE", "WEIGHT", "WEIGHTED", "KindSlopes", "KindWalk", "kind_slopes"]

SIZE = 5  # codes of a tree of depth 0; the columns of the statistics are their sums, their counts, Σ w, Σ w·s
WEIGHT, WEIGHTED, _COLUMNS = 2 * SIZE, 2 * SIZE + 1, 2 * SIZE + 2
_BLOCK = 8192  # pairs of views at a time


@dataclass(frozen=True, eq=False)
class KindSlopes:
    """The slopes `(n,)` in the sums of each row; None: the same as of those apart."""

    apart: Tensor
    same: Tensor | None
    unknown: Tensor | None


def kind_slopes(slope: Tensor, sums: Tensor, dtype: torch.dtype) -> KindSlopes:
    """The slopes `(n, R)` in the sums `(n, R)`, where the loss has one for several relations but once."""
    for codes in ([APART, SAME, UNKNOWN], [APART, SAME]):
        common = common_slope(slope[:, codes], sums[:, codes], sums[:, codes] > 0, dtype)
        if common is not None:
            return KindSlopes(common, None, slope[:, UNKNOWN] if len(codes) == 2 else None)
    return KindSlopes(*slope[:, [APART, SAME, UNKNOWN]].unbind(1))


class KindWalk:
    """The walk over the tiles, forth and back.

    Args:
        tiles: of the batch.
        temperature: τ.
        keep: bytes of exponentials to keep from the forward for the backward.
    """

    def __init__(self, tiles: KindTiles, temperature: float, keep: int) -> None:
        self.tiles, self.temperature = tiles, temperature
        self._base = math.log2(math.e) / temperature
        self._room = keep
        self._kept: dict[int, Tensor] = {}

    def statistics(self, u: Tensor) -> Tensor:
        """Of this rank's rows, float64 `(12, m)`: Σ exp(s), counts, Σ w and Σ w·s, without views."""
        own, dtype = self.tiles.own(u), self._dtype(u)
        found = u.new_zeros((_COLUMNS, len(own)), dtype=torch.float64)
        sums, counts = found[:SIZE], found[SIZE:]
        for tile in self.tiles.tiles():
            keep = self._room >= tile.shape[0] * tile.shape[1] * dtype.itemsize
            exponent = self._exponents(own, u, tile, keep=keep and dtype == u.dtype)
            weight, unknown = self.tiles.weights(tile, u.dtype)
            if weight is not None:
                part = torch.mul(weight, exponent, out=scratch("part", tile.shape, weight))
                _add_up(found[WEIGHT], weight, tile)
                _add_up(found[WEIGHTED], part, tile)
            values = self._exponentials(exponent, tile, dtype)
            if keep:
                self._room -= values.nbytes
                self._kept[tile.at] = values
            rest = values
            same = None if weight is None else weight.sign_()
            for code, mask in ((SAME, same), (UNKNOWN, unknown)):
                if mask is not None:
                    _add_up(counts[code], mask, tile)
                    part = torch.mul(rest, mask, out=scratch("part", tile.shape, values))
                    _add_up(sums[code], part, tile)
                    rest = torch.sub(rest, part, out=scratch("rest", tile.shape, values))
            _add_up(sums[APART], rest, tile)
        found[WEIGHTED].mul_(math.log(2))  # exponents are to base 2
        return found

    def with_views(self, found: Tensor, u: Tensor) -> Tensor:
        """The statistics `(n, 12)` of all rows, with those of views, and of how many are apart."""
        found = found.clone()
        twins = self.tiles.order.twins
        for pairs in blocks(twins.shape[1], _BLOCK):
            i, k = twins[:, pairs]
            similarity = ((u[i] * u[k]).sum(1) / self.temperature).double()
            of_views = found.new_zeros((len(i), _COLUMNS))
            of_views[:, INSTANCE], of_views[:, WEIGHTED] = similarity.exp(), similarity
            of_views[:, [SIZE + INSTANCE, WEIGHT]] = 1
            found.index_add_(0, i, of_views).index_add_(0, k, of_views)
        found[:, SIZE + APART] = len(u) - 1 - found[:, SIZE:WEIGHT].sum(1)
        return found

    def add_gradient(self, of_own: Tensor, u: Tensor, slopes: KindSlopes, of_weight: Tensor) -> None:
        """Add the gradient of this rank's rows `(m, d)`; forgets the tiles it has kept.

        `slopes` are those of the loss in Σ exp(s), and `of_weight (n,)` that in Σ w·s.
        """
        own, dtype = self.tiles.own(u), self._dtype(u)
        for tile in self.tiles.tiles():
            values = self._kept.pop(tile.at, None)
            if values is None:
                values = self._exponentials(self._exponents(own, u, tile, keep=False), tile, dtype)
            weight, unknown = self.tiles.weights(tile, u.dtype)
            values.mul_(self._of_sums(slopes, tile, values, weight, unknown))
            slope = values.to(u.dtype)
            if weight is not None:
                slope.addcmul_(weight, self._both(of_weight, tile, weight))
            of_own[tile.rows].addmm_(slope, u[tile.cols])
            if tile.both:
                of_own[tile.cols].addmm_(slope.T, u[tile.rows])

    def add_gradient_of_views(self, of_u: Tensor, u: Tensor, slope: Tensor, of_weight: Tensor) -> None:
        """Add the gradient of the views' pairs; `slope (n,)` is that in their exponentials' sum."""
        twins = self.tiles.order.twins
        for pairs in blocks(twins.shape[1], _BLOCK):
            i, k = twins[:, pairs]
            u_i, u_k = u[i], u[k]
            values = ((u_i * u_k).sum(1) / self.temperature).double().exp_()
            both = values * (slope[i] + slope[k]) + of_weight[i] + of_weight[k]
            both = (both / self.temperature).to(u.dtype)[:, None]
            of_u.index_add_(0, i, both * u_k)
            of_u.index_add_(0, k, both * u_i)

    def _of_sums(
        self, slopes: KindSlopes, tile: KindTile, like: Tensor, weight: Tensor | None, unknown: Tensor | None
    ) -> Tensor:
        """The slopes `(b, c)` of the loss in the exponentials."""
        both = self._both(slopes.apart, tile, like, "both")
        if weight is not None and slopes.same is not None:
            same = weight.sign()
            both.mul_(1 - same).add_(self._both(slopes.same, tile, like).mul_(same))
        if unknown is not None and slopes.unknown is not None:
            both.mul_(1 - unknown).add_(self._both(slopes.unknown, tile, like).mul_(unknown))
        return both

    def _both(self, slope: Tensor, tile: KindTile, like: Tensor, name: str = "slopes") -> Tensor:
        """(x_i + x_k)/τ of a tile."""
        slope = (slope / self.temperature).to(like.dtype)
        row, col = self.tiles.own(slope)[tile.rows, None], slope[tile.cols]
        return torch.add(row, col, out=scratch(name, tile.shape, like))

    def _dtype(self, u: Tensor) -> torch.dtype:
        """Of the exponentials."""
        found = exponent_dtype(u.dtype, self.temperature, None)
        assert found is not None
        return found

    def _exponents(self, own: Tensor, u: Tensor, tile: KindTile, *, keep: bool) -> Tensor:
        """s·log₂ e of a tile, in memory of their own or not."""
        rows, cols = own[tile.rows] * self._base, u[tile.cols].T
        return rows @ cols if keep else torch.mm(rows, cols, out=scratch("cosines", tile.shape, rows))

    def _exponentials(self, exponent: Tensor, tile: KindTile, dtype: torch.dtype) -> Tensor:
        return self.tiles.mask(exponent.to(dtype).exp2_(), tile)


def _add_up(total: Tensor, values: Tensor, tile: KindTile) -> None:
    """Add a tile's row sums to `total (m,)`; for both sides, its column sums, too."""
    total[tile.rows] += values.sum(1)
    if tile.both:
        total[tile.cols] += values.sum(0)

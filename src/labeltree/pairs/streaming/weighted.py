"""Pair statistics of a batch with itself, by cosine, where relation and weight of a pair follow from kinds.

Each tile serves its rows and its columns. As in `exponentials`, cosines are bounded, and their exponentials
need no maximum taken off. With E = exp(s), a and c the slopes of the loss in each row's sum of exponentials
and in its weighted sum, the gradient of a tile is E_ik·(a_i + a_k) + w_ik·(c_i + c_k), one product for each
side.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labeltree.pairs.implementation import Plan
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.streaming.exponents import common_slope, exponent_dtype
from labeltree.pairs.streaming.kinds import KindRelation, KindTile, KindTiles, rows_by_kind
from labeltree.pairs.streaming.once import by_hand, once
from labeltree.pairs.streaming.order import LabelOrder
from labeltree.pairs.streaming.scratch import scratch
from labeltree.pairs.streaming.tiles import TILE
from labeltree.pairs.streaming.unit import take_to_tangent, unit_rows, working_dtype
from labeltree.pairs.summary import PairStatistics, PairWeight, Statistic
from labeltree.taxonomy.relations import APART, INSTANCE, SAME, UNKNOWN

__all__ = ["fits", "pair_statistics"]

_SIZE = 5  # codes of a tree of depth 0
_WEIGHT, _WEIGHTED, _COLUMNS = 2 * _SIZE, 2 * _SIZE + 1, 2 * _SIZE + 2  # after the sums and the counts


def fits(
    z: Tensor,
    relation: PairRelation,
    temperature: float,
    scale: Tensor | None,
    pair_weight: PairWeight | None,
    want: Collection[Statistic],
) -> bool:
    """Whether this walk can compute what is wanted of a batch with itself."""
    if not isinstance(relation, KindRelation) or scale is not None or relation.max_depth:
        return False
    if not {"count", "lse", "weighted"}.issuperset(want) or relation.queries is not relation.keys:
        return False
    if relation.offset != 0 or ("weighted" in want and pair_weight != relation.weight):
        return False
    if exponent_dtype(working_dtype(z), temperature, None) is None:
        return False
    return LabelOrder.fits(rows_by_kind(relation, relation.kinds))


def pair_statistics(
    z: Tensor, relation: PairRelation, temperature: float, want: Collection[Statistic], plan: Plan
) -> PairStatistics:
    """As `labeltree.pairs.pair_statistics`, of a batch `z (n, d)` with itself."""
    tiles = KindTiles(relation, plan.tile or TILE)
    keep = plan.keep if z.requires_grad and torch.is_grad_enabled() else 0
    # a small part of all tiles is not worth the memory
    walk = _Walk(tiles, temperature, 0 if 10 * keep < 2 * len(z) ** 2 else keep)
    count, lse, weight, weighted = _Weighted.apply(z, walk)
    return PairStatistics(
        count=count if "count" in want else None,
        lse=lse if "lse" in want else None,
        weight=weight if "weighted" in want else None,
        weighted_sum=weighted if "weighted" in want else None,
    )


class _Weighted(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, walk: _Walk) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        order = walk.tiles.order
        u, _ = unit_rows(z, order.order)
        found = order.from_ranks(walk.statistics(u).T)
        assert found is not None
        found = walk.with_views(found, u)
        ctx.walk = walk
        ctx.set_materialize_grads(False)
        sums, counts = found[:, :_SIZE].clone(), found[:, _SIZE:_WEIGHT].long()
        ctx.save_for_backward(z, sums)
        weight, weighted = found[:, _WEIGHT].to(u.dtype), found[:, _WEIGHTED].to(u.dtype)
        count, weight = order.unsorted(counts), order.unsorted(weight)
        ctx.mark_non_differentiable(count, weight)
        return count, order.unsorted(sums.log().to(u.dtype)), weight, order.unsorted(weighted)

    @staticmethod
    def backward(
        ctx: Any, _count: None, of_lse: Tensor | None, _weight: None, of_weighted: Tensor | None
    ) -> tuple[Tensor, None]:
        z, sums = ctx.saved_tensors
        walk: _Walk = ctx.walk
        with by_hand(z.device):
            order = walk.tiles.order
            u, inverse = unit_rows(z, order.order)
            slope = torch.zeros_like(sums)
            if of_lse is not None:
                slope = torch.where(sums > 0, of_lse[order.order].double() / sums, 0.0)
            of_weight = u.new_zeros(len(u)) if of_weighted is None else of_weighted[order.order].to(u.dtype)
            own = torch.zeros_like(walk.tiles.own(u))
            walk.add_gradient(own, u, _slopes(slope, sums, u.dtype), of_weight)
            of_u = own
            if order.shard is not None:
                of_u = torch.zeros_like(u)
                of_u[order.shard] = own
            walk.add_gradient_of_views(of_u, u, slope[:, INSTANCE], of_weight)
            take_to_tangent(of_u, u, inverse)
            del u, own
            of_z = order.unsorted(of_u).to(z.dtype)
        return once(of_z), None


@dataclass(frozen=True, eq=False)
class _Slopes:
    """The slopes `(n,)` in the sums of each row; None: the same as of those apart."""

    apart: Tensor
    same: Tensor | None
    unknown: Tensor | None


def _slopes(slope: Tensor, sums: Tensor, dtype: torch.dtype) -> _Slopes:
    """The slopes `(n, R)` in the sums `(n, R)`, where the loss has one for several relations but once."""
    for codes in ([APART, SAME, UNKNOWN], [APART, SAME]):
        common = common_slope(slope[:, codes], sums[:, codes], sums[:, codes] > 0, dtype)
        if common is not None:
            return _Slopes(common, None, slope[:, UNKNOWN] if len(codes) == 2 else None)
    return _Slopes(*slope[:, [APART, SAME, UNKNOWN]].unbind(1))


class _Walk:
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
        own = self.tiles.own(u)
        dtype = exponent_dtype(u.dtype, self.temperature, None)
        assert dtype is not None
        found = u.new_zeros((_COLUMNS, len(own)), dtype=torch.float64)
        sums, counts = found[:_SIZE], found[_SIZE:]
        for tile in self.tiles.tiles():
            keep = self._room >= tile.shape[0] * tile.shape[1] * dtype.itemsize
            exponent = self._exponents(own, u, tile, keep=keep and dtype == u.dtype)
            weight, unknown = self.tiles.weights(tile, u.dtype)
            if weight is not None:
                part = torch.mul(weight, exponent, out=scratch("part", tile.shape, weight))
                _add_up(found[_WEIGHT], weight, tile)
                _add_up(found[_WEIGHTED], part, tile)
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
        found[_WEIGHTED].mul_(math.log(2))  # exponents are to base 2
        return found

    def with_views(self, found: Tensor, u: Tensor) -> Tensor:
        """The statistics `(n, 12)` of all rows, with those of views, and of how many are apart."""
        i, k = self.tiles.order.twins
        similarity = ((u[i] * u[k]).sum(1) / self.temperature).double()
        of_views = found.new_zeros((len(i), _COLUMNS))
        of_views[:, INSTANCE], of_views[:, _WEIGHTED] = similarity.exp(), similarity
        of_views[:, [_SIZE + INSTANCE, _WEIGHT]] = 1
        found = found.index_add(0, i, of_views).index_add_(0, k, of_views)
        found[:, _SIZE + APART] = len(u) - 1 - found[:, _SIZE:_WEIGHT].sum(1)
        return found

    def add_gradient(self, of_own: Tensor, u: Tensor, slopes: _Slopes, of_weight: Tensor) -> None:
        """Add the gradient of this rank's rows `(m, d)`; forgets the tiles it has kept.

        Args:
            of_own: is added to.
            u: `(n, d)` as in `statistics`.
            slopes: of the loss in Σ exp(s).
            of_weight: `(n,)` that in Σ w·s.
        """
        own = self.tiles.own(u)
        dtype = exponent_dtype(u.dtype, self.temperature, None)
        assert dtype is not None
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
        i, k = self.tiles.order.twins
        u_i, u_k = u[i], u[k]
        values = ((u_i * u_k).sum(1) / self.temperature).double().exp_()
        both = values * (slope[i] + slope[k]) + of_weight[i] + of_weight[k]
        both = (both / self.temperature).to(u.dtype)[:, None]
        of_u.index_add_(0, i, both * u_k)
        of_u.index_add_(0, k, both * u_i)

    def _of_sums(
        self, slopes: _Slopes, tile: KindTile, like: Tensor, weight: Tensor | None, unknown: Tensor | None
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

"""Pair statistics of a batch with itself, by cosine: the case of training, and the fast one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labeltree.pairs.implementation import Plan
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.streaming.exponentials import Exponentials
from labeltree.pairs.streaming.exponents import common_slope, exponent_dtype
from labeltree.pairs.streaming.grid import Grid, grid_of
from labeltree.pairs.streaming.least import add_least_gradient
from labeltree.pairs.streaming.once import by_hand, once
from labeltree.pairs.streaming.one_tile import OneTile
from labeltree.pairs.streaming.order import LabelOrder
from labeltree.pairs.streaming.tiles import TILE, blocks
from labeltree.pairs.streaming.unit import take_to_tangent, unit_rows, working_dtype
from labeltree.pairs.summary import PairStatistics, Statistic, by_relation

__all__ = ["fits", "pair_statistics", "tile_of"]

_BLOCK = 2048  # rows


def fits(
    z: Tensor,
    relation: PairRelation,
    temperature: float,
    scale: Tensor | None,
    want: Collection[Statistic],
    few: int = 0,
) -> bool:
    """Whether this walk can compute what is wanted; `few` rows are one tile, of which less is asked."""
    if not {"count", "sum", "lse", "lse_all", "least"}.issuperset(want):
        return False
    if scale is not None and scale.requires_grad:
        return False
    fits_exponent = exponent_dtype(working_dtype(z), temperature, scale) is not None
    return fits_exponent and LabelOrder.fits(relation, 0 if relation.shard is not None else few)


def pair_statistics(
    z: Tensor,
    relation: PairRelation,
    temperature: float,
    scale: Tensor | None,
    want: Collection[Statistic],
    plan: Plan,
) -> PairStatistics:
    """As `labeltree.pairs.pair_statistics`, of a batch `z (n, d)` with itself."""
    tile = tile_of(plan)
    if len(z) <= tile and relation.shard is None:
        want = by_relation(want)
        whole = OneTile(relation, temperature, scale, frozenset(want))
        total, lse, least = whole.statistics(z)
        return PairStatistics(
            count=whole.counts() if "count" in want else None,
            sum=total if "sum" in want else None,
            lse=lse if "lse" in want else None,
            least=least if "least" in want else None,
        )
    together = "lse_all" in want and "lse" not in want
    want = want if together else by_relation(want)
    grid = grid_of(relation, tile)
    keep = plan.keep if z.requires_grad and torch.is_grad_enabled() else 0
    work = _Work(grid, temperature, scale, frozenset(want), keep)
    total, lse, least = _Symmetric.apply(z, work)
    return PairStatistics(
        count=grid.order.unsorted(grid.order.sums.counts()) if "count" in want else None,
        sum=total if "sum" in want else None,
        lse=lse if "lse" in want else None,
        lse_all=lse[:, 0] if together else None,
        least=least if "least" in want else None,
    )


@dataclass(frozen=True, eq=False)
class _Work:
    grid: Grid
    temperature: float
    scale: Tensor | None
    want: frozenset[Statistic]
    keep: int


class _Symmetric(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, work: _Work) -> tuple[Tensor, Tensor, Tensor]:
        order, tau = work.grid.order, work.temperature
        u, _ = unit_rows(z, order.order)
        exponents = exponent_dtype(u.dtype, tau, work.scale)
        assert exponents is not None
        # a small part of all tiles is not worth the memory
        few = 10 * work.keep < 2 * len(z) ** 2
        keep = 0 if few else work.keep
        together = "lse_all" in work.want
        walk = Exponentials(work.grid, tau, work.scale, exponents, keep, together=together)
        walk.see(u)
        sums, least = walk.sums(lse=together or "lse" in work.want, least="least" in work.want)
        sums, least = order.from_ranks(sums), order.from_ranks(least)
        _ViewPairs(walk).complete(sums, least)
        nothing = u.new_empty((0, order.relation.num_relations))
        saved = None if sums is None else sums.to(exponents, copy=True)
        lse = nothing if sums is None else order.unsorted(sums.log_().to(u.dtype))
        del sums  # float64: the largest table
        least = nothing if least is None else order.unsorted(least / tau)
        total = order.unsorted(order.sums.sums(u).div_(tau)) if "sum" in work.want else nothing
        walk.forget()
        ctx.work, ctx.walk = work, walk
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(z, saved)
        return total, lse, least

    @staticmethod
    def backward(
        ctx: Any, of_sum: Tensor | None, of_lse: Tensor | None, of_least: Tensor | None
    ) -> tuple[Tensor | None, None]:
        z, sums = ctx.saved_tensors
        with by_hand(z.device):
            work, walk = ctx.work, ctx.walk
            order = work.grid.order
            u, inverse = unit_rows(z, order.order)
            walk.see(u)
            of_u = torch.zeros_like(u)
            if of_lse is not None:
                slope, common = _slopes(walk, of_lse, sums)
                linear = None if of_sum is None else _linear(walk, of_sum)
                if order.shard is None:
                    walk.add_gradient(of_u, slope, common, linear)
                else:
                    own = u.new_zeros((len(order.shard), u.shape[1]))
                    walk.add_gradient(own, slope, common, linear)
                    of_u[order.shard] = own
                _ViewPairs(walk).add_gradient(of_u, slope, linear)
                del slope, common, linear
            elif of_sum is not None:
                order.sums.add_gradient(of_u, u, of_sum[order.order].div_(work.temperature))
            if of_least is not None:
                slope = of_least[order.order].div_(work.temperature)
                add_least_gradient(of_u, u, order.rows, order.order, slope)
            take_to_tangent(of_u, u, inverse)
            walk.forget(tiles=True)
            del u
            of_z = order.unsorted(of_u).to(z.dtype)
        return once(of_z), None


def _slopes(walk: Exponentials, of_lse: Tensor, sums: Tensor) -> tuple[Tensor, Tensor | None]:
    """The slope of the loss in each of `sums (n, R)`, `(R, n)` in the type of the tiles, and the common one.

    Some rows at a time: tables of all rows in float64 would be the largest thing that a backward holds.
    """
    order = walk.grid.order
    if walk.together:
        one = of_lse[order.order, 0] / sums[:, 0].double()
        one = one.masked_fill_(sums[:, 0] == 0, 0.0).to(walk.dtype)
        return one[None], one
    views = torch.zeros(walk.size, dtype=torch.bool, device=sums.device)
    views[order.twin_codes[1]] = True
    slope = torch.empty_like(sums.T, dtype=walk.dtype, memory_format=torch.contiguous_format)
    common: Tensor | None = slope.new_empty(len(sums))
    for rows in blocks(len(sums), _BLOCK):
        here = sums[rows].double()
        present = here > 0
        each = torch.where(present, of_lse[order.order[rows]] / here, 0.0)
        slope[:, rows] = each.T
        if common is not None:
            shared = common_slope(each, here, present & ~views, walk.u.dtype)
            if shared is None:
                common = None
            else:
                common[rows] = shared
    return slope, common


def _linear(walk: Exponentials, of_sum: Tensor) -> Tensor:
    """The slope of the loss in each cosine of a relation, `(R, n)`, by way of the sums of similarities.

    It is added to that of the exponentials pair by pair. In a tight cluster they nearly cancel, and the
    gradient is what is left: of two sums over all pairs it would be the rounding.
    """
    slope = of_sum.index_select(0, walk.grid.order.order).to(walk.dtype)
    return slope.div_(walk.temperature).T.contiguous()


class _ViewPairs:
    """The pairs of views of one sample, which tiles leave out."""

    def __init__(self, walk: Exponentials) -> None:
        order = walk.grid.order
        self.walk = walk
        self.i, self.k = order.twins
        self.codes = order.twin_codes[1]
        self.sums_of = torch.zeros_like(self.codes) if walk.together else self.codes

    def complete(self, sums: Tensor | None, least: Tensor | None) -> None:
        """Add the pairs to the statistics."""
        u = self.walk.u
        for pairs in blocks(len(self.i), _BLOCK):
            i, k, codes = self.i[pairs], self.k[pairs], self.codes[pairs]
            rows, codes = torch.cat([i, k]), torch.cat([codes, codes])
            cosine = (u[i] * u[k]).sum(1)
            if sums is not None:
                value, of = self._exponentials(cosine, pairs), self.sums_of[pairs]
                sums.index_put_((rows, torch.cat([of, of])), torch.cat([value, value]), accumulate=True)
            if least is not None:
                flat = least.reshape(-1)
                flat.scatter_reduce_(0, rows * self.walk.size + codes, torch.cat([cosine, cosine]), "amin")
                least.copy_(flat.view_as(least))

    def add_gradient(self, of_u: Tensor, slope: Tensor, linear: Tensor | None) -> None:
        """Add the gradient of Σ slope·sums, `slope (R, n)`, and of Σ linear·cosine."""
        u, scale = self.walk.u, self.walk.scale
        for pairs in blocks(len(self.i), _BLOCK):
            i, k, of = self.i[pairs], self.k[pairs], self.sums_of[pairs]
            u_i, u_k, codes = u[i], u[k], self.codes[pairs]
            value = self._exponentials((u_i * u_k).sum(1), pairs)
            weight = value * (slope[of, i] + slope[of, k]) / self.walk.temperature
            if scale is not None:
                weight = weight * scale[codes]
            if linear is not None:
                weight = weight + linear[codes, i] + linear[codes, k]
            weight = weight.to(u.dtype)
            of_u.index_add_(0, i, weight[:, None] * u_k)
            of_u.index_add_(0, k, weight[:, None] * u_i)

    def _exponentials(self, cosine: Tensor, pairs: slice) -> Tensor:
        scale = self.walk.scale
        factor = self.walk.base if scale is None else self.walk.base * scale[self.codes[pairs]]
        return (cosine * factor).double().exp2_()


def tile_of(plan: Plan) -> int:
    """Rows and columns of a tile."""
    return plan.tile or TILE

"""Pair statistics of a batch that is one tile: few operations, whose number counts more than their size.

The slope of the loss in every cosine is written into the one tile, and a single product with it gives the
gradient.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labeltree.pairs.relation import PairRelation
from labeltree.pairs.streaming.exponents import common_slope, exponent_dtype
from labeltree.pairs.streaming.least import add_least_gradient
from labeltree.pairs.streaming.once import by_hand, once
from labeltree.pairs.streaming.order import order_of
from labeltree.pairs.streaming.scratch import scratch
from labeltree.pairs.streaming.tile_codes import TileCodes, column_minima, tile_codes
from labeltree.pairs.streaming.unit import take_to_tangent, unit_rows
from labeltree.pairs.summary import Statistic

__all__ = ["OneTile"]


class OneTile:
    """A batch with itself, in the order of its labels.

    Args:
        relation: of the batch.
        temperature: τ.
        scale: `(R,)` ω, or None.
        want: the statistics to compute.
    """

    def __init__(
        self, relation: PairRelation, temperature: float, scale: Tensor | None, want: frozenset[Statistic]
    ) -> None:
        self.relation, self.temperature, self.scale, self.want = relation, temperature, scale, want
        self.order = order_of(relation)
        rows, twins = self.order.rows, self.order.twins
        self.codes = tile_codes(relation, rows, rows)
        self.views = _Views(*twins, *self.order.twin_codes) if twins.shape[1] else None

    def counts(self) -> Tensor:
        """Number of keys in each relation to each row of the batch, `(n, R)` int64."""
        found = self.codes.counts()
        own = self.codes.own()
        found = found.scatter_add_(0, own[None], found.new_full((1, len(own)), -1)).T.contiguous()
        if self.views is not None:
            one = found.new_ones(len(self.views.i))
            self.views.add(found, self.views.labels, -one)
            self.views.add(found, self.views.codes, one)
        return self.order.unsorted(found)

    def statistics(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sum, lse and least `(n, R)` of the rows of the batch; without rows where not wanted."""
        found: tuple[Tensor, Tensor, Tensor] = _OneTile.apply(z, self)
        return found

    def mask(self, tile: Tensor, value: float) -> Tensor:
        """The tile with a value where it is no pair of labels: a row with itself, views of one sample."""
        tile.fill_diagonal_(value)
        if self.views is not None:
            tile[self.views.i, self.views.k] = value
            tile[self.views.k, self.views.i] = value
        return tile


@dataclass(frozen=True, eq=False)
class _Views:
    """Pairs i < k of views of one sample, their codes as labels and as views, `(P,)` each."""

    i: Tensor
    k: Tensor
    labels: Tensor
    codes: Tensor

    def add(self, found: Tensor, codes: Tensor, value: Tensor) -> None:
        """Add to the entries of both rows of every pair."""
        found.index_put_((self.i, codes), value, accumulate=True)
        found.index_put_((self.k, codes), value, accumulate=True)

    def of(self, table: Tensor) -> Tensor:
        """What both rows of every pair have in a table `(n, R)`, added up."""
        return table[self.i, self.codes] + table[self.k, self.codes]


class _OneTile(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, work: OneTile) -> tuple[Tensor, Tensor, Tensor]:
        codes, views, tau, want = work.codes, work.views, work.temperature, work.want
        u, inverse = unit_rows(z, work.order.order)
        cosine = u @ u.T
        of_views = None if views is None else cosine[views.i, views.k]
        total = least = lse = sums = tile = u.new_empty((0, codes.size))
        base = math.log2(math.e) / tau
        if "least" in want:
            least = column_minima(codes, work.mask(cosine, torch.inf), 1.1).T.contiguous()
            if views is not None and of_views is not None:
                for place in (views.i, views.k):
                    at = place * codes.size + views.codes
                    least.view(-1).scatter_reduce_(0, at, of_views, "amin")
            least = work.order.unsorted(least.div_(tau))
        if "sum" in want:
            total = codes.column_sums(work.mask(cosine, 0.0)).T.contiguous()
            if views is not None and of_views is not None:
                views.add(total, views.codes, of_views)
            total = work.order.unsorted(total.div_(tau))
        if "lse" in want:
            exponent = cosine.mul_(base)
            if work.scale is not None:
                exponent.mul_(codes.spread(work.scale.to(u.dtype)))
            exponents = exponent_dtype(u.dtype, tau, work.scale)
            assert exponents is not None
            tile = work.mask(exponent.to(exponents).exp2_(), 0.0)
            sums = codes.column_sums(tile).T.contiguous()
            if views is not None and of_views is not None:
                omega = 1.0 if work.scale is None else work.scale.to(u.dtype)[views.codes]
                of_views = (of_views * (base * omega)).to(tile.dtype).exp2_()
                views.add(sums, views.codes, of_views)
            lse = work.order.unsorted(sums.log().to(u.dtype))
        ctx.work = work
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(z, u, inverse, tile, sums, of_views)
        return total, lse, least

    @staticmethod
    def backward(
        ctx: Any, of_sum: Tensor | None, of_lse: Tensor | None, of_least: Tensor | None
    ) -> tuple[Tensor | None, None]:
        z, u, inverse, tile, sums, of_views = ctx.saved_tensors
        with by_hand(z.device):
            work: OneTile = ctx.work
            codes, views = work.codes, work.views
            weight, between = None, None
            if of_lse is not None:
                present = sums > 0
                slope = torch.where(present, of_lse[work.order.order] / sums, 0.0)
                if views is not None:
                    present[:, views.codes] = False  # tiles do without them
                common = common_slope(slope, sums, present, u.dtype)
                both = (
                    _both(codes, slope, "slopes")
                    if common is None
                    else torch.add(common[:, None], common, out=scratch("slopes", (len(u), len(u)), tile))
                )
                weight = both.mul_(tile)
                if work.scale is not None:
                    weight.mul_(codes.spread(work.scale.to(weight.dtype)))
                if views is not None:
                    between = views.of(slope) * of_views
                    if work.scale is not None:
                        between *= work.scale.to(between.dtype)[views.codes]
            if of_sum is not None:
                linear = of_sum[work.order.order]
                both = work.mask(_both(codes, linear, "linear"), 0.0)
                weight = both if weight is None else weight.add_(both)
                if views is not None:
                    of_pairs = views.of(linear)
                    between = of_pairs if between is None else between + of_pairs
            of_u = torch.zeros_like(u)
            if weight is not None:
                if views is not None and between is not None:
                    weight[views.i, views.k] = weight[views.k, views.i] = between.to(weight.dtype)
                of_u = (weight.to(u.dtype) @ u).div_(work.temperature)
            if of_least is not None:
                slope = of_least[work.order.order] / work.temperature
                add_least_gradient(of_u, u, work.order.rows, work.order.order, slope)
            of_z = work.order.unsorted(take_to_tangent(of_u, u, inverse)).to(z.dtype)
        return once(of_z), None


def _both(codes: TileCodes, table: Tensor, name: str) -> Tensor:
    """The sum `(n, n)` of what either row of a pair has in a table `(n, R)`, as `scratch` of that name."""
    one = codes.spread_columns(table.T)
    return torch.add(one, one.T, out=scratch(name, (len(one), len(one)), one))

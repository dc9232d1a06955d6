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
from labeltree.pairs.streaming.least import add_least_gradient
from labeltree.pairs.streaming.once import once
from labeltree.pairs.streaming.one_tile import OneTile
from labeltree.pairs.streaming.order import LabelOrder, label_sums
from labeltree.pairs.streaming.subtree_sums import SubtreeSums
from labeltree.pairs.streaming.tiles import blocks
from labeltree.pairs.streaming.unit import unit_gradient, unit_rows, working_dtype
from labeltree.pairs.summary import PairStatistics, Statistic

__all__ = ["fits", "pair_statistics", "tile_of"]


def fits(
    z: Tensor, relation: PairRelation, temperature: float, scale: Tensor | None, want: Collection[Statistic]
) -> bool:
    """Whether this walk can compute what is wanted."""
    if not {"count", "sum", "lse", "least"}.issuperset(want):
        return False
    if scale is not None and scale.requires_grad:
        return False
    return exponent_dtype(working_dtype(z), temperature, scale) is not None and LabelOrder.fits(relation)


def pair_statistics(
    z: Tensor,
    relation: PairRelation,
    temperature: float,
    scale: Tensor | None,
    want: Collection[Statistic],
    plan: Plan,
) -> PairStatistics:
    """As `labeltree.pairs.pair_statistics`, of a batch `z (n, d)` with itself."""
    tile = tile_of(len(z), plan)
    if len(z) <= tile:
        whole = OneTile(relation, temperature, scale, frozenset(want))
        total, lse, least = whole.statistics(z)
        return PairStatistics(
            count=whole.counts() if "count" in want else None,
            sum=total if "sum" in want else None,
            lse=lse if "lse" in want else None,
            least=least if "least" in want else None,
        )
    order = LabelOrder(relation, tile)
    labels = label_sums(order)
    count = torch.empty_like(found := labels.counts()).index_copy_(0, order.order, found)
    total, lse, least = _Symmetric.apply(
        z, _Work(order, labels, temperature, scale, frozenset(want), plan.keep)
    )
    return PairStatistics(
        count=count if "count" in want else None,
        sum=total if "sum" in want else None,
        lse=lse if "lse" in want else None,
        least=least if "least" in want else None,
    )


@dataclass(frozen=True, eq=False)
class _Work:
    order: LabelOrder
    labels: SubtreeSums
    temperature: float
    scale: Tensor | None
    want: frozenset[Statistic]
    keep: int


class _Symmetric(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, work: _Work) -> tuple[Tensor, Tensor, Tensor]:
        order, tau = work.order, work.temperature
        u, inverse = unit_rows(z, order.order)
        exponents = exponent_dtype(u.dtype, tau, work.scale)
        assert exponents is not None
        keep = work.keep if ctx.needs_input_grad[0] else 0
        walk = Exponentials(order, u, tau, work.scale, exponents, keep)
        size, n = order.relation.num_relations, len(z)
        views = _ViewPairs(walk)
        sums, least = (
            walk.sums("lse" in work.want, "least" in work.want)
            if work.want & {"lse", "least"}
            else (None, None)
        )
        views.complete(sums, least)
        back = order.order.argsort()
        nothing = u.new_empty((0, size))
        total = work.labels.sums(u).div_(tau) if "sum" in work.want else nothing
        lse = nothing if sums is None else sums.log().to(u.dtype)
        found = [x[back] if len(x) == n else x for x in (total, lse, nothing if least is None else least)]
        ctx.work, ctx.walk = work, walk
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(z, inverse, *(() if sums is None else (sums,)))
        return found[0], found[1], found[2]

    @staticmethod
    def backward(
        ctx: Any, of_sum: Tensor | None, of_lse: Tensor | None, of_least: Tensor | None
    ) -> tuple[Tensor | None, None]:
        with torch.no_grad():
            z, inverse, *rest = ctx.saved_tensors
            work, walk = ctx.work, ctx.walk
            order, u = work.order, walk.u
            of_u = torch.zeros_like(u)
            if of_lse is not None:
                sums = rest[0]
                present = sums > 0
                slope = torch.where(present, of_lse[order.order].double() / sums, 0.0)
                views = _ViewPairs(walk)
                views.add_gradient(of_u, slope)
                common = common_slope(slope, sums, present & ~views.columns, u.dtype)
                walk.add_gradient(of_u, slope, common)
            if of_sum is not None:
                work.labels.add_gradient(of_u, u, of_sum[order.order] / work.temperature)
            if of_least is not None:
                add_least_gradient(of_u, u, order.rows, order.order, of_least[order.order] / work.temperature)
            of_z = unit_gradient(of_u, u, inverse, order.order, z.dtype)
        return once(of_z), None


class _ViewPairs:
    """The pairs of views of one sample, which tiles leave out."""

    def __init__(self, walk: Exponentials) -> None:
        order = walk.order
        self.walk = walk
        self.i, self.k = order.twins
        self.codes = order.twin_codes[1]
        self.columns = torch.zeros(order.relation.num_relations, dtype=torch.bool)
        self.columns[self.codes] = True

    def _exponents(self, pairs: slice) -> Tensor:
        u, scale = self.walk.u, self.walk.scales.table
        cosine = (u[self.i[pairs]] * u[self.k[pairs]]).sum(1)
        factor = self.walk.base if scale is None else self.walk.base * scale[self.codes[pairs]]
        return (cosine * factor).double()

    def complete(self, sums: Tensor | None, least: Tensor | None) -> None:
        """Add the pairs to the statistics."""
        u, tau = self.walk.u, self.walk.temperature
        for pairs in blocks(len(self.i), 8192):
            i, k, codes = self.i[pairs], self.k[pairs], self.codes[pairs]
            both = torch.cat([i, k]), torch.cat([codes, codes])
            if sums is not None:
                value = self._exponents(pairs).exp2_()
                sums.index_put_(both, torch.cat([value, value]), accumulate=True)
            if least is not None:
                s = (u[i] * u[k]).sum(1) / tau
                flat = least.reshape(-1)
                at = both[0] * least.shape[1] + both[1]
                flat.scatter_reduce_(0, at, torch.cat([s, s]), "amin")
                least.copy_(flat.view_as(least))

    def add_gradient(self, of_u: Tensor, slope: Tensor) -> None:
        """Add the gradient of Σ slope·sums."""
        u, scale = self.walk.u, self.walk.scales.table
        for pairs in blocks(len(self.i), 8192):
            i, k, codes = self.i[pairs], self.k[pairs], self.codes[pairs]
            weight = self._exponents(pairs).exp2_() * (slope[i, codes] + slope[k, codes])
            weight = weight.to(u.dtype) / self.walk.temperature
            if scale is not None:
                weight = weight * scale[codes]
            u_i, u_k = u[i], u[k]
            of_u.index_add_(0, i, weight[:, None] * u_k)
            of_u.index_add_(0, k, weight[:, None] * u_i)


def tile_of(n: int, plan: Plan) -> int:
    """Rows and columns of a tile for a batch of n."""
    return plan.tile or (512 if n <= 512 or n > 4096 else 256)

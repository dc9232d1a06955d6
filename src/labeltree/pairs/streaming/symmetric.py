"""Pair statistics of a batch with itself, by cosine: the case of training, and the fast one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labeltree.pairs.implementation import Plan
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.streaming.exponentials import Exponentials, common_slope, exponent_dtype
from labeltree.pairs.streaming.once import once
from labeltree.pairs.streaming.order import LabelOrder
from labeltree.pairs.streaming.subtree_sums import SubtreeSums
from labeltree.pairs.streaming.tiles import blocks
from labeltree.pairs.summary import PairStatistics, Statistic

__all__ = ["fits", "label_sums", "pair_statistics", "tile_of"]

_LEAST_NORM = 1e-12  # as in `labeltree.geometry`: a shorter vector has no direction


def fits(
    z: Tensor, relation: PairRelation, temperature: float, scale: Tensor | None, want: Collection[Statistic]
) -> bool:
    """Whether this walk can compute what is wanted."""
    if not {"count", "sum", "lse", "least"}.issuperset(want):
        return False
    if scale is not None and scale.requires_grad:
        return False
    return exponent_dtype(_working(z), temperature, scale) is not None and LabelOrder.fits(relation)


def pair_statistics(
    z: Tensor,
    relation: PairRelation,
    temperature: float,
    scale: Tensor | None,
    want: Collection[Statistic],
    plan: Plan,
) -> PairStatistics:
    """As `labeltree.pairs.pair_statistics`, of a batch `z (n, d)` with itself."""
    order = LabelOrder(relation, tile_of(len(z), plan))
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


def label_sums(order: LabelOrder) -> SubtreeSums:
    """Sums over subtrees of the batch."""
    relation = order.relation
    first, second = order.rows[order.twins[0]], order.rows[order.twins[1]]
    codes = relation.paired_codes(first, second)
    twin_codes = torch.stack([codes, relation.view_codes(codes)])
    apart = torch.arange(relation.max_depth)
    if relation.refined:
        known = order.rows.nodes >= 0
        assert order.rows.depth is not None
        depth = int(order.rows.depth[known].max()) if bool(known.any()) else 1
        apart = relation.space.apart(apart, depth)
    return SubtreeSums(order.rows, order.twins, twin_codes, apart, relation.num_relations)


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
        u, inverse = _unit(z, order.order)
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
                labels = present & ~views.columns
                largest = float(torch.where(labels, sums, 1.0).log().abs().max()) if len(sums) else 0.0
                error = torch.finfo(u.dtype).eps * (8 + 2 * largest)
                walk.add_gradient(of_u, slope, common_slope(slope, labels, error))
            if of_sum is not None:
                work.labels.add_gradient(of_u, u, of_sum[order.order] / work.temperature)
            if of_least is not None:
                _add_least_gradient(of_u, u, work, of_least[order.order])
            # through z ↦ z/|z|, back in the order of the batch
            of_z = torch.empty_like(z)
            for rows in blocks(len(z), 8192):
                g, x = of_u[rows], u[rows]
                g = g.addcmul_((g * x).sum(1, keepdim=True), x, value=-1.0).mul_(inverse[rows])
                of_z[order.order[rows]] = g.to(z.dtype)
        return once(of_z), None


class _ViewPairs:
    """The pairs of views of one sample, which tiles leave out."""

    def __init__(self, walk: Exponentials) -> None:
        order = walk.order
        self.walk = walk
        self.i, self.k = order.twins
        relation = order.relation
        self.codes = relation.view_codes(relation.paired_codes(order.rows[self.i], order.rows[self.k]))
        self.columns = torch.zeros(relation.num_relations, dtype=torch.bool)
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


def _add_least_gradient(of_u: Tensor, u: Tensor, work: _Work, weight: Tensor) -> None:
    """Add the gradient of Σ weight·least; of keys that are equally near, the first in the batch has it.

    Which key that is has not been kept: it is searched for again, for the few rows whose least similarity the
    loss depends on.
    """
    order = work.order
    batch = PairRelation(order.rows, order.rows, offset=0)
    row, code = weight.nonzero(as_tuple=True)
    for some in blocks(len(row), 128):
        i, r = row[some], code[some]
        cosine = (u[i] @ u.T).masked_fill_(batch.codes(i) != r[:, None], torch.inf)
        least = cosine == cosine.amin(1, keepdim=True)
        k = torch.where(least, order.order, len(u)).argmin(1)
        slope = (weight[i, r] / work.temperature)[:, None]
        u_i, u_k = u[i], u[k]
        of_u.index_add_(0, i, slope * u_k)
        of_u.index_add_(0, k, slope * u_i)


def _unit(z: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
    """z/|z| and 1/|z|, both in the given order."""
    u = z.detach()[order].to(_working(z))
    norm = torch.linalg.vector_norm(u, dim=1, keepdim=True)
    inverse = torch.where(norm > _LEAST_NORM, norm, torch.inf).reciprocal()
    return u.mul_(inverse), inverse


def _working(z: Tensor) -> torch.dtype:
    return torch.float64 if z.dtype == torch.float64 else torch.float32


def tile_of(n: int, plan: Plan) -> int:
    """Rows and columns of a tile for a batch of n."""
    return plan.tile or (512 if n <= 512 or n > 4096 else 256)

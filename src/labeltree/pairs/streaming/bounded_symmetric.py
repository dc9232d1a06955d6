"""The bounded sum of a batch with itself, by cosine: the tiles with members, each for both its sides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labeltree.pairs.streaming.grid import Grid, Tile
from labeltree.pairs.streaming.once import by_hand, once
from labeltree.pairs.streaming.tiles import blocks
from labeltree.pairs.streaming.unit import take_to_tangent, unit_rows

__all__ = ["bounded_sum", "least_own"]

_BLOCK = 2048  # pairs of views
_STEEP = 1e30  # makes the sign of a difference a 0 or a 1


def bounded_sum(
    z: Tensor, grid: Grid, temperature: float, members: Tensor, offset: Tensor, bound: Tensor
) -> Tensor:
    """As `labeltree.pairs.bounded_sum`, of a batch `z (n, d)` with itself."""
    found: Tensor = _Bounded.apply(z, offset, bound, _Work(grid, members, temperature))
    return found


def least_own(offset: Tensor, bound: Tensor, temperature: float | Tensor) -> Tensor:
    """The pair loss `(n, T)` from which on a pair has its own, not the bound.

    That is the bound less its rounding error: a similarity is not computed twice to the last digit, and the
    pair that set the bound is to tie with it.
    """
    size = offset.abs() + bound.abs() + 1 / float(temperature)
    return bound - 4 * torch.finfo(offset.dtype).eps * size


@dataclass(frozen=True, eq=False)
class _Work:
    grid: Grid
    members: Tensor
    temperature: float

    def tiles(self, dtype: torch.dtype) -> Iterator[tuple[Tile, dict[int, Tensor | None]]]:
        """The tiles with members: which terms have some, and their mask where not all pairs are."""
        used = self.members.any(0).tolist()
        for tile in self.grid.tiles():
            if tile.codes is None and not used[tile.code]:
                continue
            masks: dict[int, Tensor | None] = {}
            for term, member in enumerate(self.members):
                if tile.codes is None:
                    if bool(member[tile.code]):
                        masks[term] = None
                elif bool(member[tile.codes.present].any()):
                    masks[term] = self.grid.mask(tile.codes.spread(member.to(dtype)), tile, 0.0)
            if masks:
                yield tile, masks

    def masked(self, values: Tensor, tile: Tile, mask: Tensor | None) -> Tensor:
        """The values with 0 for what is no member."""
        return self.grid.mask(values, tile, 0.0) if mask is None else values.mul_(mask)

    def views(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Views of one sample, some at a time: the rows of pairs, and which terms they are members of."""
        order = self.grid.order
        for i, k in (order.twins, order.twins.flip(0)):  # each way
            for pairs in blocks(len(i), _BLOCK):
                yield i[pairs], k[pairs], self.members[:, order.twin_codes[1, pairs]]


class _Bounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, offset: Tensor, bound: Tensor, work: _Work) -> Tensor:
        grid, order, tau = work.grid, work.grid.order, work.temperature
        u, _ = unit_rows(z, order.order)
        off = _finite(offset.detach()[order.order].T)
        least = least_own(off, bound.detach()[:, None], tau)
        off_own, least_own_rows = grid.rows_of(off.T).T, grid.rows_of(least.T).T
        total, kept = torch.zeros_like(off_own), torch.zeros_like(off_own)
        bounds, rows_u = bound.tolist(), grid.rows_of(u)
        for tile, masks in work.tiles(u.dtype):
            s = (rows_u[tile.rows] / tau) @ u[tile.cols].T
            for term, mask in masks.items():
                loss = off_own[term, tile.rows, None] - s
                if order.shard is not None:  # the backward needs the numbers of all ranks' rows
                    above = work.masked(_above(loss, least_own_rows[term, tile.rows, None]), tile, mask)
                    kept[term, tile.rows] += above.sum(1)
                loss = work.masked(loss.clamp_(min=bounds[term]), tile, mask)
                total[term, tile.rows] += loss.sum(1)
                if tile.both:
                    loss = (off[term, tile.cols] - s).clamp_(min=bounds[term])
                    total[term, tile.cols] += work.masked(loss, tile, mask).sum(0)
        if order.shard is not None:
            every = order.from_ranks(torch.cat([total, kept]).T.contiguous())
            assert every is not None
            total, kept = torch.split(every.T.contiguous(), len(bound))
        for row, other, member in work.views():
            s = (u[row] * u[other]).sum(1) / tau
            loss = torch.maximum(off[:, row] - s, bound.detach()[:, None])
            total.index_add_(1, row, loss.masked_fill_(~member, 0.0))
        ctx.work = work
        ctx.save_for_backward(z, off, least, kept)
        return torch.empty_like(offset).index_copy_(0, order.order, total.T)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        z, off, least, own = ctx.saved_tensors
        work: _Work = ctx.work
        grid, order, tau = work.grid, work.grid.order, work.temperature
        with by_hand(grad.device):
            u, inverse = unit_rows(z, order.order)
            g = grad[order.order].T.contiguous()
            off_own, least_own_rows, g_own = (grid.rows_of(x.T).T for x in (off, least, g))
            rows_u, of_rows, own = grid.rows_of(u), torch.zeros_like(grid.rows_of(u)), own.clone()
            for tile, masks in work.tiles(u.dtype):
                rows, cols = tile.rows, tile.cols
                s = (rows_u[rows] / tau) @ u[cols].T
                slope = torch.zeros_like(s)
                for term, mask in masks.items():
                    kept = _above(off_own[term, rows, None] - s, least_own_rows[term, rows, None])
                    kept = work.masked(kept, tile, mask)
                    slope.addcmul_(kept, g_own[term, rows, None], value=-1 / tau)
                    if order.shard is None:
                        own[term, rows] += kept.sum(1)
                    if not tile.diagonal:
                        kept = work.masked(_above(off[term, cols] - s, least[term, cols]), tile, mask)
                        slope.addcmul_(kept, g[term, cols], value=-1 / tau)
                        if tile.both:
                            own[term, cols] += kept.sum(0)
                if tile.diagonal:  # the other side of its pairs is in it
                    slope = slope + slope.T
                of_rows[rows].addmm_(slope, u[cols])
                if tile.both:
                    of_rows[cols].addmm_(slope.T, u[rows])
            of_u = of_rows
            if order.shard is not None:
                of_u = torch.zeros_like(u)
                of_u[order.shard] = of_rows
            for row, other, member in work.views():
                s = (u[row] * u[other]).sum(1) / tau
                kept = ((off[:, row] - s >= least[:, row]) & member).to(u.dtype)
                own.index_add_(1, row, kept)
                slope = (-(kept * g[:, row]).sum(0) / tau)[:, None]
                of_u.index_add_(0, row, slope * u[other])
                of_u.index_add_(0, other, slope * u[row])
            counts = order.sums.counts()
            number = torch.stack([(counts * member).sum(-1) for member in work.members])
            of_bound = (g * (number - own)).sum(1)
            of_offset = torch.empty_like(grad).index_copy_(0, order.order, (g * own).T)
            take_to_tangent(of_u, u, inverse)
            del u, rows_u
            of_z = order.unsorted(of_u).to(z.dtype)
        wanted = (of_z, of_offset, of_bound)
        needed = zip(wanted, ctx.needs_input_grad[:3], strict=True)
        return *(once(x) if need else None for x, need in needed), None


def _above(loss: Tensor, least: Tensor) -> Tensor:
    """1 where a pair loss is above the least, else 0, as a number: comparisons are slow."""
    return (loss - least).mul_(_STEEP).clamp_(0, 1)


def _finite(offset: Tensor) -> Tensor:
    """The offsets, 0 for anchors without a member."""
    return torch.where(offset.isfinite(), offset, 0.0).contiguous()

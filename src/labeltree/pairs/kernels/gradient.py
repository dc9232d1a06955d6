"""The gradient of the pair statistics by a Triton kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.pairs.kernels.launch import splits
from labeltree.pairs.kernels.layout import tiles_between
from labeltree.pairs.kernels.problem import ROW, SMALL, Problem

__all__ = ["Weights", "add_least", "summed_gradient", "weigh"]


@dataclass(frozen=True, eq=False)
class Weights:
    """By relation and place of the query `(R, n_pad)`: what its pairs weigh in the gradient.

    Attributes:
        weight: of the exponential.
        denominator: log₂ of what divides it, unless that is in the weight already.
        slope: of the sum.
        flags: of `gradient_kernel`.
    """

    weight: Tensor
    denominator: Tensor
    slope: Tensor
    flags: int


def weigh(problem: Problem, of_sum: Tensor | None, of_lse: Tensor | None, lse: Tensor) -> Weights:
    """What the gradients of sum and lse `(n, R)`, None for 0, make of the pairs."""
    u, temperature = problem.queries, problem.temperature
    weight = denominator = slope = lse.new_empty(0)
    flags = problem.flags & SMALL
    if of_lse is not None:
        flags |= 1
        present = lse > -torch.inf
        lse = torch.where(present, lse, 0.0)
        factor = torch.where(present, of_lse, 0.0) * (problem.scale / temperature)
        if flags & SMALL:
            factor = factor * (-lse).exp()
        else:
            denominator = u.placed(lse * math.log2(math.e)).T.contiguous()
        weight = u.placed(factor).T.contiguous()
    if of_sum is not None:
        flags |= 2
        slope = u.placed(of_sum / temperature).T.contiguous()
    return Weights(weight, denominator, slope, flags)


def summed_gradient(problem: Problem, tables: Weights, flags: int) -> Tensor:
    """The gradient of the queries' unit vectors if the row's tables count, else that of the keys'."""
    from labeltree.pairs.kernels.backward import gradient_kernel

    u, v, x, y, tiles = problem.queries, problem.keys, problem.of_queries, problem.of_keys, problem.tiles
    if not flags & ROW:
        u, v, x, y = v, u, y, x
        tiles = tiles_between(problem.relation, u, v, problem.how.tile)
    how, (blocks, num_tiles) = problem.how, tiles.code.shape
    parts, span = splits(blocks, num_tiles, u.order.device)
    pad_x, pad_y = u.labels.shape[1], v.labels.shape[1]
    out = torch.empty((parts, pad_x, how.width), device=u.order.device)
    table = (tables.weight, tables.denominator, tables.slope)
    with torch.cuda.device_of(u.labels):  # type: ignore[no-untyped-call]  # kernels run there
        for mixed in (False, True):
            gradient_kernel[(blocks, parts)](
                x.rows, x.inverse, u.labels, y.rows, y.inverse, v.labels,
                tiles.code, tiles.end, problem.exponents,
                *table, *table, out, pad_x, pad_y, len(v), num_tiles, span,
                T=how.tile, D=how.width, L=problem.relation.max_depth, R=problem.relation.num_relations,
                REFINED=problem.relation.refined, F=tables.flags | flags, PRECISION=how.precision,
                HALF=how.half, MIXED=mixed, num_warps=2 * how.num_warps if mixed else how.num_warps,
                num_stages=how.num_stages,
            )  # fmt: skip
    return u.restored((out.sum(0) if parts > 1 else out[0])[:, : problem.d])


def add_least(of_x: Tensor, of_y: Tensor, x: Tensor, y: Tensor, slope: Tensor, index: Tensor) -> None:
    """Add the gradient of the smallest cosines, one pair for each row and relation."""
    for code in range(index.shape[1]):
        key = index[:, code]
        present = (key >= 0)[:, None]
        key, here = key.clamp(min=0), torch.where(present, slope[:, code, None], 0.0)
        of_x += here * y[key]
        of_y.index_add_(0, key, here * x)

"""The gradient of the pair statistics by a Triton kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.pairs.kernels.launch import splits
from labeltree.pairs.kernels.layout import Side, tiles_between
from labeltree.pairs.kernels.problem import ROW, SMALL, Problem

__all__ = ["Weights", "add_least", "summed_gradient", "weigh"]


@dataclass(frozen=True, eq=False)
class Weights:
    """By query and relation `(n, R)`: what its pairs weigh in the gradient.

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

    def placed(self, side: Side, rows: slice = slice(None)) -> tuple[Tensor, Tensor, Tensor]:
        """The three tables of some rows as kernels take them, `(R, n_pad)`; nothing of those not in use."""
        tables = (self.weight, self.denominator, self.slope)
        placed = [side.placed(x[rows]).T.contiguous() if x.ndim == 2 else x for x in tables]
        return placed[0], placed[1], placed[2]


def weigh(problem: Problem, of_sum: Tensor | None, of_lse: Tensor | None, lse: Tensor) -> Weights:
    """What the gradients of sum and lse `(n, R)`, None for 0, make of the pairs."""
    temperature = problem.temperature
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
            denominator = lse * math.log2(math.e)
        weight = factor
    if of_sum is not None:
        flags |= 2
        slope = of_sum / temperature
    return Weights(weight, denominator, slope, flags)


def summed_gradient(problem: Problem, weights: Weights, flags: int) -> Tensor:
    """The gradient of unit vectors: if the row's tables count of the queries walked over, else of the keys.

    Where queries and keys are one batch both count: a pair gives to its row as somebody's key, too.
    """
    from labeltree.pairs.kernels.backward import gradient_kernel

    pairs = problem.pairs
    u, v, x, y, tiles = pairs.queries, pairs.keys, pairs.of_queries, pairs.of_keys, pairs.tiles
    if not flags & ROW:
        u, v, x, y = v, u, y, x
        tiles = tiles_between(pairs.relation, u, v, pairs.how.tile)
    how, (blocks, num_tiles) = pairs.how, tiles.code.shape
    parts, span = splits(blocks, num_tiles, u.order.device)
    pad_x, pad_y = u.labels.shape[1], v.labels.shape[1]
    out = torch.empty((parts, pad_x, how.width), dtype=torch.float32, device=u.order.device)
    if flags & ROW:
        of_row = weights.placed(u, slice(None) if pairs.shard is None else pairs.shard)
        of_column = weights.placed(v) if pairs.shard is not None else of_row
    else:
        of_row = of_column = weights.placed(v)
    with torch.cuda.device_of(u.labels):  # type: ignore[no-untyped-call]  # kernels run there
        for mixed in (False, True):
            gradient_kernel[(blocks, parts)](
                x.rows, x.inverse, u.labels, y.rows, y.inverse, v.labels,
                tiles.code, tiles.end, problem.exponents,
                *of_row, *of_column, out, pad_x, pad_y, len(v), num_tiles, span,
                T=how.tile, D=how.width, L=pairs.relation.max_depth, R=pairs.relation.num_relations,
                REFINED=pairs.relation.refined, F=weights.flags | flags, PRECISION=how.precision,
                HALF=how.half, MIXED=mixed, num_warps=2 * how.num_warps if mixed else how.num_warps,
                num_stages=how.num_stages,
            )  # fmt: skip
    return u.restored((out.sum(0) if parts > 1 else out[0])[:, : pairs.d])


def add_least(of_x: Tensor, of_y: Tensor, x: Tensor, y: Tensor, slope: Tensor, index: Tensor) -> None:
    """Add the gradient of the smallest cosines, one pair for each row and relation."""
    for code in range(index.shape[1]):
        key = index[:, code]
        present = (key >= 0)[:, None]
        key, here = key.clamp(min=0), torch.where(present, slope[:, code, None], 0.0)
        of_x += here * y[key]
        of_y.index_add_(0, key, here * x)

"""Pair statistics by Triton kernels, for cosine similarity and relations of labels.

Memory is O(n (d + R)). Half-precision vectors are multiplied as they are, which is exact in float32, and
their norms divided out afterwards; the slopes of pairs are rounded to bfloat16 before they are multiplied by
vectors again, and gradients add up in float32. That errs by no more than the gradient then does as bfloat16,
0.2 %. Unit vectors rounded to bfloat16 would do for values (1e-6), but not for gradients: 0.2 % in random
directions, 1 % in clusters of radius 0.5, and 20 % in clusters of radius 0.1 (n = 1024, d = 128, τ = 0.1).

float32 vectors are multiplied in float32 proper ("ieee"), which no tensor core does, unless
`torch.set_float32_matmul_precision` allows otherwise. With a shard, only its rows are walked over.
"""

from __future__ import annotations

import math
from collections.abc import Collection, MutableMapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from labeltree.geometry import Sphere
from labeltree.geometry.hand_written import single_backward
from labeltree.pairs.kernels.launch_kernels import COLUMN, ROW, SMALL, Problem, pairs_of, splits, turns
from labeltree.pairs.kernels.layout import Side, tiles_between
from labeltree.pairs.manual_gradient import manual_gradient
from labeltree.pairs.pair_results import PairStatistics, Statistic
from labeltree.pairs.relation import PairRelation

__all__ = ["pair_counts", "pair_statistics"]

_FLAGS: dict[Statistic, int] = {"count": 0, "lse": 1, "sum": 2, "least": 4, "least_index": 4}
_LARGEST: MutableMapping[Tensor, tuple[int | None, float]] = WeakTensorKeyDictionary()
_SAFE_LOGIT = 40.0  # exp of ±40 and their sums and ratios are far from the ends of float32


def pair_statistics(
    queries: Tensor,
    keys: Tensor,
    relation: PairRelation,
    temperature: float,
    *,
    scale: Tensor | None,
    want: Collection[Statistic],
    tile: int | None,
) -> PairStatistics:
    """As `labeltree.pairs.pair_statistics`."""
    sphere = Sphere()
    x = sphere.project(queries)
    y = x if queries is keys else sphere.project(keys)
    with torch.no_grad():
        size = relation.num_relations
        omega = torch.ones(size, dtype=torch.float32, device=x.device)
        if scale is not None:
            omega = scale.detach().float().contiguous()
        flags = 0
        for name in want:
            flags |= _FLAGS[name]
        if (1.0 if scale is None else _largest(scale)) / temperature <= _SAFE_LOGIT:
            flags |= SMALL
        problem = Problem(pairs_of(relation, (queries, keys), (x, y), tile), temperature, omega, flags)
    statistics = _Statistics.apply(x, y, problem)
    count, total, lse, least, index = statistics
    return PairStatistics(
        count if "count" in want else None,
        total if "sum" in want else None,
        lse if "lse" in want else None,
        least if "least" in want else None,
        index if "least_index" in want else None,
    )


def _largest(scale: Tensor) -> float:
    """max |ω|, cached per scale, as it waits for the GPU."""
    if scale.is_inference():  # has no version
        return float(scale.abs().max())
    version, largest = _LARGEST.get(scale, (None, 0.0))
    if version != scale._version:
        largest = float(scale.detach().abs().max())
        _LARGEST[scale] = (scale._version, largest)
    return largest


def pair_counts(relation: PairRelation, tile: int | None) -> Tensor:
    """As `labeltree.pairs.pair_counts`: the walk without products."""
    pairs = pairs_of(relation, None, None, tile)
    scale = torch.empty(relation.num_relations, dtype=torch.float32, device=pairs.queries.order.device)
    return _forward(Problem(pairs, 1.0, scale, 0))[0]


def _forward(problem: Problem) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """count, sum, lse, least and its index, `(n, R)`; empty if not requested."""
    from labeltree.pairs.kernels.statistics_kernels import statistics_kernel

    pairs, flags = problem.pairs, problem.flags
    u, v, how = pairs.queries, pairs.keys, pairs.how
    pad_x, pad_y, size = u.labels.shape[1], v.labels.shape[1], pairs.relation.num_relations
    blocks, tiles = pairs.tiles.code.shape
    parts, span = splits(blocks, tiles, u.order.device)
    programs = parts, turns(parts, tiles)
    fields = [
        torch.full((sum(programs), size, pad_x if used else 0), nothing, dtype=dtype, device=u.order.device)
        for used, nothing, dtype in (
            (flags & 1, -torch.inf, torch.float32),
            (flags & 1, 0, torch.float32),
            (flags & 2, 0, torch.float32),
            (flags & 4, torch.inf, torch.float32),
            (flags & 4, torch.iinfo(torch.int32).max, torch.int32),
            (1, 0, torch.int32),
        )
    ]
    with torch.cuda.device_of(u.labels):  # type: ignore[no-untyped-call]  # kernels run there
        for mixed in (False, True):
            statistics_kernel[(blocks, programs[mixed])](
                pairs.of_queries.rows, pairs.of_queries.inverse, u.labels,
                pairs.of_keys.rows, pairs.of_keys.inverse, v.labels,
                pairs.tiles.code, pairs.tiles.end, problem.exponents,
                *(field[parts:] if mixed else field for field in fields), pad_x, pad_y, len(v), tiles, span,
                T=how.tile, D=how.width, L=pairs.relation.max_depth, R=size,
                REFINED=pairs.relation.refined, F=flags, PRECISION=how.precision, MIXED=mixed,
                num_warps=how.num_warps,
                num_stages=min(2, how.num_stages),  # two programs fit on a multiprocessor
            )  # fmt: skip
    peak, exps, total, least, index, count = fields
    statistics, numbers = [], [u.restored(count.sum(0).T).long()]
    if flags & 1:
        lse = exps.log() if flags & SMALL else peak * math.log(2) + exps.log()
        statistics.append(u.restored(lse.logsumexp(0).T))
    norm = pairs.of_queries.inverse[:, None] / problem.temperature
    if flags & 2:
        statistics.append(u.restored(total.sum(0).T * norm))
    if flags & 4:
        near = least.amin(0)
        index = torch.where(least == near, index, torch.iinfo(torch.int32).max).amin(0)
        present = near < torch.inf
        statistics.append(u.restored(torch.where(present.T, near.T * norm, torch.inf)))
        numbers.append(u.restored(torch.where(present, index, -1).T).long())
    numbers = pairs.from_ranks(numbers)
    statistics = pairs.from_ranks(statistics) if statistics else statistics
    nothing = peak.new_empty((0, size))
    lse, total, least = (statistics.pop(0) if flags & flag else nothing for flag in (1, 2, 4))
    return numbers[0], total, lse, least, numbers[1] if flags & 4 else nothing.long()


class _Statistics(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, problem: Problem) -> tuple[Tensor, ...]:
        count, total, lse, least, index = _forward(problem)
        ctx.problem = problem
        ctx.save_for_backward(x, y, lse, index)
        ctx.mark_non_differentiable(count, index)
        ctx.set_materialize_grads(False)
        return count, total, lse, least, index

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        x, y, lse, index = ctx.saved_tensors
        problem: Problem = ctx.problem
        pairs = problem.pairs
        _, grad_sum, grad_lse, grad_least, _ = (None if g is None else g.detach() for g in grads)
        with manual_gradient(x.device):
            grad_x = grad_y = None
            if grad_sum is not None or grad_lse is not None:
                weights = _weigh(problem, grad_sum, grad_lse, lse)
                if pairs.alike:  # both sides' gradient, all of it given to x
                    grad_x = pairs.whole(_summed_gradient(problem, weights, ROW | COLUMN))
                else:
                    grad_x = _summed_gradient(problem, weights, ROW) if ctx.needs_input_grad[0] else None
                    grad_y = _summed_gradient(problem, weights, COLUMN) if ctx.needs_input_grad[1] else None
            if grad_least is not None:
                grad_x = torch.zeros_like(x) if grad_x is None else grad_x
                grad_y = grad_x if pairs.alike else torch.zeros_like(y) if grad_y is None else grad_y
                _add_least(grad_x, grad_y, x, y, grad_least / problem.temperature, index)
            if pairs.alike:
                grad_y = None
        gradients = zip((grad_x, grad_y), ctx.needs_input_grad[:2], strict=True)
        inputs = (*grads, x, y)
        return *(
            single_backward(g, *inputs) if needed and g is not None else None for g, needed in gradients
        ), None


@dataclass(frozen=True, eq=False)
class _Weights:
    """Weights of pairs in the gradient, by query and relation `(n, R)`.

    Attributes:
        weight: Weight of the exponential.
        denominator: log₂ of what divides it, unless that is in the weight already.
        slope: Slope of the sum.
        flags: Flags of `gradient_kernel`.
    """

    weight: Tensor
    denominator: Tensor
    slope: Tensor
    flags: int

    def placed(self, side: Side, rows: slice = slice(None)) -> tuple[Tensor, Tensor, Tensor]:
        """The three tables of some rows as input of kernels, `(R, n_pad)`; empty if not used."""
        tables = (self.weight, self.denominator, self.slope)
        placed = [side.placed(x[rows]).T.contiguous() if x.ndim == 2 else x for x in tables]
        return placed[0], placed[1], placed[2]


def _weigh(problem: Problem, grad_sum: Tensor | None, grad_lse: Tensor | None, lse: Tensor) -> _Weights:
    """The weights of pairs from the gradients of sum and lse `(n, R)`, None for 0."""
    temperature = problem.temperature
    weight = denominator = slope = lse.new_empty(0)
    flags = problem.flags & SMALL
    if grad_lse is not None:
        flags |= 1
        present = lse > -torch.inf
        lse = torch.where(present, lse, 0.0)
        factor = torch.where(present, grad_lse, 0.0) * (problem.scale / temperature)
        if flags & SMALL:
            factor = factor * (-lse).exp()
        else:
            denominator = lse * math.log2(math.e)
        weight = factor
    if grad_sum is not None:
        flags |= 2
        slope = grad_sum / temperature
    return _Weights(weight, denominator, slope, flags)


def _summed_gradient(problem: Problem, weights: _Weights, flags: int) -> Tensor:
    """The gradient of unit vectors: if the row's tables count of the queries walked over, else of the keys.

    If queries and keys are one batch both count: a pair also contributes to its row as a key.
    """
    from labeltree.pairs.kernels.statistics_kernels import gradient_kernel

    pairs = problem.pairs
    u, v, x, y, tiles = pairs.queries, pairs.keys, pairs.of_queries, pairs.of_keys, pairs.tiles
    if not flags & ROW:
        u, v, x, y = v, u, y, x
        tiles = tiles_between(pairs.relation, u, v, pairs.how.tile)
    how, (blocks, num_tiles) = pairs.how, tiles.code.shape
    parts, span = splits(blocks, num_tiles, u.order.device)
    programs = parts, turns(parts, num_tiles)
    pad_x, pad_y = u.labels.shape[1], v.labels.shape[1]
    out = torch.empty((sum(programs), pad_x, how.width), dtype=torch.float32, device=u.order.device)
    if flags & ROW:
        of_row = weights.placed(u, slice(None) if pairs.shard is None else pairs.shard)
        of_column = weights.placed(v) if pairs.shard is not None else of_row
    else:
        of_row = of_column = weights.placed(v)
    with torch.cuda.device_of(u.labels):  # type: ignore[no-untyped-call]  # kernels run there
        for mixed in (False, True):
            gradient_kernel[(blocks, programs[mixed])](
                x.rows, x.inverse, u.labels, y.rows, y.inverse, v.labels,
                tiles.code, tiles.end, problem.exponents,
                *of_row, *of_column, out[parts:] if mixed else out, pad_x, pad_y, len(v), num_tiles, span,
                T=how.tile, D=how.width, L=pairs.relation.max_depth, R=pairs.relation.num_relations,
                REFINED=pairs.relation.refined, F=weights.flags | flags, PRECISION=how.precision,
                HALF=how.half, MIXED=mixed, num_warps=2 * how.num_warps if mixed else how.num_warps,
                num_stages=how.num_stages,
            )  # fmt: skip
    return u.restored(out.sum(0)[:, : pairs.d])


def _add_least(grad_x: Tensor, grad_y: Tensor, x: Tensor, y: Tensor, slope: Tensor, index: Tensor) -> None:
    """Add the gradient of the smallest cosines, one pair for each row and relation."""
    for code in range(index.shape[1]):
        key = index[:, code]
        present = (key >= 0)[:, None]
        key, here = key.clamp(min=0), torch.where(present, slope[:, code, None], 0.0)
        grad_x += here * y[key]
        grad_y.index_add_(0, key, here * x)

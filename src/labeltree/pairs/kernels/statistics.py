"""Pair statistics by Triton kernels, for cosine similarity and relations of labels.

Memory is O(n (d + R)). Products of half-precision vectors are exact in float32, and their slopes are rounded
to bfloat16 before they are multiplied by vectors again; float32 vectors are multiplied in float32 proper
("ieee"), which no tensor core does, unless `torch.set_float32_matmul_precision` allows otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Collection, MutableMapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from labeltree.geometry import Sphere
from labeltree.pairs.kernels.gradient import add_least, summed_gradient, weigh
from labeltree.pairs.kernels.launch import WIDEST, Vectors, can_run, settings, splits, vectors
from labeltree.pairs.kernels.layout import sides, tiles_between
from labeltree.pairs.kernels.problem import COLUMN, ROW, SMALL, Problem
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.similarity import Similarity
from labeltree.pairs.streaming.once import by_hand, once
from labeltree.pairs.summary import PairStatistics, Statistic

__all__ = ["pair_counts", "pair_statistics", "supports", "supports_counts"]

_FLAGS: dict[Statistic, int] = {"count": 0, "lse": 1, "sum": 2, "least": 4, "least_index": 4}
_LARGEST: MutableMapping[Tensor, tuple[int | None, float]] = WeakTensorKeyDictionary()
_SAFE_LOGIT = 40.0  # exp of ±40 and their sums and ratios are far from the ends of float32


def supports_counts(relation: PairRelation) -> bool:
    """Whether the kernels know a relation: of labels, on a device that they run on."""
    if type(relation) is not PairRelation or not relation.num_queries or not relation.num_keys:
        return False
    return can_run(relation.queries.nodes.device)


def supports(
    queries: Tensor,
    keys: Tensor,
    relation: PairRelation,
    temperature: float | Tensor,
    similarity: Similarity,
    scale: Tensor | None,
    want: Collection[Statistic],
) -> bool:
    """Whether the kernels compute these statistics, and all gradients that are asked for."""
    learned = isinstance(temperature, Tensor) or (scale is not None and scale.requires_grad)
    if similarity != "cosine" or "weighted" in want or learned or queries.shape[1] > WIDEST:
        return False
    narrow = queries.dtype != torch.float64 and keys.dtype != torch.float64
    return narrow and queries.shape[1] > 0 and supports_counts(relation)


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
    """As `labeltree.pairs.pair_statistics`, where `supports` says so."""
    sphere = Sphere()
    how = settings(queries.dtype if queries.dtype == keys.dtype else torch.float32, queries.shape[1], tile)
    alike = queries is keys and relation.queries is relation.keys and relation.offset in (0, None)
    x = sphere.project(queries)
    y = x if alike else sphere.project(keys)
    with torch.no_grad():
        u, v = sides(relation, how.tile)
        of_queries = vectors(queries.detach(), x.detach(), u, how)
        of_keys = of_queries if alike else vectors(keys.detach(), y.detach(), v, how)
        size = relation.num_relations
        omega = torch.ones(size, device=x.device) if scale is None else scale.detach().float().contiguous()
        flags = 0
        for name in want:
            flags |= _FLAGS[name]
        if (1.0 if scale is None else _largest(scale)) / temperature <= _SAFE_LOGIT:
            flags |= SMALL
        problem = Problem(
            relation, u, v, of_queries, of_keys, tiles_between(relation, u, v, how.tile),
            how, temperature, omega, flags, queries.shape[1],
        )  # fmt: skip
    found = _Statistics.apply(x, y, problem)
    count, total, lse, least, index = found
    return PairStatistics(
        count if "count" in want else None,
        total if "sum" in want else None,
        lse if "lse" in want else None,
        least if "least" in want else None,
        index if "least_index" in want else None,
    )


def _largest(scale: Tensor) -> float:
    """max |ω|, for which the GPU is waited for once as long as a scale stays what it is."""
    if scale.is_inference():  # has no version
        return float(scale.abs().max())
    version, largest = _LARGEST.get(scale, (None, 0.0))
    if version != scale._version:
        largest = float(scale.detach().abs().max())
        _LARGEST[scale] = (scale._version, largest)
    return largest


def pair_counts(relation: PairRelation, tile: int | None) -> Tensor:
    """As `labeltree.pairs.pair_counts`: the walk without products."""
    how = settings(torch.bfloat16, 1, tile)
    u, v = sides(relation, how.tile)
    nothing = Vectors(torch.empty(0, device=u.order.device), torch.empty(0, device=u.order.device))
    scale = torch.empty(relation.num_relations, device=u.order.device)
    tiles = tiles_between(relation, u, v, how.tile)
    return _forward(Problem(relation, u, v, nothing, nothing, tiles, how, 1.0, scale, 0, 0))[0]


def _forward(problem: Problem) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """count, sum, lse, least and its index, `(n, R)`; those not asked for are empty."""
    from labeltree.pairs.kernels.forward import statistics_kernel

    u, v, how, flags = problem.queries, problem.keys, problem.how, problem.flags
    pad_x, pad_y, size = u.labels.shape[1], v.labels.shape[1], problem.relation.num_relations
    blocks, tiles = problem.tiles.code.shape
    parts, span = splits(blocks, tiles, u.order.device)
    fields = [
        torch.empty((parts, size, pad_x if used else 0), dtype=dtype, device=u.order.device)
        for used, dtype in (
            (flags & 1, torch.float32),
            (flags & 1, torch.float32),
            (flags & 2, torch.float32),
            (flags & 4, torch.float32),
            (flags & 4, torch.int32),
            (1, torch.int32),
        )
    ]
    with torch.cuda.device_of(u.labels):  # type: ignore[no-untyped-call]  # kernels run there
        for mixed in (False, True):
            statistics_kernel[(blocks, parts)](
                problem.of_queries.rows, problem.of_queries.inverse, u.labels,
                problem.of_keys.rows, problem.of_keys.inverse, v.labels,
                problem.tiles.code, problem.tiles.end, problem.exponents,
                *fields, pad_x, pad_y, len(v), tiles, span,
                T=how.tile, D=how.width, L=problem.relation.max_depth, R=size,
                REFINED=problem.relation.refined, F=flags, PRECISION=how.precision, MIXED=mixed,
                num_warps=how.num_warps,
                num_stages=min(2, how.num_stages),  # two programs fit on a multiprocessor
            )  # fmt: skip
    peak, exps, total, least, index, count = fields
    count = u.restored(count.sum(0).T)
    if flags & 1:
        lse = exps.log() if flags & SMALL else peak * math.log(2) + exps.log()
        peak = u.restored(lse.logsumexp(0).T)
    if flags & 6:
        norm = (problem.of_queries.inverse / problem.temperature)[:, None]
        if flags & 2:
            total = u.restored(total.sum(0).T * norm)
        if flags & 4:
            near = least.amin(0)
            index = torch.where(least == near, index, torch.iinfo(torch.int32).max).amin(0)
            present = near < torch.inf
            least = u.restored(torch.where(present.T, near.T * norm, torch.inf))
            index = u.restored(torch.where(present, index, -1).T)
    return count, total, peak, least, index.long()


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
        _, of_sum, of_lse, of_least, _ = (None if g is None else g.detach() for g in grads)
        with by_hand(x.device):
            of_x = of_y = None
            if of_sum is not None or of_lse is not None:
                tables = weigh(problem, of_sum, of_lse, lse)
                if problem.alike:  # both sides' gradient, all of it given to x
                    of_x = summed_gradient(problem, tables, ROW | COLUMN)
                else:
                    of_x = summed_gradient(problem, tables, ROW) if ctx.needs_input_grad[0] else None
                    of_y = summed_gradient(problem, tables, COLUMN) if ctx.needs_input_grad[1] else None
            if of_least is not None:
                of_x = torch.zeros_like(x) if of_x is None else of_x
                of_y = of_x if problem.alike else torch.zeros_like(y) if of_y is None else of_y
                add_least(of_x, of_y, x, y, of_least / problem.temperature, index)
            if problem.alike:
                of_y = None
        found = zip((of_x, of_y), ctx.needs_input_grad[:2], strict=True)
        return *(once(g) if needed and g is not None else None for g, needed in found), None

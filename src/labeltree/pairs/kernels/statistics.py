"""Pair statistics by Triton kernels, for cosine similarity and relations of labels.

Memory is O(n (d + R)). Products of half-precision vectors are exact in float32, and their slopes are rounded
to bfloat16 before they are multiplied by vectors again; float32 vectors are multiplied in float32 proper
("ieee"), which no tensor core does, unless `torch.set_float32_matmul_precision` allows otherwise.
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
from labeltree.pairs.kernels.launch import WIDEST, Settings, Vectors, can_run, settings, splits, vectors
from labeltree.pairs.kernels.layout import Side, Tiles, sides, tiles_between
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.similarity import Similarity
from labeltree.pairs.streaming.once import once
from labeltree.pairs.summary import PairStatistics, Statistic

__all__ = ["pair_counts", "pair_statistics", "supports", "supports_counts"]

_FLAGS: dict[Statistic, int] = {"lse": 1, "sum": 2, "least": 4}
_SMALL, _ROW, _COLUMN = 8, 16, 32
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


@dataclass(frozen=True, eq=False)
class _Problem:
    """One problem for the kernels: two sides, sorted, and what is asked of their pairs."""

    relation: PairRelation
    queries: Side
    keys: Side
    of_queries: Vectors
    of_keys: Vectors
    tiles: Tiles
    how: Settings
    temperature: float
    scale: Tensor  # ω, float32
    flags: int
    d: int

    @property
    def alike(self) -> bool:
        return self.of_queries is self.of_keys


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
        flags = sum(_FLAGS[name] for name in want if name in _FLAGS)
        if (1.0 if scale is None else _largest(scale)) / temperature <= _SAFE_LOGIT:
            flags |= _SMALL
        problem = _Problem(
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
        index if "least" in want else None,
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
    return _forward(_Problem(relation, u, v, nothing, nothing, tiles, how, 1.0, scale, 0, 0))[0]


def _forward(problem: _Problem) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
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
    for mixed in (False, True):
        statistics_kernel[(blocks, parts)](
            problem.of_queries.rows, problem.of_queries.inverse, u.labels,
            problem.of_keys.rows, problem.of_keys.inverse, v.labels,
            problem.tiles.code, problem.tiles.end, problem.scale * (math.log2(math.e) / problem.temperature),
            *fields, pad_x, pad_y, len(v), tiles, span,
            T=how.tile, D=how.width, L=problem.relation.max_depth, R=size, REFINED=problem.relation.refined,
            F=flags, PRECISION=how.precision, MIXED=mixed, num_warps=how.num_warps,
            num_stages=min(2, how.num_stages),  # two programs fit on a multiprocessor
        )  # fmt: skip
    peak, exps, total, least, index, count = fields
    count = u.restored(count.sum(0).T)
    if flags & 1:
        lse = exps.log() if flags & _SMALL else peak * math.log(2) + exps.log()
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
    def forward(ctx: Any, x: Tensor, y: Tensor, problem: _Problem) -> tuple[Tensor, ...]:
        count, total, lse, least, index = _forward(problem)
        ctx.problem = problem
        ctx.save_for_backward(x, y, lse, index)
        ctx.mark_non_differentiable(count, index)
        ctx.set_materialize_grads(False)
        return count, total, lse, least, index

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        x, y, lse, index = ctx.saved_tensors
        problem: _Problem = ctx.problem
        _, of_sum, of_lse, of_least, _ = (None if g is None else g.detach() for g in grads)
        with torch.no_grad():
            of_x = of_y = None
            if of_sum is not None or of_lse is not None:
                tables = _tables(problem, of_sum, of_lse, lse)
                if problem.alike:  # both sides' gradient, all of it given to x
                    of_x = _gradient(problem, tables, _ROW | _COLUMN)
                else:
                    of_x = _gradient(problem, tables, _ROW) if ctx.needs_input_grad[0] else None
                    of_y = _gradient(problem, tables, _COLUMN) if ctx.needs_input_grad[1] else None
            if of_least is not None:
                of_x = torch.zeros_like(x) if of_x is None else of_x
                of_y = of_x if problem.alike else torch.zeros_like(y) if of_y is None else of_y
                _add_least(of_x, of_y, x, y, of_least / problem.temperature, index)
            if problem.alike:
                of_y = None
        found = zip((of_x, of_y), ctx.needs_input_grad[:2], strict=True)
        return *(once(g) if needed and g is not None else None for g, needed in found), None


@dataclass(frozen=True, eq=False)
class _Tables:
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


def _tables(problem: _Problem, of_sum: Tensor | None, of_lse: Tensor | None, lse: Tensor) -> _Tables:
    u, temperature = problem.queries, problem.temperature
    weight = denominator = slope = lse.new_empty(0)
    flags = problem.flags & _SMALL
    if of_lse is not None:
        flags |= 1
        present = lse > -torch.inf
        lse = torch.where(present, lse, 0.0)
        factor = torch.where(present, of_lse, 0.0) * (problem.scale / temperature)
        if flags & _SMALL:
            factor = factor * (-lse).exp()
        else:
            denominator = u.placed(lse * math.log2(math.e)).T.contiguous()
        weight = u.placed(factor).T.contiguous()
    if of_sum is not None:
        flags |= 2
        slope = u.placed(of_sum / temperature).T.contiguous()
    return _Tables(weight, denominator, slope, flags)


def _gradient(problem: _Problem, tables: _Tables, flags: int) -> Tensor:
    """The gradient of the queries' unit vectors if the row's tables count, else that of the keys'."""
    from labeltree.pairs.kernels.backward import gradient_kernel

    u, v, x, y, tiles = problem.queries, problem.keys, problem.of_queries, problem.of_keys, problem.tiles
    if not flags & _ROW:
        u, v, x, y = v, u, y, x
        tiles = tiles_between(problem.relation, u, v, problem.how.tile)
    how, (blocks, num_tiles) = problem.how, tiles.code.shape
    parts, span = splits(blocks, num_tiles, u.order.device)
    pad_x, pad_y = u.labels.shape[1], v.labels.shape[1]
    out = torch.empty((parts, pad_x, how.width), device=u.order.device)
    table = (tables.weight, tables.denominator, tables.slope)
    for mixed in (False, True):
        gradient_kernel[(blocks, parts)](
            x.rows, x.inverse, u.labels, y.rows, y.inverse, v.labels,
            tiles.code, tiles.end, problem.scale * (math.log2(math.e) / problem.temperature),
            *table, *table, out, pad_x, pad_y, len(v), num_tiles, span,
            T=how.tile, D=how.width, L=problem.relation.max_depth, R=problem.relation.num_relations,
            REFINED=problem.relation.refined, F=tables.flags | flags, PRECISION=how.precision, HALF=how.half,
            MIXED=mixed, num_warps=2 * how.num_warps if mixed else how.num_warps,
            num_stages=how.num_stages,
        )  # fmt: skip
    return u.restored((out.sum(0) if parts > 1 else out[0])[:, : problem.d])


def _add_least(of_x: Tensor, of_y: Tensor, x: Tensor, y: Tensor, slope: Tensor, index: Tensor) -> None:
    """Add the gradient of the smallest cosines, one pair for each row and relation."""
    for code in range(index.shape[1]):
        key = index[:, code]
        present = (key >= 0)[:, None]
        key, here = key.clamp(min=0), torch.where(present, slope[:, code, None], 0.0)
        of_x += here * y[key]
        of_y.index_add_(0, key, here * x)

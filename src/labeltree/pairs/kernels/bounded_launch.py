"""The bounded sum by Triton kernels, for cosine similarity and relations of labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labeltree.geometry import Sphere
from labeltree.geometry.hand_written import single_backward
from labeltree.pairs.kernels.launch_kernels import COLUMN, ROW, Pairs, pairs_of, splits, turns
from labeltree.pairs.kernels.layout import Side, tiles_between
from labeltree.pairs.manual_gradient import manual_gradient
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.tiles.bounded_sums import least_own

__all__ = ["MOST_TERMS", "bounded_sum"]

MOST_TERMS = 31  # bits of an int32 above 0


def bounded_sum(
    queries: Tensor,
    keys: Tensor,
    relation: PairRelation,
    temperature: float,
    *,
    members: Tensor,
    offset: Tensor,
    bound: Tensor,
    tile: int | None,
) -> Tensor:
    """As `labeltree.pairs.bounded_sum`."""
    x = Sphere().project(queries)
    y = x if queries is keys else Sphere().project(keys)
    with torch.no_grad():
        pairs = pairs_of(relation, (queries, keys), (x, y), tile)
        bits = members.new_zeros(members.shape[1] + 1, dtype=torch.int32)  # excluded pairs are in no term
        for term, member in enumerate(members):
            bits[:-1] |= member.int() << term
    total: Tensor = _Bounded.apply(x, y, offset, bound, _Work(pairs, bits, temperature))
    return total


@dataclass(frozen=True, eq=False)
class _Work:
    pairs: Pairs
    members: Tensor  # (R + 1,), see `bounded_sum_kernel`
    temperature: float


class _Bounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, offset: Tensor, bound: Tensor, work: _Work) -> Tensor:
        offset = torch.where(offset.isinf(), 0.0, offset)  # for anchors without a member
        least = least_own(offset, bound, work.temperature)
        (total,), (own, held) = (work.pairs.from_ranks(tables) for tables in _sums(work, offset, least))
        ctx.work = work
        ctx.save_for_backward(offset, least, own, held, x, y)
        return total + torch.where(held > 0, held * bound, 0.0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        offset, least, own, held, *sides = ctx.saved_tensors
        work: _Work = ctx.work
        pairs, (needs_x, needs_y, *_) = work.pairs, ctx.needs_input_grad
        with manual_gradient(grad.device):
            tables = (offset, least, grad / -work.temperature)
            grad_x = grad_y = None
            if pairs.alike and needs_x:  # the gradient of both sides, all assigned to x
                grad_x = pairs.whole(_gradient(work, tables, ROW | COLUMN))
            elif not pairs.alike:
                grad_x = _gradient(work, tables, ROW) if needs_x else None
                grad_y = _gradient(work, tables, COLUMN) if needs_y else None
            wanted = (grad_x, grad_y, grad * own, (grad * held).sum(0))
        needed = zip(wanted, ctx.needs_input_grad[:4], strict=True)
        inputs = grad, *sides, offset
        return *(single_backward(g, *inputs) if need and g is not None else None for g, need in needed), None


def _sums(work: _Work, offset: Tensor, least: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """`(n, T)` of the rows walked over: the sum of own losses; the numbers of own and of held pairs."""
    from labeltree.pairs.kernels.bounded_kernels import bounded_sum_kernel

    pairs, terms = work.pairs, offset.shape[1]
    u, v, x, y, how = pairs.queries, pairs.keys, pairs.of_queries, pairs.of_keys, pairs.how
    pad_x, (blocks, tiles) = u.labels.shape[1], pairs.tiles.code.shape
    parts, span = splits(blocks * terms, tiles, u.order.device)
    programs = parts, turns(parts, tiles)
    total = torch.empty((sum(programs), terms, pad_x), dtype=torch.float32, device=u.order.device)
    own, held = (torch.empty_like(total, dtype=torch.int32) for _ in range(2))
    of_offset, of_least = (_place(u, pairs.own(table)) for table in (offset, least))
    with torch.cuda.device_of(u.labels):  # type: ignore[no-untyped-call]  # kernels run there
        for mixed in (False, True):
            bounded_sum_kernel[(blocks, programs[mixed], terms)](
                x.rows, x.inverse / work.temperature, u.labels, y.rows, y.inverse, v.labels,
                pairs.tiles.code, pairs.tiles.end, work.members,
                of_offset, of_least, *(field[parts:] if mixed else field for field in (total, own, held)),
                pad_x, v.labels.shape[1], len(v), tiles, span,
                T=how.tile, D=how.width, L=pairs.relation.max_depth, R=pairs.relation.num_relations,
                REFINED=pairs.relation.refined, PRECISION=how.precision, MIXED=mixed,
                num_warps=how.num_warps, num_stages=min(2, how.num_stages),
            )  # fmt: skip
    sums, *numbers = (u.restored(field.sum(0).T) for field in (total, own, held))
    return [sums], numbers


def _gradient(work: _Work, tables: tuple[Tensor, Tensor, Tensor], flags: int) -> Tensor:
    """The gradient of unit vectors: if the row's tables count of the queries walked over, else of the keys.

    Args:
        work: The pairs and their terms.
        tables: `(n, T)` offset, least loss of its own and slope of every query.
        flags: `ROW`, `COLUMN` or both.
    """
    from labeltree.pairs.kernels.bounded_kernels import bounded_gradient_kernel

    pairs = work.pairs
    u, v, x, y, tiles = pairs.queries, pairs.keys, pairs.of_queries, pairs.of_keys, pairs.tiles
    how = pairs.how
    if flags & ROW:
        of_row = [_place(u, pairs.own(table)) for table in tables]
        of_column = of_row if pairs.shard is None else [_place(v, table) for table in tables]
    else:
        of_row = of_column = [_place(u, table) for table in tables]
        u, v, x, y = v, u, y, x
        tiles = tiles_between(pairs.relation, u, v, how.tile)
    blocks, num_tiles = tiles.code.shape
    parts, span = splits(blocks, num_tiles, u.order.device)
    programs = parts, turns(parts, num_tiles)
    out = torch.empty(
        (sum(programs), u.labels.shape[1], how.width), dtype=torch.float32, device=u.order.device
    )
    with torch.cuda.device_of(u.labels):  # type: ignore[no-untyped-call]  # kernels run there
        for mixed in (False, True):
            bounded_gradient_kernel[(blocks, programs[mixed])](
                x.rows, x.inverse / work.temperature, u.labels, y.rows, y.inverse, v.labels,
                tiles.code, tiles.end, work.members, *of_row, *of_column, out[parts:] if mixed else out,
                tables[0].shape[1], u.labels.shape[1], v.labels.shape[1], len(v), num_tiles, span,
                T=how.tile, D=how.width, L=pairs.relation.max_depth, R=pairs.relation.num_relations,
                REFINED=pairs.relation.refined, F=flags, PRECISION=how.precision, HALF=how.half,
                MIXED=mixed, num_warps=2 * how.num_warps if mixed else how.num_warps,
                num_stages=how.num_stages,
            )  # fmt: skip
    return u.restored(out.sum(0)[:, : pairs.d])


def _place(side: Side, table: Tensor) -> Tensor:
    """A table `(n, T)` as kernels take it, `(T, n_pad)`."""
    return side.placed(table).T.contiguous()

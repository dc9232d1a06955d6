"""The bounded sum over tiles, for any relation and similarity; of a shard's rows as in `general`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.geometry.hand_written import single_backward
from labeltree.pairs.gather_ranks import rows_of_all_ranks
from labeltree.pairs.manual_gradient import manual_gradient
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.similarity import Similarity, pair_similarity
from labeltree.pairs.tiles.bounded_sums import least_own
from labeltree.pairs.tiles.tile_gradients import TileGradients, relation_tiles

__all__ = ["bounded_sum"]


@dataclass(frozen=True, eq=False)
class _Walk:
    relation: PairRelation
    geometry: Geometry
    similarity: Similarity
    members: Tensor  # (T, R + 1), the last for excluded pairs
    tile: int | None
    shard: slice | None


def bounded_sum(
    queries: Tensor,
    keys: Tensor,
    relation: PairRelation,
    geometry: Geometry,
    temperature: float | Tensor,
    *,
    members: Tensor,
    offset: Tensor,
    bound: Tensor,
    similarity: Similarity,
    tile: int | None,
) -> Tensor:
    """As `labeltree.pairs.bounded_sum`."""
    members = torch.cat([members, members.new_zeros(len(members), 1)], dim=1)
    shard = relation.shard if queries is keys else None
    walk = _Walk(relation, geometry, similarity, members, tile, shard)
    total: Tensor = _Bounded.apply(queries, keys, offset, bound, temperature, walk)
    return total


class _Bounded(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        keys: Tensor,
        offset: Tensor,
        bound: Tensor,
        temperature: float | Tensor,
        walk: _Walk,
    ) -> Tensor:
        least = least_own(offset, bound, temperature)
        total = torch.zeros_like(offset)
        own, held = torch.zeros_like(offset, dtype=torch.int64), torch.zeros_like(offset, dtype=torch.int64)
        for rows, cols in relation_tiles(walk.relation, walk.shard, walk.tile):
            s = pair_similarity(queries[rows], keys[cols], walk.geometry, temperature, walk.similarity)
            codes = walk.relation.codes(rows, cols)
            for term, member in enumerate(walk.members):
                taking_part = member[codes]
                loss = offset[rows, term, None] - s
                kept = taking_part & (loss >= least[rows, term, None])
                number = kept.sum(1)
                own[rows, term] += number
                held[rows, term] += taking_part.sum(1) - number
                total[rows, term] += loss.masked_fill_(~kept, 0.0).sum(1)
        if walk.shard is not None:
            n, terms = len(offset), len(bound)
            total = rows_of_all_ranks(total[walk.shard], walk.shard, n)
            counts = rows_of_all_ranks(torch.cat([own, held], dim=1)[walk.shard], walk.shard, n)
            own, held = counts[:, :terms], counts[:, terms:]
        ctx.walk, ctx.temperature = walk, temperature
        ctx.save_for_backward(queries, keys, offset, least, own, held)
        return total + torch.where(held > 0, held * bound, 0.0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys, offset, least, own, held = ctx.saved_tensors
        walk: _Walk = ctx.walk
        with manual_gradient(grad.device):
            kind = walk.geometry, walk.similarity
            sums = TileGradients(queries, keys, *kind, ctx.temperature, shard=walk.shard)

            def slopes(s: Tensor, codes: Tensor, rows: slice) -> Tensor:
                slope = torch.zeros_like(s)
                for term, member in enumerate(walk.members):
                    kept = member[codes] & (offset[rows, term, None] - s >= least[rows, term, None])
                    slope -= kept * grad[rows, term, None]
                return slope

            for rows, cols in relation_tiles(walk.relation, walk.shard, walk.tile):
                s = sums.similarities(rows, cols)
                codes = walk.relation.codes(rows, cols)
                slope = slopes(s.detach(), codes, rows)
                if walk.shard is not None:
                    slope += slopes(s.detach().T, codes.T, cols).T
                sums.add(s, slope, rows, cols)
            wanted = (
                sums.grad_queries,
                sums.grad_keys,
                grad * own,
                (grad * held).sum(0),
                sums.grad_temperature,
            )
        needed = zip(wanted, ctx.needs_input_grad[:5], strict=True)
        inputs = grad, queries, keys, offset
        return *(single_backward(g, *inputs) if g is not None and need else None for g, need in needed), None

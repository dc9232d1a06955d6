"""Contrast with a queue under soft targets, over chunks of the queue.

The forward walks over the queue once and keeps a few numbers per query. The backward walks over it again and
adds up keys by the difference of target and softmax, pair by pair: in a tight cluster the two nearly cancel.
Found as two mean keys and subtracted at the end, they would agree in all but the last digits of float32,
which are what the gradient is made of. For the same reason keys count as differences to the query's own key.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labeltree.geometry import Sphere
from labeltree.geometry.hand_written import single_backward
from labeltree.geometry.precision import answer_dtype, widen
from labeltree.pairs.manual_gradient import manual_gradient, normalise_backward, unit_rows
from labeltree.pairs.pair_plan import Plan
from labeltree.pairs.pair_results import QueueContrast
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.tiles.grid import blocks
from labeltree.pairs.tiles.queue_chunks import Chunk, queue_chunks

__all__ = ["soft_target_contrast"]

_TILE = {"cpu": (256, 1024)}  # queries and stored keys; such a tile stays in the second-level cache
_LARGE_TILE = (4096, 8192)
_NOTHING = -2000.0  # 2 to this power is 0 in every floating-point format, and times 0 it is 0
_TOGETHER = 4  # tiles of queries in a walk over the queue


def soft_target_contrast(
    queries: Tensor,
    keys: Tensor,
    stored: Tensor,
    relation: PairRelation,
    *,
    positive: Tensor | None,
    members: Tensor,
    temperature: float,
    target_temperature: float,
    plan: Plan,
) -> QueueContrast:
    """As `labeltree.pairs.soft_target_contrast`."""
    sphere = Sphere()
    dtype = answer_dtype(queries, keys, stored)
    with torch.no_grad():
        z, inverse = unit_rows(queries.to(dtype))
        near = sphere.project(keys.detach().to(dtype))
        walk = _Walk(
            z,
            near,
            stored,
            relation,
            _sets(members, positive),
            scale=1 / temperature,
            sharpness=1 / target_temperature if target_temperature >= torch.finfo(dtype).tiny else math.inf,
            tile=(plan.tile, plan.tile) if plan.tile else _TILE.get(z.device.type, _LARGE_TILE),
            keep=plan.keep if queries.requires_grad else 0,
        )
        own = torch.linalg.vecdot(z, near) / temperature
        met = walk.meet(own)
    outputs: tuple[Tensor, Tensor, Tensor] = _OfQueries.apply(queries, own, walk, met, inverse)
    own, queue, pull = outputs
    lse = torch.logaddexp(torch.zeros_like(queue), queue) + own[:, None]
    return QueueContrast(own, lse, 1 + met.mass, (1 + met.mass) * own + pull, met.entropy)


def _sets(members: Tensor, positive: Tensor | None) -> Tensor:
    """Relations of candidates; that compete in all softmaxes; that compete in each, but not in all."""
    common = members.all(0)
    candidates = torch.zeros_like(common) if positive is None else positive
    return torch.stack([candidates, common, *(members & ~common)])


@dataclass(frozen=True, eq=False)
class _Met:
    """Results for b queries over the queue.

    Attributes:
        top: `(2 + T, b)` the greatest similarity in each of the sets, in units of log 2; −∞ in an empty one.
        lse: `(b, T)` log Σ_j exp(s_ij − s_i0), float64.
        mass: `(b,)` Σ_j z'_ij.
        pull: `(b,)` Σ_j z'_ij·(s_ij − s_i0).
        entropy: `(b,)` see `QueueContrast`.
        nearest: `(b, d)` Σ_j z'_ij·h_j, where the nearest candidates alone are targets; else empty.
        tiles: The first tiles, kept for the backward.
    """

    top: Tensor
    lse: Tensor
    mass: Tensor
    pull: Tensor
    entropy: Tensor
    nearest: Tensor
    tiles: list[_Tile]


@dataclass(frozen=True, eq=False)
class _Tile:
    """Some queries and a chunk of stored keys.

    Attributes:
        rows: The r queries.
        parts: Of every set that is met: its number; the rows that meet it, counted within the r, None being
            all; exponentials `(r, c)` of similarities less `top`, 0 for keys that are not in it; `top (r,)`.
    """

    rows: slice
    parts: list[tuple[int, Tensor | None, Tensor, Tensor]]

    @property
    def bytes(self) -> int:
        """The size of the tensors in bytes, without indices."""
        return sum(exponentials.nbytes for _, _, exponentials, _ in self.parts)


class _OfQueries(torch.autograd.Function):
    """s_i0, and what the queue's log-sum-exps and pulls are beyond it."""

    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, own: Tensor, walk: _Walk, met: _Met, inverse: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.walk, ctx.met, ctx.inverse, ctx.own = walk, met, inverse, own.detach()
        ctx.save_for_backward(queries)
        return own.clone(), met.lse.to(own.dtype), met.pull.clone()

    @staticmethod
    def backward(
        ctx: Any, grad_own: Tensor, grad_lse: Tensor, grad_pull: Tensor
    ) -> tuple[Tensor | None, ...]:
        (queries,) = ctx.saved_tensors
        with manual_gradient(grad_own.device):
            grad_z = ctx.walk.pull_back(ctx.own, ctx.met, grad_own, grad_lse, grad_pull)
            of_queries = normalise_backward(grad_z, ctx.walk.z, ctx.inverse).to(queries.dtype)
        return single_backward(of_queries, grad_own, grad_lse, grad_pull, queries), None, None, None, None


@dataclass(frozen=True, eq=False)
class _Walk:
    """The walk of queries over their queue.

    Attributes:
        z: `(b, d)` normalised queries.
        near: `(b, d)` their unit keys.
        stored: `(m, d)` the queue.
        relation: Relation of every query to every stored key.
        sets: `(2 + T, R)`, see `_sets`.
        scale: 1/τ0.
        sharpness: 1/τ of the targets; ∞: the nearest candidates alone.
        tile: Queries and stored keys of a tile.
        keep: Bytes of tiles to keep for the backward.
    """

    z: Tensor
    near: Tensor
    stored: Tensor
    relation: PairRelation
    sets: Tensor
    scale: float
    sharpness: float
    tile: tuple[int, int]
    keep: int

    def meet(self, own: Tensor) -> _Met:
        """The results for all queries, given `own (b,)`, s_i0."""
        parts, hard = len(self.sets), math.isinf(self.sharpness)
        rows = torch.zeros_like(own)
        top, lse = rows.new_empty(parts, len(rows)), widen(rows.new_empty(len(rows), parts - 2))
        mass, pull, entropy = (rows.clone() for _ in range(3))
        nearest = torch.zeros_like(self.z) if hard else rows.new_empty(0)
        tiles: list[_Tile] = []
        room = self.keep
        for many in blocks(len(rows), _TOGETHER * self.tile[0]):
            walk = [(block, *self._states(own[block.rows], hard)) for block in self._blocks(many)]
            for chunk, keys in self._chunks(many):
                for block, target, softmaxes in walk:
                    tile = _Tile(block.rows, [])
                    for part, at, scores, near in block.tiles(chunk, keys):
                        if part:
                            tile.parts.append((part, at, *softmaxes[part - 1].add(scores, at)))
                        else:
                            tile.parts.append((part, at, *target.add(near, scores, at, keys)))
                    room -= tile.bytes
                    if room >= 0:
                        tiles.append(tile)
            for block, target, (common, *further) in walk:
                here = block.rows
                top[0, here], mass[here], pull[here] = target.top, target.mass, target.pull
                entropy[here] = target.entropy
                for part, softmax in enumerate((common, *further), start=1):
                    top[part, here] = softmax.top
                merged = torch.stack([common.merged(softmax) for softmax in further], dim=1)
                lse[here] = merged - widen(own[here])[:, None]
                if hard:
                    nearest[here] = target.nearest
        return _Met(top, lse, mass, pull, entropy, nearest, tiles)

    def pull_back(
        self, own: Tensor, met: _Met, grad_own: Tensor, grad_lse: Tensor, grad_pull: Tensor
    ) -> Tensor:
        """The gradient of z `(b, d)` from those of what `_OfQueries` returns."""
        of_parts = self._weigh_parts(own, met, grad_lse, grad_pull)
        grad_z, grad_near = torch.zeros_like(self.z), grad_own.to(torch.float64, copy=True)
        for tile, keys in self._tiles(met):
            weights = None
            for part, at, exponentials, top in tile.parts:
                if part == 0 and len(met.nearest):
                    continue
                rows = tile.rows if at is None else at + tile.rows.start
                slope = of_parts[part, rows] * (_finite(top) - _finite(met.top[part, rows])).exp2()
                if weights is None and at is None:
                    weights = exponentials * slope[:, None]
                    continue
                if weights is None:
                    size = tile.rows.stop - tile.rows.start, exponentials.shape[1]
                    weights = exponentials.new_zeros(size)
                weights[slice(None) if at is None else at] += exponentials * slope[:, None]
            if weights is not None:
                grad_z[tile.rows].addmm_(weights, keys)
                grad_near[tile.rows] -= weights.sum(1)
        if len(met.nearest):
            grad_z.addcmul_(met.nearest, grad_pull[:, None])
            grad_near -= met.mass * grad_pull
        return grad_z.addcmul_(self.near, grad_near.to(grad_z.dtype)[:, None]).mul_(self.scale)

    def _weigh_parts(self, own: Tensor, met: _Met, grad_lse: Tensor, grad_pull: Tensor) -> Tensor:
        """What the exponential of a similarity less its set's `top` weighs in the gradient, `(2 + T, b)`."""
        lse = (met.lse + widen(own)[:, None]) / math.log(2)
        share = (met.top[1:, :, None] - lse).exp2()  # the common keys' in each softmax first
        share = torch.where(met.top[1:, :, None] == -torch.inf, 0.0, share) * grad_lse
        target = torch.zeros_like(grad_pull) if len(met.nearest) else grad_pull
        return torch.stack([target, share[0].sum(1), *share[1:].diagonal(dim1=0, dim2=2).T]).to(own.dtype)

    def _states(self, own: Tensor, hard: bool) -> tuple[_RunningTarget, list[_RunningSoftmax]]:
        width = self.z.shape[1] if hard else None
        return _RunningTarget(own / math.log(2), width), [_RunningSoftmax(own) for _ in self.sets[1:]]

    def _blocks(self, many: slice) -> Iterator[_Block]:
        sharpness = 1.0 if math.isinf(self.sharpness) else self.sharpness / math.log(2)
        for block in blocks(many.stop - many.start, self.tile[0]):
            rows = slice(many.start + block.start, many.start + block.stop)
            yield _Block(rows, block, self.z[rows] * (self.scale / math.log(2)), self.near[rows] * sharpness)

    def _chunks(self, many: slice) -> Iterator[tuple[Chunk, Tensor]]:
        for chunk in queue_chunks(self.relation, many, self.sets, self.tile[1]):
            yield chunk, Sphere().project(self.stored.index_select(0, chunk.keys).to(self.z.dtype))

    def _tiles(self, met: _Met) -> Iterator[tuple[_Tile, Tensor]]:
        """All tiles and their keys `(c, d)`: what was kept, and the others computed anew."""
        number = 0
        for many in blocks(len(self.z), _TOGETHER * self.tile[0]):
            walk = list(self._blocks(many))
            for chunk, keys in self._chunks(many):
                for block in walk:
                    if number < len(met.tiles):
                        yield met.tiles[number], keys
                    else:
                        yield self._tile_again(block, chunk, keys, met.top), keys
                    number += 1

    @staticmethod
    def _tile_again(block: _Block, chunk: Chunk, keys: Tensor, top: Tensor) -> _Tile:
        tile = _Tile(block.rows, [])
        for part, at, scores, near in block.tiles(chunk, keys):
            here = top[part, block.rows] if at is None else top[part, at + block.rows.start]
            exponentials = (scores if part else near).sub_(_finite(here)[:, None]).exp2_()
            tile.parts.append((part, at, exponentials, here))
        return tile


@dataclass(frozen=True, eq=False)
class _Block:
    """A block of queries.

    Attributes:
        rows: Slice of all queries.
        within: Slice of the queries that are processed together.
        z: `(r, d)` queries over τ0 and log 2.
        near: `(r, d)` their keys over τ and log 2.
    """

    rows: slice
    within: slice
    z: Tensor
    near: Tensor

    def tiles(self, chunk: Chunk, keys: Tensor) -> Iterator[tuple[int, Tensor | None, Tensor, Tensor]]:
        """The tiles in which a set is met: of the targets, of further sets, and of the common one.

        Yields:
            The set; the rows that meet it, counted within the block, None being all; similarities `(r, c)` of
            these rows, −∞ where a key is not in the set; for targets they stay as they are, and their keys'
            similarities, −∞ likewise, come last. All but those of targets may be overwritten.
        """
        if not any(chunk.met):
            return
        scores = self.z @ keys.T
        for part in (0, *range(2, len(chunk.met)), 1):
            if not chunk.met[part]:
                continue
            at = chunk.rows(part, self.within)
            if at is not None and not len(at):
                continue
            here = scores if at is None else scores[at]
            if part == 0:
                tile = (self.near if at is None else self.near[at]) @ keys.T
            else:
                tile = here.clone() if part > 1 and at is None else here
            if chunk.mixed[part]:
                tile += chunk.barrier(part, self.within, at, tile.dtype)
            yield part, at, here if part == 0 else tile, tile


class _RunningSoftmax:
    """max_j a_ij and Σ_j exp(a_ij − max a_i) of every row i, over all keys j so far.

    Attributes:
        top: `(b,)` the maximum, in units of log 2; −∞ where a row has met no key.

    Args:
        rows: `(b,)`, a tensor of that length, dtype and device.
    """

    def __init__(self, rows: Tensor) -> None:
        self.top = torch.full_like(rows, -torch.inf)
        self._mass = widen(torch.zeros_like(rows))

    def add(self, scores: Tensor, at: Tensor | None) -> tuple[Tensor, Tensor]:
        """Take in the scores `(r, c)` of c ≥ 1 further keys.

        Args:
            scores: a_ij over log 2, −∞ where a key does not count; overwritten.
            at: `(r,)` the rows of the scores; None: all.

        Returns:
            Exponentials `(r, c)` less the maximum of their row so far, and that maximum `(r,)`.
        """
        old, mass = (x if at is None else x[at] for x in (self.top, self._mass))
        top = torch.maximum(old, scores.amax(1))
        reached = _finite(top)
        weights = scores.sub_(reached[:, None]).exp2_()
        mass = mass * widen(old - reached).exp2_() + weights.sum(1)
        if at is None:
            self.top, self._mass = top, mass
        else:
            self.top = self.top.index_copy(0, at, top)  # earlier callers keep the old tensor
            self._mass[at] = mass
        return weights, top

    def merged(self, other: _RunningSoftmax) -> Tensor:
        """log Σ_j exp(a_ij) `(b,)` over the keys of both, float64."""
        top = _finite(torch.maximum(self.top, other.top))
        ours, theirs = (part._mass * widen(part.top - top).exp2_() for part in (self, other))
        return ((ours + theirs).log2() + top) * math.log(2)


class _RunningTarget:
    """The targets z'_ij = exp(a_ij − max a_i) of every row i, over all candidates j so far.

    Attributes:
        top: `(b,)` the maximum, in units of log 2; −∞ where a row has met no candidate.
        mass: `(b,)` Σ_j z'_ij.
        nearest: `(b, d)` Σ_j z'_ij·h_j, where the nearest candidates alone are targets.

    Args:
        own: `(b,)` similarity to the own key, in units of log 2.
        width: d, if z'_ij is 1 at the maximum and 0 elsewhere, the limit of low temperatures; else None.
    """

    def __init__(self, own: Tensor, width: int | None) -> None:
        self._own, self._hard = own, width is not None
        self.top, self.mass = torch.full_like(own, -torch.inf), torch.zeros_like(own)
        self._depth, self._pull, self._count = (torch.zeros_like(own) for _ in range(3))
        self.nearest = own.new_zeros(len(own), width or 0)

    def add(self, near: Tensor, scores: Tensor, at: Tensor | None, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Take in c ≥ 1 further keys.

        Args:
            near: `(r, c)` a_ij over log 2, −∞ where a key is no candidate; overwritten.
            scores: `(r, c)` the queries' own similarities s_ij over log 2.
            at: `(r,)` the rows; None: all.
            keys: `(c, d)` h_j.

        Returns:
            Targets `(r, c)` less the maximum of their row so far, and that maximum `(r,)`.
        """
        state = (self.top, self.mass, self._depth, self._pull, self._count, self.nearest, self._own)
        old, mass, depth, pull, count, nearest, own = (x if at is None else x[at] for x in state)
        top = torch.maximum(old, near.amax(1))
        reached = _finite(top)
        count = count + (near > -torch.inf).sum(1)
        if self._hard:
            shrink = (old == top).to(near.dtype)
            weights = (near == reached[:, None]).to(near.dtype)
            nearest = shrink[:, None] * nearest + weights @ keys
        else:
            drop = old - reached
            shrink = drop.exp2()
            behind = near.sub_(reached[:, None]).clamp_(min=_NOTHING)
            weights = behind.exp2()
            depth = shrink * (depth - drop.clamp_(min=_NOTHING) * mass) - torch.linalg.vecdot(weights, behind)
        mass = shrink * mass + weights.sum(1)
        pull = shrink * pull + torch.linalg.vecdot(weights, scores - own[:, None])
        running = (top, mass, depth, pull, count, nearest)
        if at is None:
            self.top, self.mass, self._depth, self._pull, self._count, self.nearest = running
        else:
            self.top = self.top.index_copy(0, at, top)
            for whole, part in zip(state[1:], running[1:], strict=False):
                whole[at] = part
        return weights, top

    @property
    def pull(self) -> Tensor:
        """`(b,)` Σ_j z'_ij·(s_ij − s_i0)."""
        return self._pull * math.log(2)

    @property
    def entropy(self) -> Tensor:
        """`(b,)` normalised entropy of the targets of the queue, see `QueueContrast`."""
        total = self.mass.clamp(min=1)  # ≥ 1, or 0 without candidates
        entropy = total.log() + math.log(2) * self._depth / total
        uniform = self._count.clamp(min=2).log()
        return torch.where(self._count > 1, (entropy / uniform).clamp(0, 1), 0.0)


def _finite(top: Tensor) -> Tensor:
    """The maximum to subtract, with 0 instead of −∞ for empty rows."""
    return torch.where(top == -torch.inf, 0.0, top)

"""Contrast with a queue under soft targets, over chunks of the queue.

Only the queries have a gradient, and what it needs of the queue is a vector per query and softmax, the
softmax's mean key. One walk finds values and gradients; the backward does not see the queue.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from labeltree.geometry import Sphere
from labeltree.pairs.implementation import Plan
from labeltree.pairs.queue_contrast import QueueContrast
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.streaming.contrast_chunks import Chunk, queue_chunks
from labeltree.pairs.streaming.contrast_softmax import RunningSoftmax
from labeltree.pairs.streaming.once import once
from labeltree.pairs.streaming.tiles import blocks

__all__ = ["soft_target_contrast"]

_TILE = {"cpu": (256, 512)}  # queries and stored keys; such a tile stays in the second-level cache
_LARGE_TILE = (4096, 8192)


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
    own = sphere.similarity(queries, keys) / temperature
    dtype = torch.promote_types(own.dtype, stored.dtype)
    z = sphere.project(queries.to(dtype))
    rows, size = (plan.tile, plan.tile) if plan.tile else _TILE.get(z.device.type, _LARGE_TILE)
    lse, mean = z.new_empty(len(z), len(members)), z.new_empty(len(z), len(members), z.shape[1])
    mass, drawn, entropy = (torch.ones_like(own), torch.zeros_like(z), torch.zeros_like(own))
    with torch.no_grad():
        near = None if positive is None else sphere.project(keys.to(dtype))
        walk = [
            _Block(z, near, block, members, 1 / temperature, _sharpness(target_temperature, dtype))
            for block in blocks(len(z), rows)
        ]
        for chunk in queue_chunks(relation, size) if walk else ():
            held = sphere.project(stored.index_select(0, chunk.keys).to(dtype))
            allowed = _allowed(members, chunk.codes)
            target = None if positive is None else _allowed(positive[None], chunk.codes)[0]
            for part in walk:
                part.add(chunk, held, allowed, target)
        for part in walk:
            lse[part.block], mean[part.block] = part.softmaxes()
            if positive is not None:
                mass[part.block] += part.target.mass
                drawn[part.block] = part.target.value
                entropy[part.block] = part.entropy()
    lse = torch.logaddexp(own[:, None], _KnownGradient.apply(z, lse, mean / temperature))
    attraction = own + (z * drawn).sum(1) / temperature
    return QueueContrast(own, lse, mass, attraction, entropy)


def _sharpness(temperature: float, dtype: torch.dtype) -> float:
    """1/τ of the targets; ∞ where τ is too small for the dtype."""
    return 1 / temperature if temperature >= torch.finfo(dtype).tiny else math.inf


def _allowed(members: Tensor, codes: Tensor) -> Tensor:
    """Which pairs of groups have a relation that is a member, `(T, g, k)`; excluded ones have none."""
    return torch.cat([members, members.new_zeros(len(members), 1)], dim=1)[:, codes]


class _Block:
    """A block of queries and what they have met of the queue.

    The keys that compete in all softmaxes are counted once, those that compete in some for each of these.
    """

    def __init__(
        self, z: Tensor, near: Tensor | None, block: slice, members: Tensor, scale: float, sharpness: float
    ) -> None:
        self.block = block
        self._z = z[block] * (scale / math.log(2))
        self._common = RunningSoftmax(self._z)
        self._further = [RunningSoftmax(self._z) for _ in members]
        hard = math.isinf(sharpness)
        self.target = RunningSoftmax(self._z, hard=hard, spread=True)
        self._near = None if near is None else near[block] * (1.0 if hard else sharpness / math.log(2))
        self._candidates = torch.zeros_like(self.target.mass)

    def add(self, chunk: Chunk, keys: Tensor, allowed: Tensor, target: Tensor | None) -> None:
        """Meet the keys `(c, d)` of a chunk; `allowed (T, g, k)` compete, `target (g, k)` are candidates."""
        scores = self._z @ keys.T
        everywhere = allowed.all(0)
        for softmax, here in zip(self._further, allowed & ~everywhere, strict=True):
            self._meet(softmax, scores.__getitem__, chunk, keys, here)
        self._meet(self._common, scores.__getitem__, chunk, keys, everywhere)
        if self._near is not None and target is not None:
            near = self._near
            self._meet(self.target, lambda rows: near[rows] @ keys.T, chunk, keys, target)
            of_group = target.to(near.dtype) @ chunk.of_key.bincount(minlength=target.shape[1]).to(near.dtype)
            self._candidates += of_group[chunk.of_query[self.block]]

    def softmaxes(self) -> tuple[Tensor, Tensor]:
        """The log-sum-exp over the queue `(r, T)` and the mean key `(r, T, d)` of every softmax."""
        merged = [self._common.merged(softmax) for softmax in self._further]
        lse, mean = zip(*merged, strict=True)
        return torch.stack(lse, dim=1), torch.stack(mean, dim=1)

    def entropy(self) -> Tensor:
        """The normalised entropy of the target `(r,)`."""
        total = self.target.mass.clamp(min=1)  # ≥ 1, or 0 without candidates
        entropy = total.log() + math.log(2) * self.target.depth / total
        uniform = self._candidates.clamp(min=2).log()
        return torch.where(self._candidates > 1, (entropy / uniform).clamp(0, 1), 0.0)

    def _meet(
        self,
        softmax: RunningSoftmax,
        scores: Callable[[Tensor | slice], Tensor],
        chunk: Chunk,
        keys: Tensor,
        allowed: Tensor,
    ) -> None:
        """Add the keys to a softmax in the rows that are allowed any of them."""
        some, whole = allowed.any(1), allowed.all(1)
        rows = some.index_select(0, chunk.of_query[self.block]).nonzero()[:, 0]
        if not len(rows):
            return
        here = scores(rows)
        if bool((some & ~whole).any()):
            barrier = torch.zeros_like(allowed, dtype=here.dtype).masked_fill_(~allowed, -torch.inf)
            here += chunk.spread(barrier, self.block, rows)
        softmax.add(here, keys, rows)


class _KnownGradient(torch.autograd.Function):
    """Values `(b, T)` of rows `(b, d)` whose gradients `(b, T, d)` are known already."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, values: Tensor, gradients: Tensor) -> Tensor:
        ctx.save_for_backward(gradients)
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (gradients,) = ctx.saved_tensors
        return once(torch.einsum("bt,btd->bd", grad.detach(), gradients)), None, None

"""Contrast with a queue under soft targets, over chunks of the queue.

Only the queries have a gradient, and what it needs of the queue is a vector per query and softmax, the
softmax's mean key. One walk finds values and gradients; the backward does not see the queue.

What is found for a query is less what its own key has: log-sum-exps less the similarity to it, mean keys as
differences to it. In a tight cluster they would else agree in all but their last digits, which are what the
gradient is made of.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from labeltree.geometry import Sphere
from labeltree.geometry.precision import answer_dtype
from labeltree.pairs.implementation import Plan
from labeltree.pairs.queue_contrast import QueueContrast
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.streaming.contrast_chunks import Chunk, Values, queue_chunks
from labeltree.pairs.streaming.contrast_softmax import RunningSoftmax
from labeltree.pairs.streaming.once import by_hand, once
from labeltree.pairs.streaming.tiles import blocks
from labeltree.pairs.streaming.unit import take_to_tangent, unit_rows

__all__ = ["soft_target_contrast"]

_TILE = {"cpu": (256, 1024)}  # queries and stored keys; such a tile stays in the second-level cache
_LARGE_TILE = (4096, 8192)
_ROWS = 4096
_TOGETHER = 4  # tiles of queries in a walk over the queue: what they have met of it is held


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
    z, inverse = unit_rows(queries.to(dtype))
    near = sphere.project(keys.detach().to(dtype))
    own = torch.linalg.vecdot(z, near) / temperature
    rows, size = (plan.tile, plan.tile) if plan.tile else _TILE.get(z.device.type, _LARGE_TILE)
    lse, mean = z.new_empty(len(z), len(members)), z.new_empty(len(z), len(members), z.shape[1])
    mass, drawn, entropy = torch.ones_like(own), torch.zeros_like(z), torch.zeros_like(own)
    with torch.no_grad():
        sharpness, sets = _sharpness(target_temperature, dtype), _sets(members, positive)
        for many in blocks(len(z), _TOGETHER * rows):
            walk = [
                _Block(z[many], near[many], block, sets, 1 / temperature, sharpness)
                for block in blocks(many.stop - many.start, rows)
            ]
            for chunk in queue_chunks(relation, many, sets, size):
                held = sphere.project(stored.index_select(0, chunk.keys).to(dtype))
                values = Values.of(held, chunk)
                for part in walk:
                    part.add(chunk, held, values)
            for part in walk:
                at = slice(many.start + part.block.start, many.start + part.block.stop)
                lse[at], mean[at] = part.softmaxes(own[at])
                if positive is not None:
                    drawn[at], entropy[at] = part.drawn(), part.entropy()
                    mass[at] += part.target.mass
    pull = torch.linalg.vecdot(z, drawn) / temperature
    found: tuple[Tensor, Tensor, Tensor] = _OfQueries.apply(
        queries, own, lse, pull, (z, inverse, near, mean, drawn), temperature
    )
    own, queue, pull = found
    lse = torch.logaddexp(torch.zeros_like(queue), queue) + own[:, None]
    return QueueContrast(own, lse, mass, mass * own + pull, entropy)


_Known = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


class _OfQueries(torch.autograd.Function):
    """Values of queries, and the gradient through them and the normalisation, some rows at a time."""

    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, own: Tensor, lse: Tensor, pull: Tensor, known: _Known, temperature: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.save_for_backward(*known)
        ctx.temperature, ctx.dtype = temperature, queries.dtype
        return own.view_as(own), lse.view_as(lse), pull.view_as(pull)

    @staticmethod
    def backward(ctx: Any, of_own: Tensor, of_lse: Tensor, of_pull: Tensor) -> tuple[Tensor | None, ...]:
        z, inverse, near, mean, drawn = ctx.saved_tensors
        with by_hand(z.device):
            of_z = torch.empty_like(z)
            for rows in blocks(len(z), _ROWS):
                here = torch.mul(near[rows], of_own[rows, None], out=of_z[rows])
                here.addcmul_(drawn[rows], of_pull[rows, None])
                for term in range(mean.shape[1]):
                    here.addcmul_(mean[rows, term], of_lse[rows, term, None])
                here.div_(ctx.temperature)
            of_queries = take_to_tangent(of_z, z, inverse).to(ctx.dtype)
        return once(of_queries), None, None, None, None, None


def _sharpness(temperature: float, dtype: torch.dtype) -> float:
    """1/τ of the targets; ∞ where τ is too small for the dtype."""
    return 1 / temperature if temperature >= torch.finfo(dtype).tiny else math.inf


def _sets(members: Tensor, positive: Tensor | None) -> Tensor:
    """Relations of candidates; that compete in all softmaxes; that compete in each, but not in all."""
    common = members.all(0)
    candidates = torch.zeros_like(common) if positive is None else positive
    return torch.stack([candidates, common, *(members & ~common)])


class _Block:
    """A block of queries and what they have met of the queue.

    Keys that compete in all softmaxes are added up once, keys that compete in some once for each of these.
    """

    def __init__(
        self, z: Tensor, near: Tensor, block: slice, sets: Tensor, scale: float, sharpness: float
    ) -> None:
        self.block = block
        self._own, self._z = near[block], z[block] * (scale / math.log(2))
        hard = math.isinf(sharpness)
        self._near = self._own if hard else self._own * (sharpness / math.log(2))
        self.target = RunningSoftmax(self._z, hard=hard, spread=True)
        self._common, *self._further = (RunningSoftmax(self._z) for _ in sets[1:])
        self._candidates = torch.zeros(len(self._z), dtype=torch.int64, device=z.device)
        self._tile = z.new_empty(0)

    def add(self, chunk: Chunk, keys: Tensor, values: Values) -> None:
        """Meet the keys `(c, d)` of a chunk; `values` are what is added up of them."""
        if any(chunk.met[1:]):
            scores = self._product(self._z, keys)
            for part, softmax in enumerate(self._further, start=2):
                if chunk.met[part]:
                    rows = chunk.rows(part, self.block)
                    here = scores.clone() if rows is None else scores[rows]
                    self._meet(softmax, here, chunk, part, values, rows)
            rows = chunk.rows(1, self.block)
            self._meet(self._common, _of(scores, rows), chunk, 1, values, rows)
        if chunk.met[0]:
            rows = chunk.rows(0, self.block)
            self._meet(self.target, self._product(_of(self._near, rows), keys), chunk, 0, values, rows)
            self._candidates += chunk.count(0, self.block)

    def softmaxes(self, own: Tensor) -> tuple[Tensor, Tensor]:
        """Of every softmax over the queue, less what is the own key's, similarity `(r,)` and all.

        Returns:
            The log-sum-exp `(r, T)` and the mean key `(r, T, d)`.
        """
        lse, mean = zip(*(self._common.merged(softmax) for softmax in self._further), strict=True)
        return torch.stack(lse, dim=1) - own[:, None], torch.stack(mean, dim=1) - self._own[:, None]

    def drawn(self) -> Tensor:
        """The target's sum of keys, each less the own one, `(r, d)`."""
        return torch.addcmul(self.target.value, self.target.mass[:, None], self._own, value=-1.0)

    def entropy(self) -> Tensor:
        """The normalised entropy of the target `(r,)`."""
        total = self.target.mass.clamp(min=1)  # ≥ 1, or 0 without candidates
        entropy = total.log() + math.log(2) * self.target.depth / total
        uniform = self._candidates.clamp(min=2).to(total).log()
        return torch.where(self._candidates > 1, (entropy / uniform).clamp(0, 1), 0.0)

    def _meet(
        self,
        softmax: RunningSoftmax,
        scores: Tensor,
        chunk: Chunk,
        part: int,
        values: Values,
        rows: Tensor | None,
    ) -> None:
        """Add values to a softmax in the rows that meet one; `scores (r, c)` are overwritten."""
        if len(scores):
            if chunk.mixed[part]:
                scores += chunk.barrier(part, self.block, rows, scores.dtype)
            softmax.add(scores, values, rows)

    def _product(self, rows: Tensor, keys: Tensor) -> Tensor:
        """Inner products `(r, c)`, in the place of the last ones."""
        size = len(rows) * len(keys)
        if self._tile.numel() < size:
            self._tile = rows.new_empty(size)
        return torch.mm(rows, keys.T, out=self._tile[:size].view(len(rows), len(keys)))


def _of(x: Tensor, rows: Tensor | None) -> Tensor:
    return x if rows is None else x[rows]

"""Contrast with a queue under soft targets, over chunks of the queue.

Only the queries have a gradient, and what it needs of the queue is a vector per query and softmax, the
softmax's mean key. One walk finds values and gradients; the backward does not see the queue.

Vectors are added up as differences to a centre c, the mean of the queries' keys, and what c adds to all
similarities of a row is a number of its own: in a tight cluster the mean keys would else agree in all but
their last digits, which are what the gradient is made of.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from labeltree.geometry import Sphere
from labeltree.geometry.precision import answer_dtype
from labeltree.pairs.implementation import Plan
from labeltree.pairs.queue_contrast import QueueContrast
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.streaming.contrast_chunks import Chunk, queue_chunks
from labeltree.pairs.streaming.contrast_softmax import RunningSoftmax
from labeltree.pairs.streaming.known_gradient import with_gradient
from labeltree.pairs.streaming.tiles import blocks

__all__ = ["soft_target_contrast"]

_TILE = {"cpu": (256, 1024)}  # queries and stored keys; such a tile stays in the second-level cache
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
    dtype = answer_dtype(queries, keys, stored)
    z, near = sphere.project(queries.to(dtype)), sphere.project(keys.to(dtype))
    centre = near.mean(0)
    common = z @ centre / temperature
    own = (z * (near - centre)).sum(1) / temperature
    rows, size = (plan.tile, plan.tile) if plan.tile else _TILE.get(z.device.type, _LARGE_TILE)
    lse, mean = z.new_empty(len(z), len(members)), z.new_empty(len(z), len(members), z.shape[1])
    mass, drawn, entropy = torch.ones_like(own), torch.zeros_like(z), torch.zeros_like(own)
    with torch.no_grad():
        sharpness = _sharpness(target_temperature, dtype)
        walk = [
            _Block(z, near if positive is not None else None, block, len(members), 1 / temperature, sharpness)
            for block in blocks(len(z), rows)
        ]
        for chunk in queue_chunks(relation, _sets(members, positive), size) if walk else ():
            held = sphere.project(stored.index_select(0, chunk.keys).to(dtype))
            for part in walk:
                part.add(chunk, held, held - centre)
        for part in walk:
            lse[part.block], mean[part.block] = part.softmaxes()
            if positive is not None:
                mass[part.block] += part.target.mass
                drawn[part.block] = part.target.value
                entropy[part.block] = part.entropy()
    queue = with_gradient(z, lse - common.detach()[:, None], mean / temperature)
    lse = torch.logaddexp(own[:, None], queue) + common[:, None]
    attraction = own + (z * drawn).sum(1) / temperature + mass * common
    return QueueContrast(own + common, lse, mass, attraction, entropy)


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
        self, z: Tensor, near: Tensor | None, block: slice, number: int, scale: float, sharpness: float
    ) -> None:
        self.block = block
        self._z = z[block] * (scale / math.log(2))
        hard = math.isinf(sharpness)
        self._near = None if near is None else near[block] * (1.0 if hard else sharpness / math.log(2))
        self.target = RunningSoftmax(self._z, hard=hard, spread=True)
        self._common, *self._further = (RunningSoftmax(self._z) for _ in range(1 + number))
        self._candidates = torch.zeros(len(self._z), dtype=torch.int64, device=z.device)
        self._tile = z.new_empty(0)

    def add(self, chunk: Chunk, keys: Tensor, values: Tensor) -> None:
        """Meet the keys `(c, d)` of a chunk; `values (c, d)` are what is added up of them."""
        if any(chunk.met[1:]):
            scores = self._product(self._z, keys)
            for part, softmax in enumerate(self._further, start=2):
                if chunk.met[part]:
                    rows = chunk.rows(part, self.block)
                    here = scores.clone() if rows is None else scores[rows]
                    self._meet(softmax, here, chunk, part, values, rows)
            rows = chunk.rows(1, self.block)
            self._meet(self._common, _of(scores, rows), chunk, 1, values, rows)
        if self._near is not None and chunk.met[0]:
            rows = chunk.rows(0, self.block)
            self._meet(self.target, self._product(_of(self._near, rows), keys), chunk, 0, values, rows)
            self._candidates += chunk.count(0, self.block)

    def softmaxes(self) -> tuple[Tensor, Tensor]:
        """The log-sum-exp over the queue `(r, T)` and the mean key `(r, T, d)` of every softmax."""
        lse, mean = zip(*(self._common.merged(softmax) for softmax in self._further), strict=True)
        return torch.stack(lse, dim=1), torch.stack(mean, dim=1)

    def entropy(self) -> Tensor:
        """The normalised entropy of the target `(r,)`."""
        total = self.target.mass.clamp(min=1)  # ≥ 1, or 0 without candidates
        entropy = total.log() + math.log(2) * self.target.depth / total
        uniform = self._candidates.clamp(min=2).to(total.dtype).log()
        return torch.where(self._candidates > 1, (entropy / uniform).clamp(0, 1), 0.0)

    def _meet(
        self,
        softmax: RunningSoftmax,
        scores: Tensor,
        chunk: Chunk,
        part: int,
        values: Tensor,
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

"""The state of softmaxes over keys that arrive in pieces."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["RunningSoftmax"]

_NOTHING = -2000.0  # 2 to this power is 0 in every floating-point format, and times 0 it is 0


class RunningSoftmax:
    """For every row i: max a_ij, and sums weighted by w_ij = exp(a_ij − max a_i), over all keys j so far.

    Where a row has met no key its maximum is −∞ and its sums are 0.

    Attributes:
        top: `(b,)` the maximum, in units of log 2.
        mass: `(b,)` Σ_j w_ij.
        value: `(b, d)` Σ_j w_ij·h_j.
        depth: `(b,)` Σ_j w_ij·(max a_i − a_ij), in units of log 2.

    Args:
        rows: `(b, d)`, a tensor of that shape, dtype and device.
        hard: whether w_ij is 1 where a_ij is the maximum and 0 elsewhere, the limit of low temperatures.
        spread: whether `depth` is wanted; else it stays 0.
    """

    def __init__(self, rows: Tensor, *, hard: bool = False, spread: bool = False) -> None:
        self.top = rows.new_full((len(rows),), -torch.inf)
        self.mass, self.depth = torch.zeros_like(self.top), torch.zeros_like(self.top)
        self.value = torch.zeros_like(rows)
        self._hard, self._spread = hard, spread

    def add(self, scores: Tensor, keys: Tensor, rows: Tensor | None) -> None:
        """Take in c ≥ 1 further keys.

        Args:
            scores: `(r, c)` a_ij over log 2, −∞ where a key does not count; overwritten.
            keys: `(c, d)` h_j.
            rows: `(r,)` the rows of the scores; None: all.
        """
        state = (self.top, self.mass, self.depth, self.value)
        old, mass, depth, value = state if rows is None else tuple(x[rows] for x in state)
        top = torch.maximum(old, scores.amax(1))
        reached = torch.where(top == -torch.inf, 0.0, top)
        if self._hard:
            shrink = (old == top).to(mass.dtype)
            weights = (scores == reached[:, None]).to(scores.dtype)
            behind = None
        else:
            drop = torch.where(old == -torch.inf, -torch.inf, old - reached)
            shrink = drop.exp2()
            behind = scores.sub_(reached[:, None])
            if self._spread:
                behind.clamp_(min=_NOTHING)
                depth = shrink * (depth - drop.clamp(min=_NOTHING) * mass)
                weights = behind.exp2()
                depth -= torch.linalg.vecdot(weights, behind)
            else:
                weights = torch.exp2(behind, out=behind)
        mass = (mass * shrink).add_(weights.sum(1))
        value = value.mul_(shrink[:, None]).addmm_(weights, keys)
        if rows is None:
            self.top, self.mass, self.depth, self.value = top, mass, depth, value
            return
        for whole, part in zip(state, (top, mass, depth, value), strict=True):
            whole[rows] = part

    def merged(self, other: RunningSoftmax) -> tuple[Tensor, Tensor]:
        """Of the keys of both: log Σ_j exp(a_ij) `(b,)`, and the softmax's mean key `(b, d)`."""
        top = torch.maximum(self.top, other.top)
        reached = torch.where(top == -torch.inf, 0.0, top)
        ours, theirs = (self.top - reached).exp2(), (other.top - reached).exp2()
        mass = ours * self.mass + theirs * other.mass
        value = ours[:, None] * self.value + theirs[:, None] * other.value
        mean = value / torch.where(mass > 0, mass, 1.0)[:, None]
        return (mass.log2() + top) * math.log(2), mean

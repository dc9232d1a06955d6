"""The state of softmaxes over keys that arrive in chunks."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from labeltree.geometry.precision import widen
from labeltree.pairs.streaming.contrast_chunks import Values

__all__ = ["RunningSoftmax"]

_NOTHING = -2000.0  # 2 to this power is 0 in every floating-point format, and times 0 it is 0
_PENDING = 32  # chunks whose centres are still to be added up


class RunningSoftmax:
    """For every row i: max a_ij, and sums weighted by w_ij = exp(a_ij − max a_i), over all keys j so far.

    Where a row has met no key its maximum is −∞ and its sums are 0. Vectors are added up as differences to
    centres, and centres in float64: in tight clusters the mean keys of two softmaxes agree in all but the
    last digits of float32, which are what the gradient is made of.

    Attributes:
        top: `(b,)` the maximum, in units of log 2.
        depth: `(b,)` Σ_j w_ij·(max a_i − a_ij), in units of log 2.

    Args:
        rows: `(b, d)`, a tensor of that shape, dtype and device.
        hard: whether w_ij is 1 where a_ij is the maximum and 0 elsewhere, the limit of low temperatures.
        spread: whether `depth` is wanted; else it stays 0.
    """

    def __init__(self, rows: Tensor, *, hard: bool = False, spread: bool = False) -> None:
        self.top = rows.new_full((len(rows),), -torch.inf)
        self.depth, self._mass = torch.zeros_like(self.top), torch.zeros_like(self.top)
        self._apart = torch.zeros_like(rows)
        self._pending: list[tuple[Tensor, Tensor, Tensor]] = []
        self._sums_top, self._sums = self.top, widen(rows.new_zeros(len(rows), 1 + rows.shape[1]))
        self._hard, self._spread = hard, spread

    def add(self, scores: Tensor, values: Values, rows: Tensor | None) -> None:
        """Take in c ≥ 1 further keys.

        Args:
            scores: `(r, c)` a_ij over log 2, −∞ where a key does not count; overwritten.
            values: the h_j.
            rows: `(r,)` the rows of the scores; None: all.
        """
        state = (self.top, self.depth, self._mass, self._apart)
        old, depth, mass, apart = state if rows is None else tuple(x[rows] for x in state)
        top = torch.maximum(old, scores.amax(1))
        reached = torch.where(top == -torch.inf, 0.0, top)
        if self._hard:
            shrink = (old == top).to(scores.dtype)
            weights = (scores == reached[:, None]).to(scores.dtype)
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
        masses = values.masses(weights)
        if self._spread:
            mass = (mass * shrink).add_(masses.sum(1))
        apart = apart.mul_(shrink[:, None]).addmm_(weights, values.apart)
        if rows is None:
            self.top, self.depth, self._mass, self._apart = top, depth, mass, apart
        else:
            self.top = self.top.index_copy(0, rows, top)  # what is pending keeps its own
            for whole, part in zip(state[1:], (depth, mass, apart), strict=True):
                whole[rows] = part
            masses = masses.new_zeros(len(self.top), masses.shape[1]).index_copy_(0, rows, masses)
        self._pending.append((self.top, masses, values.centres))
        if len(self._pending) == _PENDING:
            self._add_pending()

    @property
    def mass(self) -> Tensor:
        """`(b,)` Σ_j w_ij, float64."""
        self._add_pending()
        return self._sums[:, 0]

    @property
    def value(self) -> Tensor:
        """`(b, d)` Σ_j w_ij·h_j, float64."""
        self._add_pending()
        return self._sums[:, 1:] + self._apart

    def merged(self, other: RunningSoftmax) -> tuple[Tensor, Tensor]:
        """Of the keys of both: log Σ_j exp(a_ij) `(b,)`, and the softmax's mean key `(b, d)`; float64."""
        top = torch.maximum(self.top, other.top)
        reached = torch.where(top == -torch.inf, 0.0, top)
        ours, theirs = (widen(part.top - reached).exp2() for part in (self, other))
        mass = ours * self.mass + theirs * other.mass
        value = ours[:, None] * self.value + theirs[:, None] * other.value
        mean = value / torch.where(mass > 0, mass, 1.0)[:, None]
        return (mass.log2() + top) * math.log(2), mean

    def _add_pending(self) -> None:
        """Add up the pending masses, and the centres they belong to."""
        if not self._pending:
            return
        tops, masses, centres = zip(*self._pending, strict=True)
        old = torch.stack([self._sums_top, *tops], dim=1)
        behind = torch.where(old == -torch.inf, -torch.inf, old - self.top[:, None])
        share = widen(behind == 0) if self._hard else widen(behind).exp2_()
        sizes = torch.tensor([x.shape[1] for x in masses], device=old.device)
        shares = share[:, 1:].repeat_interleave(sizes, dim=1).mul_(torch.cat(masses, dim=1))
        self._sums *= share[:, :1]
        self._sums[:, 0] += shares.sum(1)
        self._sums[:, 1:].addmm_(shares, torch.cat(centres))
        self._sums_top, self._pending = self.top, []

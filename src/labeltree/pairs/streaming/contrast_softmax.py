"""The state of softmaxes and of targets over keys that arrive in chunks."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from labeltree.geometry.precision import widen

__all__ = ["RunningSoftmax", "RunningTarget", "finite"]

_NOTHING = -2000.0  # 2 to this power is 0 in every floating-point format, and times 0 it is 0


class RunningSoftmax:
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
        reached = finite(top)
        weights = scores.sub_(reached[:, None]).exp2_()
        mass = mass * widen(old - reached).exp2_() + weights.sum(1)
        if at is None:
            self.top, self._mass = top, mass
        else:
            self.top = self.top.index_copy(0, at, top)  # who was given the old one keeps it
            self._mass[at] = mass
        return weights, top

    def merged(self, other: RunningSoftmax) -> Tensor:
        """log Σ_j exp(a_ij) `(b,)` over the keys of both, float64."""
        top = finite(torch.maximum(self.top, other.top))
        ours, theirs = (part._mass * widen(part.top - top).exp2_() for part in (self, other))
        return ((ours + theirs).log2() + top) * math.log(2)


class RunningTarget:
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
        reached = finite(top)
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
        found = (top, mass, depth, pull, count, nearest)
        if at is None:
            self.top, self.mass, self._depth, self._pull, self._count, self.nearest = found
        else:
            self.top = self.top.index_copy(0, at, top)
            for whole, part in zip(state[1:], found[1:], strict=False):
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


def finite(top: Tensor) -> Tensor:
    """What to subtract where nothing was met: 0 instead of −∞."""
    return torch.where(top == -torch.inf, 0.0, top)

"""Log-sum-exps by relation over keys that arrive tile by tile."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.geometry.precision import widen
from labeltree.pairs.dense.statistics import sum_by_code

__all__ = ["RunningLse"]


class RunningLse:
    """log Σ exp(s_ij) of every row i and relation, over all keys j so far.

    In float64, and so that terms are taken as differences to the greatest: softmax weights found from it have
    no error in common, which is what rounding a log-sum-exp of large similarities would give a whole row.

    Args:
        n: rows.
        size: number R of relations.
        dtype: of the similarities.
        device: their device.
    """

    def __init__(self, n: int, size: int, dtype: torch.dtype, device: torch.device) -> None:
        self._top = torch.full((n, size), -torch.inf, dtype=dtype, device=device)
        self._mass = widen(torch.zeros_like(self._top))

    def add(self, s: Tensor, codes: Tensor, rows: slice) -> None:
        """Take in `s (b, c)` of some rows, whose pairs have relations `codes (b, c)`; R of excluded pairs."""
        old, size = self._top[rows], self._top.shape[1]
        known = torch.cat([old, old.new_full((len(old), 1), -torch.inf)], dim=1)
        top = known.scatter_reduce(1, codes, s, "amax")
        reached = torch.where(top == -torch.inf, 0.0, top)
        here = sum_by_code((s - reached.gather(1, codes)).exp_(), codes, size)
        self._mass[rows] *= (old - reached[:, :size]).exp_()
        self._mass[rows] += here
        self._top[rows] = top[:, :size]

    @property
    def value(self) -> Tensor:
        """`(n, R)` float64; −∞ where there is no pair."""
        return self._mass.log() + self._top

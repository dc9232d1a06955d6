"""Outputs of the ridge head for samples that it has not seen, without fitting it anew to every sample."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from labeltree.ridge.moments import Moments
from labeltree.ridge.solution import RidgeSystem

__all__ = ["outputs_of_folds"]

_SMALL = 4  # a fold of fewer than d / _SMALL samples is left out by its hat matrix, a larger one by its sums


def outputs_of_folds(
    points: Tensor,
    targets: Tensor,
    folds: Tensor,
    moments: Moments,
    set_targets: Tensor,
    place: Tensor,
    penalties: Sequence[float],
) -> Tensor:
    """Outputs ``(p, n, c)`` for each of p penalties, every sample's by the head without its fold.

    They equal those of a head that is solved anew without the fold, to rounding: of a small fold g by
    T_g − (I − H_gg)⁻¹(T_g − F_g) with the hat matrix H = 1/n + (x − x̄)(A + λI)⁻¹(x − x̄)ᵀ, of a large one by
    taking its sums out.

    Args:
        points: ``(n, d)`` float64 unit vectors.
        targets: ``(n, c)`` their targets.
        folds: ``(n,)`` int64 number of each sample's fold, from 0.
        moments: of all these samples.
        set_targets: ``(s, c)`` targets of the label sets of the moments.
        place: ``(n,)`` which label set each sample has.
        penalties: the λ.
    """
    outputs = torch.empty(len(penalties), *targets.shape, dtype=torch.float64)
    hats = _HatMatrices(RidgeSystem.of(moments, set_targets), points)
    for fold in range(int(folds.max()) + 1):
        rows = (folds == fold).nonzero()[:, 0]
        if len(rows) * _SMALL < points.shape[1]:
            for number, penalty in enumerate(penalties):
                outputs[number, rows] = hats.outputs_without(rows, targets[rows], penalty)
            continue
        rest = RidgeSystem.of(_without(moments, points[rows], place[rows]), set_targets)
        for number, penalty in enumerate(penalties):
            weight, bias = rest.solve(penalty)
            outputs[number, rows] = points[rows] @ weight + bias
    return outputs


class _HatMatrices:
    """Outputs for small folds, from one eigendecomposition for all folds and penalties."""

    def __init__(self, system: RidgeSystem, points: Tensor) -> None:
        self._system, self._points = system, points

    @cached_property
    def _eigen(self) -> tuple[Tensor, Tensor, Tensor]:
        """Eigenvalues, and points and slopes in the basis of the eigenvectors."""
        values, vectors = torch.linalg.eigh(self._system.spread)
        turned = (self._points - self._system.mean) @ vectors
        return values.clamp_min(0), turned, vectors.T @ self._system.slopes

    def outputs_without(self, rows: Tensor, targets: Tensor, penalty: float) -> Tensor:
        """Outputs ``(m, c)`` of rows ``(m,)`` by the head without these."""
        values, turned, slopes = self._eigen
        within = turned[rows] / (values + penalty)
        hat = within @ turned[rows].T + 1 / len(self._points)
        missed = targets - (within @ slopes + self._system.rates)
        identity = torch.eye(len(rows), dtype=torch.float64)
        error: Tensor = torch.linalg.solve(identity - hat, missed)
        return targets - error


def _without(moments: Moments, points: Tensor, place: Tensor) -> Moments:
    """The moments without some samples, with the same rows for label sets, though some may be empty."""
    counts = moments.counts - torch.bincount(place, minlength=len(moments.counts))
    sums = moments.sums.index_add(0, place, points, alpha=-1)
    return Moments(moments.labels, counts, sums, moments.products - points.T @ points)

"""Outputs of the ridge head for samples that it has not seen, without fitting it anew to every sample."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.ridge.moments import Moments
from labeltree.ridge.solution import RidgeSystem, is_singular, no_solution

__all__ = ["HeldOutFolds", "HeldOutSamples"]

_SMALL = 4  # a fold of fewer than d / _SMALL samples is left out by its hat matrix, a larger one by its sums
_FEW = 2  # d / _FEW points or fewer are turned within what they span


class HeldOutFolds:
    """Heads that have not seen a fold, for one penalty after the other.

    They equal heads that are solved anew without the fold, to rounding: of a small fold g the outputs are
    T_g − (I − H_gg)⁻¹(T_g − F_g) with the hat matrix H = 1/n + (x − x̄)(A + λI)⁻¹(x − x̄)ᵀ, of a large one
    its sums are taken out. What is kept for all penalties is at most 2·n·d numbers, and d² for each large
    fold.

    Args:
        points: `(n, d)` float64 unit vectors.
        place: `(n,)` which label set each sample has.
        folds: `(n,)` int64 number of each sample's fold, from 0.
        moments: Of all these samples, with s label sets.
        set_targets: `(s, c)` targets of the label sets.
    """

    def __init__(
        self, points: Tensor, place: Tensor, folds: Tensor, moments: Moments, set_targets: Tensor
    ) -> None:
        self._place, self._set_targets = place, set_targets
        rows = [(folds == fold).nonzero()[:, 0] for fold in range(int(folds.max()) + 1)]
        self._small = [each for each in rows if len(each) * _SMALL < points.shape[1]]
        large = [each for each in rows if len(each) * _SMALL >= points.shape[1]]
        self._large: list[tuple[Tensor, Tensor, RidgeSystem]] = []
        for each in large:
            own = points[each]
            rest = moments.plus(Moments.of_units(own, place[each], moments.labels), -1.0)
            self._large.append((each, own, RidgeSystem.of(rest, set_targets)))
        if self._small:
            self._whole = RidgeSystem.of(moments, set_targets)
            self._turn(points)

    def _turn(self, points: Tensor) -> None:
        """Turn points and slopes to the axes along which the points spread; few points span few axes."""
        points, spread, slopes = points - self._whole.mean, self._whole.spread, self._whole.slopes
        if len(points) * _FEW <= points.shape[1]:
            triangle = torch.linalg.qr(points.T, mode="r").R
            points, spread = triangle.T, triangle @ triangle.T
            slopes = triangle @ self._set_targets[self._place]
        values, vectors = torch.linalg.eigh(spread)
        self._values = values.clamp_min(0)
        self._turned, self._slopes = points @ vectors, vectors.T @ slopes

    def outputs(self, penalty: float) -> Tensor:
        """Outputs `(n, c)`, every sample's by the head without its fold.

        Raises:
            DataError: If the penalty is too small for the equations to have a solution.
        """
        outputs = torch.empty(len(self._place), self._set_targets.shape[1], dtype=torch.float64)
        for rows, points, rest in self._large:
            weight, bias = rest.solve(penalty)
            outputs[rows] = torch.addmm(bias, points, weight)
        for rows in self._small:
            outputs[rows] = self._hat_matrix_outputs(rows, penalty)
        return outputs

    def _hat_matrix_outputs(self, rows: Tensor, penalty: float) -> Tensor:
        """Outputs `(m, c)` of rows `(m,)` by the head without these."""
        targets = self._set_targets[self._place[rows]]
        if is_singular(self._values + penalty):
            raise no_solution(penalty, self._whole.spread)
        within = self._turned[rows] / (self._values + penalty)
        hat = within @ self._turned[rows].T + 1 / len(self._place)
        missed = targets - (within @ self._slopes + self._whole.rates)
        identity = torch.eye(len(rows), dtype=torch.float64)
        outputs: Tensor = targets - torch.linalg.solve(identity - hat, missed)
        return outputs


class HeldOutSamples:
    """One head after the other, for samples that it has not seen.

    Args:
        points: `(m, d)` float64 unit vectors.
        moments: Of the samples that the head is solved from, with s label sets.
        set_targets: `(s, c)` targets of the label sets.
    """

    def __init__(self, points: Tensor, moments: Moments, set_targets: Tensor) -> None:
        self._points = points
        self._system = RidgeSystem.of(moments, set_targets)

    def outputs(self, penalty: float) -> Tensor:
        """Outputs `(m, c)`.

        Raises:
            DataError: If the penalty is too small for the equations to have a solution.
        """
        weight, bias = self._system.solve(penalty)
        return self._points @ weight + bias

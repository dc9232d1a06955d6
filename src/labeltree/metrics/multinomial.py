"""The optimum of multinomial logistic regression: L-BFGS with a curvature that follows the problem.

Nothing here changes the objective. Centring the features is undone by the intercepts, which carry no penalty,
and rotating them leaves the norm of the weights as it is. In the axes of the largest variance, with each
class's intercept taken at the class's own centre, the Hessian is nearly diagonal, and its diagonal is what
L-BFGS starts from.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Curvature", "Objective", "Solution", "minimize"]

_ROWS = 1024
_MEMORY = 10
_BACKTRACKS = 8
_REFRESH = (3, 8, 15, 30, 60, 100, 150, 225, 350, 500, 750)


class Curvature(NamedTuple):
    """Diagonal of the Hessian after moving each class's intercept to the class's centre."""

    centre: Tensor
    """(c, d): the mean of the features, weighted by how undecided the class is about each sample."""
    weight: Tensor
    """(c, d): second derivatives along the weights."""
    intercept: Tensor
    """(c,): second derivatives along the intercepts."""

    def solve(self, gradient: Tensor) -> Tensor:
        """Multiply (c, d + 1) by the inverse of this curvature."""
        weight = (gradient[:, :-1] - self.centre * gradient[:, -1:]) / self.weight
        intercept = gradient[:, -1] / self.intercept - (self.centre * weight).sum(dim=1)
        return torch.cat([weight, intercept[:, None]], dim=1)


@dataclass
class Objective:
    """Σ_i w_i·(logsumexp_c z_ic − z_iy) + (penalty/2)·|W|²,  z = X·Wᵀ + b.

    Parameters are one tensor (c, d + 1): the weights W and, as last column, the intercepts b.

    Attributes:
        features: X (n, d).
        targets: (n,) int64, 0 … c − 1.
        sample_weight: w (n,).
        num_classes: c.
        penalty: of the weights, not of the intercepts.

    """

    features: Tensor
    targets: Tensor
    sample_weight: Tensor
    num_classes: int
    penalty: float

    def zeros(self) -> Tensor:
        """(c, d + 1) parameters to start from."""
        return self.features.new_zeros(self.num_classes, self.features.shape[1] + 1)

    def gradient(self, parameters: Tensor) -> tuple[float, Tensor]:
        """Value and gradient."""
        value, gradient, _ = self._evaluate(parameters, with_curvature=False)
        return value, gradient

    def curvature(self, parameters: Tensor) -> tuple[float, Tensor, Curvature]:
        """Value, gradient and curvature, at twice the cost."""
        value, gradient, sums = self._evaluate(parameters, with_curvature=True)
        square, first, mass = sums
        mass = mass.clamp(min=1e-3)
        centre = first / mass[:, None]
        weight = (square - first * centre).clamp(min=0.0) + self.penalty
        return value, gradient, Curvature(centre, weight, mass)

    def _evaluate(self, parameters: Tensor, with_curvature: bool) -> tuple[float, Tensor, list[Tensor]]:
        """Value, gradient and, if asked, Σ q·x², Σ q·x and Σ q per class, q = w·p·(1 − p); rows in chunks."""
        weights, intercepts = parameters[:, :-1].contiguous(), parameters[:, -1]
        slope, intercept_slope = torch.zeros_like(weights), torch.zeros_like(intercepts)
        sums = [torch.zeros_like(weights), torch.zeros_like(weights), torch.zeros_like(intercepts)]
        value = 0.5 * self.penalty * float(weights.double().square().sum())
        for start in range(0, len(self.targets), _ROWS):
            rows = slice(start, start + _ROWS)
            x, y, w = self.features[rows], self.targets[rows], self.sample_weight[rows]
            logits = torch.addmm(intercepts, x, weights.T)
            normalizer = torch.logsumexp(logits, dim=1)
            missed = normalizer.double() - logits.gather(1, y[:, None])[:, 0].double()
            value += float((w.double() * missed).sum())
            probability = logits.sub_(normalizer[:, None]).exp_()
            if with_curvature:
                undecided = (probability - probability.square()).mul_(w[:, None])
                sums[0].addmm_(undecided.T, x.square())
                sums[1].addmm_(undecided.T, x)
                sums[2].add_(undecided.sum(dim=0))
            probability[torch.arange(len(y)), y] -= 1.0
            residual = probability.mul_(w[:, None])
            # with few classes several times faster than the transposed product
            slope.addmm_(residual.T, x)
            intercept_slope.add_(residual.sum(dim=0))
        slope.add_(weights, alpha=self.penalty)
        return value, torch.cat([slope, intercept_slope[:, None]], dim=1), sums


@dataclass
class Solution:
    """Where a minimisation stopped.

    Attributes:
        parameters: (c, d + 1).
        value: of the objective.
        gap: how far above the minimum the value can lie, relative to it; see `minimize`.
        iterations: steps taken.

    """

    parameters: Tensor
    value: float
    gap: float
    iterations: int


def minimize(objective: Objective, start: Tensor, tolerance: float, max_iterations: int) -> Solution:
    """Minimise until the value lies within `tolerance` of the minimum, relative to it, or no step helps any
    more.

    The objective is strongly convex in the weights with the penalty as constant, so it lies at most
    |∂W|²/(2·penalty) above its minimum; the intercepts add ∂b²/2h, h their second derivative.
    """
    x = start
    value, gradient, curvature = objective.curvature(x)
    pairs: deque[tuple[Tensor, Tensor]] = deque(maxlen=_MEMORY)
    iteration = 0
    gap = _gap(objective, value, gradient, curvature)
    while gap > tolerance and iteration < max_iterations:
        direction = _two_loops(gradient, pairs, curvature).neg_()
        found = _line_search(objective, x, value, direction, _dot(direction, gradient))
        if found is None:
            break
        step, value, new_gradient = found
        change = new_gradient - gradient
        if _dot(step, change) > 0:
            pairs.append((step, change))
        x, gradient = x + step, new_gradient
        iteration += 1
        if iteration in _REFRESH:
            curvature = objective.curvature(x)[2]
        gap = _gap(objective, value, gradient, curvature)
    return Solution(x, value, gap, iteration)


def _gap(objective: Objective, value: float, gradient: Tensor, curvature: Curvature) -> float:
    weights = _dot(gradient[:, :-1], gradient[:, :-1]) / objective.penalty
    intercepts = _dot(gradient[:, -1], gradient[:, -1] / curvature.intercept)
    return 0.5 * (weights + intercepts) / max(value, 1e-300)


def _two_loops(gradient: Tensor, pairs: deque[tuple[Tensor, Tensor]], curvature: Curvature) -> Tensor:
    """L-BFGS: the gradient times the inverse Hessian that the last steps suggest, built on `curvature`."""
    result = gradient.clone()
    shares = []
    for step, change in reversed(pairs):
        share = _dot(step, result) / _dot(step, change)
        shares.append(share)
        result.sub_(change, alpha=share)
    result = curvature.solve(result)
    if pairs:
        step, change = pairs[-1]
        result.mul_(_dot(step, change) / _dot(change, curvature.solve(change)))
    for (step, change), share in zip(pairs, reversed(shares), strict=True):
        result.add_(step, alpha=share - _dot(change, result) / _dot(step, change))
    return result


def _line_search(
    objective: Objective, x: Tensor, value: float, direction: Tensor, slope: float
) -> tuple[Tensor, float, Tensor] | None:
    """Step, value and gradient where the value has fallen enough; None if rounding hides any fall."""
    length = 1.0
    for _ in range(_BACKTRACKS):
        step = length * direction
        new_value, gradient = objective.gradient(x + step)
        if new_value <= value + 1e-4 * length * slope:
            return step, new_value, gradient
        # the minimum of the parabola through value, slope and new value, within sensible bounds
        best = -slope * length**2 / (2.0 * (new_value - value - slope * length))
        length = min(max(best, 0.1 * length), 0.5 * length)
    return None


def _dot(a: Tensor, b: Tensor) -> float:
    return float((a * b).sum())

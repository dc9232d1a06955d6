"""The linear probe: balanced multinomial logistic regression on frozen features, solved to the optimum.

The solver is L-BFGS with an initial Hessian computed from the problem; the objective stays exact. The
intercepts, which carry no penalty, compensate for centring the features, and rotating the features does not
change the norm of the weights. In the axes of the largest variance, with each class's intercept taken at the
class's own centre, the Hessian is nearly diagonal, and L-BFGS starts from its diagonal.
"""

from __future__ import annotations

import warnings
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from labeltree.metrics.metric_checks import check_embeddings, check_labels, check_positive, check_same_length

__all__ = ["Curvature", "LinearClassifier", "LinearProbe", "Objective", "Solution", "minimize"]

_CURVATURE_ROWS = 1024
_MEMORY = 10
_BACKTRACKS = 8
_REFRESH = (3, 8, 15, 30, 60, 100, 150, 225, 350, 500, 750)
# up to this many products per evaluation, float64 throughout costs almost nothing
_SMALL = 2 * 10**7
_LARGEST_ROTATION = 2048
_ROWS = 4096


class Curvature(NamedTuple):
    """Diagonal of the Hessian after moving each class's intercept to the class's centre."""

    centre: Tensor
    """(c, d): the mean of the features, weighted by how undecided the class is about each sample."""
    weight: Tensor
    """(c, d): second derivatives along the weights."""
    intercept: Tensor
    """(c,): second derivatives along the intercepts."""

    def solve(self, gradient: Tensor) -> Tensor:
        """Multiply a gradient (c, d + 1) by the inverse of the curvature."""
        weight = (gradient[:, :-1] - self.centre * gradient[:, -1:]) / self.weight
        intercept = gradient[:, -1] / self.intercept - (self.centre * weight).sum(dim=1)
        return torch.cat([weight, intercept[:, None]], dim=1)


@dataclass
class Objective:
    """Σ_i w_i·(logsumexp_c z_ic − z_iy) + (penalty/2)·|W|²,  z = X·Wᵀ + b.

    Parameters are one tensor (c, d + 1): the weights W and, as last column, the intercepts b.

    Attributes:
        features: Features X (n, d).
        targets: Class indices (n,) int64, 0 … c − 1.
        sample_weight: Sample weights w (n,).
        num_classes: Number of classes c.
        penalty: Penalty on the weights; the intercepts have none.

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
        """Value, gradient and curvature, at twice the cost of `gradient`."""
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
        for start in range(0, len(self.targets), _CURVATURE_ROWS):
            rows = slice(start, start + _CURVATURE_ROWS)
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
    """The result of a minimisation.

    Attributes:
        parameters: (c, d + 1) weights and intercepts.
        value: Value of the objective.
        gap: Upper bound on the distance of the value to the minimum, relative to the minimum; see `minimize`.
        iterations: Steps taken.

    """

    parameters: Tensor
    value: float
    gap: float
    iterations: int


def minimize(objective: Objective, start: Tensor, tolerance: float, max_iterations: int) -> Solution:
    """Minimise until the value lies within the relative `tolerance` of the minimum, or no step improves it.

    The objective is strongly convex in the weights with the penalty as the constant, so its value lies at
    most |∂W|²/(2·penalty) above its minimum; the intercepts add ∂b²/2h, h their second derivative.
    """
    x = start
    value, gradient, curvature = objective.curvature(x)
    pairs: deque[tuple[Tensor, Tensor]] = deque(maxlen=_MEMORY)
    iteration = 0
    gap = _gap(objective, value, gradient, curvature)
    while gap > tolerance and iteration < max_iterations:
        direction = _two_loops(gradient, pairs, curvature).neg_()
        line_step = _line_search(objective, x, value, direction, _dot(direction, gradient))
        if line_step is None:
            break
        step, value, new_gradient = line_step
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
    """L-BFGS: the gradient times the inverse Hessian estimated from the last steps and `curvature`."""
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
    """Step, value and gradient after a sufficient decrease; None if rounding hides any decrease."""
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


class LinearClassifier:
    """The base of the probes: logits and predictions of a fitted linear classifier.

    Attributes:
        classes: (c,) int64, ascending.
        weight: (d, c) weights.
        bias: (c,) intercepts.

    """

    classes: Tensor
    weight: Tensor
    bias: Tensor

    def logits(self, features: Tensor) -> Tensor:
        """(n, c) scores of all classes, for features (n, d), in the precision of the weights.

        Raises:
            ValueError: For wrong shapes or dtypes, or features that are not finite.
            RuntimeError: Before `fit`.

        """
        if not hasattr(self, "weight"):
            raise RuntimeError(f"{type(self).__name__} is not fitted; call fit(features, classes) first")
        check_embeddings("features", features)
        if features.shape[1] != len(self.weight):
            raise ValueError(
                f"features has dimension {features.shape[1]}; expected {len(self.weight)}, as in fit"
            )
        return torch.addmm(self.bias, features.detach().to(self.weight.dtype), self.weight)

    def predict_proba(self, features: Tensor) -> Tensor:
        """(n, c) probabilities of the `classes`, for features (n, d); raises as `logits`."""
        return torch.softmax(self.logits(features), dim=1)

    def predict(self, features: Tensor) -> Tensor:
        """(n,) int64 most probable class for features (n, d), ties going to the first; raises as `logits`."""
        starts = range(0, max(len(features), 1), _ROWS)
        best = [self.logits(features[start : start + _ROWS]).argmax(dim=1) for start in starts]
        return self.classes[torch.cat(best)]

    def _classified(self, features: Tensor, classes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The features with a class, the index of each one's class in `classes`, and the class sizes."""
        check_embeddings("features", features)
        check_labels("classes", classes)
        check_same_length("features", features, "classes", classes)
        known = classes >= 0
        if not bool(known.any()):
            raise ValueError(
                "classes holds no class but -1 (missing); expected at least one row with a class"
            )
        self.classes, targets, sizes = torch.unique(
            classes[known].long(), return_inverse=True, return_counts=True
        )
        return features[known].detach(), targets, sizes


class LinearProbe(LinearClassifier):
    """Logistic regression whose optimum is that of scikit-learn's
    `LogisticRegression(class_weight="balanced")`.

    It minimises, over weights W and intercepts b,

        Σ_i w_i·(−log softmax(x_i·W + b)_{y_i}) + |W|²/(2C),    w_i = n / (number of classes · size of the
        class y_i)

    which is the probe of Section 4.4 of Climbing the Label Tree. With two classes scikit-learn fits one
    weight vector instead of two opposite ones, which doubles the penalty; so does this probe. Features are
    used as given: standardise them first if their scales are arbitrary.

    The solver stops when a bound from the gradient (`gap`) shows that the objective lies within the relative
    `tolerance` of its minimum, and warns if it cannot reach it. Large problems are solved in float32, then
    finished and checked in float64.

    Args:
        C: Inverse strength of the penalty.
        balanced: Give every class the same total weight; False gives every sample weight 1.
        tolerance: Largest relative distance of the objective to its minimum. At the default, almost no
            prediction can still change.
        max_iterations: Largest number of steps of the solver.

    Attributes:
        classes: (c,) int64, ascending.
        weight: (d, c) float64.
        bias: (c,) float64.
        objective: Value of the objective.
        gap: Bound on the relative distance of the objective to its minimum.
        iterations: Steps taken.
        converged: Whether the gap is at most the tolerance.

    Raises:
        ValueError: If C or the tolerance is not above 0, or max_iterations below 1.

    Example:
        >>> import torch
        >>> features = torch.tensor([[0.0, 1.0], [0.1, 0.9], [1.0, 0.0], [0.9, 0.2]])
        >>> probe = LinearProbe().fit(features, torch.tensor([7, 7, 30, 30]))
        >>> probe.predict(torch.tensor([[0.2, 0.8], [0.8, 0.1]]))
        tensor([ 7, 30])

    """

    objective: float
    gap: float
    iterations: int
    converged: bool

    def __init__(
        self, C: float = 1.0, *, balanced: bool = True, tolerance: float = 1e-5, max_iterations: int = 3000
    ) -> None:
        if not C > 0:
            raise ValueError(f"C is {C!r}; expected a number above 0")
        if not tolerance > 0:
            raise ValueError(f"tolerance is {tolerance!r}; expected a number above 0")
        check_positive("max_iterations", max_iterations)
        self.C = C
        self.balanced = balanced
        self.tolerance = tolerance
        self.max_iterations = max_iterations

    def fit(self, features: Tensor, classes: Tensor) -> LinearProbe:
        """Fit to features (n, d) and their classes (n,), any ids; rows of class -1 are left out.

        Raises:
            ValueError: For wrong shapes or dtypes, features that are not finite, or no row with a class.

        """
        x, targets, sizes = self._classified(features, classes)
        count = len(self.classes)
        if count == 1:
            self.weight = torch.zeros(x.shape[1], 1, dtype=torch.float64, device=x.device)
            self.bias = torch.zeros(1, dtype=torch.float64, device=x.device)
            self.objective, self.gap, self.iterations, self.converged = 0.0, 0.0, 0, True
            return self
        class_weight = len(targets) / (count * sizes.double())
        if not self.balanced:
            class_weight = torch.ones_like(class_weight)
        sample_weight = class_weight[targets]
        mean = x.double().mean(dim=0)
        x = x.double() - mean
        rotation = _rotation(x, sample_weight)
        if rotation is not None:
            x = x @ rotation
        penalty = (2.0 if count == 2 else 1.0) / self.C
        solution = self._solve(Objective(x, targets, sample_weight, count, penalty))
        weight = solution.parameters[:, :-1].T
        self.weight = weight if rotation is None else rotation @ weight
        self.bias = solution.parameters[:, -1] - mean @ self.weight
        self.objective, self.gap, self.iterations = solution.value, solution.gap, solution.iterations
        self.converged = self.gap <= self.tolerance
        if not self.converged:
            warnings.warn(
                f"LinearProbe stopped after {self.iterations} steps with its objective up to {self.gap:.1e} "
                f"(relative) above the minimum, {self.tolerance:.1e} was asked for; "
                "standardise the features, lower C or raise max_iterations",
                stacklevel=2,
            )
        return self

    def _solve(self, objective: Objective) -> Solution:
        """Solve with penalties that decrease to the final one; large problems in float32, then float64."""
        penalty = objective.penalty
        small = objective.features.numel() * objective.num_classes <= _SMALL
        work = objective
        if not small:
            work = Objective(
                objective.features.float(),
                objective.targets,
                objective.sample_weight.float(),
                objective.num_classes,
                penalty,
            )
        parameters, steps = work.zeros(), 0
        # The curvature at zero, where all classes are equally likely. A penalty far below it makes the first
        # steps overshoot into regions where nothing can be learnt about the curvature at the minimum.
        squares = (objective.features.square() * objective.sample_weight[:, None]).sum(dim=0)
        largest = float(squares.max()) if len(squares) else 0.0  # all features may be constant
        strength = largest / objective.num_classes
        while strength > 3.0 * penalty and steps < self.max_iterations:
            work.penalty = strength
            solution = minimize(work, parameters, 1e-2, self.max_iterations - steps)
            parameters, steps = solution.parameters, steps + solution.iterations
            strength /= 10.0
        work.penalty = penalty
        # the float32 gap is not exact enough for the final check
        solution = minimize(work, parameters, self.tolerance / 2, max(self.max_iterations - steps, 0))
        steps += solution.iterations
        if not small:
            solution = minimize(
                objective, solution.parameters.double(), self.tolerance, max(self.max_iterations - steps, 0)
            )
            steps += solution.iterations
        return Solution(solution.parameters, solution.value, solution.gap, steps)


def _rotation(centred: Tensor, sample_weight: Tensor) -> Tensor | None:
    """(d, r) orthonormal axes of the weighted scatter of `centred` (n, d); None if too costly.

    With fewer samples than dimensions the weights lie in the span of the samples, so r = n axes are enough.
    """
    count, dimension = centred.shape
    scaled = centred * sample_weight.sqrt()[:, None]
    if dimension <= min(_LARGEST_ROTATION, 4 * count):
        axes: Tensor = torch.linalg.eigh(scaled.T @ scaled).eigenvectors
        return axes
    if count <= _LARGEST_ROTATION:
        values, vectors = torch.linalg.eigh(scaled @ scaled.T)
        kept = values > values[-1] * 1e-12
        spanned: Tensor = scaled.T @ vectors[:, kept] / values[kept].sqrt()
        return spanned
    return None

"""Calibrators: fitted maps from the scores of a classifier to calibrated class probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.options.choices import Calibration
from labeltree.taxonomy.dag import check_tree

__all__ = [
    "CALIBRATIONS",
    "Calibration",
    "Calibrator",
    "StepSoftmax",
    "best_temperature",
    "fit_calibrator",
    "fit_smoothed",
    "mean_label_loss",
    "smoothed_temperature",
]

_ROWS = 4096
_LARGEST = math.log(1e3)  # of a temperature, and of its inverse
_FEWEST_TO_JUDGE = 10  # samples at a depth; of fewer, chance makes the scores look worthless
_AT_LIMIT = 1.001  # as near to a limit, a temperature is at it


def mean_label_loss(scores: Tensor, labels: Tensor, classes: ClassNodes) -> Tensor:
    """Mean of −log p(label) over samples, with p the softmax of the scores (n, C) summed below the label.

    Args:
        scores: Class scores of shape (n, C); may carry a gradient.
        labels: (n,) nodes, each with a class at or below it.
        classes: Classes of the scores.
    """
    return _mean_loss(scores, *_outside(labels, classes))


def _outside(labels: Tensor, classes: ClassNodes) -> tuple[Tensor, Tensor]:
    """Which classes do not lie at or below each distinct label `(L, C)`, and the place of every label."""
    unique, inverse = torch.unique(labels, return_inverse=True)
    return ~classes.below(unique), inverse


def _mean_loss(scores: Tensor, outside: Tensor, place: Tensor) -> Tensor:
    total = scores.new_zeros(())
    for start in range(0, len(place), _ROWS):
        rows = slice(start, start + _ROWS)
        inside = scores[rows].masked_fill(outside[place[rows]], -torch.inf).logsumexp(1)
        total = total + (scores[rows].logsumexp(1) - inside).sum()
    return total / len(place)


def best_temperature(
    loss: Callable[[float], float],
    least: float = -_LARGEST,
    most: float = _LARGEST,
    *,
    tolerance: float = 1e-7,
) -> float:
    """The temperature with the least loss, between 1/1000 and 1000 or the exponentials of other bounds.

    Args:
        loss: Of a temperature.
        least: Logarithm of the lowest temperature.
        most: Logarithm of the highest temperature.
        tolerance: Relative error of the temperature.
    """
    from scipy.optimize import minimize_scalar

    minimum = minimize_scalar(
        lambda log: loss(math.exp(log)),
        bounds=(least, most),
        method="bounded",
        options={"xatol": tolerance},
    )
    return math.exp(float(minimum.x))


class _BestTemperature(NamedTuple):
    """A fitted temperature, and whether no larger one was tried, which makes all scores about alike."""

    value: float
    at_limit: bool


def _best_for_spread(loss: Callable[[float], float], spread: float) -> _BestTemperature:
    """The temperature with the least loss; below 1/1000 or above 1000 only of very small or large scores.

    Args:
        loss: Of a temperature.
        spread: Root mean square deviation of the scores of a sample from their mean.
    """
    best, most = best_temperature(loss), _LARGEST
    if best <= _AT_LIMIT * math.exp(-_LARGEST) and 0 < spread < 1:
        best = best_temperature(loss, math.log(spread) - _LARGEST, -_LARGEST)
    elif best * _AT_LIMIT >= math.exp(_LARGEST) and 1 < spread < math.inf:
        most = math.log(spread) + _LARGEST
        best = best_temperature(loss, _LARGEST, most)
    return _BestTemperature(best, best * _AT_LIMIT >= math.exp(most))


class StepSoftmax:
    """Factors class probabilities into probabilities of steps from node to child, and tempers the steps.

    A class with other classes below it has one more step, to itself, for samples that stay there.

    Args:
        classes: The classes, on a tree.
    """

    def __init__(self, classes: ClassNodes) -> None:
        self.tree = check_tree("temperatures by depth", classes.taxonomy)
        self.classes = classes
        carries = classes.counts > 0
        carries[0] = False
        nodes = torch.nonzero(carries)[:, 0]
        stays = classes.nodes[classes.counts[classes.nodes] > 1]
        # steps: to each node with a class, then staying at each inner class
        self.parent = torch.cat([self.tree.parent[nodes], stays])
        self.depth = torch.cat([self.tree.depth[nodes], self.tree.depth[stays] + 1])
        self.nodes, self.stays = nodes, stays
        paths = self.tree.ancestors[classes.nodes]
        place = torch.full((self.tree.num_nodes + 1,), -1)
        place[nodes] = torch.arange(len(nodes))
        path = place[paths]  # the root and -1 read -1
        path[paths < 0] = -1
        stay = torch.full((self.tree.num_nodes,), -1)
        stay[stays] = len(nodes) + torch.arange(len(stays))
        self.path = torch.cat([path, stay[classes.nodes][:, None]], 1)  # (C, L+2) steps to each class

    def logs(self, z: Tensor) -> Tensor:
        """Log-probabilities (n, S) of the steps from log-probabilities (n, C) of the classes."""
        of_classes = z.exp()
        of_nodes = self.classes.node_probabilities(of_classes / of_classes.sum(1, keepdim=True))
        mass = torch.cat([of_nodes[:, self.nodes], of_classes[:, self.classes.place[self.stays]]], 1)
        return mass.clamp(min=1e-300).log() - of_nodes[:, self.parent].clamp(min=1e-300).log()

    def normalised(self, steps: Tensor) -> Tensor:
        """Steps (n, S) minus the log-sum-exp over all steps from the same node."""
        group = self.parent.expand(len(steps), -1)
        largest = steps.new_full((len(steps), self.tree.num_nodes), -torch.inf)
        largest = largest.scatter_reduce(1, group, steps, "amax")
        sums = steps.new_zeros(largest.shape).scatter_add(1, group, (steps - largest.gather(1, group)).exp())
        return steps - (sums.log() + largest).gather(1, group)

    def tempered(self, z: Tensor, temperatures: Tensor) -> Tensor:
        """Class log-probabilities (n, C) with each step from depth l − 1 to l divided by T_l, T of (L+1,)."""
        steps = self.normalised(self.logs(z) / temperatures[self.depth - 1])
        padded = torch.cat([steps, steps.new_zeros(len(steps), 1)], 1)
        scores = padded.new_zeros(len(steps), len(self.classes))
        for column in self.path.unbind(1):
            scores += padded[:, column]  # -1 reads the zero
        return torch.log_softmax(scores, 1)

    def fit(self, z: Tensor, labels: Tensor) -> list[_BestTemperature]:
        """Fit the temperature of each depth (L+1,) to the steps on the paths of the labels.

        Args:
            z: Class log-probabilities of shape (n, C).
            labels: (n,) nodes, each with a class at or below it.
        """
        steps = self.logs(z)
        place = torch.full((self.tree.num_nodes,), -1)
        place[self.nodes] = torch.arange(len(self.nodes))
        siblings = torch.bincount(self.parent, minlength=self.tree.num_nodes)
        at_class = self.classes.place[labels]
        temperatures = []
        for depth in range(1, self.tree.max_depth + 2):
            taken = (
                place[self.tree.ancestors[labels, depth].clamp(min=0)]
                if depth <= self.tree.max_depth
                else torch.full_like(labels, -1)
            )
            reaches = self.tree.depth[labels] >= depth
            stays = (self.tree.depth[labels] == depth - 1) & (at_class >= 0)
            taken = torch.where(reaches, taken, torch.where(stays, self.path[at_class, -1], -1))
            decides = (taken >= 0) & (siblings[self.parent[taken]] > 1)
            temperatures.append(self._best_at(steps[decides], taken[decides]))
        return temperatures

    def _best_at(self, steps: Tensor, taken: Tensor) -> _BestTemperature:
        if not len(taken):
            return _BestTemperature(1.0, at_limit=False)
        siblings = self.parent == self.parent[taken][:, None]
        likeliest = steps.masked_fill(~siblings, -torch.inf).argmax(1)
        smoothing = _smoothing(likeliest == taken)
        others = siblings.scatter(1, taken[:, None], False)

        def mean(temperature: float) -> float:
            tempered = self.normalised(steps / temperature)
            fit = float(-tempered.gather(1, taken[:, None]).mean())
            if not smoothing:
                return fit
            return (1 - smoothing) * fit + smoothing * _mean_loss_of_others(tempered, others)

        counts = siblings.sum(1, keepdim=True)
        deviations = steps - steps.where(siblings, 0.0).sum(1, keepdim=True) / counts
        spread = float((deviations.square().where(siblings, 0.0).sum() / counts.sum()).sqrt())
        best = _best_for_spread(mean, spread)
        return best if len(taken) >= _FEWEST_TO_JUDGE else best._replace(at_limit=False)


def _smoothing(right: Tensor) -> float:
    """What part of a label counts as another one: none, unless all of the samples (n,) are answered rightly.

    Then the most likely temperature would be 0, and every probability 1. Platt (1999, Section 2.1) lets a
    label count as 1 − 1/(n + 2).
    """
    return 1 / (len(right) + 2) if bool(right.all()) else 0.0


def _mean_loss_of_others(log_probabilities: Tensor, others: Tensor) -> float:
    """Mean of −log of the probability (n, C) that one of the others is true, where there are some."""
    logs = log_probabilities.masked_fill(~others, -torch.inf).logsumexp(1)
    logs = logs[logs.isfinite()]
    return -float(logs.mean()) if len(logs) else 0.0


CALIBRATIONS: tuple[Calibration, ...] = get_args(Calibration)

# pulls slopes to 1 and offsets to 0 as strongly as this many samples of every class would
_PRIOR = 1.0


@dataclass(frozen=True)
class Calibrator:
    """A map from class scores to calibrated log-probabilities.

    Attributes:
        kind: `none`; `temperature`, log softmax(z/T) (Guo et al. 2017); `vector`, log softmax(w·z + b) with a
            slope and an offset per class (same source); `depth`, one temperature per depth: the conditional
            probabilities of the children of every node at depth l − 1 are raised to 1/T_l and renormalised,
            so that the probability of a node remains the sum over its children.
        temperatures: One value for `temperature`; one per depth, coarse to fine, for `depth`.
        slopes, offsets: (C,) each, for `vector`.
        uninformative: Depths at which the scores say nothing of the labels that it was fitted to, 0 for all
            depths: the temperature is the largest that was tried, or no slope is above 0. Not stored.
    """

    kind: Calibration = "none"
    temperatures: tuple[float, ...] = ()
    slopes: tuple[float, ...] = ()
    offsets: tuple[float, ...] = ()
    uninformative: tuple[int, ...] = field(default=(), compare=False)

    def __call__(self, scores: Tensor, classes: ClassNodes) -> Tensor:
        """Log-probabilities (n, C) float64 from scores (n, C); a constant added to a row changes nothing."""
        z = torch.log_softmax(scores.detach().double(), 1)
        if self.kind == "temperature":
            return torch.log_softmax(z / self.temperatures[0], 1)
        if self.kind == "vector":
            slopes, offsets = torch.tensor([self.slopes, self.offsets], dtype=torch.float64)
            return torch.log_softmax(z * slopes + offsets, 1)
        if self.kind == "depth":
            return StepSoftmax(classes).tempered(z, torch.tensor(self.temperatures, dtype=torch.float64))
        return z


def fit_calibrator(
    scores: Tensor,
    labels: Tensor,
    classes: ClassNodes,
    kind: Calibration,
    *,
    quick: bool = False,
) -> Calibrator:
    """Fit a calibrator by maximum likelihood to samples with known labels; deterministic.

    The likelihood of an inner label is the sum of the probabilities of the classes below it; samples without
    a class at or below their label, or with all of them, are left out (`ClassNodes.narrows`). If no sample
    is left, the calibrator changes nothing. Where all n are answered rightly, a temperature takes their
    labels as certain to 1 − 1/(n + 2) (Platt 1999).

    Args:
        scores: Class scores of shape (n, C), of samples that the classifier was not trained on.
        labels: (n,) nodes, -1 where missing.
        classes: Classes of the scores.
        kind: Kind of calibrator; `depth` needs a tree.
        quick: Whether the fit of `vector` takes at most 20 steps, each in units of the spread of the scores.

    Raises:
        ValueError: For an unknown kind.
    """
    check_choice("calibration", kind, CALIBRATIONS)
    usable = classes.narrows(labels)
    z, nodes = torch.log_softmax(scores.detach().double()[usable], 1), labels[usable]
    if kind == "none" or (not len(nodes) and kind != "depth"):
        return Calibrator()
    if kind == "vector":
        return _vector(z, nodes, classes, quick)
    if kind == "depth":
        fits = StepSoftmax(classes).fit(z, nodes)
        silent = tuple(depth for depth, fit in enumerate(fits, 1) if fit.at_limit)
        return Calibrator("depth", tuple(fit.value for fit in fits), uninformative=silent)
    outside, place = _outside(nodes, classes)
    smoothing = _smoothing(~outside[place, z.argmax(1)])
    others = outside[place] if smoothing else None
    best = _temperature(z, nodes, classes, smoothing, others)
    return Calibrator("temperature", (best.value,), uninformative=(0,) if best.at_limit else ())


def smoothed_temperature(scores: Tensor, labels: Tensor, classes: ClassNodes) -> float:
    """The temperature that few samples support, see `fit_smoothed`; 1 without a sample that says something.

    Args:
        scores: Class scores of shape (n, C), of samples that the classifier was not trained on.
        labels: (n,) nodes, -1 where missing.
        classes: Classes of the scores.
    """
    calibrator = fit_smoothed(scores, labels, classes)
    return calibrator.temperatures[0] if calibrator.temperatures else 1.0


def fit_smoothed(scores: Tensor, labels: Tensor, classes: ClassNodes) -> Calibrator:
    """The temperature that few samples support; the most likely one would be 0 if all are answered rightly.

    Of the n labels, each counts as 1 − 1/(n + 2), and the rest is spread over all classes (after Platt 1999,
    Probabilistic Outputs for Support Vector Machines, Section 2.1).

    Args:
        scores: Class scores of shape (n, C), of samples that the classifier was not trained on.
        labels: (n,) nodes, -1 where missing.
        classes: Classes of the scores.

    Returns:
        A temperature; none without a sample whose label says something of its class (`ClassNodes.narrows`).
    """
    usable = classes.narrows(labels)
    count = int(usable.sum())
    if not count:
        return Calibrator()
    z = torch.log_softmax(scores.detach().double()[usable], 1)
    best = _temperature(z, labels[usable], classes, 1 / (count + 2))
    return Calibrator("temperature", (best.value,), uninformative=(0,) if best.at_limit else ())


def _temperature(
    z: Tensor, nodes: Tensor, classes: ClassNodes, smoothing: float = 0.0, others: Tensor | None = None
) -> _BestTemperature:
    """The temperature with the least loss, see `_best_for_spread`.

    With `smoothing` this part of every label counts as any of the `others`, or else as every class alike. The
    distances to class means hardly differ if the embeddings of all classes lie close together.
    """
    labelled = _outside(nodes, classes)

    def loss(temperature: float) -> float:
        fit = float(_mean_loss(z / temperature, *labelled))
        if not smoothing:
            return fit
        logs = torch.log_softmax(z / temperature, 1)
        rest = -float(logs.mean()) if others is None else _mean_loss_of_others(logs, others)
        return (1 - smoothing) * fit + smoothing * rest

    return _best_for_spread(loss, float((z - z.mean(1, keepdim=True)).square().mean().sqrt()))


def _vector(z: Tensor, nodes: Tensor, classes: ClassNodes, quick: bool) -> Calibrator:
    """The most likely slopes and offsets, with a prior that keeps rare classes near slope 1 and offset 0."""
    from scipy.optimize import minimize

    count = len(classes)
    unit = torch.ones(2, 1, dtype=torch.float64)
    if quick:  # slopes of scores that differ by hundreds are found in small steps alone
        unit[0] = 1 / (z - z.mean(1, keepdim=True)).square().mean().sqrt().clamp_min(1)

    def loss(parameters: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, Any]:
        given = torch.from_numpy(parameters.reshape(2, count).copy()).requires_grad_()
        with torch.enable_grad():  # where nothing else needs gradients, as in an evaluation
            change = given * unit
            fit = _mean_loss(z * (1 + change[0]) + change[1], *labelled)
            value = fit + _PRIOR * change.square().sum() / (2 * len(nodes))
        (gradient,) = torch.autograd.grad(value, given)
        return float(value.detach()), gradient.numpy().ravel()

    labelled = _outside(nodes, classes)
    start, steps = np.zeros(2 * count), 20 if quick else 200
    minimum = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": steps})
    slopes, offsets = minimum.x.reshape(2, count) * unit.numpy()
    silent = (0,) if slopes.max() <= -1 else ()
    return Calibrator("vector", (), tuple((1 + slopes).tolist()), tuple(offsets.tolist()), silent)

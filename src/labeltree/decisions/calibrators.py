"""Probabilities that mean what they say: what is fitted between a classifier's scores and its answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from labeltree.decisions.class_nodes import ClassNodes
from labeltree.decisions.likelihood import best_temperature, mean_label_loss
from labeltree.decisions.steps import StepSoftmax

__all__ = ["CALIBRATIONS", "Calibration", "Calibrator", "fit_calibrator"]

Calibration = Literal["none", "temperature", "vector", "depth"]
CALIBRATIONS: tuple[Calibration, ...] = get_args(Calibration)

# pulls slopes to 1 and offsets to 0 as strongly as this many samples of every class would
_PRIOR = 1.0


@dataclass(frozen=True)
class Calibrator:
    """A map of class scores to calibrated log-probabilities.

    Attributes:
        kind: `none`; `temperature`, log softmax(z/T) (Guo et al. 2017); `vector`, log softmax(w·z + b), a
            slope and an offset a class (same source); `depth`, a temperature a depth: the probabilities of
            the children of every node at depth l − 1, given that node, are raised to 1/T_l and normalised
            again, which keeps those of a node the sum of its children's.
        temperatures: one for `temperature`, one a depth, coarse to fine, for `depth`.
        slopes, offsets: (C,) for `vector`.
    """

    kind: Calibration = "none"
    temperatures: tuple[float, ...] = ()
    slopes: tuple[float, ...] = ()
    offsets: tuple[float, ...] = ()

    def __call__(self, scores: Tensor, classes: ClassNodes) -> Tensor:
        """Log-probabilities (n, C) float64 from scores (n, C), which count up to a constant a row."""
        z = torch.log_softmax(scores.detach().double(), 1)
        if self.kind == "temperature":
            return torch.log_softmax(z / self.temperatures[0], 1)
        if self.kind == "vector":
            slopes, offsets = torch.tensor([self.slopes, self.offsets], dtype=torch.float64)
            return torch.log_softmax(z * slopes + offsets, 1)
        if self.kind == "depth":
            return StepSoftmax(classes).tempered(z, torch.tensor(self.temperatures, dtype=torch.float64))
        return z


def fit_calibrator(scores: Tensor, labels: Tensor, classes: ClassNodes, kind: Calibration) -> Calibrator:
    """Fit a calibrator to samples with known labels, by their likelihood; the same input, the same result.

    A label with classes below it counts by the sum of their probabilities; samples without a class at or
    below their label are left out. Where there are none left, nothing is changed.

    Args:
        scores: (n, C) of the classifier, of samples that it was not trained on.
        labels: (n,) nodes, -1 where missing.
        classes: of the scores.
        kind: what to fit; `depth` needs a tree.

    Raises:
        ValueError: for an unknown kind.
    """
    if kind not in CALIBRATIONS:
        raise ValueError(f"calibration is {kind!r}; expected one of {', '.join(CALIBRATIONS)}")
    usable = (labels >= 0) & (classes.counts[labels.clamp(min=0)] > 0)
    z, nodes = torch.log_softmax(scores.detach().double()[usable], 1), labels[usable]
    if kind == "none" or (not len(nodes) and kind != "depth"):
        return Calibrator()
    if kind == "vector":
        return _vector(z, nodes, classes)
    if kind == "depth":
        return Calibrator("depth", tuple(StepSoftmax(classes).fit(z, nodes, best_temperature)))
    return Calibrator(
        "temperature", (best_temperature(lambda t: float(mean_label_loss(z / t, nodes, classes))),)
    )


def _vector(z: Tensor, nodes: Tensor, classes: ClassNodes) -> Calibrator:
    """The most likely slopes and offsets, with a prior that keeps those of rare classes where they are."""
    from scipy.optimize import minimize

    count = len(classes)

    def loss(parameters: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, Any]:
        change = torch.from_numpy(parameters.reshape(2, count).copy()).requires_grad_()
        fit = mean_label_loss(z * (1 + change[0]) + change[1], nodes, classes)
        value = fit + _PRIOR * change.square().sum() / (2 * len(nodes))
        (gradient,) = torch.autograd.grad(value, change)
        return float(value.detach()), gradient.numpy().ravel()

    found = minimize(loss, np.zeros(2 * count), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    slopes, offsets = found.x.reshape(2, count)
    return Calibrator("vector", slopes=tuple((1 + slopes).tolist()), offsets=tuple(offsets.tolist()))

"""Classifiers on frozen representations: the linear probe (a balanced logistic regression), class means."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.evaluation.settings import EvaluationSettings
from labeltree.geometry import Geometry
from labeltree.metrics.probe import LinearProbe

__all__ = [
    "ClassProbabilities",
    "fit_and_predict",
    "nearest_prototype",
    "probe_probabilities",
    "standardized",
]

_CHUNK = 4096


@dataclass(frozen=True)
class ClassProbabilities:
    """Probabilities of some samples.

    Attributes:
        classes: ``(c,)`` nodes that the columns stand for.
        values: ``(m, c)`` float64.
        gap: how far above its minimum the probe's objective may be, relatively; 0 where the solver got there.
    """

    classes: Tensor
    values: Tensor
    gap: float

    @property
    def predicted(self) -> Tensor:
        """``(m,)`` the most probable class, the first of several."""
        return self.classes[self.values.argmax(dim=1)]


def fit_and_predict(train: Tensor, classes: Tensor, test: Tensor, settings: EvaluationSettings) -> Tensor:
    """Learn from vectors ``(n, d)`` and their classes ``(n,)``; predict those of other vectors: ``(m,)``."""
    probe, test = _fitted(train, classes, test, settings)
    return probe.predict(test)


def probe_probabilities(
    train: Tensor, classes: Tensor, test: Tensor, settings: EvaluationSettings
) -> ClassProbabilities:
    """Learn from vectors ``(n, d)`` and their classes ``(n,)``; give the probabilities of others ``(m, d)``.

    It is the probe of the standard evaluation: its most probable class is what that predicts.
    """
    probe, test = _fitted(train, classes, test, settings)
    return ClassProbabilities(probe.classes, probe.predict_proba(test), 0.0 if probe.converged else probe.gap)


def _fitted(
    train: Tensor, classes: Tensor, test: Tensor, settings: EvaluationSettings
) -> tuple[LinearProbe, Tensor]:
    """The probe, and the test vectors as it reads them."""
    if settings.standardize:
        train, test = standardized(train, test)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="LinearProbe stopped")  # results say it in their notes
        return LinearProbe().fit(train, classes), test


def standardized(train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    """Both with the mean 0 and the standard deviation 1 that every column has in the training vectors."""
    mean, deviation = train.mean(0), train.std(0, correction=0)
    # a column that hardly varies holds rounding noise, and dividing by it would blow that up
    flat = deviation <= 1e-6 * deviation.max()
    deviation = deviation.masked_fill(flat, 1.0)
    return ((train - mean) / deviation).masked_fill(flat, 0.0), ((test - mean) / deviation).masked_fill(
        flat, 0.0
    )


def nearest_prototype(points: Tensor, prototypes: Tensor, classes: Tensor, geometry: Geometry) -> Tensor:
    """The class whose prototype lies nearest to each point: ``(m,)``; ties go to the first class.

    Args:
        points: ``(m, d)``.
        prototypes: ``(num_nodes, d)``, a row a node.
        classes: ``(c,)`` nodes that may be answered.
        geometry: of points and prototypes.
    """
    means = prototypes[classes]
    nearest = [geometry.pairwise_distance(part, means).argmin(1) for part in torch.split(points, _CHUNK)]
    return classes[torch.cat(nearest)] if nearest else classes[:0]

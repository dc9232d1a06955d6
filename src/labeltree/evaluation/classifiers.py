"""Classifiers on frozen representations: the linear probe (a balanced logistic regression), class means."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.evaluation.settings import EvaluationSettings
from labeltree.geometry import Geometry
from labeltree.metrics.probe import LinearProbe

__all__ = ["ClassProbabilities", "FittedProbe", "fit_probe", "nearest_prototype", "standardized"]

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


@dataclass(frozen=True)
class FittedProbe:
    """A linear probe, and how it standardises what it reads.

    Attributes:
        probe: probe of standardised vectors.
        standardize: what makes them; None = vectors are read as they are.
    """

    probe: LinearProbe
    standardize: _Standardize | None

    def predict(self, vectors: Tensor) -> Tensor:
        """The most probable class of vectors ``(m, d)``: ``(m,)``."""
        return self.probe.predict(self._read(vectors))

    def probabilities(self, vectors: Tensor) -> ClassProbabilities:
        """Those of vectors ``(m, d)``; the most probable class is the one that `predict` gives."""
        gap = 0.0 if self.probe.converged else self.probe.gap
        return ClassProbabilities(self.probe.classes, self.probe.predict_proba(self._read(vectors)), gap)

    def _read(self, vectors: Tensor) -> Tensor:
        return vectors if self.standardize is None else self.standardize(vectors)


def fit_probe(train: Tensor, classes: Tensor, settings: EvaluationSettings) -> FittedProbe:
    """Learn from vectors ``(n, d)`` and their classes ``(n,)``."""
    standardize = _Standardize.of(train) if settings.standardize else None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="LinearProbe stopped")  # results say it in their notes
        return FittedProbe(
            LinearProbe().fit(train if standardize is None else standardize(train), classes), standardize
        )


@dataclass(frozen=True)
class _Standardize:
    """Gives every column the mean 0 and the standard deviation 1 that it has in the training vectors."""

    mean: Tensor
    deviation: Tensor
    flat: Tensor

    @classmethod
    def of(cls, train: Tensor) -> _Standardize:
        mean, deviation = train.mean(0), train.std(0, correction=0)
        # a column that hardly varies holds rounding noise, and dividing by it would blow that up
        flat = deviation <= 1e-6 * deviation.max()
        return cls(mean, deviation.masked_fill(flat, 1.0), flat)

    def __call__(self, vectors: Tensor) -> Tensor:
        return ((vectors - self.mean) / self.deviation).masked_fill(self.flat, 0.0)


def standardized(train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    """Both with the mean 0 and the standard deviation 1 that every column has in the training vectors."""
    standardize = _Standardize.of(train)
    return standardize(train), standardize(test)


def nearest_prototype(points: Tensor, prototypes: Tensor, classes: Tensor, geometry: Geometry) -> Tensor:
    """The class whose prototype lies nearest to each point: ``(m,)``; ties go to the first class.

    Args:
        points: ``(m, d)``.
        prototypes: ``(num_nodes, d)``, a row a node.
        classes: ``(c,)`` nodes that may be answered.
        geometry: geometry of points and prototypes.
    """
    means = prototypes[classes]
    nearest = [geometry.pairwise_distance(part, means).argmin(1) for part in torch.split(points, _CHUNK)]
    return classes[torch.cat(nearest)] if nearest else classes[:0]

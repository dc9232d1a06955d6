"""Classifiers on frozen representations: the linear probe (a balanced logistic regression), class means."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.metrics.probe import LinearProbe
from labeltree.options.evaluation import EvaluationSettings

__all__ = ["ClassProbabilities", "FittedProbe", "fit_probe", "nearest_prototype", "standardized"]

_CHUNK = 4096


@dataclass(frozen=True)
class ClassProbabilities:
    """Class probabilities of a set of samples.

    Attributes:
        classes: `(c,)` nodes, one for each column of `values`.
        values: `(m, c)` probabilities, float64.
        gap: Upper bound on the relative distance of the probe's objective from its minimum; 0 if the solver
            converged.
    """

    classes: Tensor
    values: Tensor
    gap: float

    @property
    def predicted(self) -> Tensor:
        """`(m,)` the most probable class of each sample; ties go to the first class."""
        return self.classes[self.values.argmax(dim=1)]


@dataclass(frozen=True)
class FittedProbe:
    """A linear probe and the standardisation of its input.

    Attributes:
        probe: Probe fitted to the standardised vectors.
        standardize: Standardisation applied to the vectors; None = no standardisation.
    """

    probe: LinearProbe
    standardize: _Standardize | None

    def predict(self, vectors: Tensor) -> Tensor:
        """The most probable class `(m,)` of vectors of shape `(m, d)`."""
        return self.probe.predict(self._read(vectors))

    def probabilities(self, vectors: Tensor) -> ClassProbabilities:
        """Class probabilities of vectors `(m, d)`; the most probable class is the answer of `predict`."""
        gap = 0.0 if self.probe.converged else self.probe.gap
        return ClassProbabilities(self.probe.classes, self.probe.predict_proba(self._read(vectors)), gap)

    def _read(self, vectors: Tensor) -> Tensor:
        return vectors if self.standardize is None else self.standardize(vectors)


def fit_probe(train: Tensor, classes: Tensor, settings: EvaluationSettings) -> FittedProbe:
    """Fit a linear probe to vectors `(n, d)` and their classes `(n,)`."""
    standardize = _Standardize.of(train) if settings.standardize else None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="LinearProbe stopped")  # reported in the notes of results
        return FittedProbe(
            LinearProbe().fit(train if standardize is None else standardize(train), classes), standardize
        )


@dataclass(frozen=True)
class _Standardize:
    """Standardisation of every column to mean 0 and standard deviation 1 on the training vectors."""

    mean: Tensor
    deviation: Tensor
    flat: Tensor

    @classmethod
    def of(cls, train: Tensor) -> _Standardize:
        mean, deviation = train.mean(0), train.std(0, correction=0)
        # a nearly constant column holds only rounding noise, which the division would amplify
        flat = deviation <= 1e-6 * deviation.max()
        return cls(mean, deviation.masked_fill(flat, 1.0), flat)

    def __call__(self, vectors: Tensor) -> Tensor:
        return ((vectors - self.mean) / self.deviation).masked_fill(self.flat, 0.0)


def standardized(train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    """Training and test vectors, standardised by the column means and deviations of the training vectors."""
    standardize = _Standardize.of(train)
    return standardize(train), standardize(test)


def nearest_prototype(points: Tensor, prototypes: Tensor, classes: Tensor, geometry: Geometry) -> Tensor:
    """The class `(m,)` of the prototype nearest to each point; ties go to the first class.

    Args:
        points: `(m, d)` points.
        prototypes: `(num_nodes, d)` prototypes, one row for each node.
        classes: `(c,)` candidate nodes.
        geometry: Geometry of points and prototypes.
    """
    means = prototypes[classes]
    nearest = [geometry.pairwise_distance(part, means).argmin(1) for part in torch.split(points, _CHUNK)]
    return classes[torch.cat(nearest)] if nearest else classes[:0]

"""The linear probe: a balanced logistic regression on a frozen representation."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from torch import Tensor

from labeltree.evaluation.classification import classification_scores
from labeltree.evaluation.ground import Ground
from labeltree.evaluation.reading import Reading
from labeltree.evaluation.samples import Samples
from labeltree.evaluation.settings import EvaluationSettings
from labeltree.metrics.probe import LinearProbe

__all__ = ["ProbeResult", "fit_and_predict", "judge_probe", "linear_probe", "standardized"]


@dataclass(frozen=True)
class ProbeResult:
    """What the linear probe found.

    Attributes:
        scores: by name.
        by_depth: accuracy at depth 1 … L.
        gap: how far above its minimum the objective may be, relatively; 0 where the solver got there.
        predicted: ``(m,)`` the node that each test sample was given.
    """

    scores: dict[str, float]
    by_depth: list[float]
    gap: float
    predicted: Tensor


def linear_probe(
    reading: Reading, nodes: Tensor, samples: Samples, ground: Ground, settings: EvaluationSettings
) -> ProbeResult:
    """Learn the finest labels from the training samples and name those of the test samples.

    Args:
        reading: the representation that is read.
        nodes: ``(n,)`` labels of all rows of the table.
        samples: which rows are used for what.
        ground: of the labels.
        settings: whether the columns are standardized.
    """
    learn = samples.train[samples.finest[nodes[samples.train]]]
    vectors = reading.vectors
    predicted, gap = fit_and_predict(vectors[learn], nodes[learn], vectors[samples.test], settings)
    return judge_probe(predicted, nodes[samples.test], samples, ground, gap)


def judge_probe(
    predicted: Tensor, target: Tensor, samples: Samples, ground: Ground, gap: float
) -> ProbeResult:
    """Score what a probe predicted for the test samples, ``(m,)`` nodes, against their labels ``(m,)``."""
    scores, by_depth = classification_scores(
        predicted, target, samples.finest[target], ground, samples.shared
    )
    return ProbeResult(scores, by_depth, gap, predicted)


def fit_and_predict(
    train: Tensor, classes: Tensor, test: Tensor, settings: EvaluationSettings
) -> tuple[Tensor, float]:
    """Predict the classes of the test vectors ``(m,)``, and say how far from its optimum the probe stopped.

    The distance is relative; 0 if it is at most the solver's tolerance.
    """
    if settings.standardize:
        train, test = standardized(train, test)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="LinearProbe stopped")  # the result's notes say it instead
        probe = LinearProbe().fit(train, classes)
    return probe.predict(test), 0.0 if probe.converged else probe.gap


def standardized(train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    """Both with the mean 0 and the standard deviation 1 that every column has in the training vectors."""
    mean, deviation = train.mean(0), train.std(0, correction=0)
    # a column that hardly varies holds rounding noise, and dividing by it would blow that up
    flat = deviation <= 1e-6 * deviation.max()
    deviation = deviation.masked_fill(flat, 1.0)
    return ((train - mean) / deviation).masked_fill(flat, 0.0), ((test - mean) / deviation).masked_fill(
        flat, 0.0
    )

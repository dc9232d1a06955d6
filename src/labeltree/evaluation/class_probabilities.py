"""The probabilities of classes that the linear probe gives, for protocols that need more than its choice."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from torch import Tensor

from labeltree.evaluation.probe import standardized
from labeltree.evaluation.settings import EvaluationSettings
from labeltree.metrics.probe import LinearProbe

__all__ = ["ClassProbabilities", "probe_probabilities"]


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


def probe_probabilities(
    train: Tensor, classes: Tensor, test: Tensor, settings: EvaluationSettings
) -> ClassProbabilities:
    """Learn from vectors ``(n, d)`` and their classes ``(n,)``; give the probabilities of others ``(m, d)``.

    It is the probe of the standard evaluation: its most probable class is what that predicts.
    """
    if settings.standardize:
        train, test = standardized(train, test)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="LinearProbe stopped")  # the gap says it instead
        probe = LinearProbe().fit(train, classes)
    return ClassProbabilities(probe.classes, probe.predict_proba(test), 0.0 if probe.converged else probe.gap)

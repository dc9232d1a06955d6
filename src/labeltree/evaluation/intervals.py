"""Confidence intervals of the numbers of one method, from the outcomes of its samples."""

from __future__ import annotations

from collections.abc import Mapping

from labeltree.evaluation.gathering import CLASSIFIERS
from labeltree.evaluation.outcomes import Key, Outcomes
from labeltree.evaluation.result import Bounds
from labeltree.evaluation.settings import EvaluationSettings
from labeltree.evaluation.statistics import Bootstrap

__all__ = ["depth_intervals", "score_intervals"]


def score_intervals(outcomes: Outcomes, settings: EvaluationSettings) -> dict[Key, Bounds]:
    """The interval of every metric, by the bootstrap over groups or samples; none without resamples."""
    if not settings.resamples or not len(outcomes):
        return {}
    keys = list(outcomes.values)
    bootstrap = Bootstrap(outcomes.sums(keys), resamples=settings.resamples, seed=settings.seed)
    found = bootstrap.interval(confidence=settings.confidence)
    return dict(zip(keys, zip(found.low.tolist(), found.high.tolist(), strict=True), strict=True))


def depth_intervals(bounds: Mapping[Key, Bounds]) -> dict[str, list[Bounds]]:
    """Those of the accuracies at depth 1 … L, by classifier."""
    found: dict[str, list[Bounds]] = {}
    for name, prefix in CLASSIFIERS.items():
        title = f"{prefix}accuracy_at_depth_"
        entries = [(metric, ends) for (_, metric), ends in bounds.items() if metric.startswith(title)]
        if entries:
            found[name] = [ends for _, ends in sorted(entries, key=lambda e: int(e[0].removeprefix(title)))]
    return found

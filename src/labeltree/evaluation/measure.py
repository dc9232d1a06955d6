"""The standard protocols, run on one table."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from labeltree.evaluation.aspect_result import aspect_means
from labeltree.evaluation.aspects import evaluate_aspects
from labeltree.evaluation.gathering import gather_outcomes
from labeltree.evaluation.ground import Ground
from labeltree.evaluation.intervals import depth_intervals, score_intervals
from labeltree.evaluation.outcomes import Outcomes
from labeltree.evaluation.own_answers import OwnAnswers, own_answers
from labeltree.evaluation.probe import linear_probe
from labeltree.evaluation.prototypes import PrototypeResult, prototype_scores
from labeltree.evaluation.reading import Reading, read
from labeltree.evaluation.result import MethodResult
from labeltree.evaluation.retrieval import RetrievalResult, retrieval_scores, titled
from labeltree.evaluation.samples import Samples
from labeltree.evaluation.settings import EvaluationSettings
from labeltree.metrics.ranking import Progress
from labeltree.runs import EmbeddingTable

__all__ = ["Measured", "measure"]

_log = logging.getLogger(__name__)


class Measured(NamedTuple):
    """The result of one method, and what the notes of an evaluation say of it."""

    method: MethodResult
    probe_gap: float
    prototypes: PrototypeResult
    own: OwnAnswers | None
    aspect_notes: list[str]
    outcomes: Outcomes


def measure(
    name: str,
    table: EmbeddingTable,
    roles: list[str],
    samples: Samples,
    ground: Ground,
    split: str,
    settings: EvaluationSettings,
    progress: Progress | None,
) -> Measured:
    """Measure one table by probe, prototypes, own answers, retrieval and aspects."""
    say = progress or _silent
    readings = {role: read(table, role, settings.feature_geometry) for role in roles}
    nodes = table.nodes
    with torch.no_grad():
        say(f"{name}: linear probe", 0, 0)
        _log.info("%s: linear probe", name)
        probe = linear_probe(readings[roles[0]], nodes, samples, ground, settings)
        say(f"{name}: prototypes and violations", 0, 0)
        _log.info("%s: prototypes and violations", name)
        prototypes = prototype_scores(readings["embeddings"], nodes, samples, ground, settings)
        own = own_answers(table.predictions, nodes, samples, ground)
        retrieval: dict[str, RetrievalResult] = {}
        for role, reading in readings.items():
            same = [other for other in retrieval if _same(readings[other], reading)]
            title = f"{name}: retrieval by {role}"
            _log.info(title)
            retrieval[role] = (
                retrieval[same[0]]
                if same
                else retrieval_scores(
                    reading,
                    nodes,
                    samples,
                    ground,
                    settings,
                    titled(progress, title),
                )
            )
    scores: dict[str, dict[str, float]] = {role: {} for role in roles}
    scores[roles[0]] |= probe.scores
    scores["embeddings"] |= prototypes.scores
    for role, found in retrieval.items():
        scores[role] |= found.scores
    by_depth = {"probe": probe.by_depth, "prototypes": prototypes.by_depth}
    if own is not None:
        scores["predictions"] = own.scores
        by_depth["own"] = own.by_depth
    outcomes = gather_outcomes(
        table,
        samples,
        ground,
        settings,
        roles=roles,
        probe=probe,
        prototypes=prototypes,
        own=own,
        retrieval=retrieval,
    )
    if samples.one_class is not None:  # whatever is answered or found is right
        scores, by_depth, retrieval, outcomes = _undefined(scores, by_depth, retrieval, outcomes)
    say(f"{name}: confidence intervals", 0, 0)
    bounds = score_intervals(outcomes, settings)
    aspects, aspect_notes = evaluate_aspects(table, split=split, settings=settings, progress=progress)
    if aspects:
        scores["aspects"] = aspect_means(aspects)
    method = MethodResult(
        name=name,
        representations={role: reading.representation for role, reading in readings.items()},
        scores=scores,
        by_depth=by_depth,
        hp_curve={role: found.hp_curve for role, found in retrieval.items()},
        errors=probe.errors,
        aspects=aspects,
        intervals={
            role: {metric: bounds[role, metric] for metric in found if (role, metric) in bounds}
            for role, found in scores.items()
        },
        depth_intervals=depth_intervals(bounds),
    )
    return Measured(method, probe.gap, prototypes, own, aspect_notes, outcomes)


def _undefined(
    scores: dict[str, dict[str, float]],
    by_depth: dict[str, list[float]],
    retrieval: dict[str, RetrievalResult],
    outcomes: Outcomes,
) -> tuple[dict[str, dict[str, float]], dict[str, list[float]], dict[str, RetrievalResult], Outcomes]:
    """The same with NaN for every number."""
    nan = math.nan
    return (
        {role: dict.fromkeys(found, nan) for role, found in scores.items()},
        {name: [nan] * len(depths) for name, depths in by_depth.items()},
        {role: replace(found, hp_curve=[nan] * len(found.hp_curve)) for role, found in retrieval.items()},
        replace(outcomes, values={key: np.full_like(v, nan) for key, v in outcomes.values.items()}),
    )


def _silent(message: str, done: int, total: int) -> None:
    """Report nothing."""


def _same(a: Reading, b: Reading) -> bool:
    return a.representation == b.representation

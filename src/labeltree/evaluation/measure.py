"""The standard protocols, run on one table."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from labeltree.decisions.choice import ChosenClassifier, Classifiers, classify, fit_classifiers
from labeltree.evaluation.aspect_result import aspect_means
from labeltree.evaluation.aspects import evaluate_aspects
from labeltree.evaluation.gathering import CLASSIFIERS, gather_outcomes
from labeltree.evaluation.ground import Ground
from labeltree.evaluation.intervals import depth_intervals, score_intervals
from labeltree.evaluation.outcomes import Outcomes
from labeltree.evaluation.own_answers import OwnAnswers, own_answers
from labeltree.evaluation.probe import judge_probe
from labeltree.evaluation.prototypes import PrototypeResult, prototype_scores
from labeltree.evaluation.reading import Reading, read
from labeltree.evaluation.result import MethodResult
from labeltree.evaluation.retrieval import RetrievalResult, retrieval_scores, titled
from labeltree.evaluation.samples import Samples
from labeltree.evaluation.settings import EvaluationSettings
from labeltree.evaluation.tree_errors import tree_errors
from labeltree.metrics.ranking import Progress
from labeltree.runs import EmbeddingTable

__all__ = ["Measured", "held_rows", "measure"]

_log = logging.getLogger(__name__)


class Measured(NamedTuple):
    """The result of one method, and what the notes of an evaluation say of it."""

    method: MethodResult
    probe_gap: float
    prototypes: PrototypeResult
    own: OwnAnswers | None
    aspect_notes: list[str]
    outcomes: Outcomes
    classifiers: Classifiers


def held_rows(table: EmbeddingTable, samples: Samples) -> Tensor:
    """Rows of validation samples with a finest label, none of which classifiers learn from."""
    if table.split is None:
        return torch.empty(0, dtype=torch.int64)
    held = torch.from_numpy(np.asarray(table.split == "val")) & (table.nodes > 0)
    held &= samples.finest[table.nodes.clamp(min=0)]
    held[samples.train] = False
    return held.nonzero()[:, 0]


def measure(
    name: str,
    table: EmbeddingTable,
    roles: list[str],
    samples: Samples,
    ground: Ground,
    split: str,
    settings: EvaluationSettings,
    progress: Progress | None,
    given: Classifiers | ChosenClassifier | None = None,
) -> Measured:
    """Measure one table by probe, prototypes, own answers, retrieval and aspects.

    The classifiers are learned from its training samples, and one is chosen by its validation samples, unless
    they or the choice are given.
    """
    say = progress or _silent
    asked = settings.classifier
    if asked == "own" and table.predictions is None:  # a baseline
        asked = "auto"
    read_table = table if "features" in roles else replace(table, features=None)
    readings = {role: read(table, role, settings.feature_geometry) for role in roles}
    nodes = table.nodes
    with torch.no_grad():
        say(f"{name}: linear probe", 0, 0)
        _log.info("%s: linear probe", name)
        if isinstance(given, Classifiers):
            classifiers = given
        else:
            classifiers = fit_classifiers(
                read_table,
                ground.tree,
                learned=samples.train[samples.finest[nodes[samples.train]]],
                held=held_rows(table, samples),
                asked="auto" if given is not None else asked,
                own_answers=table.predictions,
                standardize=settings.standardize,
            )
        if isinstance(given, ChosenClassifier):
            classifiers = replace(classifiers, chosen=given)
        test, target = read_table.rows(samples.test), nodes[samples.test]
        predicted = classify(classifiers.probe, test)
        probe = judge_probe(predicted, target, samples, ground, classifiers.gap)
        say(f"{name}: prototypes and violations", 0, 0)
        _log.info("%s: prototypes and violations", name)
        predicted = classify(classifiers.prototypes, test)
        prototypes = prototype_scores(readings["embeddings"], nodes, samples, ground, settings, predicted)
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
    elif samples.unlearned is not None:
        _without_unlearned(samples.unlearned, roles[0], scores, by_depth, outcomes)
    say(f"{name}: confidence intervals", 0, 0)
    bounds = score_intervals(outcomes, settings)
    aspects, aspect_notes = evaluate_aspects(table, split=split, settings=settings, progress=progress)
    if aspects:
        scores["aspects"] = aspect_means(aspects)
    decided = samples.finest[target]
    answers = {"probe": probe.predicted, "prototypes": prototypes.predicted}
    if own is not None:
        answers["own"] = own.predicted.clamp(min=0)  # no answer is as wrong as the root
    chosen = classifiers.chosen if classifiers.chosen.name in answers else ChosenClassifier("probe")
    wanted = answers[chosen.name][decided]
    errors = tree_errors(wanted, target[decided], ground.tree, confusions=settings.confusions)
    method = MethodResult(
        name=name,
        representations={role: reading.representation for role, reading in readings.items()},
        scores=scores,
        by_depth=by_depth,
        hp_curve={role: found.hp_curve for role, found in retrieval.items()},
        errors=errors,
        classifier=chosen,
        aspects=aspects,
        intervals={
            role: {metric: bounds[role, metric] for metric in found if (role, metric) in bounds}
            for role, found in scores.items()
        },
        depth_intervals=depth_intervals(bounds),
    )
    return Measured(method, probe.gap, prototypes, own, aspect_notes, outcomes, classifiers)


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


def _without_unlearned(
    depths: tuple[int, ...],
    role: str,
    scores: dict[str, dict[str, float]],
    by_depth: dict[str, list[float]],
    outcomes: Outcomes,
) -> None:
    """NaN for the top-1 of what learned from other classes than the test has, and its accuracy at depths.

    The model's own answers stay: a model of class embeddings may name classes that it has not seen.
    """
    for name, place in (("probe", role), ("prototypes", "embeddings")):
        prefix = CLASSIFIERS[name]
        scores[place] |= {f"{prefix}top1": math.nan}
        by_depth[name] = [math.nan if d in depths else a for d, a in enumerate(by_depth[name], 1)]
        for metric in ("top1", *(f"accuracy_at_depth_{depth}" for depth in depths)):
            column = outcomes.values.get((place, f"{prefix}{metric}"))
            if column is not None:
                column[:] = math.nan


def _silent(message: str, done: int, total: int) -> None:
    """Report nothing."""


def _same(a: Reading, b: Reading) -> bool:
    return a.representation == b.representation

"""Measures one table: the standard evaluation, further protocols, and the outcomes of its samples."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypedDict

import torch
from torch import Tensor

from labeltree.decisions.classifiers import (
    ChosenClassifier,
    ClassifierKind,
    Classifiers,
    classify,
    fit_classifiers,
)
from labeltree.evaluation.aspects import evaluate_aspects
from labeltree.evaluation.columns import Column
from labeltree.evaluation.error_tree import tree_errors
from labeltree.evaluation.inputs import Inputs
from labeltree.evaluation.json_numbers import Bounds
from labeltree.evaluation.outcomes import Key, Outcomes
from labeltree.evaluation.protocol_result import NOT_MEASURED, ProtocolResult
from labeltree.evaluation.reading import Reading, read
from labeltree.evaluation.registry import ProtocolEntry, run_protocol
from labeltree.evaluation.resampling_units import drawn_groups
from labeltree.evaluation.result import PREFIX, MethodResult, aspect_means
from labeltree.evaluation.samples import held_rows
from labeltree.evaluation.standard_protocols import answers_of, search, violations

__all__ = ["Measured", "measure"]

_log = logging.getLogger(__name__)


class Measured(NamedTuple):
    """The result of one method, and what the notes of an evaluation say of it.

    Attributes:
        method: all numbers.
        outcomes: what came of every sample.
        probe_gap: how far above its minimum the probe's objective may be, relatively.
        judged: samples that the parent violations could be counted on.
        under_root: samples left out of them because their parent is the root.
        silent: test samples without an answer of the model's own, where it gave some.
        aspect_notes: sentences on aspects that could not be measured.
    """

    method: MethodResult
    outcomes: Outcomes
    probe_gap: float
    judged: int
    under_root: int
    silent: int
    aspect_notes: list[str]


def measure(
    inputs: Inputs,
    roles: list[str],
    protocols: Sequence[ProtocolEntry] = (),
    given: Classifiers | ChosenClassifier | None = None,
) -> Measured:
    """Measure one table by probe, prototypes, own answers, retrieval, aspects and the protocols named.

    Args:
        inputs: of the table.
        roles: of the standard evaluation.
        protocols: that are run besides.
        given: the classifiers, or which one answers. Others are learned from the training samples, and one is
            chosen by the validation samples.
    """
    table, samples, settings = inputs.table, inputs.samples, inputs.settings
    inputs = replace(inputs, classifiers=_classifiers(inputs, roles, given))
    standard = inputs if "features" in roles else replace(inputs, table=replace(table, features=None))
    assert inputs.classifiers is not None
    readings = {role: read(table, role, settings.feature_geometry) for role in roles}
    with torch.no_grad():
        predicted = _answers(standard)
        columns, curves, under_root = _standard_columns(standard, readings, predicted)
    judged = sum(int((~c.values.isnan()).sum()) for c in columns if c.name == "embeddings.parent_violations")
    columns = _defined(columns, inputs)
    if samples.one_class is not None:
        curves = {role: [math.nan] * len(curve) for role, curve in curves.items()}
    _say(inputs, "confidence intervals")
    numbers = standard.summarise(columns, by_frequency=False)
    aspects, aspect_notes = evaluate_aspects(
        table, split=inputs.split, settings=settings, progress=inputs.progress
    )
    protocols_found = _run_protocols(protocols, inputs)
    outcomes = _outcomes(inputs, columns, protocols_found, predicted)
    chosen = inputs.classifiers.chosen
    chosen = chosen if chosen.name in predicted else ChosenClassifier("probe")
    target = inputs.nodes[samples.test]
    decided = samples.finest[target]
    wanted = predicted[chosen.name].clamp(min=0)[decided]  # no answer is as wrong as the root
    method = MethodResult(
        name=inputs.name,
        representations={role: reading.representation for role, reading in readings.items()},
        hp_curve=curves,
        errors=tree_errors(wanted, target[decided], inputs.judging.tree, confusions=settings.confusions),
        aspects=aspects,
        protocols={name: replace(found, columns=[]) for name, found in protocols_found.items()},
        classifier=chosen,
        **_numbers(numbers, roles, bool(settings.resamples)),
    )
    if aspects:
        method.scores["aspects"] = aspect_means(aspects)
    silent = int((predicted["own"] < 0).sum()) if "own" in predicted else 0
    return Measured(method, outcomes, inputs.classifiers.gap, judged, under_root, silent, aspect_notes)


def _answers(inputs: Inputs) -> dict[ClassifierKind, Tensor]:
    """What each classifier names the test samples: ``(m,)`` nodes, −1 where it gives no answer."""
    assert inputs.classifiers is not None
    test = inputs.table.rows(inputs.samples.test)
    predicted: dict[ClassifierKind, Tensor] = {
        "probe": classify(inputs.classifiers.probe, test),
        "prototypes": classify(inputs.classifiers.prototypes, test),
    }
    if inputs.own_answers is not None:
        predicted["own"] = inputs.own_answers
    return predicted


def _standard_columns(
    inputs: Inputs, readings: Mapping[str, Reading], predicted: Mapping[ClassifierKind, Tensor]
) -> tuple[list[Column], dict[str, list[float]], int]:
    """All columns, the means of HP@1 … by role, and how many samples have the root as parent."""
    columns = answers_of(inputs, predicted, next(iter(readings)))
    _say(inputs, "prototypes and violations")
    found, under_root = violations(inputs, readings["embeddings"])
    columns += found
    curves: dict[str, list[float]] = {}
    first = next(iter(readings.values())).representation
    for role, reading in readings.items():
        if not curves or reading.representation != first:
            _say(inputs, f"retrieval by {role}")
            ranked, curve = search(inputs, reading, role)
        columns += [replace(column, name=f"{role}.{column.name}") for column in ranked]
        curves[role] = curve
    return columns, curves, under_root


def _say(inputs: Inputs, what: str) -> None:
    _log.info("%s: %s", inputs.name, what)
    if inputs.progress is not None:
        inputs.progress(what, 0, 0)


def _classifiers(
    inputs: Inputs, roles: list[str], given: Classifiers | ChosenClassifier | None
) -> Classifiers:
    if isinstance(given, Classifiers):
        return given
    _say(inputs, "linear probe")
    table, asked = inputs.table, inputs.settings.classifier
    if given is not None or (asked == "own" and table.predictions is None):  # a baseline
        asked = "auto"
    with torch.no_grad():
        found = fit_classifiers(
            table if "features" in roles else replace(table, features=None),
            inputs.judging.tree,
            learned=inputs.learned,
            held=held_rows(table, inputs.samples),
            asked=asked,
            own_answers=table.predictions,
            standardize=inputs.settings.standardize,
        )
    return found if given is None else replace(found, chosen=given)


def _defined(columns: Iterable[Column], inputs: Inputs) -> list[Column]:
    """The same with NaN for what is not defined.

    That is everything where all samples are of one class: whatever is answered or found is right. Where no
    class of the test was learned, it is the top-1 of what learned here, and its accuracy at the depths where
    no label was; the model's own answers stay: a model of class embeddings may name classes that it has not
    seen.
    """
    samples = inputs.samples
    lost = samples.unlearned or ()

    def known(column: Column) -> bool:
        role, metric = _key(column)
        if samples.one_class is not None:
            return False
        if samples.unlearned is None or role == "predictions":
            return True
        metric = metric.removeprefix(PREFIX["prototypes"])
        return metric not in ("top1", *(f"accuracy_at_depth_{depth}" for depth in lost))

    return [
        column if known(column) else replace(column, values=torch.full_like(column.values, math.nan))
        for column in columns
    ]


def _key(column: Column) -> Key:
    """Role and metric of a column of the standard evaluation."""
    role, _, metric = column.name.partition(".")
    return role, f"{metric}_at_depth_{column.at + 1}" if column.kind == "by_depth" else metric


class _Numbers(TypedDict):
    scores: dict[str, dict[str, float]]
    intervals: dict[str, dict[str, Bounds]]
    by_depth: dict[str, list[float]]
    depth_intervals: dict[str, list[Bounds]]


def _numbers(found: ProtocolResult, roles: list[str], intervals: bool) -> _Numbers:
    """Scores by role and accuracies by classifier, with their intervals, as `MethodResult` has them."""
    nothing = math.nan, math.nan
    numbers = _Numbers(
        scores={role: {} for role in roles},
        intervals={role: {} for role in roles},
        by_depth={},
        depth_intervals={},
    )
    for name, value in found.scores.items():
        role, _, metric = name.partition(".")
        numbers["scores"].setdefault(role, {})[metric] = value
        if intervals:
            numbers["intervals"].setdefault(role, {})[metric] = found.intervals.get(name, nothing)
    for name, values in found.by_depth.items():
        prefix = name.partition(".")[2].removesuffix("accuracy")
        classifier = next(kind for kind, start in PREFIX.items() if start == prefix)
        numbers["by_depth"][classifier] = values
        if intervals:
            ends = found.depth_intervals.get(name, [nothing] * len(values))
            numbers["depth_intervals"][classifier] = ends
    return numbers


def _run_protocols(entries: Sequence[ProtocolEntry], inputs: Inputs) -> dict[str, ProtocolResult]:
    """Run the protocols on one table; where one is not defined for it, its result says so."""
    results = {}
    for entry in entries:
        _say(inputs, f"protocol {entry.name}")
        if inputs.samples.one_class is not None:
            refusal = f"{NOT_MEASURED}all samples are of one class, so that there is nothing to tell apart."
            results[entry.name] = ProtocolResult(entry.summary, notes=[refusal])
            continue
        with torch.no_grad():
            results[entry.name] = run_protocol(entry, inputs, strict=False)
    return results


def _outcomes(
    inputs: Inputs,
    columns: Sequence[Column],
    protocols: Mapping[str, ProtocolResult],
    predicted: Mapping[ClassifierKind, Tensor],
) -> Outcomes:
    """A row for every sample that was tested, searched or counted by a protocol, in table order."""
    table, samples = inputs.table, inputs.samples
    parts: dict[Key, list[Column]] = {}
    for column in columns:
        parts.setdefault(_key(column), []).append(column)
    for name, result in protocols.items():
        for column in result.columns:
            if column.kind == "scores":
                parts.setdefault((name, column.name), []).append(column)
    rows_of = [column.rows for several in parts.values() for column in several if column.rows is not None]
    rows = torch.unique(torch.cat([samples.test, samples.plan.queries, *rows_of]))
    nodes = table.nodes[rows]
    values = {key: _placed([c.values for c in of], of, rows) for key, of in parts.items()}
    weights = {
        key: _placed([_weights(c, len(of)) for c in of], of, rows).nan_to_num(0.0)
        for key, of in parts.items()
        if len(of) > 1 or of[0].weights is not None
    }
    groups = drawn_groups(table, samples.test)
    answers = {}
    for name, found in predicted.items():
        answers[name] = torch.full_like(nodes, -1)
        answers[name][torch.searchsorted(rows, samples.test)] = found
    return Outcomes(
        instances=(rows if table.instances is None else table.instances[rows]).numpy(),
        nodes=nodes.numpy(),
        taxonomy=inputs.judging.tree,
        values={key: column.numpy() for key, column in values.items()},
        weights={key: column.numpy() for key, column in weights.items()},
        groups=None if groups is None else groups[rows].numpy(),
        bands=inputs.frequency.group(nodes).numpy() if inputs.frequency.uneven else None,
        predicted={name: column.numpy() for name, column in answers.items()},
        whole=frozenset(key for key, of in parts.items() if of[0].whole),
        smaller_is_better=frozenset(key for key, of in parts.items() if not of[0].larger_is_better),
        protocols=tuple(name for name, found in protocols.items() if found.columns),
        search=samples.plan.described(),
    )


def _weights(column: Column, parts: int) -> Tensor:
    """Of the samples; those of several parts of one number make every part count alike."""
    weights = torch.ones_like(column.values) if column.weights is None else column.weights.double()
    return weights if parts == 1 else weights / weights[~column.values.isnan()].sum().clamp_min(1e-300)


def _placed(values: Sequence[Tensor], columns: Sequence[Column], rows: Tensor) -> Tensor:
    """``(len(rows),)`` the values of some columns at their rows, NaN elsewhere."""
    found = torch.full((len(rows),), torch.nan, dtype=torch.float64)
    for part, column in zip(values, columns, strict=True):
        assert column.rows is not None
        found[torch.searchsorted(rows, column.rows)] = part
    return found

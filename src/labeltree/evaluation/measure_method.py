"""Measurement of one table: protocols, aspects, and outcomes of its samples."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.decisions.choose_classifier import ChosenClassifier
from labeltree.decisions.classifiers import Classifiers
from labeltree.errors import DataError
from labeltree.evaluation.by_attribute import by_attribute
from labeltree.evaluation.chosen_samples import choose_samples, labelled_rows
from labeltree.evaluation.error_tree import tree_errors
from labeltree.evaluation.judging_taxonomy import JudgingTaxonomy
from labeltree.evaluation.outcomes import Key, Outcomes
from labeltree.evaluation.protocol_registry import ProtocolEntry, get_protocol, run_protocol
from labeltree.evaluation.representations import POSTERIOR
from labeltree.evaluation.result import NOT_MEASURED, AspectResult, MethodResult, ProtocolResult, aspect_means
from labeltree.evaluation.sample_columns import Column, class_means
from labeltree.evaluation.search_and_answer_columns import Inputs
from labeltree.evaluation.statistics import Statistic
from labeltree.metrics.catalogue import is_larger_better
from labeltree.options.evaluation import EvaluationSettings
from labeltree.progress import Progress
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

__all__ = ["Measured", "evaluate_aspects", "measure"]

_log = logging.getLogger(__name__)
_NO_INTERVAL = math.nan, math.nan


class Measured(NamedTuple):
    """The result of one method, its classifiers and outcomes, and counts and notes for the evaluation."""

    method: MethodResult
    classifiers: Classifiers
    outcomes: Outcomes
    counts: dict[str, int]
    notes: list[str]
    aspect_notes: list[str]


def measure(
    inputs: Inputs, entries: Sequence[ProtocolEntry], given: Classifiers | ChosenClassifier | None = None
) -> Measured:
    """Measure one table by the given protocols and by its aspects.

    Args:
        inputs: Inputs of the table.
        entries: The protocols to run, including the standard ones.
        given: Fitted classifiers, or the choice of the one that answers. By default the classifiers are
            fitted to the training samples, and one is chosen on the validation samples.
    """
    if not isinstance(given, Classifiers):
        _say(inputs, "linear probe")
        chosen = given
        given = inputs.fit_classifiers(None if chosen is None else "auto")
        given = given if chosen is None else replace(given, chosen=chosen)
    inputs = replace(inputs, given=given)
    standard, further = dict[str, ProtocolResult](), dict[str, ProtocolResult]()
    for entry in entries:
        (standard if entry.standard else further)[entry.name] = _run(entry, inputs)
    aspects, aspect_notes = evaluate_aspects(
        inputs.table, split=inputs.split, settings=inputs.settings, progress=inputs.progress
    )
    method = _method_result(inputs, standard)
    method.aspects.update(aspects)
    method.protocols.update({name: each.without_samples() for name, each in further.items()})
    if aspects:
        method.scores["aspects"] = aspect_means(aspects)
    outcomes = _outcomes(inputs, standard, further)
    if inputs.evaluated and outcomes.attributes:
        method.by_attribute.extend(by_attribute(outcomes, inputs.resampling))
    return Measured(
        method,
        inputs.classifiers,
        outcomes,
        {name: count for each in standard.values() for name, count in each.counts.items()},
        [note for each in standard.values() for note in each.notes],
        aspect_notes,
    )


def _run(entry: ProtocolEntry, inputs: Inputs) -> ProtocolResult:
    """Run a protocol on one table; if a non-standard one is not defined for it, its result says so."""
    if not entry.standard and inputs.samples.one_class is not None:
        refusal = f"{NOT_MEASURED}all samples are of one class, so there is nothing to distinguish."
        return ProtocolResult(entry.summary, notes=[refusal])
    _say(inputs, entry.name if entry.standard else f"protocol {entry.name}")
    with torch.no_grad():
        return run_protocol(entry, inputs, strict=entry.standard)


def _say(inputs: Inputs, what: str) -> None:
    _log.info("%s: %s", inputs.name, what)
    if inputs.progress is not None:
        inputs.progress(what, 0, 0)


def _method_result(inputs: Inputs, standard: Mapping[str, ProtocolResult]) -> MethodResult:
    """The numbers of the standard protocols, by role and classifier, and the chosen classifier's errors."""
    chosen = inputs.classifiers.chosen
    chosen = (
        chosen
        if chosen.name in inputs.predicted
        else ChosenClassifier("probe", features=chosen.features, space=chosen.space)
    )
    target = inputs.nodes[inputs.samples.test]
    decided = inputs.samples.finest[target]
    answered = inputs.predicted[chosen.name].clamp(min=0)[decided]  # a missing answer counts as the root
    tree, most = inputs.judging.tree, inputs.settings.confusions
    readings = inputs.standard_readings()
    if POSTERIOR in standard and (reading := inputs.posterior[0]) is not None:
        readings[POSTERIOR] = reading
    method = MethodResult(
        name=inputs.name,
        representations={role: reading.representation for role, reading in readings.items()},
        scores={role: {} for role in inputs.roles},
        by_depth={},
        hp_curve={},
        errors=tree_errors(answered, target[decided], tree, confusions=most),
        intervals={role: {} for role in inputs.roles},
        classifier=chosen,
    )
    for protocol, each in standard.items():
        for name, value in each.scores.items():
            role, _, metric = name.partition(".")
            method.scores.setdefault(role, {})[metric] = value
            if inputs.resampling:
                method.intervals.setdefault(role, {})[metric] = each.intervals.get(name, _NO_INTERVAL)
        for name, values in each.by_depth.items():
            method.by_depth[protocol] = values
            if inputs.resampling:
                ends = each.depth_intervals.get(name, [_NO_INTERVAL] * len(values))
                method.depth_intervals[protocol] = ends
        method.hp_curve.update({name.partition(".")[0]: values for name, values in each.curves.items()})
    return method


def evaluate_aspects(
    table: EmbeddingTable,
    *,
    split: str = "test",
    settings: EvaluationSettings | None = None,
    progress: Progress | None = None,
) -> tuple[dict[str, AspectResult], list[str]]:
    """Measure a table by each of its aspects: linear probe, own answers, retrieval.

    All three read the features, or the embeddings of a table without features, since a table holds no
    embeddings for single aspects. The cost per aspect is that of one probe, the class means and one ranking.
    As in `evaluate`, the probe's top-1 is not defined (NaN) if no test class has training samples.

    Args:
        table: Table with or without aspects; its labels are not used.
        split: As in `evaluate`.
        settings: As in `evaluate`.
        progress: As in `evaluate`.

    Returns:
        The results by name of the aspect, and notes on aspects that could not be measured, or lack a top-1.

    Raises:
        DataError: If the split is missing or empty.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> mood = Taxonomy.from_paths(["good", "bad"], root_name="service")
        >>> table = EmbeddingTable(
        ...     embeddings=torch.eye(2).repeat(8, 1),
        ...     nodes=torch.full((16,), -1),
        ...     aspects=mood.encode(["good", "bad"] * 8)[:, None],
        ...     aspect_taxonomies=(mood,),
        ... )
        >>> results, _ = evaluate_aspects(table)
        >>> results["service"].scores["top1"]
        1.0
    """
    settings = settings or EvaluationSettings()
    results: dict[str, AspectResult] = {}
    notes: list[str] = []
    if table.split is not None and len(table.aspect_names):
        table.select(split)  # raises if the split is missing; an aspect without labels in it is no error
    for number, (name, taxonomy) in enumerate(zip(table.aspect_names, table.aspect_taxonomies, strict=True)):
        _log.info("aspect %s", name)
        try:
            given = name, table.aspect(number), taxonomy, split, settings, progress
            results[name], of_aspect = _measure_aspect(*given)
            notes += of_aspect
        except DataError as error:
            notes.append(f"The aspect '{name}' could not be measured and is in no mean: {error}.")
    return results, notes


def _measure_aspect(
    name: str,
    table: EmbeddingTable,
    taxonomy: Taxonomy,
    split: str,
    settings: EvaluationSettings,
    progress: Progress | None,
) -> tuple[AspectResult, list[str]]:
    judging = JudgingTaxonomy.of(taxonomy)
    there = table.split is not None and split != "train" and bool((table.split == "train").any())
    if there and not len(labelled_rows(table, "train")):
        raise DataError("no training sample has a label in it")
    samples = choose_samples(table, taxonomy, split, settings)
    if samples.one_class is not None:
        raise DataError(f"all its samples are of one class, '{samples.one_class}'")
    if not samples.counts["classes learned"]:
        raise DataError("all its training samples are labelled only coarsely")
    plain = replace(settings, resamples=0)  # aspects have no intervals
    inputs = Inputs(table, judging, samples, plain, split, progress=progress, name=name, roles=("features",))
    inputs = replace(inputs, given=inputs.fit_classifiers("probe", validate=False))
    with torch.no_grad():
        measured = {kind: run_protocol(get_protocol(kind), inputs) for kind in ("probe", "own", "retrieval")}
    notes = []
    if samples.unlearned is not None:
        notes.append(
            f"No test class of the aspect '{name}' has training samples: the linear probe has no top-1."
        )
    result = AspectResult(
        scores={
            key.partition(".")[2]: value for part in measured.values() for key, value in part.scores.items()
        },
        by_depth={kind: depths for kind, part in measured.items() for depths in part.by_depth.values()},
        counts=samples.counts,
    )
    return result, notes


def _outcomes(
    inputs: Inputs, standard: Mapping[str, ProtocolResult], further: Mapping[str, ProtocolResult]
) -> Outcomes:
    """A row for every sample that was tested, searched or counted by a protocol, in table order."""
    table, samples = inputs.table, inputs.samples
    here = {name: result for name, result in further.items() if result.of is None}
    parts = _columns(inputs, standard, here)
    statistics = {name: result.statistics for name, result in here.items() if result.statistics}
    statistics |= _sort_by_role([each for result in standard.values() for each in result.statistics])
    rows_of = [column.rows for several in parts.values() for column in several if column.rows is not None]
    rows_of += [torch.from_numpy(each.rows) for several in statistics.values() for each in several]
    rows = torch.unique(torch.cat([samples.test, samples.plan.queries, *rows_of]))
    nodes, groups = table.nodes[rows], table.groups
    place = torch.full((len(table),), -1)
    place[rows] = torch.arange(len(rows))
    answers = {}
    for name, predicted in inputs.predicted.items() if standard else ():
        answers[name] = torch.full_like(nodes, -1)
        answers[name][place[samples.test]] = predicted
    directions = {key: of[0].larger_is_better for key, of in parts.items()}
    directions |= {
        (role, name): each.larger_is_better
        for role, several in statistics.items()
        for each in several
        for name in each.names
    }
    worse = {key for key, better in directions.items() if better is False}
    judge = inputs.judging.judge
    return Outcomes(
        instances=(rows if table.instances is None else table.instances[rows]).numpy(),
        nodes=nodes.numpy(),
        taxonomy=inputs.judging.tree,
        **_placed_columns(parts, inputs.nodes, place, len(rows)),
        among=frozenset(key for key, of in parts.items() if of[0].among),
        without={
            key: of[0].without.placed(place[of[0].rows].numpy(), len(rows))
            for key, of in parts.items()
            if len(of) == 1 and of[0].without is not None and of[0].rows is not None
        },
        groups=None if groups is None else groups[rows].numpy(),
        ids=None if table.ids is None else np.asarray(table.ids, dtype=str)[rows.numpy()],
        attributes={
            name: table.attribute(name)[rows.numpy()] for name in inputs.settings.by if inputs.evaluated
        },
        bands=inputs.frequency.group(nodes).numpy() if inputs.frequency.uneven else None,
        predicted={name: column.numpy() for name, column in answers.items()},
        whole=frozenset(key for key, of in parts.items() if of[0].whole),
        smaller_is_better=frozenset(worse),
        directions={
            key: better
            for key, better in directions.items()
            if key not in worse and better is not is_larger_better(key[1])
        },
        no_share=frozenset(key for key, of in parts.items() if not of[0].share),
        protocols=tuple(name for name, result in further.items() if result.columns or result.statistics),
        search=samples.plan.described(),
        statistics={
            role: [each.moved(place.numpy()) for each in several] for role, several in statistics.items()
        },
        dag=None if isinstance(judge, Taxonomy) else judge,
        elsewhere={
            name: _outcomes(result.of, {}, {name: replace(result, of=None)})
            for name, result in further.items()
            if result.of is not None
        },
    )


def _columns(
    inputs: Inputs, standard: Mapping[str, ProtocolResult], further: Mapping[str, ProtocolResult]
) -> dict[Key, list[Column]]:
    """The columns to compare, by role and metric; the role of a non-standard protocol is its name."""
    parts: dict[Key, list[Column]] = {}
    for result in standard.values():
        for column in result.columns:
            for each in (column, *class_means(column, inputs.nodes, inputs.frequency)):
                role, _, metric = each.name.partition(".")
                metric = f"{metric}_at_depth_{each.at + 1}" if each.kind == "by_depth" else metric
                parts.setdefault((role, metric), []).append(each)
    for name, result in further.items():
        for column in result.columns:
            own = [column] if column.kind in ("scores", None) else []
            for each in (*own, *class_means(column, inputs.nodes, inputs.frequency)):
                parts.setdefault((name, each.name), []).append(each)
    return parts


def _sort_by_role(statistics: Sequence[Statistic]) -> dict[str, list[Statistic]]:
    """The statistics of standard protocols by role; their names are `ROLE.METRIC`, all of one role."""
    by_role: dict[str, list[Statistic]] = {}
    for statistic in statistics:
        roles, _, names = zip(*(name.partition(".") for name in statistic.names), strict=True)
        if len(set(roles)) > 1 or not all(names):
            raise DataError(
                f"a standard protocol has a statistic with the names {', '.join(statistic.names)}; expected "
                "ROLE.METRIC with one role"
            )
        by_role.setdefault(roles[0], []).append(replace(statistic, names=names))
    return by_role


def _placed_columns(
    parts: Mapping[Key, Sequence[Column]], nodes: Tensor, place: Tensor, count: int
) -> dict[str, dict[Key, NDArray[Any]]]:
    """The values `(count,)` of each metric by sample, and the weights, classes and folds that it has.

    If a number has several parts, its weights are scaled so that all parts weigh the same.

    Args:
        parts: The columns of each metric.
        nodes: Labels of all rows of the table.
        place: `(n,)` the position of each row of the table.
        count: Number of positions.
    """
    placed: dict[str, dict[Key, NDArray[Any]]] = {"values": {}, "weights": {}, "classes": {}, "folds": {}}
    for key, columns in parts.items():
        several = len(columns) > 1
        values, weights = np.full(count, np.nan), np.zeros(count)
        classes, folds = np.full((2, count), -1)
        for number, column in enumerate(columns):
            assert column.rows is not None
            at = place[column.rows].numpy()
            weighed = torch.ones_like(column.values) if column.weights is None else column.weights.double()
            if several:
                weighed = weighed / weighed[~column.values.isnan()].sum().clamp_min(1e-300)
            values[at], weights[at], folds[at] = column.values.numpy(), weighed.numpy(), number
            classes[at] = (nodes[column.rows] if column.labels is None else column.labels).numpy()
        placed["values"][key] = values
        if several or columns[0].weights is not None:
            placed["weights"][key] = np.nan_to_num(weights)
        if columns[0].class_mean:
            placed["classes"][key] = classes
        if several:
            placed["folds"][key] = folds
    return placed

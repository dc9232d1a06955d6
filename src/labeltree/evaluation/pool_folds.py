"""One result for all folds of a cross-validation: every sample counts once, in the fold that tested it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.counted_nouns import say_count, say_list
from labeltree.decisions.choose_classifier import ChosenClassifier, ClassifierKind
from labeltree.errors import DataError
from labeltree.evaluation.answer_columns import ANSWERS, PREFIX, add_answers
from labeltree.evaluation.by_attribute import by_attribute
from labeltree.evaluation.error_tree import tree_errors
from labeltree.evaluation.outcomes import Integers, Key, Outcomes, renumber_nodes
from labeltree.evaluation.protocols.nodes_as_tests import CONFLICTING, QUESTION_COUNTS, say_operating_point
from labeltree.evaluation.reported_nodes import NodeIntervals, ReportedNodes, counted_nodes, node_result
from labeltree.evaluation.result import EvaluationResult, MethodResult, ProtocolResult
from labeltree.evaluation.sample_columns import Column, Number, ResamplingUnits, estimate, estimate_statistics
from labeltree.evaluation.statistics import Resampling
from labeltree.evaluation.statistics.retrieval_jackknife import WithoutBlocks
from labeltree.metrics.functional import node_decision_metrics
from labeltree.metrics.functional.node_resampling import RATES, decided_nodes
from labeltree.taxonomy.label_sets import finest_classes, finest_labels

__all__ = ["pool_folds", "pool_outcomes"]

_DEPTH = re.compile(f"({'|'.join(PREFIX.values())})accuracy_at_depth_(\\d+)")
_BY = ", by "  # in a title, before the classifier that is judged
_BANDS = ("_head", "_middle", "_tail")


def pool_outcomes(folds: Sequence[Outcomes], answering: Sequence[ClassifierKind] = ()) -> Outcomes:
    """The outcomes of all folds as those of one method.

    Means over the classes that are frequent or rare in training are left out, since folds differ in which
    these are; so are protocols that measured another table.

    Args:
        folds: The outcomes of the evaluated method in each fold.
        answering: The classifier that answers in each fold. Where they differ, the outcomes of what answers
            are those of the classifier `each-fold`.

    Raises:
        DataError: If the folds have different taxonomies, or share a sample.
    """
    if len(set(answering)) > 1:
        folds = [add_answers(of_fold, kind) for of_fold, kind in zip(folds, answering, strict=True)]
    first = folds[0]
    matched = [renumber_nodes(each, first) for each in folds]
    folds = [each for each in matched if each is not None]
    if len(folds) < len(matched):
        raise DataError("the folds were evaluated on different taxonomies; evaluate each on the same")
    ids = np.concatenate([np.unique(each.instances) for each in folds])
    if len(np.unique(ids)) < len(ids):
        raise DataError("two folds tested the same sample: they are not the folds of one cross-validation")
    starts = np.cumsum([0, *map(len, folds)])

    def joined(kind: str, missing: Any) -> dict[Any, Any]:
        keys = dict.fromkeys(key for each in folds for key in getattr(each, kind))
        return {
            key: np.concatenate([getattr(each, kind).get(key, np.full(len(each), missing)) for each in folds])
            for key in keys
            if not (isinstance(key, tuple) and key[1].endswith(_BANDS))
        }

    def united(kind: str) -> frozenset[Key]:
        return frozenset[Key]().union(*(getattr(each, kind) for each in folds))

    statistics: dict[str, list[Any]] = {}
    for each, start in zip(folds, starts, strict=False):
        for role, several in each.statistics.items():
            moved = [statistic.moved(np.arange(len(each)) + start) for statistic in several]
            statistics.setdefault(role, []).extend(moved)
    grouped = any(each.groups is not None for each in folds)
    pooled = replace(
        first,
        instances=np.concatenate([each.instances for each in folds]),
        nodes=np.concatenate([each.nodes for each in folds]),
        values=joined("values", np.nan),
        weights=joined("weights", 1.0),
        classes=joined("classes", -1),
        folds=joined("folds", -1),
        among=united("among"),
        without={
            key: WithoutBlocks.joined([each.without[key] for each in folds])
            for key in first.without
            if all(key in each.without for each in folds)
        },
        groups=_groups(folds) if grouped else None,
        ids=_ids(folds),
        bands=None,
        predicted=joined("predicted", -1),
        attributes=joined("attributes", ""),
        whole=united("whole"),
        smaller_is_better=united("smaller_is_better"),
        directions={key: better for each in folds for key, better in each.directions.items()},
        no_share=united("no_share"),
        protocols=tuple(dict.fromkeys(name for each in folds for name in each.protocols)),
        statistics=statistics,
        elsewhere={},
    )
    return pooled.rows(np.arange(len(pooled)))  # classes count the same over all folds


def _ids(folds: Sequence[Outcomes]) -> np.ndarray[Any, np.dtype[np.str_]] | None:
    """The ids of the samples of all folds; None where a fold has none."""
    given = [each.ids for each in folds if each.ids is not None]
    return np.concatenate(given) if len(given) == len(folds) else None


def _groups(folds: Sequence[Outcomes]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The groups of all folds; without groups, samples are single."""
    parts, beyond = [], 0
    for each in folds:
        groups = np.full(len(each), -1) if each.groups is None else each.groups
        parts.append(np.where(groups >= 0, groups + beyond, -1))
        beyond = max(beyond, int(parts[-1].max(initial=-1)) + 1)
    return np.concatenate(parts)


def pool_folds(results: Sequence[EvaluationResult], outcomes: Sequence[Outcomes]) -> EvaluationResult:
    """One result from those of all folds, by the evaluated method.

    A number that is a mean over samples is that over the samples of all folds, whose intervals draw groups of
    all folds and hold the models fixed. A number that is not (AUROC, CPCC) is the mean over the folds. The
    curves of a protocol have the value of each fold, under the name of the score.

    Args:
        results: The result of each fold.
        outcomes: The outcomes of the evaluated method in each fold.

    Raises:
        DataError: See `pool_outcomes`.
    """
    first, choices = results[0], [each.main.classifier for each in results]
    pooled = pool_outcomes(outcomes, [choice.name for choice in choices])
    chosen = ChosenClassifier.of_folds(choices)
    settings = first.settings
    resampling = None
    if settings.resamples:
        resampling = Resampling(settings.resamples, confidence=settings.confidence, seed=settings.seed)
    numbers = _numbers(pooled, resampling)
    method = MethodResult(
        name=first.name,
        representations=first.main.representations,
        scores={},
        by_depth={},
        hp_curve={},
        errors=_errors(pooled, chosen.name, settings.confusions),
        classifier=chosen,
        by_attribute=by_attribute(pooled, resampling),
    )
    reported = {(role, name) for each in results for role, of in each.main.scores.items() for name in of}
    for (role, metric), number in numbers.items():
        at = _DEPTH.fullmatch(metric)
        if role in pooled.protocols:
            shown = method.protocols.setdefault(role, ProtocolResult(_title(results, role)))
            shown.scores[metric] = number.value
            if not math.isnan(number.low):
                shown.intervals[metric] = number.low, number.high
        elif at is not None:
            kind = next(name for name, prefix in PREFIX.items() if prefix == at[1])
            _put(method.by_depth.setdefault(kind, []), int(at[2]) - 1, number.value, np.nan)
            ends = method.depth_intervals.setdefault(kind, [])
            _put(ends, int(at[2]) - 1, (number.low, number.high), (np.nan, np.nan))
        elif (role, metric) in reported or role == ANSWERS:
            method.scores.setdefault(role, {})[metric] = number.value
            method.intervals.setdefault(role, {})[metric] = number.low, number.high
    for name, protocol in method.protocols.items():
        protocol.notes.extend(_say_missing_folds(results, name))
    if "node-scores" in method.protocols:
        node_scores = method.protocols["node-scores"]
        node_scores.counts.update(_question_counts(results))
        aurocs = _question_aurocs(results, node_scores.counts)
        node_scores.scores.update(aurocs)
        if resampling is not None:
            questions = dict.fromkeys(key.split(".")[-2] for key in aurocs)
            node_scores.notes.extend(
                f"{name}: no interval of AUROC: over folds it is the mean of theirs." for name in questions
            )
        options = settings.options.get("node-scores", {})
        per = str(options.get("per", "sample"))
        _add_nodes(node_scores, _cases(pooled, chosen.name, per), pooled, resampling)
        node_scores.by_node["auroc"] = _node_aurocs(results)
        _add_points(node_scores, results, options.get("operating_point", "youden"))
        if left_out := node_scores.counts.get(f"test {per}s {CONFLICTING}", 0):
            node_scores.notes.append(
                f"{say_count(left_out, f'test {per}')} {'has' if left_out == 1 else 'have'} labels that "
                "contradict each other: left out of the rates of single nodes, and not of questions."
            )
    of_groups = {}
    if pooled.groups is not None:
        of_groups = {"groups tested": pooled.count_groups(pooled.predicted[chosen.name] >= 0)}
    tested = {key: sum(each.counts.get(key, 0) for each in results) for key in _SUMMED}
    classes = len(finest_classes(torch.from_numpy(pooled.nodes), pooled.taxonomy))
    return EvaluationResult(
        name=first.name,
        split="test",
        methods={first.name: method},
        counts={"folds": len(results), **tested, **of_groups, "classes tested": classes},
        notes=[chosen.sentence, *_notes(results, pooled)],
        cautions=_cautions(results),
        search=first.search,
        settings=settings,
        outcomes={first.name: pooled},
    )


def _say_missing_folds(results: Sequence[EvaluationResult], protocol: str) -> list[str]:
    """Which folds could not be measured by a protocol that others were, and why."""
    parts = enumerate((each.main.protocols.get(protocol) for each in results), 1)
    why = {number: part.refusal.rstrip(".") for number, part in parts if part is not None and part.refusal}
    if not why or len(why) == len(results):
        return []
    which = f"{'fold' if len(why) == 1 else 'folds'} {say_list([str(number) for number in why])}"
    reasons = say_list(list(dict.fromkeys(why.values())))
    return [f"{which[0].upper()}{which[1:]} not measured, and not in these numbers: {reasons}."]


def _question_counts(results: Sequence[EvaluationResult]) -> dict[str, int]:
    """The counts of the named sets of nodes, over all folds."""
    totals: Counter[str] = Counter()
    for each in results:
        counts = each.main.protocols["node-scores"].counts if "node-scores" in each.main.protocols else {}
        totals.update({name: count for name, count in counts.items() if ": " in name})
    return dict(totals)


def _question_aurocs(results: Sequence[EvaluationResult], counts: Mapping[str, int]) -> dict[str, float]:
    """The AUROC of each named set of nodes: the mean over the folds in which it is defined."""
    names = {name.rpartition(": ")[0] for name in counts if name.endswith(f": {QUESTION_COUNTS[0]}")}
    aurocs: dict[str, float] = {}
    for name in names:
        several = [each.main.protocols["node-scores"].scores for each in results if _has_nodes(each)]
        keys = [key for key in several[0] if key == f"{name}.auroc" or key.endswith(f".{name}.auroc")]
        aurocs |= {key: _mean_of_folds(several, key) for key in keys}
    return aurocs


def _add_points(node_scores: ProtocolResult, results: Sequence[EvaluationResult], chosen: object) -> None:
    """Add the threshold of each question in each fold, and a note on what is judged at them."""
    several = [each.main.protocols["node-scores"].scores for each in filter(_has_nodes, results)]
    keys = dict.fromkeys(key for of in several for key in of if key.endswith(".point_threshold"))
    for key in keys:
        thresholds = [of.get(key, math.nan) for of in several]
        node_scores.curves[key], node_scores.axes[key] = thresholds, [*map(float, range(1, 1 + len(several)))]
        node_scores.notes.append(
            say_operating_point(key.removesuffix(".point_threshold"), thresholds, chosen)
        )
    asked = "" if keys else ", and over all folds for sets of nodes that are asked for (--question)"
    node_scores.notes.append(
        f"Rates of single nodes at operating points are given for every fold by itself{asked}."
    )


def _node_aurocs(results: Sequence[EvaluationResult]) -> dict[str, float]:
    """The AUROC of every node by the first representation: the mean over the folds in which it is defined."""
    by_fold = []
    for each in filter(_has_nodes, results):
        by_node = each.main.protocols["node-scores"].by_node
        key = next((key for key in by_node if key.rpartition(".")[2] == "auroc"), None)
        by_fold.append({} if key is None else by_node[key])
    nodes = dict.fromkeys(node for of in by_fold for node in of)
    return {node: _mean_of_folds(by_fold, node) for node in nodes}


def _mean_of_folds(folds: Sequence[Mapping[str, float]], key: str) -> float:
    """The mean of a number over the folds in which it is defined; NaN without any."""
    known = [of[key] for of in folds if not math.isnan(of.get(key, math.nan))]
    return sum(known) / len(known) if known else math.nan


def _has_nodes(result: EvaluationResult) -> bool:
    return "node-scores" in result.main.protocols


_SUMMED = ("test samples", "left out: no label", "labelled only coarsely")


def _numbers(pooled: Outcomes, resampling: Resampling | None) -> dict[Key, Number]:
    rows, nodes = torch.arange(len(pooled)), torch.from_numpy(pooled.nodes)
    units = ResamplingUnits(resampling, rows.numpy() if pooled.units is None else pooled.units)
    names = {f"{number}": key for number, key in enumerate(pooled.values)}
    columns = []
    for name, key in names.items():
        of_classes = pooled.is_mean_over_classes(key)
        weighted = key in pooled.weights and not of_classes
        columns.append(
            Column(
                name,
                torch.from_numpy(pooled.values[key]),
                rows,
                kind=None if of_classes else "scores",
                weights=torch.from_numpy(pooled.weights[key]) if weighted else None,
                labels=torch.from_numpy(pooled.classes[key]) if of_classes else None,
                share=key not in pooled.no_share,
                balanced=name if of_classes else "",
                among=key in pooled.among,
                without=pooled.without.get(key),
            )
        )
    numbers = {
        names[place.name]: number
        for place, number in estimate(columns, rows, units, nodes, pooled.taxonomy).items()
    }
    for role, several in pooled.statistics.items():
        of_role = estimate_statistics(several, rows, units, pooled.dag or pooled.taxonomy)
        numbers |= {(role, place.name): number for place, number in of_role.items()}
    return numbers


@dataclass(frozen=True)
class _Cases:
    """The cases of all folds that nodes are judged on: their answers, labels and rows, and what they are."""

    answers: Tensor
    target: Tensor
    rows: Integers
    said: str


def _cases(pooled: Outcomes, kind: ClassifierKind, per: str) -> _Cases:
    """The cases of the protocol `node-scores`: samples, or groups of them with their combined answers."""
    if per != "sample":
        stored = [each for each in pooled.statistics.get("node-scores", ()) if each.kind == "node_ranking"]
        stored = [each for each in stored if each.names == stored[0].names]  # of the first representation
        if stored:
            answers = [each.fixed["classes"][each.samples["probabilities"].argmax(1)] for each in stored]
            return _Cases(
                torch.from_numpy(np.concatenate(answers)),
                torch.from_numpy(np.concatenate([each.samples["target"] for each in stored])),
                np.concatenate([each.rows for each in stored]),
                f"Every {per} is one case, answered by the classifier of the fold that tested it.",
            )
    rows = np.flatnonzero(pooled.predicted[kind] >= 0)
    return _Cases(
        torch.from_numpy(pooled.predicted[kind][rows]),
        torch.from_numpy(pooled.nodes[rows]),
        rows,
        "Sensitivities and predictive values of nodes are of the answers to single samples.",
    )


def _add_nodes(
    result: ProtocolResult, cases: _Cases, pooled: Outcomes, resampling: Resampling | None
) -> None:
    """Add sensitivity, specificity and predictive values of every node by the answers of all folds."""
    taxonomy = pooled.dag or pooled.taxonomy
    if pooled.dag is not None:
        return  # the answers are nodes of its projection
    rows, answers, target = cases.rows, cases.answers, cases.target
    rates = node_decision_metrics(answers, target, taxonomy)
    of_answers = {f"answer_{name}": rates[name] for name in RATES}
    nodes = ReportedNodes.of(rates, taxonomy)
    units = ResamplingUnits(resampling, rows if pooled.units is None else pooled.units[rows])
    of_nodes = node_result(of_answers, nodes)
    said = decided_nodes(answers, target, taxonomy, units.groups, units.count)
    NodeIntervals(of_nodes, units, taxonomy).add_rates("answer_", said, counted_nodes(of_answers, nodes))
    for name in ("scores", "intervals", "by_depth", "depth_intervals", "by_node", "node_intervals"):
        getattr(result, name).update(getattr(of_nodes, name))
    result.by_node["positives"] = nodes.named(nodes.positives.double())
    result.by_node["negatives"] = nodes.named(nodes.negatives.double())
    result.notes.append(cases.said)


def _errors(pooled: Outcomes, kind: ClassifierKind, confusions: int) -> Any:
    target: Tensor = torch.from_numpy(pooled.nodes)
    answered = torch.from_numpy(pooled.predicted[kind])
    decided = finest_labels(target, pooled.taxonomy)[target] & (answered >= 0)
    return tree_errors(answered[decided], target[decided], pooled.taxonomy, confusions=confusions)


def _title(results: Sequence[EvaluationResult], protocol: str) -> str:
    """The title of a protocol; folds may have chosen other classifiers, which it then names."""
    given = [each.main.protocols[protocol].title for each in results if protocol in each.main.protocols]
    titles = list(dict.fromkeys(given)) or [protocol]
    heads, _, names = zip(*(title.partition(_BY) for title in titles), strict=True)
    if len(titles) == 1 or len(set(heads)) > 1 or not all(names):
        return titles[0]
    return f"{heads[0]}{_BY}{' or '.join(names)}, as each fold chose"


def _put(values: list[Any], at: int, value: Any, missing: Any) -> None:
    values += [missing] * (at + 1 - len(values))
    values[at] = value


def _cautions(results: Sequence[EvaluationResult]) -> list[str]:
    """What all folds warn of once, and what single folds warn of with their number.

    Sentences of several folds that differ only in the number that they begin with are one.
    """
    common = set(results[0].cautions).intersection(*(each.cautions for each in results))
    counted: dict[str, dict[int, str]] = {}
    own = []
    for number, each in enumerate(results, 1):
        for said in each.cautions:
            count, _, rest = said.partition(" ")
            if said not in common and count.replace(",", "").isdecimal():
                counted.setdefault(rest, {})[number] = count
            elif said not in common:
                own.append(f"Fold {number}: {said}")
    for rest, counts in counted.items():
        folds, numbers = (say_list([str(each) for each in of]) for of in (counts, counts.values()))
        own.append(f"{'Folds' if len(counts) > 1 else 'Fold'} {folds}: {numbers} {rest}")
    return [said for said in results[0].cautions if said in common] + own


def _notes(results: Sequence[EvaluationResult], pooled: Outcomes) -> list[str]:
    units = "samples" if pooled.units is None else "groups of samples"
    return [
        f"Every sample was judged by the model of the fold that tested it, out of {len(results)} folds, and "
        f"counts once. Intervals draw {units} of all folds and leave the models as they are: how much models "
        "differ is in the numbers of the single folds, and no estimate of it from one cross-validation is "
        "without bias (Bengio & Grandvalet 2004).",
        "Retrieval searched within the test samples of each fold, so among fewer samples than there are in "
        "all. Numbers that are not means over samples (AUROC, CPCC) are means over the folds.",
    ]

"""``node-scores``: every node of the taxonomy as a binary test, scored as in clinical studies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from labeltree.errors import DataError
from labeltree.evaluation.classifiers import ClassProbabilities, fit_probe
from labeltree.evaluation.reading import Reading
from labeltree.evaluation.registry import Inputs, ProtocolResult, register
from labeltree.evaluation.reported_nodes import (
    TOO_MANY_NOTE,
    NodeIntervals,
    ReportedNodes,
    counted_nodes,
    node_result,
    ranking_statistic,
    with_prefix,
)
from labeltree.evaluation.samples import labelled_rows
from labeltree.evaluation.statistics import number_groups
from labeltree.evaluation.subsampling import leak_notes, table_folds
from labeltree.metrics.functional import (
    group_labels,
    group_probabilities,
    node_decision_metrics,
    node_metrics_at,
    node_ranking_metrics,
    node_thresholds,
)
from labeltree.metrics.functional.node_groups import Aggregation, in_conflict
from labeltree.metrics.functional.node_labels import Below
from labeltree.metrics.functional.node_resampling import RATES, decided_nodes, nodes_at

__all__ = ["NodeScoresOptions", "node_scores_protocol"]

_HELD_OUT = 5  # number of folds, one of which is held out if there are no validation samples


@dataclass(frozen=True)
class NodeScoresOptions:
    """Options of `node_scores_protocol`.

    Attributes:
        roles: representations that the probe reads: ``features``, ``embeddings`` or both.
        operating_point: rule for the threshold of every node on the validation samples: ``youden`` (maximum
            of Youden's index), or a sensitivity such as 0.95 (the largest threshold that reaches it).
        per: what is a case: every ``sample``; every ``group`` of samples, such as a patient's images, whose
            probabilities are combined; or the samples with one value of an attribute, such as ``lesion``, see
            `EmbeddingTable.units`. Groups whose labels contradict each other are left out.
        aggregation: how they are combined, see `labeltree.metrics.functional.group_probabilities`.
    """

    roles: tuple[str, ...] = ("features",)
    operating_point: str | float = "youden"
    per: str = "sample"
    aggregation: Aggregation = "logits"

    def __post_init__(self) -> None:
        if self.aggregation not in get_args(Aggregation):
            known = " or ".join(get_args(Aggregation))
            raise ValueError(f"aggregation is '{self.aggregation}', expected {known}")
        wanted = self.sensitivity
        if wanted is not None and not 0 < wanted <= 1:
            raise ValueError(f"operating_point is {wanted}, expected 'youden' or a share above 0, at most 1")

    @property
    def sensitivity(self) -> float | None:
        """The sensitivity to reach; None for Youden's index."""
        if self.operating_point == "youden":
            return None
        try:
            return float(self.operating_point)
        except ValueError as error:
            raise ValueError(
                f"operating_point is '{self.operating_point}', expected 'youden' or a sensitivity, as 0.95"
            ) from error


@register(
    "node-scores",
    summary="AUROC, sensitivity, specificity, predictive values of every node, inner ones too",
    source="Hanley & McNeil 1982; Youden 1950; none of the five papers reports it",
    options=NodeScoresOptions,
)
def node_scores_protocol(inputs: Inputs, options: NodeScoresOptions) -> ProtocolResult:
    """Score every node by the linear probe's probabilities, at its decision and at an operating point.

    Scores are ``auroc`` and ``average_precision``; ``decision_…`` for the decision by the most probable
    class, ``point_…`` at the operating point, and ``own_…`` for the model's own answers. By node there are
    also ``point_threshold`` and the numbers of ``positives`` and ``negatives``. Scores are unweighted means
    over the nodes below the root that have positives and negatives.
    """
    taxonomy, notes = inputs.judging.judge, list[str]()
    learn, validate = _validation(inputs, notes)
    if not len(learn):
        raise DataError("no training sample has a finest label, so that no class can be learned")
    parts = {
        role: _of_reading(reading, inputs, options, learn, validate, notes)
        for role, reading in inputs.chosen(options.roles).items()
    }
    notes += leak_notes(inputs.table, learn, inputs.samples.test)
    target = inputs.nodes[inputs.samples.test]
    if inputs.own_answers is not None and options.per == "sample":
        answers = inputs.own_answers.clamp_min(0)  # a missing answer counts as the root
        judge, labels = inputs.judging.in_judge, inputs.judged_labels(inputs.samples.test)
        rates = node_decision_metrics(judge(answers), labels, taxonomy)
        found, nodes = {f"own_{name}": rates[name] for name in RATES}, ReportedNodes.of(rates, taxonomy)
        units, result = inputs.units_of(inputs.samples.test), node_result(found, nodes)
        said = decided_nodes(judge(answers), labels, taxonomy, units.groups, units.count)
        NodeIntervals(result, units, taxonomy).add_rates("own_", said, counted_nodes(found, nodes))
        parts["predictions"] = result
    chosen = "Youden's index" if options.sensitivity is None else f"a sensitivity of {options.sensitivity:g}"
    by = "" if options.per == "sample" else f", by {options.per},"
    notes.append(
        f"Operating points were chosen{by} by {chosen} on {len(validate)} validation samples, and are "
        f"judged on {len(target)} test samples{by.rstrip(',')}. PPV and NPV hold where the nodes are as "
        "frequent as here."
    )
    counts = {"validation samples": len(validate), "test samples": len(target)}
    return ProtocolResult.joined("Every node against the rest", parts, counts=counts, notes=notes)


def _validation(inputs: Inputs, notes: list[str]) -> tuple[Tensor, Tensor]:
    """Rows to fit the probe to, and rows to choose operating points on."""
    table, learned = inputs.table, inputs.learned
    rows = labelled_rows(table, "val", several=True)
    if len(rows) and inputs.split not in ("val", "train"):
        return learned, rows
    fold = table_folds(table, inputs.samples.train, inputs.judging, _HELD_OUT, inputs.settings.seed)
    held_out = inputs.samples.train[fold == 0]
    notes.append(
        f"There are no validation samples: one training sample in {_HELD_OUT} was held out to choose the "
        "operating points, and the probe learned from the others."
    )
    return learned[~torch.isin(learned, held_out)], held_out


@dataclass(frozen=True)
class _Cases:
    """Cases that are judged: samples, or groups of samples.

    Attributes:
        values: ``(m, c)`` class probabilities.
        columns: ``(m,)`` column of the predicted class.
        target: ``(m,)`` labels, as nodes of the judging taxonomy; ``(m, k)`` if samples have several.
        rows: ``(m,)`` row of the table; of a group its first.
    """

    values: Tensor
    columns: Tensor
    target: Tensor
    rows: Tensor

    @classmethod
    def of(cls, part: slice, rows: Tensor, probe: ClassProbabilities, inputs: Inputs) -> _Cases:
        """Samples as cases."""
        place = torch.full((int(probe.classes.max()) + 1,), -1)
        place[probe.classes] = torch.arange(len(probe.classes))
        target = inputs.judged_labels(rows[part])
        return cls(probe.values[part], place[probe.predicted[part]], target, rows[part])

    def together(self, inputs: Inputs, per: str, how: Aggregation, name: str, notes: list[str]) -> _Cases:
        """The groups of these samples as cases, without those whose labels contradict each other."""
        judge = inputs.judging.judge
        if self.target.ndim == 2:
            raise DataError(
                f"some samples have several labels, which are not combined per {per}; leave 'per' out"
            )
        groups = torch.from_numpy(number_groups(inputs.table.units(per)[self.rows].numpy()))
        kept = ~in_conflict(self.target, groups, judge)
        left_out = len(torch.unique(groups[~kept]))
        if left_out:
            notes.append(f"{left_out} {name} {per}s have labels that contradict each other: left out.")
        if not bool(kept.any()):
            raise DataError(f"no {per} of {name} samples has labels that agree with each other")
        found = group_probabilities(self.values[kept], groups[kept], how)
        place = torch.unique(groups[kept], return_inverse=True)[1]
        first = torch.full((len(found.groups),), len(inputs.nodes))
        first.scatter_reduce_(0, place, self.rows[kept], "amin")
        notes.append(f"{len(first)} {name} {per}s, each answered once ({how}), are the cases.")
        return _Cases(
            found.probabilities, found.columns, group_labels(self.target[kept], groups[kept], judge), first
        )


def _of_reading(
    reading: Reading,
    inputs: Inputs,
    options: NodeScoresOptions,
    learn: Tensor,
    validate: Tensor,
    notes: list[str],
) -> ProtocolResult:
    judge, rows = inputs.judging.judge, torch.cat([validate, inputs.samples.test])
    vectors, labels = reading.vectors, inputs.nodes
    if torch.equal(learn, inputs.learned):
        fitted = inputs.probe(reading)
    else:
        fitted = fit_probe(vectors[learn], labels[learn], inputs.settings)
    probe = fitted.probabilities(vectors[rows])
    if probe.gap:
        notes.append(f"The linear probe stopped up to {probe.gap:.1%} (relative) above its minimum.")
    classes = inputs.judging.in_judge(probe.classes)
    held, test = (
        _Cases.of(slice(0, len(validate)), rows, probe, inputs),
        _Cases.of(slice(len(validate), None), rows, probe, inputs),
    )
    if options.per != "sample":
        held, test = (
            cases.together(inputs, options.per, options.aggregation, name, notes)
            for name, cases in (("validation", held), ("test", test))
        )
    thresholds = node_thresholds(
        held.values, held.target, judge, classes=classes, sensitivity=options.sensitivity
    )
    predicted = classes[test.columns]
    decided = node_decision_metrics(predicted, test.target, judge)
    nodes = ReportedNodes.of(decided, judge, torch.from_numpy(Below(classes, judge).count), len(classes))
    found = node_ranking_metrics(test.values, test.target, judge, classes=classes)
    found = {name: values.masked_fill(~nodes.told, torch.nan) for name, values in found.items()}
    at = node_metrics_at(thresholds, test.values, test.target, judge, classes=classes)
    found |= {f"decision_{name}": decided[name] for name in RATES}
    found |= {f"point_{name}": at[name].masked_fill(~nodes.told, torch.nan) for name in RATES}
    result = node_result(found, nodes)
    units = inputs.units_of(test.rows)
    intervals, counted = NodeIntervals(result, units, judge), counted_nodes(found, nodes)
    of_groups = (test.target, judge, units.groups, units.count)
    intervals.add_ranking(
        test.values, test.target, classes, {name: counted[name] for name in list(counted)[:2]}
    )
    if units.resampling is not None:
        said = decided_nodes(predicted, *of_groups)
        intervals.add_rates("decision_", said, with_prefix("decision_", counted))
        said = nodes_at(thresholds, test.values, *of_groups, classes=classes)
        intervals.add_rates("point_", said, with_prefix("point_", counted))
    ranked = ("auroc", "average_precision"), test.rows, test.values, test.target
    result.statistics.extend(ranking_statistic(*ranked, classes, nodes.told))
    if not result.statistics and TOO_MANY_NOTE not in notes:
        notes.append(TOO_MANY_NOTE)
    result.by_node["point_threshold"] = nodes.named(thresholds)
    result.by_node["positives"] = nodes.named(nodes.positives.double())
    result.by_node["negatives"] = nodes.named(nodes.negatives.double())
    notes.extend(sentence for sentence in nodes.undefined() if sentence not in notes)
    return result

"""``per-group``: one answer for several samples of the same thing, judged once for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np
import torch
from torch import Tensor

from labeltree.errors import DataError
from labeltree.evaluation.answers import judge_answers
from labeltree.evaluation.class_probabilities import ClassProbabilities, probe_probabilities
from labeltree.evaluation.drawn import FEWEST_GROUPS
from labeltree.evaluation.evidence import Evidence
from labeltree.evaluation.folds import leak_notes
from labeltree.evaluation.node_evidence import mean_auroc
from labeltree.evaluation.places import Place
from labeltree.evaluation.protocol import Inputs, ProtocolResult, register
from labeltree.evaluation.reading import Reading
from labeltree.metrics.functional import group_labels, group_probabilities, node_auroc
from labeltree.metrics.functional.node_groups import Aggregation

__all__ = ["PerGroupOptions", "per_group"]


@dataclass(frozen=True)
class PerGroupOptions:
    """What can be chosen.

    Attributes:
        roles: what the probe reads: ``features``, ``embeddings`` or both.
        aggregations: how the probabilities of a group are put together: ``mean``, ``logits``, ``max``,
            ``vote``; see `labeltree.metrics.functional.group_probabilities`.
    """

    roles: tuple[str, ...] = ("features",)
    aggregations: tuple[Aggregation, ...] = get_args(Aggregation)

    def __post_init__(self) -> None:
        known = get_args(Aggregation)
        if not self.aggregations or not set(self.aggregations) <= set(known):
            raise ValueError(f"aggregations are {self.aggregations}, expected some of {', '.join(known)}")


@register(
    "per-group",
    summary="one answer for a patient, an item, a lesion, from all of its samples",
    source="as clinical studies report; Spanhol et al. 2016 (BreakHis) do by patient",
    options=PerGroupOptions,
)
def per_group(inputs: Inputs, options: PerGroupOptions) -> ProtocolResult:
    """Aggregate the linear probe's probabilities over the groups of the table, and judge each group once.

    Names: ``sample.…`` has the same numbers sample by sample, ``mean.…``, ``logits.…``, ``max.…`` and
    ``vote.…`` by group. ``auroc`` is the mean over the nodes.

    Raises:
        DataError: if no two test samples are in one group, or samples of one group contradict each other.
    """
    table, test = inputs.table, inputs.samples.test
    column = table.instances if table.groups is None else table.groups
    groups = test if column is None else column[test]
    try:
        target = group_labels(inputs.ground.in_judge(inputs.nodes[test]), groups, inputs.ground.judge)
    except ValueError as error:
        raise DataError(str(error)) from error
    target = inputs.ground.placed[target]  # every test sample has a label, and so has every group
    if len(target) == len(test):
        raise DataError(
            "no two test samples are in one group: give the table a column 'groups' (patient, item, lesion)"
        )
    if not len(inputs.learned):
        raise DataError("no training sample has a finest label, so that no class can be learned")
    parts: dict[str, ProtocolResult] = {}
    several = len(inputs.chosen(options.roles)) > 1
    for role, reading in inputs.chosen(options.roles).items():
        for name, part in _of_reading(reading, inputs, options, groups, target).items():
            parts[f"{role}.{name}" if several else name] = part
    counts = {"test samples": len(test), "groups": len(target)}
    notes = [f"Each of the {len(target)} groups counts once, whether it has one sample or many."]
    notes += leak_notes(table, inputs.learned, test)
    if table.groups is None:
        notes.append("The table has no groups: the rows of one instance were taken as one.")
    return ProtocolResult.joined("One answer for every group", parts, counts=counts, notes=notes)


def _of_reading(
    reading: Reading, inputs: Inputs, options: PerGroupOptions, groups: Tensor, target: Tensor
) -> dict[str, ProtocolResult]:
    learn, test = inputs.learned, inputs.samples.test
    vectors, nodes = reading.vectors, inputs.nodes
    probe = probe_probabilities(vectors[learn], nodes[learn], vectors[test], inputs.settings)
    evidence = inputs.evidence(test)
    parts = {"sample": _judged(probe, probe.predicted, nodes[test], inputs, evidence)}
    for aggregation in options.aggregations:
        found = group_probabilities(probe.values, groups, aggregation)
        together = ClassProbabilities(probe.classes, found.probabilities, probe.gap)
        draws = evidence.resampling if len(target) >= FEWEST_GROUPS else None
        each = Evidence(draws, np.arange(len(target)))  # in the order of the samples' groups
        parts[aggregation] = _judged(together, probe.classes[found.columns], target, inputs, each)
    return parts


def _judged(
    probabilities: ClassProbabilities, predicted: Tensor, target: Tensor, inputs: Inputs, evidence: Evidence
) -> ProtocolResult:
    ground = inputs.ground
    result = judge_answers(predicted, target, inputs.samples.finest[target], ground, evidence=evidence)
    classes = ground.in_judge(probabilities.classes)
    auroc = node_auroc(probabilities.values, ground.in_judge(target), ground.judge, classes=classes)
    result.scores["auroc"] = float(torch.nanmean(auroc))
    judged = ground.in_judge(target)
    mean_auroc(probabilities.values, judged, ground.judge, classes, evidence).put(
        evidence, Place("scores", "auroc")
    )
    return evidence.fill(result)

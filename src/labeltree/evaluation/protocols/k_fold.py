"""``k-fold``: the linear probe, learned and tested on every fold in turn."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from labeltree.errors import DataError
from labeltree.evaluation.answers import judge_answers
from labeltree.evaluation.class_probabilities import ClassProbabilities, probe_probabilities
from labeltree.evaluation.fold_outcomes import FoldOutcomes
from labeltree.evaluation.folds import table_folds
from labeltree.evaluation.protocol import Inputs, ProtocolResult, register
from labeltree.evaluation.reading import Reading
from labeltree.metrics.functional import node_auroc

__all__ = ["KFoldOptions", "k_fold"]


@dataclass(frozen=True)
class KFoldOptions:
    """What can be chosen.

    Attributes:
        roles: what the probe reads: ``features``, ``embeddings`` or both.
        folds: how many.
    """

    roles: tuple[str, ...] = ("features",)
    folds: int = 5

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise ValueError(f"folds is {self.folds}, expected at least 2")


@register(
    "k-fold",
    summary="linear probe by cross-validation: mean and sd over folds that part no group",
    source="stratified k-fold, Kohavi 1995; none of the five papers reports it",
    options=KFoldOptions,
)
def k_fold(inputs: Inputs, options: KFoldOptions) -> ProtocolResult:
    """Cross-validate the linear probe within the evaluated split, which the encoder has not seen.

    The folds are those of `labeltree.evaluation.folds.table_folds`: balanced at every node, no group in two.
    Each score is the mean over the folds, ``…_sd`` its standard deviation (of a sample: over k − 1), and the
    curve of its name has every fold's. By depth there are both, by node the means.

    Raises:
        DataError: if there are fewer groups than folds, or a fold's others have no finest label to learn.
    """
    table = inputs.table
    labelled = table.nodes > 0
    if table.split is not None:
        labelled &= torch.from_numpy(np.asarray(table.split == inputs.split))
    rows = inputs.thinned(labelled.nonzero().squeeze(1), inputs.settings.max_probe_samples)
    fold = table_folds(table, rows, inputs.ground, options.folds, inputs.settings.seed)
    _check_learnable(inputs, rows, fold, options.folds)
    parts = {
        role: _of_reading(reading, inputs, rows, fold, options.folds)
        for role, reading in inputs.chosen(options.roles).items()
    }
    where = "the table" if table.split is None else f"split '{inputs.split}'"
    notes = [
        f"The probe learned from {options.folds - 1} of {options.folds} folds of {where} and was tested on "
        "the other, in turn. The folds share most of what is learned from, so that the sd over them is "
        "smaller than over samples drawn anew.",
    ]
    if inputs.resampling is not None:
        notes.append(
            "The intervals draw the samples of all folds anew, with the probes as they are. They do not have "
            "what other training samples would change: one cross-validation cannot tell that without bias "
            "(Bengio & Grandvalet 2004)."
        )
    if table.split is None:
        notes.append("Whether the encoder has seen these samples in training, the table does not say.")
    sizes = fold.bincount(minlength=options.folds)
    counts = {"samples": len(rows), "folds": options.folds}
    counts |= {"smallest fold": int(sizes.min()), "largest fold": int(sizes.max())}
    unlearned = _unlearned(inputs, rows, fold)
    if unlearned:
        notes.append(
            f"{unlearned} samples belong to classes that lie in one fold as a whole: no fold can learn what "
            "it is tested on there, and they count as errors."
        )
    return ProtocolResult.joined("Linear probe by cross-validation", parts, counts=counts, notes=notes)


def _check_learnable(inputs: Inputs, rows: Tensor, fold: Tensor, folds: int) -> None:
    finest = inputs.samples.finest[inputs.nodes[rows]]
    for number in range(folds):
        if not bool(finest[fold != number].any()):
            raise DataError(
                f"without fold {number + 1} of {folds}, no sample of the evaluated split has a finest "
                "label, so that there is nothing to learn"
            )


def _of_reading(reading: Reading, inputs: Inputs, rows: Tensor, fold: Tensor, folds: int) -> ProtocolResult:
    results = []
    evidence = inputs.evidence(rows)
    outcomes = FoldOutcomes(evidence, inputs)
    for number in range(folds):
        found, probe = _of_fold(reading, inputs, rows[fold != number], rows[fold == number])
        results.append(found)
        outcomes.add(probe, (fold == number).nonzero().squeeze(1), inputs.nodes[rows[fold == number]])
        if inputs.progress is not None:
            inputs.progress("cross-validation", number + 1, folds)
    columns = {name: [result.scores[name] for result in results] for name in results[0].scores}
    scores: dict[str, float] = {}
    by_depth: dict[str, list[float]] = {}
    for name, values in columns.items():
        scores[name], scores[f"{name}_sd"] = _mean_and_sd(values)
    for name in results[0].by_depth:
        depths = list(zip(*(result.by_depth[name] for result in results), strict=True))
        by_depth[name] = [_mean_and_sd(values)[0] for values in depths]
        by_depth[f"{name}_sd"] = [_mean_and_sd(values)[1] for values in depths]
    nodes: dict[str, dict[str, list[float]]] = {}
    for result in results:
        for name, values_of in result.by_node.items():
            for node, value in values_of.items():
                nodes.setdefault(name, {}).setdefault(node, []).append(value)
    result = ProtocolResult(
        "",
        scores=scores,
        by_depth=by_depth,
        by_node={
            name: {node: _mean_and_sd(values)[0] for node, values in rows.items()}
            for name, rows in nodes.items()
        },
        curves=columns,
        axes={name: [float(number + 1) for number in range(folds)] for name in columns},
    )
    outcomes.put()
    return evidence.fill(result)


def _of_fold(
    reading: Reading, inputs: Inputs, others: Tensor, test: Tensor
) -> tuple[ProtocolResult, ClassProbabilities]:
    nodes, ground, finest = inputs.nodes, inputs.ground, inputs.samples.finest
    learn = others[finest[nodes[others]]]
    probe = probe_probabilities(reading.vectors[learn], nodes[learn], reading.vectors[test], inputs.settings)
    target = nodes[test]
    result = judge_answers(probe.predicted, target, finest[target], ground, shared=inputs.shared())
    classes = ground.in_judge(probe.classes)
    auroc = node_auroc(probe.values, ground.in_judge(target), ground.judge, classes=classes)
    result.scores["auroc"] = float(torch.nanmean(auroc))
    return result, probe


def _mean_and_sd(values: Sequence[float]) -> tuple[float, float]:
    """Over the folds where a value is defined."""
    known = [value for value in values if not math.isnan(value)]
    mean = statistics.fmean(known) if known else math.nan
    return mean, statistics.stdev(known) if len(known) > 1 else math.nan


def _unlearned(inputs: Inputs, rows: Tensor, fold: Tensor) -> int:
    """How many samples of a finest class have all its samples in their own fold."""
    labels = inputs.nodes[rows]
    size = inputs.ground.tree.num_nodes
    count = torch.zeros(size, int(fold.max()) + 1, dtype=torch.int64)
    count.index_put_((labels, fold), torch.ones_like(fold), accumulate=True)
    alone = (count > 0).sum(1) == 1
    return int((alone[labels] & inputs.samples.finest[labels]).sum())

"""`k-fold`: cross-validation of the linear probe."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from labeltree.counted_nouns import say_count
from labeltree.errors import DataError
from labeltree.evaluation.chosen_samples import labelled_rows
from labeltree.evaluation.fitted_probe import fit_probe
from labeltree.evaluation.protocol_registry import Inputs, ProtocolResult, register
from labeltree.evaluation.reported_nodes import (
    TOO_MANY_NOTE,
    mean_auroc,
    ranking_statistic,
)
from labeltree.evaluation.representations import Reading
from labeltree.evaluation.sample_columns import Column, Number, Place
from labeltree.evaluation.statistics import Statistic
from labeltree.evaluation.statistics.jackknife import block_counts
from labeltree.evaluation.statistics.means_over_nodes import MeanOverNodes
from labeltree.evaluation.subsampling import table_folds
from labeltree.metrics.functional import node_auroc

__all__ = ["MAYBE_SEEN", "OF_THE_FOLDS", "UNLEARNED", "KFoldOptions", "count_unlearned", "k_fold"]

OF_THE_FOLDS = (
    "The intervals resample the samples of all folds and leave the {} as they are. They do not cover what "
    "other training samples would change: one cross-validation cannot estimate that without bias (Bengio & "
    "Grandvalet 2004)."
)
MAYBE_SEEN = "The table does not say whether the encoder has seen these samples in training."
UNLEARNED = (
    "{} to classes that lie in one fold as a whole: no fold can learn what it is tested on there, and they "
    "count as errors."
)


@dataclass(frozen=True)
class KFoldOptions:
    """Options of `k_fold`.

    Attributes:
        roles: Representations that the probe reads: `features`, `embeddings` or both.
        folds: Number of folds.
    """

    roles: tuple[str, ...] = ("features",)
    folds: int = 5

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise ValueError(f"folds is {self.folds}, expected at least 2")


@register(
    "k-fold",
    summary="linear probe by cross-validation: mean and sd over folds that split no group",
    source="stratified k-fold, Kohavi 1995; none of the five papers reports it",
    options=KFoldOptions,
)
def k_fold(inputs: Inputs, options: KFoldOptions) -> ProtocolResult:
    """Cross-validate the linear probe within the evaluated split, which the encoder has not seen.

    The folds of `labeltree.evaluation.subsampling.table_folds` are balanced at every node and split no group.
    Each score is the mean over the folds, `…_sd` the sample standard deviation (over k − 1), and the curve
    with the name of the score has the values of all folds. Means and standard deviations are also given by
    depth, means by node.

    Raises:
        DataError: If there are fewer groups than folds, or the training part of a fold has no finest label.
    """
    table = inputs.table
    whole = table.split is None
    labelled = (table.nodes > 0).nonzero()[:, 0] if whole else labelled_rows(table, inputs.split)
    rows = inputs.subsample(labelled, inputs.settings.max_probe_samples)
    fold = table_folds(table, rows, inputs.judging, options.folds, inputs.settings.seed)
    _check_learnable(inputs, rows, fold, options.folds)
    parts = {
        role: _measure_reading(reading, inputs, rows, fold, options.folds)
        for role, reading in inputs.chosen(options.roles).items()
    }
    where = "the table" if whole else f"split '{inputs.split}'"
    notes = [
        f"The probe learned from {options.folds - 1} of {options.folds} folds of {where} and was tested on "
        "the other, in turn. The folds share most of what is learned from, so the sd over them is "
        "smaller than over new samples.",
    ]
    if inputs.resampling is not None:
        notes.append(OF_THE_FOLDS.format("probes"))
    if whole:
        notes.append(MAYBE_SEEN)
    sizes = fold.bincount(minlength=options.folds)
    counts = {"samples": len(rows), "folds": options.folds}
    counts |= {"smallest fold": int(sizes.min()), "largest fold": int(sizes.max())}
    if unlearned := count_unlearned(inputs, rows, fold):
        notes.append(UNLEARNED.format(say_count(unlearned, "sample belongs", "samples belong")))
    return ProtocolResult.joined("Linear probe by cross-validation", parts, counts=counts, notes=notes)


def _check_learnable(inputs: Inputs, rows: Tensor, fold: Tensor, folds: int) -> None:
    finest = inputs.samples.finest[inputs.nodes[rows]]
    for number in range(folds):
        if not bool(finest[fold != number].any()):
            raise DataError(
                f"without fold {number + 1} of {folds}, no sample of the evaluated split has a finest "
                "label, so that there is nothing to learn"
            )


def _measure_reading(
    reading: Reading, inputs: Inputs, rows: Tensor, fold: Tensor, folds: int
) -> ProtocolResult:
    """Numbers are means over the folds in which they are defined.

    Groups are drawn, or left out, from all folds together; the number of a fold uses those of its own.
    """
    nodes, judging, finest = inputs.nodes, inputs.judging, inputs.samples.finest
    units = inputs.units_of(rows)
    columns, statistics, results = list[Column](), list[Statistic](), list[ProtocolResult]()
    mean = MeanOverNodes(units.count, block_counts(units.count).shape[1])
    for number in range(folds):
        others, test = rows[fold != number], rows[fold == number]
        learn, target = others[finest[nodes[others]]], judging.in_judge(nodes[test])
        vectors = reading.vectors
        probe = fit_probe(vectors[learn], nodes[learn], inputs.settings).probabilities(vectors[test])
        of_fold = inputs.answers(probe.predicted, rows=test)
        columns += of_fold
        plain = replace(inputs, settings=replace(inputs.settings, resamples=0))
        results.append(plain.summarise(of_fold, by_frequency=False))
        of_nodes = (probe.values, target, judging.judge)
        classes = judging.in_judge(probe.classes)
        results[-1].scores["auroc"] = float(torch.nanmean(node_auroc(*of_nodes, classes=classes)))
        statistics += ranking_statistic(("auroc",), test, probe.values, target, classes)
        mean.add_mean(mean_auroc(*of_nodes, classes, units, (fold == number).numpy().nonzero()[0]))
        if inputs.progress is not None:
            inputs.progress("cross-validation", number + 1, folds)
    whole = inputs.summarise(columns, by_frequency=False, units=units, rows=rows)
    if len(statistics) == folds:
        whole.statistics.extend(statistics)
    else:  # the mean over some of the folds would be another number
        whole.notes.append(TOO_MANY_NOTE)
    for name in results[0].scores:
        values = [result.scores[name] for result in results]
        average, deviation = _mean_and_sd(values)
        if name == "auroc":
            whole.put(Place("scores", name), Number(average, *mean.interval(units.resampling)[:2]))
        whole.scores[f"{name}_sd"] = deviation
        whole.curves[name] = values
        whole.axes[name] = [float(number + 1) for number in range(folds)]
    depths = zip(*(result.by_depth["accuracy"] for result in results), strict=True)
    whole.by_depth["accuracy_sd"] = [_mean_and_sd(values)[1] for values in depths]
    return whole


def _mean_and_sd(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation over the folds where a value is defined."""
    known = [value for value in values if not math.isnan(value)]
    mean = statistics.fmean(known) if known else math.nan
    return mean, statistics.stdev(known) if len(known) > 1 else math.nan


def count_unlearned(inputs: Inputs, rows: Tensor, fold: Tensor) -> int:
    """Number of samples with a finest label whose class lies in a single fold."""
    labels = inputs.nodes[rows]
    size = inputs.judging.tree.num_nodes
    count = torch.zeros(size, int(fold.max()) + 1, dtype=torch.int64)
    count.index_put_((labels, fold), torch.ones_like(fold), accumulate=True)
    alone = (count > 0).sum(1) == 1
    return int((alone[labels] & inputs.samples.finest[labels]).sum())

"""Metrics of every node: which nodes are reported, their means by depth, and confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.evaluation.columns import Place, ResamplingUnits
from labeltree.evaluation.result import ProtocolResult
from labeltree.evaluation.statistics import Statistic
from labeltree.evaluation.statistics.interval_ends import Floats, acceleration_of, divided
from labeltree.metrics.functional.node_resampling import CountedNodes, ranked_nodes
from labeltree.taxonomy import AnyTaxonomy
from labeltree.taxonomy.naming import some

__all__ = [
    "MOST_PROBABILITIES",
    "MeanDraws",
    "NodeIntervals",
    "ReportedNodes",
    "counted_nodes",
    "mean_auroc",
    "node_result",
    "ranking_statistic",
    "with_prefix",
]


MOST_PROBABILITIES = 2**22
"""Of more samples times classes, the probabilities are not kept, and AUROC cannot be compared: 32 MB."""


@dataclass(frozen=True)
class ReportedNodes:
    """The nodes below the root, by what can be said of them.

    Attributes:
        taxonomy: taxonomy of the nodes.
        positives: ``(N,)`` test samples at or below each.
        negatives: ``(N,)`` test samples that are not.
        told: ``(N,)`` bool, some learned classes lie at or below it and some do not.
        shown: ``(N,)`` bool, it has test samples or learned classes.
    """

    taxonomy: AnyTaxonomy
    positives: Tensor
    negatives: Tensor
    told: Tensor
    shown: Tensor

    @classmethod
    def of(
        cls,
        rates: Mapping[str, Tensor],
        taxonomy: AnyTaxonomy,
        classes: Tensor | None = None,
        num_classes: int = 0,
    ) -> ReportedNodes:
        """From rates with their counts, and how many of the learned classes lie at or below each node."""
        positives = rates["true_positives"] + rates["false_negatives"]
        negatives = rates["false_positives"] + rates["true_negatives"]
        below_root = torch.arange(taxonomy.num_nodes) > 0
        if classes is None:
            return cls(taxonomy, positives, negatives, below_root, below_root & (positives > 0))
        told = below_root & (classes > 0) & (classes < num_classes)
        return cls(taxonomy, positives, negatives, told, below_root & ((positives > 0) | (classes > 0)))

    @property
    def counted(self) -> Tensor:
        """``(N,)`` bool, it has samples of both kinds and counts in the means."""
        return self.shown & (self.positives > 0) & (self.negatives > 0)

    def named(self, values: Tensor) -> dict[str, float]:
        """The numbers ``(N,)`` of the nodes that are shown, by path name."""
        nodes = self.shown.nonzero().squeeze(1).tolist()
        return {self.taxonomy.path_name(node): float(values[node]) for node in nodes}

    def undefined(self) -> list[str]:
        """Sentences on the nodes that have no AUROC."""
        kinds = (
            ("have no test sample", self.positives == 0),
            ("have all test samples", (self.positives > 0) & (self.negatives == 0)),
            ("have all learned classes, or none,", self.counted & ~self.told),
        )
        found = []
        for what, mask in kinds:
            names = [self.taxonomy.path_name(v) for v in (self.shown & mask).nonzero().squeeze(1).tolist()]
            if names:
                found.append(
                    f"Nodes that {what} at or below them have no AUROC (NaN): {some(names, 3)}. They are in "
                    "no mean of it."
                )
        return found


def counted_nodes(values: Mapping[str, Tensor], nodes: ReportedNodes) -> dict[str, NDArray[np.bool_]]:
    """Name → ``(N,)`` which nodes count in the means of a number."""
    return {name: (nodes.counted & ~column.isnan()).numpy() for name, column in values.items()}


def with_prefix(prefix: str, columns: dict[str, NDArray[np.bool_]]) -> dict[str, NDArray[np.bool_]]:
    """Those whose names begin so."""
    return {name: column for name, column in columns.items() if name.startswith(prefix)}


def node_result(values: Mapping[str, Tensor], nodes: ReportedNodes) -> ProtocolResult:
    """Numbers ``(N,)`` by name: their means, their means by depth, and each by node."""
    counted = {name: column.masked_fill(~nodes.counted, torch.nan) for name, column in values.items()}
    depths = [nodes.taxonomy.depth == depth for depth in range(1, nodes.taxonomy.max_depth + 1)]
    return ProtocolResult(
        "",
        scores={name: float(torch.nanmean(column)) for name, column in counted.items()},
        by_depth={
            name: [float(torch.nanmean(column[depth])) for depth in depths]
            for name, column in counted.items()
        },
        by_node={name: nodes.named(column) for name, column in values.items()},
    )


class MeanDraws:
    """A mean of several metrics, in each draw over those that are defined there.

    Attributes:
        fewest: groups that count in the metric in which the fewest do.
        count: how many metrics there are.
        influence: ``(G,)`` derivative with respect to the count of each group.
    """

    def __init__(self, resamples: int, groups: int) -> None:
        self._sums, self._known = np.zeros((2, resamples))
        self._influence = np.zeros(groups)
        self._total = 0.0
        self.fewest = np.inf
        self.count = 0

    def add(self, value: Floats, draws: Floats, influence: Floats, groups: Floats) -> None:
        """Metrics ``(b,)``, none NaN, in each draw ``(b, R)``, influences ``(b, G)`` and groups ``(b,)``."""
        if not len(value):
            return
        self._sums += np.nansum(draws, axis=0)
        self._known += (~np.isnan(draws)).sum(axis=0)
        self._influence += influence.sum(axis=0)
        self._total += float(value.sum())
        self.count += len(value)
        self.fewest = min(self.fewest, float(groups.min()))

    def add_mean(self, other: MeanDraws) -> None:
        """One more metric, which is itself a mean; nothing where that is not defined."""
        if other.count:
            agreeing = np.array([other.fewest * other.count])
            self.add(np.array([other.value]), other.draws[None], other.influence[None], agreeing)

    @property
    def value(self) -> float:
        """Of the samples; NaN without any metric."""
        return self._total / self.count if self.count else np.nan

    @property
    def draws(self) -> Floats:
        """``(R,)``."""
        return divided(self._sums, self._known)

    @property
    def influence(self) -> Floats:
        """``(G,)``."""
        return self._influence / max(self.count, 1)

    def interval(self, units: ResamplingUnits, *, share: bool = True) -> tuple[float, float]:
        """The ends of its interval, NaN where there is none."""
        if units.resampling is None or not self.count:
            return np.nan, np.nan
        change = self.influence[None]
        found = units.resampling.ends(
            self.draws[None],
            np.array([self.value]),
            np.array([float(units.count)]),
            _acceleration(change),
            np.array([self.fewest * self.count]),
            share,
        )
        return float(found.low[0]), float(found.high[0])


class _Metrics(NamedTuple):
    """One metric of some nodes: values, draws, influences, groups that count, pairs of groups that agree."""

    nodes: NDArray[np.int64]
    value: Floats
    draws: Floats
    change: Floats
    groups: Floats
    agreeing: Floats
    share: bool


class NodeIntervals:
    """Gives intervals to metrics of nodes, to their means over all nodes and over those of each depth.

    Args:
        result: has the numbers, and gets their intervals.
        units: resampling units of the samples.
        taxonomy: taxonomy of the nodes.
    """

    def __init__(self, result: ProtocolResult, units: ResamplingUnits, taxonomy: AnyTaxonomy) -> None:
        self.result = result
        self.units = units
        self.taxonomy = taxonomy

    def add_ranking(
        self,
        probabilities: Tensor,
        target: Tensor,
        classes: Tensor,
        counted: Mapping[str, NDArray[np.bool_]],
    ) -> None:
        """``auroc`` and ``average_precision``.

        Args:
            probabilities: ``(n, c)`` of the samples.
            target: ``(n,)`` their labels.
            classes: ``(c,)`` nodes that the columns stand for.
            counted: name → ``(N,)`` which nodes count in the means.
        """
        resampling, count = self.units.resampling, self.units.count
        if resampling is None:
            return
        means = {name: self._means() for name in counted}
        ranked = ranked_nodes(probabilities, target, self.taxonomy, self.units.groups, count, classes=classes)
        for block in ranked:
            draws = np.empty((2, len(block.nodes), resampling.resamples))
            for part, counts in resampling.batches(count, block.dtype):
                draws[:, :, part] = block.weighted(counts)
            values = block.weighted(np.ones((count, 1)))
            groups = block.groups()
            for number, (name, change) in enumerate(
                zip(("auroc", "average_precision"), block.influence(), strict=True)
            ):
                share = name == "auroc"  # pairs of a positive and a negative group are right or wrong
                metrics = _Metrics(
                    block.nodes, values[number][:, 0], draws[number], change, groups, groups, share
                )
                self._take(name, metrics, means[name], counted[name])
        for name, found in means.items():
            self._put_means(name, found, share=name == "auroc")

    def add_rates(self, prefix: str, nodes: CountedNodes, counted: Mapping[str, NDArray[np.bool_]]) -> None:
        """Sensitivity and its like, named ``prefix`` and their own names, which ``counted`` has."""
        resampling, count = self.units.resampling, self.units.count
        if resampling is None:
            return
        names = [name.removeprefix(prefix) for name in counted]
        means = {name: self._means() for name in names}
        for rows, block in nodes.blocks():
            here = np.arange(rows.start, rows.stop)
            matrix = block.prepared()
            values = block.weighted(np.ones((count, 1)), matrix)
            draws = {name: np.empty((len(here), resampling.resamples)) for name in names}
            for part, counts in resampling.batches(count):
                for name, found in block.weighted(counts, matrix).items():
                    draws[name][:, part] = found
            for name, (change, groups) in block.influence().items():
                value = values[name][:, 0]
                agreeing = groups * (2 if name == "balanced_accuracy" else 1)
                metrics = _Metrics(here, value, draws[name], change, groups, agreeing, True)
                self._take(f"{prefix}{name}", metrics, means[name], counted[f"{prefix}{name}"])
        for name, of_name in means.items():
            self._put_means(f"{prefix}{name}", of_name, share=True)

    def _means(self) -> list[MeanDraws]:
        """Of all nodes, then of those at each depth."""
        resampling = self.units.resampling
        assert resampling is not None
        depths = range(self.taxonomy.max_depth + 1)
        return [MeanDraws(resampling.resamples, self.units.count) for _ in depths]

    def _take(self, name: str, metrics: _Metrics, means: list[MeanDraws], counted: NDArray[np.bool_]) -> None:
        """The intervals of some nodes, and their part in the means."""
        resampling = self.units.resampling
        assert resampling is not None
        nodes, value, draws, change, groups, agreeing, share = metrics
        known = np.flatnonzero(~np.isnan(value))
        value, draws, change = value[known], draws[known], change[known]
        nodes, groups, agreeing = nodes[known], groups[known], agreeing[known]
        found = resampling.ends(draws, value, groups, _acceleration(change), agreeing, share)
        for node, *ends in zip(nodes.tolist(), found.low.tolist(), found.high.tolist(), strict=True):
            self.result.put_interval(Place("by_node", name, self.taxonomy.path_name(node)), *ends)
        depth, chosen = self.taxonomy.depth.numpy()[nodes], counted[nodes]
        for level, mean in enumerate(means):
            kept = chosen & (depth == level) if level else chosen
            mean.add(value[kept], draws[kept], change[kept], agreeing[kept])

    def _put_means(self, name: str, means: list[MeanDraws], *, share: bool) -> None:
        for level, mean in enumerate(means):
            place = Place("by_depth", name, level - 1) if level else Place("scores", name)
            self.result.put_interval(place, *mean.interval(self.units, share=share))


def mean_auroc(
    probabilities: Tensor,
    target: Tensor,
    taxonomy: AnyTaxonomy,
    classes: Tensor,
    units: ResamplingUnits,
    rows: NDArray[np.int64] | None = None,
) -> MeanDraws:
    """The mean AUROC of all nodes that have one, in every draw.

    Args:
        probabilities: ``(m, c)``.
        target: ``(m,)`` labels.
        taxonomy: taxonomy of the labels.
        classes: ``(c,)`` nodes that the columns stand for.
        units: that are drawn.
        rows: ``(m,)`` positions of the samples in these; None means all of them.
    """
    resampling, count = units.resampling, units.count
    if resampling is None:
        return MeanDraws(0, 0)
    mean = MeanDraws(resampling.resamples, count)
    groups = units.groups if rows is None else units.groups[rows]
    for block in ranked_nodes(probabilities, target, taxonomy, groups, count, classes=classes):
        draws = np.empty((len(block.nodes), resampling.resamples))
        for part, counts in resampling.batches(count, block.dtype):
            draws[:, part] = block.weighted(counts)[0]
        value = block.weighted(np.ones((count, 1)))[0][:, 0]
        mean.add(value, draws, block.influence()[0], block.groups())
    return mean


def ranking_statistic(
    names: tuple[str, ...], rows: Tensor, probabilities: Tensor, target: Tensor, classes: Tensor
) -> list[Statistic]:
    """The mean AUROC of nodes, and the mean average precision, for comparisons; nothing of too many numbers.

    Args:
        names: names of the two, or of the first.
        rows: ``(m,)`` of the samples in the table.
        probabilities: ``(m, c)``.
        target: ``(m,)`` labels.
        classes: ``(c,)`` nodes that the columns stand for.
    """
    if probabilities.numel() > MOST_PROBABILITIES:
        return []
    samples = {"target": target.numpy(), "probabilities": probabilities.numpy()}
    return [Statistic("node_ranking", names, rows.numpy(), samples, {"classes": classes.numpy()})]


def _acceleration(change: Floats) -> Floats:
    """``(b,)`` from influences ``(b, G)``: Efron (1987, Eq. 6.6), with their sign."""
    squares = np.square(change)
    return acceleration_of(squares.sum(axis=1), np.einsum("ij,ij->i", squares, change))

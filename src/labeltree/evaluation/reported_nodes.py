"""Metrics of every node: choice of the reported nodes, means by depth, and confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.evaluation.result import ProtocolResult
from labeltree.evaluation.sample_columns import Place, ResamplingUnits
from labeltree.evaluation.statistics import Statistic
from labeltree.evaluation.statistics.interval_ends import Floats, Interval, acceleration_of, divided
from labeltree.evaluation.statistics.jackknife import block_counts
from labeltree.evaluation.statistics.means_over_nodes import MeanOverNodes, Share
from labeltree.evaluation.statistics.proportions import Clusters, proportion_interval
from labeltree.metrics.functional.node_resampling import CountedNodes, ranked_nodes
from labeltree.taxonomy import AnyTaxonomy
from labeltree.taxonomy.naming import some

__all__ = [
    "MOST_PROBABILITIES",
    "TOO_MANY_NOTE",
    "NodeIntervals",
    "ReportedNodes",
    "counted_nodes",
    "mean_auroc",
    "node_result",
    "ranking_statistic",
    "with_prefix",
]


_OF_OTHERS = ("specificity", "npv")  # rates in which a case counts at many nodes that it is no sample of
MOST_PROBABILITIES = 2**22
"""Maximum number of probabilities (samples × classes) to keep, 32 MB; with more, AUROC cannot be compared."""

TOO_MANY_NOTE = (
    "AUROC and average precision over nodes cannot be compared between methods: there are more than "
    f"{MOST_PROBABILITIES:,} probabilities (samples × classes), too many to keep."
)
"""The note of a protocol that does not keep the probabilities."""


@dataclass(frozen=True)
class ReportedNodes:
    """The nodes below the root, with masks of those that have scores.

    Attributes:
        taxonomy: Taxonomy of the nodes.
        positives: `(N,)` number of test samples at or below each node.
        negatives: `(N,)` number of all other test samples.
        told: `(N,)` bool, whether some learned classes, but not all, lie at or below the node.
        shown: `(N,)` bool, whether the node has test samples or learned classes.
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
        """From confusion counts by node, and the number `(N,)` of learned classes at or below each node."""
        positives = rates["true_positives"] + rates["false_negatives"]
        negatives = rates["false_positives"] + rates["true_negatives"]
        below_root = torch.arange(taxonomy.num_nodes) > 0
        if classes is None:
            return cls(taxonomy, positives, negatives, below_root, below_root & (positives > 0))
        told = below_root & (classes > 0) & (classes < num_classes)
        return cls(taxonomy, positives, negatives, told, below_root & ((positives > 0) | (classes > 0)))

    @property
    def counted(self) -> Tensor:
        """`(N,)` bool, whether a node has positives and negatives, so that it counts in the means."""
        return self.shown & (self.positives > 0) & (self.negatives > 0)

    def named(self, values: Tensor) -> dict[str, float]:
        """Path name → value, from the values `(N,)` of the nodes that are shown."""
        nodes = self.shown.nonzero().squeeze(1).tolist()
        return {self.taxonomy.path_name(node): float(values[node]) for node in nodes}

    def undefined(self) -> list[str]:
        """Sentences on the nodes that have no AUROC."""
        kinds = (
            ("have no test sample", self.positives == 0),
            ("have all test samples", (self.positives > 0) & (self.negatives == 0)),
            ("have all learned classes, or none,", self.counted & ~self.told),
        )
        notes = []
        for what, mask in kinds:
            names = [self.taxonomy.path_name(v) for v in (self.shown & mask).nonzero().squeeze(1).tolist()]
            if names:
                notes.append(
                    f"Nodes that {what} at or below them have no AUROC (NaN): {some(names, 3)}. They are in "
                    "no mean of it."
                )
        return notes


def counted_nodes(values: Mapping[str, Tensor], nodes: ReportedNodes) -> dict[str, NDArray[np.bool_]]:
    """Name of a number → mask `(N,)` of the nodes that count in its means."""
    return {name: (nodes.counted & ~column.isnan()).numpy() for name, column in values.items()}


def with_prefix(prefix: str, columns: dict[str, NDArray[np.bool_]]) -> dict[str, NDArray[np.bool_]]:
    """The columns whose names begin with the prefix."""
    return {name: column for name, column in columns.items() if name.startswith(prefix)}


def node_result(values: Mapping[str, Tensor], nodes: ReportedNodes) -> ProtocolResult:
    """A result with the means, means by depth and single values of numbers `(N,)` by name."""
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


class _Metrics(NamedTuple):
    """One metric of several nodes: values, those without blocks, draws, influences, counts of groups.

    The metric is the mean of `shares`; `exact` are the ends of the interval where draws are not needed.
    """

    nodes: NDArray[np.int64]
    value: Floats
    left: Floats
    draws: Floats
    change: Floats
    groups: Floats
    agreeing: Floats
    share: bool
    shares: list[Share]
    exact: Interval | None = None


class NodeIntervals:
    """Intervals of metrics by node, of their means over all nodes and of their means by depth.

    Args:
        result: Result with the numbers; their intervals are added to it.
        units: Resampling units of the samples.
        taxonomy: Taxonomy of the nodes.
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
        """Add the intervals of `auroc` and `average_precision`.

        Args:
            probabilities: `(n, c)` class probabilities of the samples.
            target: `(n,)` labels of the samples.
            classes: `(c,)` nodes of the columns.
            counted: Name of a number → mask `(N,)` of the nodes that count in its means.
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
            left = block.weighted(block_counts(count).astype(block.dtype))
            groups, rarer = block.groups(), block.rarer()
            for number, (name, change) in enumerate(
                zip(("auroc", "average_precision"), block.influence(), strict=True)
            ):
                share = name == "auroc"  # a pair of a positive and a negative group is ranked right or wrong
                metrics = _Metrics(
                    block.nodes,
                    values[number][:, 0],
                    left[number],
                    draws[number],
                    change,
                    groups,
                    groups,
                    share,
                    [Share(values[number][:, 0], rarer, graded=True)],
                )
                self._take(name, metrics, means[name], counted[name])
        for name, drawn_values in means.items():
            self._put_means(name, drawn_values)

    def add_rates(
        self,
        prefix: str,
        nodes: CountedNodes,
        counted: Mapping[str, NDArray[np.bool_]],
        *,
        answers: bool = True,
    ) -> None:
        """Add the intervals of the rates (sensitivity …) in `counted`, named with the `prefix`.

        One answer a case is false along one path; without `answers`, a case may be taken for every node.

        A share of cases has its exact interval, see `proportion_interval`; balanced accuracy, no share,
        and means over nodes have those of draws and of a jackknife.
        """
        resampling, count = self.units.resampling, self.units.count
        if resampling is None:
            return
        names = [name.removeprefix(prefix) for name in counted]
        means = {name: self._means() for name in names}
        for rows, block in nodes.blocks():
            here = np.arange(rows.start, rows.stop)
            matrix = block.prepared()
            values = block.weighted(np.ones((count, 1)), matrix)
            left = block.weighted(block_counts(count), matrix)
            uncounted = np.isnan(left["sensitivity"] + left["specificity"])  # no positives, or no negatives
            left = {name: np.where(uncounted, np.nan, of_rate) for name, of_rate in left.items()}
            parts = block.shares()
            exact = {name: _exact(*of_name, resampling.confidence) for name, of_name in parts.items()}
            shares = {
                name: [Share(values[name][:, 0], of[1] > 0, on_path=answers and name in _OF_OTHERS)]
                for name, of in parts.items()
            }
            shares["balanced_accuracy"] = shares["sensitivity"] + shares["specificity"]
            draws = {name: np.empty((len(here), resampling.resamples)) for name in names if name not in exact}
            for part, counts in resampling.batches(count):
                for name, drawn_values in block.weighted(counts, matrix).items():
                    if name in draws:
                        draws[name][:, part] = drawn_values
            for name, (change, groups) in block.influence().items():
                value = values[name][:, 0]
                agreeing = groups * (2 if name == "balanced_accuracy" else 1)
                drawn = draws.get(name, np.empty((len(here), 0)))
                counts_of = groups, agreeing, True, shares[name], exact.get(name)
                metrics = _Metrics(here, value, left[name], drawn, change, *counts_of)
                self._take(f"{prefix}{name}", metrics, means[name], counted[f"{prefix}{name}"])
        for name, of_name in means.items():
            self._put_means(f"{prefix}{name}", of_name)

    def _means(self) -> list[MeanOverNodes]:
        """Empty means over all nodes, then over the nodes of each depth."""
        blocks = block_counts(self.units.count).shape[1]
        longest = int(self.taxonomy.ancestor_count.max()) - 1  # of a DAG, all ancestors
        return [MeanOverNodes(self.units.count, blocks, longest) for _ in range(self.taxonomy.max_depth + 1)]

    def _take(
        self, name: str, metrics: _Metrics, means: list[MeanOverNodes], counted: NDArray[np.bool_]
    ) -> None:
        """Add the intervals of the nodes to the result, and their metrics to the means."""
        resampling = self.units.resampling
        assert resampling is not None
        nodes, value, left, draws, change, groups, agreeing, share, shares, exact = metrics
        known = np.flatnonzero(~np.isnan(value))
        value, left, draws, change = value[known], left[known], draws[known], change[known]
        nodes, groups, agreeing = nodes[known], groups[known], agreeing[known]
        if exact is None:
            interval = resampling.ends(draws, value, groups, _acceleration(change), agreeing, share)
        else:
            interval = Interval(value, exact.low[known], exact.high[known], exact.error[known])
        low, high = (np.clip(end, 0.0, 1.0).tolist() for end in (interval.low, interval.high))
        for node, *ends in zip(nodes.tolist(), low, high, strict=True):
            self.result.put_interval(Place("by_node", name, self.taxonomy.path_name(node)), *ends)
        depth, chosen = self.taxonomy.depth.numpy()[nodes], counted[nodes]
        for level, mean in enumerate(means):
            kept = chosen & (depth == level) if level else chosen
            rows = known[kept]
            of_kept = [of._replace(value=of.value[rows], counted=of.counted[rows]) for of in shares]
            mean.add(value[kept], left[kept], of_kept)

    def _put_means(self, name: str, means: list[MeanOverNodes]) -> None:
        for level, mean in enumerate(means):
            place = Place("by_depth", name, level - 1) if level else Place("scores", name)
            self.result.put_interval(place, *mean.interval(self.units.resampling)[:2])


def _exact(hits: Floats, sizes: Floats, confidence: float) -> Interval:
    """The intervals of shares by node, from the numbers `(b, G)` of right cases and of all of each group."""
    count = len(hits)
    rows = np.broadcast_to(np.arange(count)[:, None], hits.shape).ravel()
    clusters = Clusters.of(rows, hits.ravel(), sizes.ravel(), count)
    total = sizes.sum(axis=1)
    return proportion_interval(divided(hits.sum(axis=1), total), total, clusters, confidence)


def mean_auroc(
    probabilities: Tensor,
    target: Tensor,
    taxonomy: AnyTaxonomy,
    classes: Tensor,
    units: ResamplingUnits,
    rows: NDArray[np.int64] | None = None,
) -> MeanOverNodes:
    """The mean AUROC over all nodes for which it is defined, and without blocks of the samples.

    Args:
        probabilities: `(m, c)` class probabilities.
        target: `(m,)` labels.
        taxonomy: Taxonomy of the labels.
        classes: `(c,)` nodes of the columns.
        units: Resampling units.
        rows: `(m,)` positions of the samples in `units`; None = all of them.
    """
    count, left = units.count, block_counts(units.count)
    mean = MeanOverNodes(count, left.shape[1])
    if units.resampling is None:
        return mean
    groups = units.groups if rows is None else units.groups[rows]
    for block in ranked_nodes(probabilities, target, taxonomy, groups, count, classes=classes):
        value = block.weighted(np.ones((count, 1)))[0][:, 0]
        shares = [Share(value, block.rarer(), graded=True)]
        mean.add(value, block.weighted(left.astype(block.dtype))[0], shares)
    return mean


def ranking_statistic(
    names: tuple[str, ...],
    rows: Tensor,
    probabilities: Tensor,
    target: Tensor,
    classes: Tensor,
    told: Tensor | None = None,
) -> list[Statistic]:
    """The mean AUROC and mean average precision over nodes, as a statistic for comparisons.

    The list is empty if there are more than `MOST_PROBABILITIES` probabilities.

    Args:
        names: Names of the two numbers, or of AUROC only.
        rows: `(m,)` rows of the samples in the table.
        probabilities: `(m, c)` class probabilities.
        target: `(m,)` labels.
        classes: `(c,)` nodes of the columns.
        told: `(N,)` bool, the nodes that count in the means; None = all with positives and negatives.
    """
    if probabilities.numel() > MOST_PROBABILITIES:
        return []
    samples = {"target": target.numpy(), "probabilities": probabilities.numpy()}
    fixed = {"classes": classes.numpy()} | ({} if told is None else {"told": told.numpy()})
    return [Statistic("node_ranking", names, rows.numpy(), samples, fixed)]


def _acceleration(change: Floats) -> Floats:
    """Accelerations `(b,)` from influences `(b, G)`, with their sign: Efron (1987, Eq. 6.6)."""
    squares = np.square(change)
    return acceleration_of(squares.sum(axis=1), np.einsum("ij,ij->i", squares, change))

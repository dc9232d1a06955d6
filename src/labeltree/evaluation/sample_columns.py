"""Columns with one value per test sample; their means and intervals; choice of groups or samples to draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from torch import Tensor

from labeltree.counted_nouns import say_count
from labeltree.errors import DataError
from labeltree.evaluation.chosen_samples import GROUPS, ClassFrequency
from labeltree.evaluation.statistics import (
    FEWEST_GROUPS,
    Interval,
    JointJackknife,
    RatioColumns,
    Resampling,
    Statistic,
    mean_of_parts,
)
from labeltree.evaluation.statistics.jackknife import jackknife
from labeltree.evaluation.statistics.retrieval_jackknife import WithoutBlocks
from labeltree.evaluation.statistics.search_jackknife import QueryCounts, SearchJackknife
from labeltree.metrics.catalogue import find_metric, is_larger_better
from labeltree.runs import EmbeddingTable
from labeltree.runs.table_file_columns import number_groups
from labeltree.taxonomy import AnyTaxonomy, Taxonomy

__all__ = [
    "FEWEST_GROUPS",
    "Column",
    "Number",
    "Place",
    "ResamplingUnits",
    "class_means",
    "estimate",
    "estimate_statistics",
    "few_groups_note",
]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Kind = Literal["scores", "by_depth", "by_node", "curves"]
_MEANS = 256  # of which what blocks do is in memory at a time


class Place(NamedTuple):
    """The position of a number in a `ProtocolResult`.

    Attributes:
        kind: The dictionary of the result that holds the number.
        name: The key in this dictionary.
        at: Position in a list by depth or in a curve, or path name of a node; not used for a score.
    """

    kind: Kind
    name: str
    at: int | str = 0


class Number(NamedTuple):
    """A number with the ends of its confidence interval and its standard error (NaN if not available)."""

    value: float
    low: float = torch.nan
    high: float = torch.nan
    error: float = torch.nan


@dataclass(frozen=True)
class Column:
    """One value for every sample; the reported number is the mean over the samples that count.

    Columns with the same name and place but different samples are parts of one number (the folds of a
    cross-validation), which is the mean of the parts' means.

    Attributes:
        name: Name of the number.
        values: `(m,)` float64, NaN where a sample does not count.
        rows: `(m,)` the samples' rows in the table; None = the test samples, `inputs.samples.test`.
        labels: `(m,)` nodes of the tree, for means by node and class; None = the labels of the table.
        weights: `(m,)` non-negative sample weights; None = 1 for every sample.
        larger_is_better: Whether a larger number is better; None = as the name has it, see
            `is_larger_better`: a number that is neither is registered as such.
        share: Whether the number lies between 0 and 1; None = likewise. If so, its interval is exact where
            every value is 0 or 1 and all weigh the same; a number that is no share has no interval where all
            samples agree.
        kind: The part of the result that holds the number: `scores`, `by_depth` or `curves`; None = the
            number is not reported and serves comparisons only.
        at: Depth − 1, or the position in the curve.
        by_node: Add the mean of the samples labelled at or below each node.
        by_frequency: Add the means over head, middle and tail classes (`…_head`), if each has classes.
        balanced: Name of a further score, the unweighted mean of the class means; empty = none.
        class_mean: The number is a mean of class means, and `weights` make every class count the same.
        among: Whether the samples are searched among each other, so that each is a query and a result.
        without: For a search among the samples, what `values` become without blocks of the samples, for
            intervals; None = there are none.
        whole: Only the mean over all samples is meaningful: the column is left out of comparisons by subtree.
    """

    name: str
    values: Tensor
    rows: Tensor | None = None
    labels: Tensor | None = field(default=None, repr=False)
    weights: Tensor | None = field(default=None, repr=False)
    larger_is_better: bool | None = None
    share: bool = None  # type: ignore[assignment]
    kind: Literal["scores", "by_depth", "curves"] | None = "scores"
    at: int = 0
    by_node: bool = False
    by_frequency: bool = False
    balanced: str = ""
    whole: bool = False
    class_mean: bool = False
    among: bool = False
    without: WithoutBlocks | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        values = torch.as_tensor(self.values).double()
        object.__setattr__(self, "values", values)
        if self.larger_is_better is None:
            object.__setattr__(self, "larger_is_better", is_larger_better(self.name))
        if self.share is None:
            known = find_metric(self.name)
            object.__setattr__(self, "share", known is None or known.share)
        for name in ("rows", "labels", "weights"):
            given = getattr(self, name)
            if values.ndim != 1 or (given is not None and given.shape != values.shape):
                raise DataError(
                    f"column '{self.name}' has values of shape {tuple(values.shape)}"
                    + ("" if given is None else f" and {name} of shape {tuple(given.shape)}")
                    + "; expected one for each sample"
                )

    def alone(self, name: str, **changes: Any) -> Column:
        """The same outcomes under another name, without means by node and class."""
        plain: dict[str, Any] = {"by_node": False, "by_frequency": False, "balanced": ""}
        return replace(self, name=name, **(plain | changes))

    def undefined(self) -> Column:
        """The same column with NaN for every sample."""
        return replace(self, values=torch.full_like(self.values, torch.nan))


def class_means(column: Column, nodes: Tensor, frequency: ClassFrequency) -> list[Column]:
    """A column's means over all classes, and over head, middle and tail classes, as separate columns.

    The mean of the class means is a weighted mean over samples, in which each sample's weight is divided by
    the total weight of its class.

    Args:
        column: The column; its `rows` must not be None.
        nodes: Labels of all rows of the table.
        frequency: Frequency of the classes.
    """
    wanted: dict[str, int | None] = {column.balanced: None} if column.balanced else {}
    if column.by_frequency and frequency.uneven:
        wanted |= {f"{column.name}_{name}": at for at, name in enumerate(GROUPS)}
    if not wanted:
        return []
    assert column.rows is not None
    labels = nodes[column.rows] if column.labels is None else column.labels
    weights = torch.ones_like(column.values) if column.weights is None else column.weights.double()
    counted = ~column.values.isnan() & (labels >= 0)
    sizes = torch.zeros(len(frequency.counts), dtype=torch.float64)
    sizes.index_add_(0, labels[counted], weights[counted])
    shares = torch.where(counted, weights / sizes[labels.clamp_min(0)].clamp_min(1e-300), 0.0)
    band, means = frequency.group(labels.clamp_min(0)), list[Column]()
    for name, at in wanted.items():
        chosen = counted if at is None else counted & (band == at)
        values = column.values.masked_fill(~chosen, torch.nan)
        changes = {"values": values, "weights": shares, "kind": "scores", "whole": True, "class_mean": True}
        means.append(column.alone(name, **changes))
    return means


def estimate(
    columns: Sequence[Column],
    rows: Tensor,
    units: ResamplingUnits,
    nodes: Tensor,
    tree: Taxonomy,
    frequency: ClassFrequency | None = None,
) -> dict[Place, Number]:
    """Every number that follows from the columns, with its interval: by the bootstrap over groups, or by the
    jackknife over blocks where samples are searched among each other.

    Args:
        columns: The columns; the `rows` of each must not be None and must be among the argument `rows`.
        rows: `(n,)` rows of the table that the bootstrap draws from.
        units: Resampling units of these rows.
        nodes: Labels of all rows of the table.
        tree: Tree of the labels.
        frequency: Frequency of the classes; None omits the means over head, middle and tail classes.
    """
    own = [column for column in columns if not column.among]
    if len(own) < len(columns):
        searched = [column for column in columns if column.among]
        alone = estimate(own, rows, units, nodes, tree, frequency)
        return alone | _estimate_among(searched, rows, units, nodes, tree, frequency)
    position = torch.full((len(nodes),), -1, dtype=torch.int64)
    position[rows] = torch.arange(len(rows))
    ratios = _Ratios(units)
    scores: dict[Place, list[Integers]] = {}
    of_classes: dict[Place, list[Integers]] = {}
    of_nodes: dict[Place, list[Integers]] = {}
    bands = GROUPS if frequency is not None and frequency.uneven else ()
    for column in columns:
        assert column.rows is not None
        counted = ~column.values.isnan()
        labels = (nodes[column.rows] if column.labels is None else column.labels)[counted]
        weights = torch.ones_like(column.values) if column.weights is None else column.weights.double()
        samples = (position[column.rows][counted], column.values[counted], weights[counted])
        if column.kind is not None:
            place = Place(column.kind, column.name, column.at)
            scores.setdefault(place, []).append(
                ratios.add(torch.zeros_like(labels), *samples, 1, column.share)
            )
        known = labels >= 0
        samples, labels = (samples[0][known], samples[1][known], samples[2][known]), labels[known]
        if column.by_node:
            lines = tree.ancestors[labels]
            there = lines >= 0
            present, index = torch.unique(lines[there], return_inverse=True)
            at, scores_of, weighed = (part[:, None].expand(lines.shape)[there] for part in samples)
            numbers = ratios.add(index, at, scores_of, weighed, len(present), column.share)
            for node, number in zip(present.tolist(), numbers, strict=True):
                place = Place("by_node", column.name, tree.path_name(node))
                of_nodes.setdefault(place, []).append(number[None])
        if column.balanced or (column.by_frequency and bands):
            present, index = torch.unique(labels, return_inverse=True)
            numbers = ratios.add(index, *samples, len(present), column.share)
            if column.balanced:
                of_classes.setdefault(Place("scores", column.balanced), []).append(numbers)
            if column.by_frequency and frequency is not None:
                band = frequency.group(present).numpy()
                for which, name in enumerate(bands):
                    place = Place("scores", f"{column.name}_{name}")
                    of_classes.setdefault(place, []).append(numbers[band == which])
    return ratios.numbers(scores | of_classes | of_nodes)


def _estimate_among(
    columns: Sequence[Column],
    rows: Tensor,
    units: ResamplingUnits,
    nodes: Tensor,
    tree: Taxonomy,
    frequency: ClassFrequency | None,
) -> dict[Place, Number]:
    """The numbers of samples that are searched among each other, with intervals from their blocks."""
    resampling = units.resampling
    position = torch.full((len(nodes),), -1, dtype=torch.int64)
    position[rows] = torch.arange(len(rows))
    plain = [replace(column, among=False) for column in columns]
    numbers = estimate(plain, rows, ResamplingUnits(None, rows.numpy()), nodes, tree, frequency)
    parts = Counter((column.kind, column.name, column.at) for column in columns)
    for column in columns:
        means = [] if frequency is None else class_means(column, nodes, frequency)
        for each in [column, *means]:
            if resampling is None or each.without is None or each.kind is None:
                continue
            if parts[column.kind, column.name, column.at] > 1:
                continue  # a mean over folds
            places, weights = _means_of(each, nodes, tree)
            assert each.rows is not None
            counts = _count_queries(each, weights, units.groups[position[each.rows].numpy()])
            value = np.array([numbers[place].value for place in places])
            if each.share:
                ends = _share_without_blocks(each, weights, value, counts, resampling.confidence)
            else:  # CPCC, a correlation
                left = each.without.left_out(weights, each.values.numpy()).T
                ends = jackknife(value, left, counts.units, confidence=resampling.confidence, lowest=-1.0)
            for number in np.flatnonzero(~np.isnan(ends.error)):
                low, high, error = (float(part[number]) for part in (ends.low, ends.high, ends.error))
                numbers[places[number]] = Number(numbers[places[number]].value, low, high, error)
    return numbers


def _share_without_blocks(
    column: Column, weights: csr_array, value: Floats, counts: QueryCounts, confidence: float
) -> Interval:
    """The intervals of means `(m,)` of queries between 0 and 1, with weights `(m, n)`."""
    assert column.without is not None
    single = bool(((column.values == 0) | (column.values == 1) | column.values.isnan()).all())
    ends = np.empty((3, len(value)))
    for start in range(0, len(value), _MEANS):
        part = slice(start, start + _MEANS)
        effects = column.without.effects(weights[part], column.values.numpy())
        counted = QueryCounts(*(each[part] for each in counts))
        jackknife = SearchJackknife([effects], [counted], np.full((1, len(value[part])), single))
        interval = jackknife.interval(np.ones(1), confidence=confidence)
        ends[:, part] = interval.low, interval.high, interval.error
    return Interval(value, *ends)


def _means_of(column: Column, nodes: Tensor, tree: Taxonomy) -> tuple[list[Place], csr_array]:
    """The places of a column's mean and of its means by node, and the weights `(m, n)` of its samples."""
    assert column.kind is not None
    assert column.rows is not None
    places = [Place(column.kind, column.name, column.at)]
    weights = torch.ones_like(column.values) if column.weights is None else column.weights.double()
    counted = (~column.values.isnan()).nonzero()[:, 0]
    index, samples = [torch.zeros_like(counted)], [counted]
    if column.by_node:
        labels = nodes[column.rows] if column.labels is None else column.labels
        known = counted[labels[counted] >= 0]
        lines = tree.ancestors[labels[known]]
        there = lines >= 0
        named, of = torch.unique(lines[there], return_inverse=True)
        places += [Place("by_node", column.name, tree.path_name(node)) for node in named.tolist()]
        index.append(of + 1)
        samples.append(known[:, None].expand(lines.shape)[there])
    row, at = torch.cat(index).numpy(), torch.cat(samples)
    shape = len(places), len(column.values)
    return places, coo_array((weights[at].numpy(), (row, at.numpy())), shape=shape).tocsr()


def _count_queries(column: Column, weights: csr_array, units: NDArray[np.int64]) -> QueryCounts:
    """The queries of means with weights `(m, n)` of samples, which are of the units `(n,)`."""
    mean = np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))
    at = weights.indices
    return QueryCounts.of(mean, units[at], column.values.numpy()[at], weights.shape[0])


def estimate_statistics(
    statistics: Sequence[Statistic], rows: Tensor, units: ResamplingUnits, taxonomy: AnyTaxonomy
) -> dict[Place, Number]:
    """Every score that is not a mean over samples, with its interval; arguments as for `estimate`."""
    resampling = units.resampling or Resampling(1)
    parts_of: dict[str, list[tuple[Floats, Floats]]] = {}
    present: dict[str, NDArray[np.bool_]] = {}
    lowest: dict[str, float] = {}
    order = np.argsort(rows.numpy(), kind="stable")
    for statistic in statistics:
        groups = units.groups[order[np.searchsorted(rows.numpy(), statistic.rows, sorter=order)]]
        value, left = statistic.without_blocks(groups, units.count, taxonomy)
        for number, name in enumerate(statistic.names):
            parts_of.setdefault(name, []).append((value[number], left[number]))
            present.setdefault(name, np.zeros(units.count, dtype=bool))[groups] = True
            lowest[name] = statistic.lowest[number]
    numbers = {}
    for name, parts in parts_of.items():
        value, left = mean_of_parts(parts)
        one = value.reshape(1, 1), left.reshape(-1, 1, 1), present[name][:, None, None]
        ends = JointJackknife(*one, np.array([lowest[name]])).interval(
            np.ones(1), confidence=resampling.confidence
        )
        unsure = [np.nan] * 3 if units.resampling is None else [ends.low[0], ends.high[0], ends.error[0]]
        numbers[Place("scores", name)] = Number(float(value), *map(float, unsure))
    return numbers


class _Ratios:
    """Sparse collection of metrics Σ w·v / Σ w, as most samples count in few metrics."""

    def __init__(self, units: ResamplingUnits) -> None:
        self.units = units
        self.entries: list[tuple[Integers, Integers, Floats, Floats]] = []
        self.shares: list[NDArray[np.bool_]] = []
        self.count = 0

    def add(
        self, index: Tensor, samples: Tensor, values: Tensor, weights: Tensor, count: int, share: bool
    ) -> Integers:
        """Add `count` metrics with entries of shape `(e,)`; return the metrics' indices `(count,)`."""
        first, self.count = self.count, self.count + count
        groups = self.units.groups[samples.numpy()]
        self.entries.append((index.numpy() + first, groups, values.numpy(), weights.numpy()))
        self.shares.append(np.full(count, share))
        return np.arange(first, self.count)

    def numbers(self, places: dict[Place, list[Integers]]) -> dict[Place, Number]:
        """The number at every place: one metric, or the mean over parts of the mean metric of each part."""
        if not self.count:
            return {place: Number(np.nan) for place in places}
        means: list[tuple[Integers, Floats]] = []
        row_of: dict[Place, int] = {}  # of the metrics, followed by the means
        for place, parts in places.items():
            if len(parts) == 1 and len(parts[0]) == 1:
                row_of[place] = int(parts[0][0])
            else:
                row_of[place] = self.count + len(means)
                shares = np.concatenate([np.full(len(part), 1 / max(len(part), 1)) for part in parts])
                means.append((np.concatenate(parts), shares))
        column, group, values, weights = map(np.concatenate, zip(*self.entries, strict=True))
        shape = self.count, max(self.units.count, 1)
        ratios = RatioColumns.of(column, group, values, weights, shape, means)
        table = np.full((4, self.count + len(means)), np.nan)
        table[0] = np.concatenate(ratios.values)
        if self.units.resampling is not None:
            ends = ratios.ends(self.units.resampling, np.concatenate(self.shares))
            table[1:] = np.concatenate(ends, axis=1)
        return {place: Number(*table[:, row].tolist()) for place, row in row_of.items()}


class ResamplingUnits:
    """The resampling units of a set of samples, and the bootstrap draws.

    Groups are drawn with replacement; all numbers with the same number of groups share the same draws.
    Classifiers, clusters and search galleries are held fixed.

    Args:
        resampling: The draws; None = no intervals.
        units: `(n,)` resampling unit (group) of each sample; a sample with −1 is a unit of its own.

    Attributes:
        resampling: As given, but None if there are no samples.
        groups: `(n,)` index of each sample's group, 0 to G − 1.
        count: Number of groups G.
    """

    def __init__(self, resampling: Resampling | None, units: NDArray[np.int64]) -> None:
        self.resampling = resampling if len(units) else None
        self.groups = number_groups(units)
        self.count = int(self.groups.max()) + 1 if len(units) else 0


def few_groups_note(table: EmbeddingTable, tested: Tensor) -> list[str]:
    """A note if there are too few groups for intervals; else an empty list."""
    if table.groups is None:
        return []
    groups = table.groups[tested]
    count = len(torch.unique(groups[groups >= 0])) + int((groups < 0).sum())
    if not 0 < count < FEWEST_GROUPS:
        return []
    return [
        f"The test samples are of {say_count(count, 'group')}: too few for intervals, which need "
        f"{FEWEST_GROUPS}; and no test of them can fall below 0.05."
    ]

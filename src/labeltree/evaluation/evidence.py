"""What a protocol hands over so that its numbers get confidence intervals: outcomes of single samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.evaluation.places import Place, write_intervals
from labeltree.evaluation.plain import Bounds
from labeltree.evaluation.protocol_result import ProtocolResult
from labeltree.evaluation.statistics import (
    Interval,
    Partition,
    RatioColumns,
    Resampling,
    agreement_intervals,
    number_groups,
)
from labeltree.evaluation.statistics.sums import Floats
from labeltree.taxonomy import Taxonomy

__all__ = ["Evidence"]

Integers = NDArray[np.int64]


class Evidence:
    """Outcomes of some samples, from which the intervals of a `ProtocolResult` come.

    Groups are drawn with replacement, as often and with the same draws as for the standard scores
    (`labeltree.evaluation.statistics.Bootstrap`); classifiers, clusters and databases stay as they are.

    Args:
        resampling: the draws; None leaves all intervals out.
        units: ``(n,)`` what is drawn as a whole: the group of each sample, −1 for one that stands alone.

    Attributes:
        resampling: as given; None also where there are no samples.
        groups: ``(n,)`` the number of each sample's group.
        count: G, how many groups there are.
    """

    def __init__(self, resampling: Resampling | None, units: Integers) -> None:
        self.resampling = resampling if len(units) else None
        self.groups = number_groups(units)
        self.count = int(self.groups.max()) + 1 if len(units) else 0
        self.found: dict[Place, Bounds] = {}
        self.errors: dict[Place, float] = {}
        self._places: list[Place | None] = []
        self._shares: list[NDArray[np.bool_]] = []
        self._entries: list[tuple[Integers, Integers, Floats]] = []
        self._means: dict[Place, tuple[Integers, Floats]] = {}

    def add(self, place: Place, values: Tensor, *, rows: Tensor | None = None, share: bool = True) -> None:
        """A number that is the mean of its samples' values.

        Args:
            place: of the number.
            values: ``(n,)`` NaN where a sample does not count.
            rows: ``(n,)`` positions of the samples, where the values are of some only.
            share: whether it lies between 0 and 1.
        """
        zeros = np.zeros(len(values), dtype=np.int64)
        self._add([place], zeros, self._rows(values, rows), values.double().numpy(), share)

    def add_depths(self, name: str, columns: Sequence[Tensor], *, rows: Tensor | None = None) -> None:
        """Means of a column of values for each depth, which lie between 0 and 1; as for `add`."""
        for depth, values in enumerate(columns):
            self.add(Place("by_depth", name, depth), values, rows=rows)

    def add_subtrees(
        self,
        name: str,
        values: Tensor,
        nodes: Tensor,
        tree: Taxonomy,
        *,
        rows: Tensor | None = None,
        share: bool = True,
    ) -> None:
        """What `labeltree.evaluation.subtrees.by_subtree` gives: means below every node.

        Args:
            name: of the number by node.
            values: as for `add`.
            nodes: ``(n,)`` labels of the samples.
            tree: of the labels.
            rows: as for `add`.
            share: as for `add`.
        """
        for node, column in self._subtrees(values, nodes, tree, rows, share):
            self._places[column] = Place("by_node", name, tree.path_name(node))

    def add_mean_subtrees(
        self, name: str, parts: Sequence[tuple[Tensor, Tensor, Tensor]], tree: Taxonomy
    ) -> None:
        """The mean of the numbers of several parts of the samples, below every node.

        Args:
            name: of the number by node.
            parts: values, labels and positions of the samples of each, as for `add_subtrees`.
            tree: of the labels.
        """
        columns: dict[int, list[int]] = {}
        for values, nodes, rows in parts:
            for node, column in self._subtrees(values, nodes, tree, rows, True):
                columns.setdefault(node, []).append(column)
        for node, chosen in columns.items():
            place = Place("by_node", name, tree.path_name(node))
            self._means[place] = np.array(chosen), np.ones(len(chosen))

    def add_class_means(
        self,
        values: Tensor,
        classes: Tensor,
        means: Mapping[Place, Callable[[Tensor], Tensor]],
        *,
        rows: Tensor | None = None,
        weight: float = 1.0,
    ) -> None:
        """Means over classes of the mean of each, which lie between 0 and 1.

        Samples of another part may be added to the same places: their classes count by themselves.

        Args:
            values: as for `add`.
            classes: ``(n,)`` of the samples.
            means: place → which of the classes ``(c,)`` count in it, as bool ``(c,)``.
            rows: as for `add`.
            weight: of all classes of these samples together, beside those of other parts.
        """
        counted = ~values.isnan()
        found, column = torch.unique(classes[counted], return_inverse=True)
        first = len(self._places)
        kept = self._rows(values, rows)[counted.numpy()]
        self._add([None] * len(found), column.numpy(), kept, values[counted].double().numpy(), True)
        for place, chosen in means.items():
            these = first + chosen(found).nonzero().squeeze(1).numpy()
            before = self._means.get(place, (np.empty(0, dtype=np.int64), np.empty(0)))
            weights = np.full(len(these), weight / max(len(these), 1))
            self._means[place] = np.concatenate([before[0], these]), np.concatenate([before[1], weights])

    def add_mean(self, place: Place, parts: Sequence[tuple[Tensor, Tensor]], *, share: bool = True) -> None:
        """The mean of several means, of folds for instance, over those that are defined.

        Args:
            place: of the number.
            parts: values and positions of the samples of each, as for `add`.
            share: as for `add`.
        """
        first = len(self._places)
        for values, rows in parts:
            zeros = np.zeros(len(values), dtype=np.int64)
            self._add([None], zeros, self._rows(values, rows), values.double().numpy(), share)
        chosen = np.arange(first, len(self._places))
        self._means[place] = chosen, np.ones(len(chosen))

    def put(self, places: Sequence[Place], found: Interval) -> None:
        """Intervals that were found in another way, for numbers that are no means."""
        for number, place in enumerate(places):
            self._put(place, found, number)

    def _put(self, place: Place, found: Interval, number: int) -> None:
        self.found[place] = float(found.low[number]), float(found.high[number])
        self.errors[place] = float(found.error[number])

    def partition(self, labels: Tensor, clusters: Tensor, rows: Tensor) -> Partition:
        """Labels and clusters ``(m,)`` of some of the samples, at positions ``rows``."""
        return Partition.of(labels.numpy(), clusters.numpy(), self.groups[rows.numpy()], self.count)

    def put_agreement(
        self,
        partitions: Sequence[Partition],
        places: Sequence[Sequence[Place]],
        means: Sequence[tuple[Sequence[int], Place]],
    ) -> None:
        """NMI and AMI of partitions, see `agreement_intervals`.

        Args:
            partitions: of `partition`.
            places: where each one's numbers stand, with what follows ``nmi`` or ``ami`` for a name.
            means: of which partitions a further number is the mean, and its place.
        """
        if self.resampling is None:
            return
        _, found = agreement_intervals(partitions, [chosen for chosen, _ in means], self.resampling)
        places = [*places, *([place] for _, place in means)]
        for number, (name, at) in enumerate((name, at) for name in ("nmi", "ami") for at in places):
            for place in at:
                self._put(place._replace(name=f"{name}{place.name}"), found, number)

    def measure(self) -> None:
        """Find the intervals of all that was added since."""
        if self.resampling is None or not self._places:
            return
        column, rows = (np.concatenate([entry[i] for entry in self._entries]) for i in (0, 1))
        values = np.concatenate([entry[2] for entry in self._entries])
        columns = RatioColumns.of(
            column,
            self.groups[rows],
            values,
            np.ones(len(values)),
            (len(self._places), self.count),
            list(self._means.values()),
        )
        metrics, averages = columns.ends(self.resampling, np.concatenate(self._shares))
        value, mean = columns.values
        kept = [i for i, place in enumerate(self._places) if place is not None]
        self.put([p for p in self._places if p is not None], Interval(value[kept], *metrics[:, kept]))
        self.put(list(self._means), Interval(mean, *averages))
        self._places, self._shares, self._entries, self._means = [], [], [], {}

    def fill(self, result: ProtocolResult) -> ProtocolResult:
        """Write the intervals of numbers that the result has, and return it."""
        self.measure()
        return write_intervals(result, self.found)

    def _subtrees(
        self, values: Tensor, nodes: Tensor, tree: Taxonomy, rows: Tensor | None, share: bool
    ) -> list[tuple[int, int]]:
        """Nodes with samples that count, and the column of each."""
        if self.resampling is None:
            return []
        counted = ~values.isnan()
        lines = tree.ancestors[nodes[counted]]
        there = lines >= 0
        kept = self._rows(values, rows)[counted.numpy()]
        places = np.broadcast_to(kept[:, None], there.shape)[there.numpy()]
        scores = values[counted].double()[:, None].expand(lines.shape)[there].numpy()
        found, column = torch.unique(lines[there], return_inverse=True)
        first = len(self._places)
        self._add([None] * len(found), column.numpy(), places, scores, share)
        return [(node, first + number) for number, node in enumerate(found.tolist())]

    def _rows(self, values: Tensor, rows: Tensor | None) -> Integers:
        if len(values) != (len(self.groups) if rows is None else len(rows)):
            raise ValueError(f"there are {len(values)} values of {len(self.groups)} samples; one for each")
        return np.arange(len(values)) if rows is None else rows.numpy()

    def _add(
        self, places: Sequence[Place | None], column: Integers, rows: Integers, values: Floats, share: bool
    ) -> None:
        counted = ~np.isnan(values)
        self._entries.append((column[counted] + len(self._places), rows[counted], values[counted]))
        self._places += places
        self._shares.append(np.full(len(places), share))

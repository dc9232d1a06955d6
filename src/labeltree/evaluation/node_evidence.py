"""Intervals of what is measured node by node, and of means over nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from labeltree.evaluation.evidence import Evidence
from labeltree.evaluation.places import Place
from labeltree.evaluation.statistics.ends import acceleration_of
from labeltree.evaluation.statistics.sums import Floats, divided
from labeltree.metrics.functional.node_counted import CountedNodes
from labeltree.metrics.functional.node_steps import ranked_nodes
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["MeanDraws", "NodeEvidence", "mean_auroc"]


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

    def put(self, evidence: Evidence, place: Place, *, share: bool = True) -> None:
        """Its interval as that of a number."""
        if evidence.resampling is None or not self.count:
            return
        change = self.influence[None]
        found = evidence.resampling.ends(
            self.draws[None],
            np.array([self.value]),
            np.array([float(evidence.count)]),
            _acceleration(change),
            np.array([self.fewest * self.count]),
            share,
        )
        evidence.put([place], found)


class _Metrics(NamedTuple):
    """One metric of some nodes: values, draws, influences, groups that count, pairs of groups that agree."""

    nodes: NDArray[np.int64]
    value: Floats
    draws: Floats
    change: Floats
    groups: Floats
    agreeing: Floats
    share: bool


class NodeEvidence:
    """Metrics of nodes, their means over all nodes that count and over those of each depth.

    Args:
        evidence: gets the intervals.
        taxonomy: of the nodes.
    """

    def __init__(self, evidence: Evidence, taxonomy: AnyTaxonomy) -> None:
        self.evidence = evidence
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
            probabilities: ``(n, c)`` of the samples of the evidence.
            target: ``(n,)`` their labels.
            classes: ``(c,)`` nodes that the columns stand for.
            counted: name → ``(N,)`` which nodes count in the means.
        """
        resampling, count = self.evidence.resampling, self.evidence.count
        if resampling is None:
            return
        means = {name: self._means() for name in counted}
        ranked = ranked_nodes(
            probabilities, target, self.taxonomy, self.evidence.groups, count, classes=classes
        )
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
        resampling, count = self.evidence.resampling, self.evidence.count
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
        resampling = self.evidence.resampling
        assert resampling is not None
        depths = range(self.taxonomy.max_depth + 1)
        return [MeanDraws(resampling.resamples, self.evidence.count) for _ in depths]

    def _take(self, name: str, metrics: _Metrics, means: list[MeanDraws], counted: NDArray[np.bool_]) -> None:
        """The intervals of some nodes, and their part in the means."""
        resampling = self.evidence.resampling
        assert resampling is not None
        nodes, value, draws, change, groups, agreeing, share = metrics
        known = np.flatnonzero(~np.isnan(value))
        value, draws, change = value[known], draws[known], change[known]
        nodes, groups, agreeing = nodes[known], groups[known], agreeing[known]
        found = resampling.ends(draws, value, groups, _acceleration(change), agreeing, share)
        places = [Place("by_node", name, self.taxonomy.path_name(node)) for node in nodes.tolist()]
        self.evidence.put(places, found)
        depth, chosen = self.taxonomy.depth.numpy()[nodes], counted[nodes]
        for level, mean in enumerate(means):
            kept = chosen & (depth == level) if level else chosen
            mean.add(value[kept], draws[kept], change[kept], agreeing[kept])

    def _put_means(self, name: str, means: list[MeanDraws], *, share: bool) -> None:
        for level, mean in enumerate(means):
            place = Place("by_depth", name, level - 1) if level else Place("scores", name)
            mean.put(self.evidence, place, share=share)


def mean_auroc(
    probabilities: Tensor,
    target: Tensor,
    taxonomy: AnyTaxonomy,
    classes: Tensor,
    evidence: Evidence,
    rows: NDArray[np.int64] | None = None,
) -> MeanDraws:
    """The mean AUROC of all nodes that have one, in every draw.

    Args:
        probabilities: ``(m, c)``.
        target: ``(m,)`` labels.
        taxonomy: of the labels.
        classes: ``(c,)`` nodes that the columns stand for.
        evidence: its groups are drawn.
        rows: ``(m,)`` positions of the samples in the evidence; None means all of them.
    """
    resampling, count = evidence.resampling, evidence.count
    if resampling is None:
        return MeanDraws(0, 0)
    mean = MeanDraws(resampling.resamples, count)
    groups = evidence.groups if rows is None else evidence.groups[rows]
    for block in ranked_nodes(probabilities, target, taxonomy, groups, count, classes=classes):
        draws = np.empty((len(block.nodes), resampling.resamples))
        for part, counts in resampling.batches(count, block.dtype):
            draws[:, part] = block.weighted(counts)[0]
        value = block.weighted(np.ones((count, 1)))[0][:, 0]
        mean.add(value, draws, block.influence()[0], block.groups())
    return mean


def _acceleration(change: Floats) -> Floats:
    """``(b,)`` from influences ``(b, G)``: Efron (1987, Eq. 6.6), with their sign."""
    squares = np.square(change)
    return acceleration_of(squares.sum(axis=1), np.einsum("ij,ij->i", squares, change))

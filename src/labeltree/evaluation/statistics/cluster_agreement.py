"""Confidence intervals of the agreement of clusters with labels (NMI, AMI), the clusters held fixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.special import xlogy

from labeltree.evaluation.statistics.bootstrap import Resampling
from labeltree.evaluation.statistics.group_sums import Floats, divided
from labeltree.evaluation.statistics.interval_ends import SAME, Interval, centred_ends

__all__ = ["Partition", "agreement_intervals"]

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Partition:
    """Labels and clusters of some samples, as sums over groups.

    Attributes:
        cells: ``(p, G)`` samples of each pair of a label and a cluster that occurs.
        labels: ``(c, p)`` ones: which cells are of a label.
        clusters: ``(k, p)`` likewise.
        expected: mutual information of random clusters of the same sizes.
    """

    cells: csr_array
    labels: csr_array
    clusters: csr_array
    expected: float

    @classmethod
    def of(cls, labels: Integers, clusters: Integers, groups: Integers, count: int) -> Partition:
        """From labels, clusters and groups ``(n,)`` of samples, none missing, and the number of groups."""
        from sklearn.metrics.cluster import contingency_matrix, expected_mutual_information

        label, cluster = (np.unique(column, return_inverse=True)[1] for column in (labels, clusters))
        pairs, cell = np.unique(np.stack([label, cluster]), axis=1, return_inverse=True)
        cell = cell.reshape(-1)
        p = pairs.shape[1]
        ones = np.ones(p)
        table = contingency_matrix(labels, clusters, sparse=True).astype(np.int64)
        return cls(
            coo_array((np.ones(len(cell)), (cell, groups)), shape=(p, count)).tocsr(),
            coo_array((ones, (pairs[0], np.arange(p)))).tocsr(),
            coo_array((ones, (pairs[1], np.arange(p)))).tocsr(),
            float(expected_mutual_information(table, len(labels))),
        )

    def agreement(self, counts: Floats) -> Floats:
        """``(2, b)`` NMI and AMI where groups count ``(G, b)`` times; NaN where no sample does.

        NMI is that of the samples drawn. AMI takes the chance agreement of all samples for theirs; where
        that leaves no room, as nearly every sample is of a label of its own, it is NaN.
        """
        cells = self.cells @ counts
        sums = [_information(part) for part in (cells, self.labels @ cells, self.clusters @ cells)]
        total = cells.sum(axis=0)
        size = np.log(np.maximum(total, 1))
        entropy = size - divided(sums[1] + sums[2], 2 * total)
        mutual = np.maximum(size + divided(sums[0] - sums[1] - sums[2], total), 0.0)
        one = entropy <= 1e-15  # one label and one cluster
        safe = np.where(one, 1.0, entropy)
        rest = np.where(safe - self.expected > SAME, safe - self.expected, np.nan)
        found = np.stack([mutual / safe, (mutual - self.expected) / rest])
        return np.where(total > 0, np.where(one, 1.0, found), np.nan)


def agreement_intervals(
    partitions: Sequence[Partition],
    means: Sequence[Sequence[int]],
    resampling: Resampling,
) -> tuple[Floats, Interval]:
    """NMI and AMI of some partitions, and means of them.

    A sample that is drawn twice agrees with itself, so that the agreement of a draw is greater than that of
    the samples by about as much as theirs is greater than that of endlessly many. So the draws are moved to
    have the samples' agreement as their mean: the intervals say how much another test set of this size would
    differ, not what a larger one would converge to. An AMI that is not defined in every draw has none,
    nor has a mean of such.

    Args:
        partitions: of samples of the same groups.
        means: of which partitions each further number is the mean.
        resampling: the draws.

    Returns:
        the values and their intervals ``(2, len(partitions) + len(means))``, NMI first, flattened.
    """
    groups = partitions[0].cells.shape[1]
    draws = np.empty((2, len(partitions) + len(means), resampling.resamples))
    once = np.ones((groups, 1))
    value = np.stack([partition.agreement(once)[:, 0] for partition in partitions], axis=1)
    for part, counts in resampling.batches(groups):
        for number, partition in enumerate(partitions):
            draws[:, number, part] = partition.agreement(counts)
    undefined = (np.isnan(draws[1]) & ~np.isnan(draws[0]))[: len(partitions)].any(axis=1)
    value[1, undefined] = np.nan
    there = [np.unique(partition.cells.indices) for partition in partitions]
    sizes = [len(found) for found in there]
    for number, chosen in enumerate(means, start=len(partitions)):
        kept = draws[:, list(chosen)]
        draws[:, number] = divided(np.nansum(kept, axis=1), (~np.isnan(kept)).sum(axis=1).astype(float))
        value = np.concatenate([value, value[:, list(chosen)].mean(axis=1, keepdims=True)], axis=1)
        sizes.append(len(np.unique(np.concatenate([there[i] for i in chosen]))))
    found = centred_ends(
        draws.reshape(-1, resampling.resamples).T,
        value.reshape(-1),
        np.tile(np.array(sizes, dtype=np.float64), 2),
        confidence=resampling.confidence,
    )
    return value, found


def _information(counts: Floats) -> Floats:
    """``(b,)`` Σ x log x of the columns of whole numbers ``(p, b)``."""
    table = xlogy(np.arange(counts.max(initial=0) + 1), np.arange(counts.max(initial=0) + 1))
    total: Floats = table[counts.astype(np.int64)].sum(axis=0)
    return total

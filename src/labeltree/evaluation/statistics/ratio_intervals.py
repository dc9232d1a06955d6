"""Bootstrap intervals of all metrics that are means, at once; sparse, as few samples count in most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, vstack

from labeltree.evaluation.statistics.bootstrap import Resampling
from labeltree.evaluation.statistics.interval_ends import (
    SAME,
    Floats,
    acceleration_of,
    divided,
)
from labeltree.evaluation.statistics.jackknife import block_counts
from labeltree.evaluation.statistics.means_over_nodes import MeanOverNodes
from labeltree.evaluation.statistics.proportions import Clusters, proportion_interval

__all__ = ["RatioColumns"]

_ELEMENTS = 2**22
_FULL = 8  # metrics in which more than 1 in 8 groups count are multiplied as dense rows
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class RatioColumns:
    """Metrics Σ w·v / Σ w as in `GroupSums`, but sparse, and means over such metrics.

    Attributes:
        numerators: `(m, G)` sums of w·v of each metric within each group, with an entry where a sample
            counts.
        denominators: `(m, G)` sums of w, with entries in the same places.
        means: `(a, m)` weights of the metrics in each mean, which is taken over the defined metrics.
        outcomes: `(m,)` number of samples of a metric that is a share of them, as in `count_outcomes`; NaN
            for any other.
    """

    numerators: csr_array
    denominators: csr_array
    means: csr_array
    outcomes: Floats

    @classmethod
    def of(
        cls,
        column: Integers,
        group: Integers,
        values: Floats,
        weights: Floats,
        shape: tuple[int, int],
        means: Sequence[tuple[Integers, Floats]],
    ) -> RatioColumns:
        """Sum the entries of samples within groups.

        Args:
            column: `(e,)` index of the metric of each entry.
            group: `(e,)` group of the entry's sample, 0 to G − 1.
            values: `(e,)` values, none missing.
            weights: `(e,)` non-negative weights.
            shape: m and G.
            means: For each of the a means, the indices of its metrics and their positive weights.
        """
        place = (column, group)
        sums = coo_array((values * weights, place), shape=shape).tocsr()
        counts = coo_array((weights, place), shape=shape).tocsr()
        rows = np.repeat(np.arange(len(means)), [len(places) for places, _ in means])
        places = np.concatenate([np.empty(0, dtype=np.int64), *(places for places, _ in means)])
        averaged = np.concatenate([np.empty(0), *(parts for _, parts in means)])
        matrix = coo_array((averaged, (rows, places)), shape=(len(means), shape[0])).tocsr()
        plain, weighed = np.ones((2, shape[0]), dtype=bool)
        plain[column[(values != 0) & (values != 1)]] = False
        some = np.zeros(shape[0])
        some[column] = weights
        weighed[column[weights != some[column]]] = False
        number = np.bincount(column, minlength=shape[0])
        outcomes = np.where(plain & weighed & (some > 0), number, np.nan)
        return cls(numerators=sums, denominators=counts, means=matrix, outcomes=outcomes)

    @property
    def values(self) -> tuple[Floats, Floats]:
        """The metrics `(m,)` and the means `(a,)`."""
        ratios = divided(_total(self.numerators), _total(self.denominators))
        known = (~np.isnan(ratios)).astype(float)
        return ratios, divided(self.means @ np.nan_to_num(ratios), self.means @ known)

    def draws(self, resampling: Resampling, rows: slice) -> Floats:
        """Values `(k, resamples)` of the metrics `rows` in each draw."""
        count, groups = rows.stop - rows.start, self.numerators.shape[1]
        stacked = vstack([self.numerators[rows], self.denominators[rows]], format="csr")
        full = np.diff(stacked.indptr) > groups / _FULL
        dense, sparse = stacked[full].toarray(), stacked[~full]
        drawn = np.empty((count, resampling.resamples))
        for part, counts in resampling.batches(groups):
            sums = np.empty((2 * count, counts.shape[1]))
            sums[full], sums[~full] = dense @ counts, sparse @ counts
            drawn[:, part] = divided(sums[:count], sums[count:])
        return drawn

    def ends(self, resampling: Resampling, share: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Intervals `(3, m)` of the metrics and `(3, a)` of the means: low, high, standard error.

        Args:
            resampling: The draws.
            share: `(m,)` whether a metric lies between 0 and 1.
        """
        count, value = self.numerators.shape[0], self.values[0]
        present = _present(self.denominators)
        groups = np.asarray(present.sum(axis=1), dtype=np.float64).reshape(-1)
        outcomes = np.where(share, self.outcomes, np.nan)
        hits, sizes = self.numerators.data, self.denominators.data
        clusters = Clusters.of(_rows(self.denominators), hits, sizes, count)
        exact = proportion_interval(value, outcomes, clusters, resampling.confidence)
        metrics = np.stack([exact.low, exact.high, exact.error])
        averaged = self._mean_ends(value, share, resampling)
        if not np.isnan(outcomes).any():
            return metrics, averaged
        skew = self._accelerations(value)
        for rows in _blocks(count, resampling.resamples):
            draws = self.draws(resampling, rows)
            interval = resampling.ends(draws, value[rows], groups[rows], skew[rows], None, share[rows])
            other = np.isnan(outcomes[rows])
            metrics[:, rows][:, other] = np.stack([interval.low, interval.high, interval.error])[:, other]
        return metrics, averaged

    def _left_out(self) -> tuple[Integers, Floats]:
        """Metric of each entry, and its value without this group `(e,)`; NaN where nothing is left."""
        totals = _total(self.numerators), _total(self.denominators)
        metric = _rows(self.denominators)
        rest = totals[1][metric] - self.denominators.data
        left = divided(totals[0][metric] - self.numerators.data, np.where(rest > SAME, rest, 0.0))
        return metric, left

    def _accelerations(self, value: Floats) -> Floats:
        """Accelerations `(m,)` as in `jackknife_acceleration`; groups without an entry change nothing."""
        count, groups = self.numerators.shape
        metric, left = self._left_out()

        def summed(weights: Floats) -> Floats:
            return np.bincount(metric, weights, minlength=count).astype(np.float64)

        untouched = groups - summed(np.ones(len(metric)))
        whole, there = np.nan_to_num(value), ~np.isnan(left)
        known = untouched + summed(there.astype(float))
        mean = divided(untouched * whole + summed(np.nan_to_num(left)), known)
        differences = np.where(there, mean[metric] - np.nan_to_num(left), 0.0)
        rest = mean - whole
        accelerations = acceleration_of(
            summed(differences**2) + untouched * rest**2, summed(differences**3) + untouched * rest**3
        )
        return np.where(np.isnan(value), 0.0, np.nan_to_num(accelerations))

    def _mean_ends(self, value: Floats, share: NDArray[np.bool_], resampling: Resampling) -> Floats:
        """Intervals `(3, a)` of the means, see `MeanOverNodes`: draws see nothing where all cases agree."""
        groups = self.numerators.shape[1]
        without = block_counts(groups)
        ends = np.empty((3, self.means.shape[0]))
        for number in range(len(ends[0])):
            row = slice(self.means.indptr[number], self.means.indptr[number + 1])
            known = ~np.isnan(value[self.means.indices[row]])
            here, weights = self.means.indices[row][known], self.means.data[row][known]
            sizes, shares = self.denominators[here], bool(share[here].all())
            graded = bool(np.isnan(self.outcomes[here]).any())
            mean = MeanOverNodes(groups, without.shape[1])
            mean.add_sums(self.numerators[here], sizes, without, share=shares, graded=graded, weights=weights)
            counts = float((_present(sizes).sum(axis=0) > 0).sum())
            ends[:, number] = mean.interval(resampling, counts, lowest=0.0 if shares else -np.inf)
        return ends


def _present(matrix: csr_array) -> csr_array:
    """A sparse matrix with 1 for every positive entry."""
    return csr_array(((matrix.data > 0).astype(float), matrix.indices, matrix.indptr), shape=matrix.shape)


def _rows(matrix: csr_array) -> Integers:
    """The row index of each entry."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _total(matrix: csr_array) -> Floats:
    total: Floats = np.asarray(matrix.sum(axis=1), dtype=np.float64).reshape(-1)
    return total


def _blocks(count: int, width: int) -> list[slice]:
    """Slices of rows with at most `_ELEMENTS` elements each."""
    step: Any = max(1, _ELEMENTS // max(width, 1))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]

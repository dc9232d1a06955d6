"""Draws given groups with replacement; intervals of metrics and of paired differences."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from labeltree.evaluation.statistics.interval_ends import (
    SAME,
    Floats,
    Interval,
    divided,
    interval_ends,
    jackknife_acceleration,
    without_flat,
)
from labeltree.evaluation.statistics.proportions import (
    Clusters,
    count_outcomes,
    difference_ends,
    proportion_interval,
)
from labeltree.runs.table_file_columns import number_groups

__all__ = [
    "Bootstrap",
    "GroupSums",
    "Interval",
    "Method",
    "Resampling",
    "draw_counts",
]

_BATCH = 64
_MOST_KEPT = 2**26
_PATIENCE = 1.0  # seconds before progress is reported
Counts = NDArray[np.uint16]

Method = Literal["bca", "percentile"]
_CHUNK_ELEMENTS = 2**21


@dataclass(frozen=True)
class GroupSums:
    """Numerators and denominators of metrics, summed within each group of samples.

    Every metric is Σ w·v / Σ w over the samples that count in it. Samples of one group (a patient, an item)
    are not independent, so the bootstrap draws whole groups and needs only the sums within groups.

    Attributes:
        numerators: `(G, r, m)` sums of w·v for G groups, r runs and m metrics.
        denominators: `(G, r, m)` sums of w.
        outcomes: `(r, m)` number of samples of a metric that is a share of them, NaN for any other, see
            `count_outcomes`; None = no metric is known to be one.
    """

    numerators: Floats
    denominators: Floats
    outcomes: Floats | None = None

    @classmethod
    def of(
        cls, values: Floats, groups: NDArray[np.int64] | None = None, weights: Floats | None = None
    ) -> GroupSums:
        """Sum the values of samples within groups.

        Args:
            values: `(n, r, m)` values, NaN where a sample does not count.
            groups: `(n,)` group of each sample, −1 for a group of its own; None = every sample is a group.
            weights: `(n, r, m)` non-negative weights; None = 1 for every sample that counts.

        Raises:
            ValueError: If the shapes do not match, or a weight is negative.
        """
        if values.ndim != 3 or (weights is not None and weights.shape != values.shape):
            shape = None if weights is None else weights.shape
            raise ValueError(
                f"values have shape {values.shape} and weights {shape}; expected (n, r, m) of both"
            )
        counted = ~np.isnan(values)
        weight = counted.astype(np.float64) if weights is None else np.where(counted, weights, 0.0)
        if weight.size and weight.min() < 0:
            raise ValueError(f"weights hold {weight.min()}; expected 0 or more")
        weighted = np.where(counted, values, 0.0) * weight
        outcomes = count_outcomes(values, weight, counted)
        if groups is None:
            return cls(weighted, weight, outcomes)
        if len(groups) != len(values):
            raise ValueError(f"groups name {len(groups)} samples and values {len(values)}; expected as many")
        numbers = number_groups(groups)
        order = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
        numerators, denominators = (np.add.reduceat(part[order], starts) for part in (weighted, weight))
        return cls(numerators, denominators, outcomes)

    def __len__(self) -> int:
        return len(self.numerators)

    @property
    def ratios(self) -> Floats:
        """`(r, m)` values of the metrics; NaN where no sample counts."""
        return divided(self.numerators.sum(axis=0), self.denominators.sum(axis=0))

    @property
    def counts_differ(self) -> NDArray[np.bool_]:
        """`(m,)` whether a metric's denominators differ between the runs in any group.

        They do where the samples that count depend on the run, as those of the severity of mistakes.
        """
        first = self.denominators[:, :1]
        margin = SAME * np.maximum(1.0, np.abs(first))
        return np.asarray((np.abs(self.denominators - first) > margin).any(axis=(0, 1)))

    def runs(self, chosen: list[int]) -> GroupSums:
        """The sums of the chosen runs."""
        outcomes = None if self.outcomes is None else self.outcomes[chosen]
        return GroupSums(self.numerators[:, chosen], self.denominators[:, chosen], outcomes)


class Bootstrap:
    """Bootstrap over groups, with the same draws for all runs and metrics.

    Each draw takes G groups with replacement. A metric is recomputed as the ratio of its summed numerators
    and denominators, so that ratios with a random denominator (the severity of mistakes) are treated
    correctly. Classifiers and search galleries are held fixed; only the test samples vary.

    Args:
        sums: Sums of the samples within groups.
        resamples: Number of draws.
        seed: Random seed of the draws.

    Attributes:
        sums: As given.
        draws: `(resamples, r, m)` the metrics in each draw; NaN where no drawn sample counts.

    Raises:
        ValueError: If there is no group, or no draw.
    """

    def __init__(self, sums: GroupSums, *, resamples: int = 2000, seed: int = 0) -> None:
        if resamples < 1 or not len(sums):
            raise ValueError(f"resamples is {resamples} of {len(sums)} groups; expected at least 1 of both")
        self.sums = sums
        groups, runs, metrics = sums.numerators.shape
        both = np.concatenate([sums.numerators, sums.denominators], axis=2).reshape(groups, -1)
        drawn = np.concatenate([counts @ both for counts in draw_counts(groups, resamples, seed)])
        parts = drawn.reshape(resamples, runs, 2 * metrics)
        self.draws: Floats = divided(parts[..., :metrics], parts[..., metrics:])

    def __len__(self) -> int:
        return len(self.sums)

    @property
    def ratios(self) -> Floats:
        """`(r, m)` values of the metrics of each run."""
        return self.sums.ratios

    @cached_property
    def _left_out(self) -> Floats:
        """`(G, r, m)` the metrics with each group left out in turn."""
        sums = self.sums
        denominators = sums.denominators.sum(axis=0) - sums.denominators
        return divided(
            sums.numerators.sum(axis=0) - sums.numerators, np.where(denominators > SAME, denominators, 0)
        )

    def interval(
        self,
        contrast: Sequence[float] | Floats | None = None,
        *,
        confidence: float = 0.95,
        method: Method = "bca",
        share: bool | NDArray[np.bool_] = True,
    ) -> Interval:
        """Confidence intervals of a weighted sum of the runs, for every metric.

        `bca` is Efron's bias-corrected and accelerated interval (1987, Eq. 2.3). It is second-order
        accurate, stays within the metric's range and follows the skewness of shares near 0 and 1, where the
        percentile interval is inaccurate and a studentised one leaves the range. Its acceleration is the
        jackknife over groups, in closed form. `percentile` suits differences: they are hardly skewed, and
        if two runs differ in only a few samples, all in one direction, the bias correction would exclude 0
        too early. Both intervals are widened for few groups as in Hesterberg (2015, Section 5.2): normal
        quantiles are replaced by √(G/(G−1)) times those of t with G − 1 degrees of freedom. For a difference,
        G counts the groups in which the runs differ: the others say nothing of its variance.

        A share of samples of a single run has its exact interval, see `proportion_interval`; a difference of
        two shares of samples without groups has that of `difference_ends`. If all groups
        agree on 0 or on 1 in another metric between 0 and 1, resampling has no variance; the exact binomial
        interval of G groups (Clopper and Pearson) is used instead. Other metrics have no interval (NaN) if
        all draws agree, and none has one with fewer than six groups, or six that differ.

        Args:
            contrast: `(r,)` weights of the runs: `[1, -1]` for a difference; None for a single run.
            confidence: Confidence level of the interval.
            method: `bca` or `percentile`.
            share: `(m,)` whether a metric lies between 0 and 1; others have no binomial interval.

        Raises:
            ValueError: If the contrast does not match the runs, or the confidence is not between 0 and 1.
        """
        if not 0 < confidence < 1:
            raise ValueError(f"confidence is {confidence}; expected a number between 0 and 1")
        weights = np.ones(1) if contrast is None else np.asarray(contrast, dtype=np.float64)
        if weights.shape != (self.draws.shape[1],):
            raise ValueError(f"contrast has shape {weights.shape} for {self.draws.shape[1]} runs")
        used, groups = np.flatnonzero(weights), self.groups(weights)
        is_difference = len(used) > 1 and abs(float(weights.sum())) < SAME
        if is_difference:
            groups = self._differing(weights)
        weights = weights[used]
        value = _combined(self.sums.ratios[used], weights)
        draws = _combined(self.draws[:, used], weights)
        acceleration = None
        if method == "bca":
            acceleration = jackknife_acceleration(_combined(self._left_out[:, used], weights))
        share = share if len(used) == 1 and weights[0] == 1 else False
        interval = interval_ends(
            draws,
            value,
            groups,
            confidence=confidence,
            acceleration=acceleration,
            share=share,
        )
        interval, outcomes = without_flat(interval, share), self.sums.outcomes
        if outcomes is not None and sorted(weights) == [-1.0, 1.0]:
            first, second = used[np.argsort(-weights)]
            return self._difference_of_shares(interval, first, second, confidence)
        if outcomes is None or not np.any(share):
            return interval
        (run,) = used
        hits, sizes = self.sums.numerators[:, run], self.sums.denominators[:, run]
        metric = np.broadcast_to(np.arange(len(value)), hits.shape)
        clusters = Clusters.of(metric.ravel(), hits.ravel(), sizes.ravel(), len(value))
        exact = proportion_interval(value, outcomes[run], clusters, confidence)
        return exact.where(np.asarray(share) & ~np.isnan(outcomes[run]), interval)

    def _differing(self, contrast: Floats) -> Floats:
        """Number `(m,)` of groups in which the two sides of a contrast `(r,)` differ."""
        used = np.flatnonzero(contrast)
        parts = (self.sums.numerators[:, used], self.sums.denominators[:, used])
        differs = [np.abs(_combined(part, contrast[used])) > SAME for part in parts]
        counts: Floats = np.logical_or(*differs).sum(axis=0).astype(np.float64)
        return counts

    def _difference_of_shares(
        self, interval: Interval, first: int, second: int, confidence: float
    ) -> Interval:
        """The interval of a difference, exact where shares of single samples differ in any of these."""
        assert self.sums.outcomes is not None
        sizes = self.sums.denominators
        apart = self.sums.numerators[:, first] - self.sums.numerators[:, second]
        count = self.sums.outcomes[first]
        alone = (count == (sizes[:, first] > 0).sum(axis=0)) & ~np.isnan(self.sums.outcomes[second])
        alone &= (sizes[:, first] == sizes[:, second]).all(axis=0) & (np.abs(apart) > SAME).any(axis=0)
        of = np.where(alone, count, np.inf)
        ours, theirs = ((side * apart > SAME).sum(axis=0) / of for side in (1.0, -1.0))
        low, high = difference_ends(ours, theirs, np.where(alone, count, 1.0), confidence)
        return Interval(interval.value, low, high, interval.error).where(alone, interval)

    def groups(self, contrast: Floats) -> Floats:
        """Number `(m,)` of groups that count in each metric, in any run of a contrast `(r,)`."""
        used = np.flatnonzero(contrast)
        counts: Floats = (self.sums.denominators[:, used] > 0).any(axis=1).sum(axis=0).astype(np.float64)
        return counts


def draw_counts(groups: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Counts `(b, groups)` of each group in each draw, in batches of draws; rows sum to `groups`."""
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK_ELEMENTS // groups)
    for start in range(0, resamples, step):
        count = min(step, resamples - start)
        drawn = rng.integers(groups, size=(count, groups)) + np.arange(count)[:, None] * groups
        yield np.bincount(drawn.reshape(-1), minlength=count * groups).reshape(count, groups).astype(float)


def _combined(values: Floats, weights: Floats) -> Floats:
    """Weighted sum `(…, m)` over runs of values `(…, r, m)`."""
    total: Floats = (values * weights[:, None]).sum(axis=-2)
    return total


class Resampling:
    """The bootstrap draws of `Bootstrap`, in batches, and BCa intervals from them.

    Args:
        resamples: Number of draws, at least 1.
        confidence: Confidence level of the intervals.
        seed: Random seed of the draws.
        progress: Called as `progress(message, done, total)` if the draws take longer than a second.
    """

    def __init__(
        self,
        resamples: int = 2000,
        *,
        confidence: float = 0.95,
        seed: int = 0,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> None:
        if resamples < 1 or not 0 < confidence < 1:
            raise ValueError(
                f"resamples is {resamples} and confidence {confidence}; expected at least 1, and a number "
                "between 0 and 1"
            )
        self.resamples = resamples
        self.confidence = confidence
        self.seed = seed
        self.progress = progress
        self._kept: tuple[int, list[Counts]] = (0, [])

    def batches(self, groups: int, dtype: type[np.floating] = np.float64) -> Iterator[tuple[slice, Floats]]:
        """Batches of b draws: their slice of all draws, and the counts `(groups, b)` of each group."""
        done, began = 0, time.monotonic()
        for drawn in self._drawn(groups):
            for start in range(0, drawn.shape[1], _BATCH):
                counts = np.ascontiguousarray(drawn[:, start : start + _BATCH]).astype(dtype)
                yield slice(done, done + counts.shape[1]), counts
                done += counts.shape[1]
                if self.progress is not None and time.monotonic() - began > _PATIENCE:
                    self.progress("confidence intervals", done, self.resamples)

    def _drawn(self, groups: int) -> Iterator[Counts]:
        """Chunks `(groups, c)` of counts, which are kept for the next call if they fit into memory."""
        if self._kept[0] == groups:
            yield from self._kept[1]
            return
        keep = groups * self.resamples <= _MOST_KEPT
        chunks = []
        for counts in draw_counts(groups, self.resamples, self.seed):
            chunk = np.ascontiguousarray(counts.T.astype(np.uint16))
            if keep:
                chunks.append(chunk)
            yield chunk
        if keep:
            self._kept = (groups, chunks)

    def ends(
        self,
        draws: Floats,
        value: Floats,
        groups: Floats,
        acceleration: Floats,
        agreeing: Floats | None = None,
        share: bool | NDArray[np.bool_] = True,
    ) -> Interval:
        """BCa intervals from draws `(m, resamples)`; further arguments as for `interval_ends`.

        A metric that is not a share has no interval if all draws agree.
        """
        interval = interval_ends(
            draws.T,
            value,
            groups,
            confidence=self.confidence,
            acceleration=acceleration,
            share=share,
            agreeing=agreeing,
        )
        return without_flat(interval, share)

"""Means over nodes of metrics of each, and their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from labeltree.evaluation.statistics.bootstrap import Resampling
from labeltree.evaluation.statistics.interval_ends import SAME, Floats, Interval, divided
from labeltree.evaluation.statistics.jackknife import jackknife

__all__ = ["MeanOverNodes", "MeansOverNodes", "Share", "largest_unseen"]

_FEWEST = 3  # degrees of freedom


class Share(NamedTuple):
    """A share of cases for each of several nodes.

    Attributes:
        value: `(b,)` the shares.
        counted: `(b, G)` which groups have a case of it: bool, or a sparse matrix of 0 and 1.
        graded: Whether cases are more or less right, as in AUROC, rather than right or wrong.
        on_path: Whether a case is wrong at no more nodes than a path has, of the many at which it counts: a
            false answer is false along one path.
    """

    value: Floats
    counted: NDArray[np.bool_] | csr_array
    graded: bool = False
    on_path: bool = False


class MeanOverNodes:
    """The mean of a metric over nodes, and without each block of groups over the nodes that then have it.

    The interval is that of a jackknife, widened by what the jackknife cannot see: of a node whose cases are
    all right, or all wrong, it sees no variance, however few they are (0 of 3). The true shares of all these
    nodes together may lie as far off as `largest_unseen` says. Both reaches add up as squares do (Zou and
    Donner 2008, *Construction of confidence limits about effect measures*, Statistics in Medicine 27, Eq. 5).
    Where cases are more or less right, as in AUROC, it is widened so only if all nodes agree; and if few
    blocks matter much, as those of the only four positives, the quantile is that of t with fewer degrees of
    freedom. `benchmarks/means_over_nodes.py` says how often the interval holds the true mean.

    Args:
        groups: G, number of groups.
        blocks: B, number of blocks.
        depth: Most nodes below the root of a path.

    Attributes:
        count: Number of nodes, or the sum of their weights.
        graded: Whether cases are more or less right, in any of the nodes.
    """

    def __init__(self, groups: int, blocks: int, depth: int = 1) -> None:
        self._sums, self._known = np.zeros((2, blocks))
        self._depth = depth
        # what a mean loses by each group, and gains: by all its nodes; on a path by all, and by one at most
        self._lost, self._gained = np.zeros((2, 3, groups))
        self._total = self.count = 0.0
        self.graded = False

    def add(
        self, value: Floats, left: Floats, shares: Sequence[Share], weights: Floats | None = None
    ) -> None:
        """Add the metric of some nodes.

        Args:
            value: `(b,)` none NaN.
            left: `(b, B)` without each block.
            shares: The metric is the mean of these.
            weights: `(b,)` of the nodes; None = 1.
        """
        if not len(value):
            return
        each = np.ones(len(value)) if weights is None else weights
        self._sums += each @ np.nan_to_num(left)
        self._known += each @ ~np.isnan(left)
        self._total += float(each @ value)
        self.count += float(each.sum())
        self.graded = self.graded or not shares or any(share.graded for share in shares)
        for share in shares:
            for side, sums in ((1, self._lost), (0, self._gained)):
                rows = np.flatnonzero(np.abs(share.value - side) <= SAME)
                counted = share.counted[rows]
                of_case = each[rows] / np.maximum(counted.sum(axis=1), 1) / len(shares)
                sums[int(share.on_path)] += counted.T @ of_case
                if share.on_path and len(rows):
                    np.maximum(sums[2], (np.asarray(counted) * of_case[:, None]).max(axis=0), out=sums[2])

    def add_sums(
        self,
        sums: csr_array,
        sizes: csr_array,
        without: Floats,
        *,
        share: bool,
        graded: bool,
        weights: Floats | None = None,
    ) -> None:
        """Add metrics that are quotients of sums over samples.

        Args:
            sums: `(b, G)` sums of the values within each group.
            sizes: `(b, G)` how much they weigh, with entries in the same places; no row is empty.
            without: `(G, B)` how often each group counts without each block.
            share: Whether the metrics lie between 0 and 1.
            graded: Whether samples are more or less right.
            weights: See `add`.
        """
        value = np.asarray(sums.sum(axis=1)) / np.asarray(sizes.sum(axis=1))
        left = divided(np.asarray(sums @ without), np.asarray(sizes @ without))
        counted = csr_array(((sizes.data > 0).astype(float), sizes.indices, sizes.indptr), shape=sizes.shape)
        self.add(value, left, [Share(value, counted, graded)] if share else [], weights)

    def add_mean(self, other: MeanOverNodes) -> None:
        """Add a metric that is itself a mean; ignored if that mean is not defined."""
        if other.count:
            graded = self.graded
            self.add(np.array([other.value]), other.left[None], [])
            self.graded = graded or other.graded
            self._lost[0] += other.unseen[0]
            self._gained[0] += other.unseen[1]

    @property
    def value(self) -> float:
        """The mean on the samples themselves; NaN without any node."""
        return self._total / self.count if self.count else np.nan

    @property
    def left(self) -> Floats:
        """`(B,)` the mean without each block."""
        return divided(self._sums, self._known)

    @property
    def unseen(self) -> tuple[Floats, Floats]:
        """`(G,)` twice: what the mean would lose, and gain, if all cases of a group were answered otherwise.

        Of nodes whose cases are all right, or all wrong; 0 for other groups.
        """
        lost, gained = (
            (plain + np.minimum(path, self._depth * most)) / max(self.count, 1e-300)
            for plain, path, most in (self._lost, self._gained)
        )
        return lost, gained

    def interval(
        self, resampling: Resampling | None, groups: float | None = None, *, lowest: float = 0.0
    ) -> tuple[float, float, float]:
        """The ends of the confidence interval, and the standard error; NaN if there is none.

        Args:
            resampling: Says the level of confidence; None = no interval.
            groups: Number of groups that count in the mean; None = all.
            lowest: The least possible value, 0 or −∞.
        """
        if resampling is None or not self.count:
            return np.nan, np.nan, np.nan
        known = float(self._lost.shape[1]) if groups is None else groups
        of_mean = self.value, self.left, known, *self.unseen
        return _widened_interval(*of_mean, resampling.confidence, self.graded, lowest)


class MeansOverNodes:
    """The counterpart of `Bootstrap` for means over nodes of several runs, see `MeanOverNodes`.

    Args:
        means: The means, for each of r runs.
        groups: `(r, m)` number of groups that count in each.
        lowest: `(m,)` least possible value of each, 0 or −∞.

    Attributes:
        ratios: `(r, m)` the means.
    """

    def __init__(self, means: Sequence[Sequence[MeanOverNodes]], groups: Floats, lowest: Floats) -> None:
        self._means, self._groups, self._lowest = means, groups, lowest
        self.ratios = np.array([[mean.value for mean in of_run] for of_run in means])

    def groups(self, contrast: Floats) -> Floats:
        """Number `(m,)` of groups that count in each mean, in the run of a `contrast` that has the fewest."""
        fewest: Floats = self._groups[np.flatnonzero(contrast)].min(axis=0)
        return fewest

    def limited(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Ends of intervals of the means, within their range."""
        return np.maximum(low, self._lowest), np.where(self._lowest < 0, high, np.minimum(high, 1.0))

    def interval(
        self, contrast: Floats, *, confidence: float = 0.95, method: str = "", share: Any = False
    ) -> Interval:
        """Intervals of a weighted sum of the runs, for every mean; `method` and `share` are ignored.

        Of a difference, what either run shows alike may be otherwise; runs of one method fail together.
        """
        used = np.flatnonzero(contrast)
        value: Floats = contrast[used] @ self.ratios[used]
        groups, ends = self.groups(contrast), np.full((3, len(value)), np.nan)
        for number in np.flatnonzero(~np.isnan(value)).tolist():
            of_runs = [(self._means[run][number], float(contrast[run])) for run in used.tolist()]
            left = np.sum([weight * mean.left for mean, weight in of_runs], axis=0)
            down, up = list[Floats](), list[Floats]()
            for sign in (1, -1):
                same = [(mean.unseen, abs(weight)) for mean, weight in of_runs if sign * weight > 0]
                if same:
                    lost, gained = (np.sum([w * of[side] for of, w in same], axis=0) for side in (0, 1))
                    down.append(lost if sign > 0 else gained)
                    up.append(gained if sign > 0 else lost)
            graded = any(mean.graded for mean, _ in of_runs)
            lowest = float(self._lowest[number]) if (contrast[used] > 0).all() else -np.inf
            of_mean = float(value[number]), left, float(groups[number])
            unseen = np.concatenate(down), np.concatenate(up)
            ends[:, number] = _widened_interval(*of_mean, *unseen, confidence, graded, lowest)
        return Interval(value, *ends)


def _widened_interval(
    value: float,
    left: Floats,
    groups: float,
    down: Floats,
    up: Floats,
    confidence: float,
    graded: bool,
    lowest: float,
) -> tuple[float, float, float]:
    """The ends of the interval of `MeanOverNodes`, and the standard error; NaN if there is none.

    Args:
        value: The mean.
        left: `(B,)` without each block.
        groups: Number of groups that count in it.
        down: What it would lose by each of the cases that may be otherwise.
        up: What it would gain.
        confidence: Confidence level.
        graded: Whether cases are more or less right.
        lowest: The least possible value, 0 or −∞.
    """
    squares = np.square(left - np.nanmean(left)) if not np.isnan(left).all() else np.zeros_like(left)
    fourth = float(np.nansum(squares**2))
    # blocks that matter alike know the variance as well; 3 (Satterthwaite 1946) makes seven of four blocks
    alike = 2 * float(np.nansum(squares)) ** 2 / fourth if fourth > 0 else np.inf
    freedom = np.array([max(_FEWEST, alike - 1) if graded else np.inf])
    at, known = np.array([value]), np.array([groups])
    seen = jackknife(at, left[:, None], known, confidence=confidence, lowest=lowest, freedom=freedom)
    error = float(seen.error[0])
    unseen = [largest_unseen(part, (1 - confidence) / 2) for part in (down, up)]
    if graded and error > SAME:
        unseen = [0.0, 0.0]
    reaches = np.zeros(2) if error <= SAME else np.array([at - seen.low, seen.high - at])[:, 0]
    low, high = np.array([-1, 1]) * np.hypot(reaches, unseen) + value
    if np.isnan(error) or low == high:  # too few groups, or nothing says how far the mean may be off
        return np.nan, np.nan, error
    return max(float(low), lowest), float(high) if lowest else min(float(high), 1.0), error


def largest_unseen(weights: Floats, tail: float) -> float:
    """The largest Σ w·q of independent cases, each with an error of probability q, that made no error.

    Without any error, all q with Π (1 − q) ≥ tail are plausible; the largest sum has 1 − q = min(1, λ/w). For
    n cases of weight 1/n it is the end 1 − tail^(1/n) of the exact binomial interval.

    Args:
        weights: `(n,)` not negative.
        tail: Probability that is left out.

    Example:
        >>> import numpy as np
        >>> round(largest_unseen(np.full(10, 0.1), 0.025), 4)  # that of Clopper and Pearson, 0 of 10
        0.3085
    """
    weights = np.sort(weights[weights > 0])[::-1]
    if not len(weights):
        return 0.0
    logarithms = np.log(weights)
    levels = (np.cumsum(logarithms) + np.log(tail)) / np.arange(1, len(weights) + 1)
    used = int(np.flatnonzero(logarithms >= levels)[-1]) + 1
    return float((weights[:used] - np.exp(levels[used - 1])).sum())

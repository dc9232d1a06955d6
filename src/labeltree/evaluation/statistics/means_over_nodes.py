"""Means over nodes of metrics of each, and their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labeltree.evaluation.statistics.bootstrap import Resampling
from labeltree.evaluation.statistics.interval_ends import SAME, Floats, divided
from labeltree.evaluation.statistics.jackknife import jackknife

__all__ = ["MeanOverNodes", "Share", "largest_unseen"]

_FEWEST = 3  # degrees of freedom


class Share(NamedTuple):
    """A share of cases for each of several nodes.

    Attributes:
        value: `(b,)` the shares.
        counted: `(b, G)` bool, which groups have a case of it.
        graded: Whether cases are more or less right, as in AUROC, rather than right or wrong.
    """

    value: Floats
    counted: NDArray[np.bool_]
    graded: bool = False


class MeanOverNodes:
    """The mean of a metric over nodes, and without each block of groups over the nodes that then have it.

    The interval is that of a jackknife, widened by what the jackknife cannot see: of a node whose cases are
    all right, or all wrong, it sees no variance, however few they are (0 of 3). The true shares of all these
    nodes together may lie as far off as `largest_unseen` says. Both reaches add up as squares do (Zou and
    Donner 2008, *Construction of confidence limits about effect measures*, Statistics in Medicine 27, Eq. 5).
    Where cases are more or less right and few blocks matter much, as those of the only four positives of an
    AUROC, the quantile is that of t with fewer degrees of freedom. `benchmarks/means_over_nodes.py` says how
    often the interval holds the true mean.

    Args:
        groups: G, number of groups.
        blocks: B, number of blocks.

    Attributes:
        count: Number of nodes, or the sum of their weights.
    """

    def __init__(self, groups: int, blocks: int) -> None:
        self._sums, self._known = np.zeros((2, blocks))
        self._wrong, self._right = np.zeros((2, groups))
        self._total = self.count = 0.0
        self._graded = False

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
        self._graded = self._graded or not shares or any(share.graded for share in shares)
        for share in shares:
            cases = share.counted.sum(axis=1).astype(np.float64)
            of_case = np.nan_to_num(divided(share.counted.T.astype(np.float64), cases)) * each / len(shares)
            self._wrong += of_case @ (np.abs(share.value) <= SAME)
            self._right += of_case @ (np.abs(share.value - 1) <= SAME)

    def add_mean(self, other: MeanOverNodes) -> None:
        """Add a metric that is itself a mean; ignored if that mean is not defined."""
        if other.count:
            graded = self._graded
            self.add(np.array([other.value]), other.left[None], [])
            self._graded = graded or other._graded
            self._wrong += other._wrong / other.count
            self._right += other._right / other.count

    @property
    def value(self) -> float:
        """The mean on the samples themselves; NaN without any node."""
        return self._total / self.count if self.count else np.nan

    @property
    def left(self) -> Floats:
        """`(B,)` the mean without each block."""
        return divided(self._sums, self._known)

    def _alike(self) -> float:
        """As many blocks that matter alike know the variance as well as these, whose changes are d.

        It is 2 (Σ d²)² / Σ d⁴. Satterthwaite (1946) has 3, which of four blocks makes seven.
        """
        squares = np.square(self.left - np.nanmean(self.left))
        fourth = float(np.nansum(squares**2))
        return 2 * float(np.nansum(squares)) ** 2 / fourth if fourth > 0 else np.inf

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
        value, level = np.array([self.value]), resampling.confidence
        known = np.array([float(len(self._right)) if groups is None else groups])
        freedom = np.array([max(_FEWEST, self._alike() - 1) if self._graded else np.inf])
        left = self.left[:, None]
        seen = jackknife(value, left, known, confidence=level, lowest=lowest, freedom=freedom)
        error = float(seen.error[0])
        unseen = [largest_unseen(part / self.count, (1 - level) / 2) for part in (self._right, self._wrong)]
        reaches = np.zeros(2) if error <= SAME else np.array([value - seen.low, seen.high - value])[:, 0]
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

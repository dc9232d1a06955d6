"""Several runs of a method: what of a difference is the seeds' or the samples', and what the method's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t

from labeltree.evaluation.statistics.sums import Floats

__all__ = ["Parts", "across_runs"]


@dataclass(frozen=True)
class Parts:
    """An estimate over several runs, with what makes it uncertain.

    Attributes:
        low: ``(m,)`` lower end of the interval.
        high: ``(m,)`` upper end.
        error: ``(m,)`` standard error, of runs and samples together.
        freedom: ``(m,)`` degrees of freedom of its t distribution.
        p: ``(m,)`` two-sided p-value of the hypothesis that the estimate is 0.
    """

    low: Floats
    high: Floats
    error: Floats
    freedom: Floats
    p: Floats


def across_runs(
    value: Floats,
    spread: Sequence[Floats],
    sample_error: Floats,
    groups: int,
    *,
    confidence: float = 0.95,
) -> Parts:
    """Interval and test of a mean over runs, or of the difference of two such means.

    Two things vary independently: the runs (seed of the weights and of the order of the samples) and the
    samples tested. The variance of a method's mean over its S runs is s²/S from the runs, plus that of the
    test samples, which the bootstrap gives with the runs held fixed; of a difference, each method brings its
    own s²/S, and the bootstrap is that of the paired difference. Their sum is referred to a t distribution
    with Welch's and Satterthwaite's degrees of freedom, S − 1 of each method and G − 1 of the groups.

    It assumes that runs are drawn independently, also those of two methods with the same seed, that their
    results are nearly normal, and that runs share one test set. What seeds change from sample to sample is in
    both parts, so that the interval is rather too wide. Methods with one run bring no variance of runs: what
    is said of them holds for that run alone.

    Args:
        value: ``(m,)`` the estimates.
        spread: of each method, ``(S, m)`` the metric of each of its runs.
        sample_error: ``(m,)`` standard errors from the bootstrap over samples.
        groups: how many groups the samples form.
        confidence: of the interval.
    """
    variances = [sample_error**2]
    freedoms = [float(max(groups - 1, 1))]
    for runs in spread:
        if len(runs) > 1:
            variances.append(runs.var(axis=0, ddof=1) / len(runs))
            freedoms.append(float(len(runs) - 1))
    total = np.sum(variances, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        parts = [variance**2 / freedom for variance, freedom in zip(variances, freedoms, strict=True)]
        freedom = np.where(total > 0, total**2 / np.sum(parts, axis=0), freedoms[0])
        error = np.sqrt(total)
        reach = error * t.ppf(1 - (1 - confidence) / 2, freedom)
        ratio = np.where(error > 0, np.abs(value) / error, np.where(value == 0, 0.0, np.inf))
        p = np.where(np.isnan(value), np.nan, 2 * t.sf(ratio, freedom))
    return Parts(value - reach, value + reach, error, freedom, p)

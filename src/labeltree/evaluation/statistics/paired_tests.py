"""Tests of differences between methods: on the same samples, across runs, and corrected for many tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit
from scipy.stats import binomtest

from labeltree.evaluation.statistics.bootstrap import GroupSums
from labeltree.evaluation.statistics.interval_ends import SAME, Floats, divided

__all__ = ["Parts", "across_runs", "holm", "mcnemar", "sign_flip_test"]

_CHUNK_ELEMENTS = 2**21
_SAME = 1e-9


def sign_flip_test(sums: GroupSums, *, permutations: int = 10_000, seed: int = 0) -> Floats:
    """Two-sided p-values of the hypothesis that the outcomes of two runs are exchangeable within groups.

    The two runs exchange the outcomes of a whole group (numerators and denominators) with probability ½. The
    p-value is the fraction of such exchanges with an absolute difference at least as large as the observed
    one, which is included (Phipson and Smyth 2010): with N permutations it is at least 1/(N + 1). If at most
    N exchanges exist, each is evaluated once and the test is exact.

    A mean over samples that differ between the runs (the severity of mistakes) may be the same although the
    runs' outcomes are not exchangeable: one makes more mistakes. An exchange evens their numbers out, and so
    changes the variance of the difference. For such metrics (`GroupSums.counts_differ`) the difference is
    divided by its standard error, which is computed anew after each exchange, under the hypothesis that the
    mean is that of both runs together. Such a test is asymptotically exact (Chung and Romano 2013; for pairs,
    Konietschke and Pauly 2014).

    Args:
        sums: Sums of two runs within groups.
        permutations: Number of random exchanges N.
        seed: Random seed of the exchanges.

    Returns:
        `(m,)` p-values, NaN where the difference is not defined.

    Raises:
        ValueError: Unless there are two runs.
    """
    if sums.numerators.shape[1] != 2:
        raise ValueError(f"sums are of {sums.numerators.shape[1]} runs; expected two")
    groups, _, metrics = sums.numerators.shape
    both = np.concatenate([sums.numerators, sums.denominators], axis=2)
    half = (both[:, 0] - both[:, 1]) / 2
    middle = both.sum(axis=(0, 1)) / 2
    ratios = sums.ratios
    studentised = sums.counts_differ
    # residuals from the mean of both runs, which no exchange changes
    rest = sums.numerators - divided(middle[:metrics], middle[metrics:]) * sums.denominators
    squares = (rest[:, 0] ** 2 - rest[:, 1] ** 2) / 2
    total, cross = (rest**2).sum(axis=(0, 1)) / 2, rest.prod(axis=1).sum(axis=0)

    def scaled(difference: Floats, first: Floats, second: Floats, moved: Floats | float) -> Floats:
        """The absolute difference, divided by its standard error where it is studentised."""
        with np.errstate(invalid="ignore", divide="ignore"):
            variance = (total + moved) / first**2 + (total - moved) / second**2 - 2 * cross / (first * second)
            # without variance there is no difference
            error = np.where(variance > SAME**2, np.sqrt(np.maximum(variance, SAME**2)), 1.0)
        return np.abs(difference) / np.where(studentised, error, 1.0)

    counts = sums.denominators.sum(axis=0)
    observed = scaled(ratios[0] - ratios[1], counts[0], counts[1], squares.sum(axis=0))
    margin = _SAME * np.maximum(1.0, np.where(studentised, observed, np.abs(ratios).max(axis=0)))
    extreme, known = np.zeros(metrics), np.zeros(metrics)
    everything = groups < 60 and 2**groups <= permutations
    for signs in _every(groups) if everything else _drawn(groups, permutations, seed):
        moved = signs @ half
        first, second = middle + moved, middle - moved
        measured = divided(first[:, :metrics], first[:, metrics:]) - divided(
            second[:, :metrics], second[:, metrics:]
        )
        measured = scaled(
            measured, first[:, metrics:], second[:, metrics:], signs @ squares if studentised.any() else 0.0
        )
        extreme += (measured >= observed - margin).sum(axis=0)
        known += (~np.isnan(measured)).sum(axis=0)
    itself = 0 if everything else 1
    p = (extreme + itself) / np.maximum(known + itself, 1)
    return np.where(np.isnan(observed), np.nan, p)


def _drawn(groups: int, permutations: int, seed: int) -> Iterator[Floats]:
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK_ELEMENTS // groups)
    width = -(-groups // 8)
    for start in range(0, permutations, step):
        count = min(step, permutations - start)
        bits = np.frombuffer(rng.bytes(count * width), dtype=np.uint8).reshape(count, width)
        signs = np.unpackbits(bits, axis=1, count=groups).astype(np.float64)
        signs *= 2  # in place: a copy of a chunk is tens of megabytes
        signs -= 1
        yield signs


def _every(groups: int) -> Iterator[Floats]:
    numbers = np.arange(2**groups)
    yield 2.0 * ((numbers[:, None] >> np.arange(groups)) & 1).astype(np.float64) - 1.0


def mcnemar(first: Floats, second: Floats) -> float:
    """Exact McNemar test: a binomial test on the samples that only one of two methods got right.

    The test assumes independent samples, so it does not apply to samples in groups.

    Args:
        first: `(n,)` outcomes of one method: 1 right, 0 wrong, NaN where the sample does not count.
        second: `(n,)` outcomes of the other method.

    Returns:
        The p-value; NaN if there are values other than 0 and 1, or different samples count in the two.

    Example:
        >>> mcnemar(np.array([1.0, 1, 1, 1, 1, 0]), np.array([0.0, 0, 0, 0, 0, 0]))
        0.0625
    """
    if not np.array_equal(np.isnan(first), np.isnan(second)):
        return float("nan")
    counted = ~np.isnan(first)
    a, b = first[counted], second[counted]
    if not len(a) or not (np.isin(a, (0.0, 1.0)).all() and np.isin(b, (0.0, 1.0)).all()):
        return float("nan")
    only_first, only_second = int((a > b).sum()), int((a < b).sum())
    if only_first + only_second == 0:
        return 1.0
    return float(binomtest(only_first, only_first + only_second, 0.5).pvalue)


@dataclass(frozen=True)
class Parts:
    """Interval, standard error and test of an estimate over several runs.

    Attributes:
        low: `(m,)` lower end of the interval; NaN without any variance.
        high: `(m,)` upper end of the interval.
        error: `(m,)` standard error from the variance between runs and between samples.
        freedom: `(m,)` degrees of freedom of the t distribution.
        p: `(m,)` two-sided p-value of the hypothesis that the estimate is 0; NaN without any variance,
            unless the estimate itself is 0.
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
    groups: int | Floats,
    *,
    confidence: float = 0.95,
) -> Parts:
    """Interval and test of a mean over runs, or of the difference of two such means.

    Two sources of variance are independent: the runs (seed of the weights and of the sample order) and the
    test samples. The variance of a method's mean over S runs is s²/S, plus the variance over test samples,
    which the bootstrap gives with the runs held fixed. For a difference, each method contributes its own
    s²/S, and the bootstrap is that of the paired difference. The reference distribution is t, with the
    Welch–Satterthwaite degrees of freedom from S − 1 for each method and G − 1 for the groups.

    This assumes independent runs (even of two methods with the same seed), nearly normal results and one
    common test set. The interaction of seeds and samples enters both variances, so the interval tends to be
    too wide. A method with a single run contributes no variance between runs; conclusions then hold for this
    run only.

    Args:
        value: `(m,)` the estimates.
        spread: For each method, the metrics `(S, m)` of its S runs.
        sample_error: `(m,)` standard errors from the bootstrap over samples.
        groups: Number of groups G that count, or `(m,)` that of each estimate.
        confidence: Confidence level of the interval.
    """
    variances = [sample_error**2]
    freedoms = [np.maximum(np.asarray(groups, dtype=np.float64) - 1, 1)]
    for runs in spread:
        if len(runs) > 1:
            variances.append(runs.var(axis=0, ddof=1) / len(runs))
            freedoms.append(np.asarray(len(runs) - 1.0))
    total = np.sum(variances, axis=0)
    some = ~(total <= SAME**2)  # also where the total is NaN
    with np.errstate(invalid="ignore", divide="ignore"):
        parts = [variance**2 / freedom for variance, freedom in zip(variances, freedoms, strict=True)]
        freedom = np.where(some, total**2 / np.sum(parts, axis=0), freedoms[0])
        error = np.sqrt(total)
        reach = np.where(some, error * stdtrit(freedom, 1 - (1 - confidence) / 2), np.nan)
        p = np.where(
            some, 2 * stdtr(freedom, -np.abs(value) / error), np.where(np.abs(value) <= SAME, 1.0, np.nan)
        )
    return Parts(value - reach, value + reach, error, freedom, p)


def holm(p: ArrayLike, tests: int | None = None) -> Floats:
    """Adjusted p-values that control the family-wise error rate (Holm 1979).

    The i-th smallest of M p-values is multiplied by M − i + 1, then the sequence is made non-decreasing and
    clipped at 1. The correction is valid under any dependence between the tests. NaN are ignored and kept.

    Args:
        p: p-values of any shape.
        tests: M, if p-values of 1 were left out; None = the number of those given.

    Example:
        >>> holm([0.01, 0.04, 0.03]).tolist()
        [0.03, 0.06, 0.06]
    """
    given = np.asarray(p, dtype=np.float64)
    corrected = given.copy()
    known = np.flatnonzero(~np.isnan(given.reshape(-1)))
    flat = given.reshape(-1)[known]
    order = np.argsort(flat, kind="stable")
    raised = np.maximum.accumulate(flat[order] * ((tests or len(flat)) - np.arange(len(flat))))
    corrected.reshape(-1)[known[order]] = np.minimum(raised, 1.0)
    return corrected

"""Is one method better than another? Tests on the same samples, across runs, and corrected for many tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binomtest, t

from labeltree.evaluation.statistics.bootstrap import GroupSums
from labeltree.evaluation.statistics.interval_ends import Floats, divided

__all__ = ["Parts", "across_runs", "holm", "mcnemar", "sign_flip_test"]

_CHUNK_ELEMENTS = 2**21
_SAME = 1e-9


def sign_flip_test(sums: GroupSums, *, permutations: int = 10_000, seed: int = 0) -> Floats:
    """p-values of the hypothesis that it does not matter which of two runs an outcome came from.

    The outcomes of a group change hands as a whole, numerators with denominators, with probability ½. The
    p-value is the share of such exchanges whose difference is at least as large, on either side, the one
    observed included (Phipson and Smyth 2010): with N permutations it is at least 1/(N + 1). With so few
    groups that there are no more than N exchanges, each is tried once and the test is exact.

    Args:
        sums: sums of two runs.
        permutations: how many exchanges are drawn.
        seed: random seed of the draw.

    Returns:
        ``(m,)``, NaN where the difference is not defined.

    Raises:
        ValueError: unless there are two runs.
    """
    if sums.numerators.shape[1] != 2:
        raise ValueError(f"sums are of {sums.numerators.shape[1]} runs; expected two")
    groups, _, metrics = sums.numerators.shape
    both = np.concatenate([sums.numerators, sums.denominators], axis=2)
    half = (both[:, 0] - both[:, 1]) / 2
    middle = both.sum(axis=(0, 1)) / 2
    ratios = sums.ratios
    observed = np.abs(ratios[0] - ratios[1])
    margin = _SAME * np.maximum(1.0, np.abs(ratios).max(axis=0))
    extreme, known = np.zeros(metrics), np.zeros(metrics)
    everything = groups < 60 and 2**groups <= permutations
    for signs in _every(groups) if everything else _drawn(groups, permutations, seed):
        moved = signs @ half
        first, second = middle + moved, middle - moved
        found = divided(first[:, :metrics], first[:, metrics:]) - divided(
            second[:, :metrics], second[:, metrics:]
        )
        extreme += (np.abs(found) >= observed - margin).sum(axis=0)
        known += (~np.isnan(found)).sum(axis=0)
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
        yield 2.0 * np.unpackbits(bits, axis=1, count=groups).astype(np.float64) - 1.0


def _every(groups: int) -> Iterator[Floats]:
    numbers = np.arange(2**groups)
    yield 2.0 * ((numbers[:, None] >> np.arange(groups)) & 1).astype(np.float64) - 1.0


def mcnemar(first: Floats, second: Floats) -> float:
    """The exact p-value: samples that only one of the two got right are coin tosses if both are as good.

    It takes every sample for itself, so it does not suit samples in groups.

    Args:
        first: ``(n,)`` 1 where right, 0 where wrong, NaN where the sample does not count.
        second: the same of the other.

    Returns:
        NaN where something else than 0 and 1 was measured, or the two were not judged on the same samples.

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
        spread: for each method, the metrics of each of its runs ``(S, m)``.
        sample_error: ``(m,)`` standard errors from the bootstrap over samples.
        groups: how many groups the samples form.
        confidence: confidence level of the interval.
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


def holm(p: ArrayLike) -> Floats:
    """p-values such that, if no hypothesis holds up, one of them falls below α with probability ≤ α at most.

    Holm (1979): the i-th smallest of M is multiplied by M − i + 1, and none may be below a smaller one's. It
    holds however the tests depend on each other. NaN are no tests, and stay.

    Example:
        >>> holm([0.01, 0.04, 0.03]).tolist()
        [0.03, 0.06, 0.06]
    """
    given = np.asarray(p, dtype=np.float64)
    corrected = given.copy()
    known = np.flatnonzero(~np.isnan(given.reshape(-1)))
    flat = given.reshape(-1)[known]
    order = np.argsort(flat, kind="stable")
    raised = np.maximum.accumulate(flat[order] * np.arange(len(flat), 0, -1))
    corrected.reshape(-1)[known[order]] = np.minimum(raised, 1.0)
    return corrected

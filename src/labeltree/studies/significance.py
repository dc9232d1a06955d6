"""Which methods are not significantly worse than the best of a column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

__all__ = ["WORDS", "holm", "p_against_best", "welch"]

LEVEL = 0.05
WORDS = (
    "≈ marks what is not significantly worse than the best: Welch's t-test over the seeds, two-sided, "
    "corrected by Holm for the methods that are compared with it, p ≥ 0.05"
)


def welch(first: Sequence[float], second: Sequence[float]) -> float:
    """The two-sided p of Welch's t-test; NaN with fewer than two values on a side.

    Where neither side varies, p is 1 for equal means and 0 for others.

    Example:
        >>> round(welch([1.0, 2.0, 3.0], [2.0, 3.0, 5.0]), 4)
        0.2846
    """
    if len(first) < 2 or len(second) < 2:
        return math.nan
    if np.ptp(first) == np.ptp(second) == 0:
        return 1.0 if first[0] == second[0] else 0.0
    from scipy.stats import ttest_ind_from_stats

    sides = [part for side in (first, second) for part in (np.mean(side), np.std(side, ddof=1), len(side))]
    return float(ttest_ind_from_stats(*sides, equal_var=False).pvalue)


def holm(values: Sequence[float]) -> list[float]:
    """p values corrected for how many they are (Holm 1979); NaN stays, and does not count.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    known = sorted((p, i) for i, p in enumerate(values) if not math.isnan(p))
    corrected = [math.nan] * len(values)
    largest = 0.0
    for rank, (p, i) in enumerate(known):
        largest = max(largest, min(1.0, p * (len(known) - rank)))
        corrected[i] = largest
    return corrected


def p_against_best(values: Mapping[str, Sequence[float]], *, lower: bool) -> dict[str, float]:
    """Corrected p of every method against the one with the best mean, which has 1.

    Args:
        values: method → its values over the seeds; methods without values are left out.
        lower: whether less is better.
    """
    means = {name: float(np.mean(known)) for name, known in values.items() if len(known)}
    if not means:
        return {}
    best = (min if lower else max)(means, key=means.__getitem__)
    others = [name for name in means if name != best]
    corrected = holm([welch(values[best], values[name]) for name in others])
    return {best: 1.0, **dict(zip(others, corrected, strict=True))}

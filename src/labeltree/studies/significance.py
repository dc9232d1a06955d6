"""Which methods are not significantly worse than the best of a column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from labeltree.evaluation.statistics.paired_tests import holm

__all__ = ["LEVEL", "WORDS", "p_against_best", "welch"]

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

    (a, b), (sa, sb) = (
        [float(np.mean(side)) for side in (first, second)],
        [float(np.std(side, ddof=1)) for side in (first, second)],
    )
    test = ttest_ind_from_stats(a, sa, len(first), b, sb, len(second), equal_var=False)
    return float(test.pvalue)


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
    corrected = holm([welch(values[best], values[name]) for name in others]).tolist()
    return {best: 1.0, **dict(zip(others, corrected, strict=True))}

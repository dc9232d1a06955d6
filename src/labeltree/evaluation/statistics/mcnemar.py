"""McNemar's test of two accuracies on the same samples."""

from __future__ import annotations

import numpy as np
from scipy.stats import binomtest

from labeltree.evaluation.statistics.sums import Floats

__all__ = ["mcnemar"]


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

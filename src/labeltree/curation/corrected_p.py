"""p values of many tests: corrected after Benjamini and Hochberg, or after Holm; of binomial shares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["benjamini_hochberg", "holm", "more_than_half"]

Floats = NDArray[np.float64]


def benjamini_hochberg(p: Floats) -> Floats:
    """p values after Benjamini & Hochberg (1995): those at most q hold with a false discovery rate of q.

    Example:
        >>> benjamini_hochberg(np.array([0.01, 0.04, 0.03, 0.5])).round(3).tolist()
        [0.04, 0.053, 0.053, 0.5]
    """
    order = np.argsort(p, kind="stable")
    scaled = p[order] * len(p) / np.arange(1, len(p) + 1)
    found = np.empty(len(p))
    found[order] = np.minimum.accumulate(scaled[::-1])[::-1].clip(max=1.0)
    return found


def holm(p: Floats, tests: int | None = None) -> Floats:
    """p values after Holm (1979), of so many tests, of which those not given are taken to have p = 1.

    Example:
        >>> holm(np.array([0.01, 0.04, 0.03])).round(3).tolist()
        [0.03, 0.06, 0.06]
    """
    order = np.argsort(p, kind="stable")
    scaled = p[order] * ((tests or len(p)) - np.arange(len(p)))
    found = np.empty(len(p))
    found[order] = np.maximum.accumulate(scaled).clip(max=1.0)
    return found


def more_than_half(count: int, of: int) -> float:
    """The p value of the sign test, one-sided: so many or more of n heads of a fair coin.

    Example:
        >>> more_than_half(9, 10)
        0.0107421875
    """
    from scipy.stats import binom

    return float(binom.sf(count - 1, of, 0.5)) if of else 1.0

"""Holm's correction for many tests at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from labeltree.evaluation.statistics.sums import Floats

__all__ = ["holm"]


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

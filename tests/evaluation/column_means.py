"""The means of the columns of outcomes, for tests."""

from __future__ import annotations

import math

import numpy as np

from labeltree.evaluation import Outcomes
from labeltree.evaluation.outcomes import Key


def column_means(outcomes: Outcomes) -> dict[Key, float]:
    """The weighted mean of every column in ``values``; NaN if no sample counts."""
    found = {}
    for key, values in outcomes.values.items():
        weights = np.where(np.isnan(values), 0.0, outcomes.weights.get(key, np.ones(len(outcomes))))
        total = float(weights.sum())
        found[key] = float(weights @ np.nan_to_num(values)) / total if total > 0 else math.nan
    return found

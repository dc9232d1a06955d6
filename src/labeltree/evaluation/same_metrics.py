"""Metrics that are one and the same on the samples at hand, so that their tests count once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from labeltree.evaluation.outcomes import Key, Outcomes

__all__ = ["same_metrics"]

_DIGITS = 9


def same_metrics(methods: Mapping[str, Sequence[Outcomes]], keys: Sequence[Key]) -> dict[Key, Key]:
    """The first metric that is the same as each, sample by sample and in all runs, or its complement.

    Where all leaves lie at one depth, hierarchical F1 is the tree accuracy, and the accuracy at the finest
    depth is always top-1.

    Args:
        methods: method → outcomes of its runs, on the same samples.
        keys: the metrics.
    """
    first: dict[frozenset[bytes], Key] = {}
    same = {}
    for key in keys:
        columns = [_column(run, key) for runs in methods.values() for run in runs]
        # + 0.0 makes one number of 0 and −0
        straight = b"".join((np.round(values, _DIGITS) + 0.0).tobytes() + rest for values, rest in columns)
        turned = b"".join((np.round(1 - values, _DIGITS) + 0.0).tobytes() + rest for values, rest in columns)
        same[key] = first.setdefault(frozenset((straight, turned)), key)
    return same


def _column(run: Outcomes, key: Key) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], bytes]:
    """Values of a metric, and its weights where they differ."""
    values = run.values.get(key)
    if values is None:
        return np.full(len(run), np.nan), b""
    weights = run.weights.get(key)
    if weights is None or len(np.unique(weights[~np.isnan(values)])) < 2:
        return values, b""
    return values, weights.tobytes()

"""Bootstrap confidence intervals of metrics that are ratios of sums, for all metrics from the same draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t

from labeltree.evaluation.statistics.sums import Floats, GroupSums, divided

__all__ = ["Bootstrap", "Interval", "Method", "draw_counts"]

Method = Literal["bca", "percentile"]

_CHUNK_ELEMENTS = 2**21
# two estimates nearer than this are the same number, added up in another order
_SAME = 1e-12


@dataclass(frozen=True)
class Interval:
    """Estimates with their uncertainty.

    Attributes:
        value: ``(m,)``.
        low: ``(m,)`` lower ends; NaN where a metric is not defined, or there are fewer than two groups.
        high: ``(m,)`` upper ends.
        error: ``(m,)`` standard errors.
    """

    value: Floats
    low: Floats
    high: Floats
    error: Floats


class Bootstrap:
    """Resamples groups with replacement, the same draws for all runs and metrics.

    A draw takes as many groups as there are; a metric then is its numerators' sum over its denominators', so
    that a ratio whose denominator varies (the severity of mistakes) is treated as one. Nothing is measured
    again: classifiers and databases stay as they are, and what varies is which samples are tested.

    Args:
        sums: of the samples.
        resamples: how many draws.
        seed: of the draws.

    Attributes:
        sums: as given.
        draws: ``(resamples, r, m)`` the metrics of each draw; NaN where none of a draw's samples counts.

    Raises:
        ValueError: if there is no group, or no draw.
    """

    def __init__(self, sums: GroupSums, *, resamples: int = 2000, seed: int = 0) -> None:
        if resamples < 1 or not len(sums):
            raise ValueError(f"resamples is {resamples} of {len(sums)} groups; expected at least 1 of both")
        self.sums = sums
        groups, runs, metrics = sums.numerators.shape
        both = np.concatenate([sums.numerators, sums.denominators], axis=2).reshape(groups, -1)
        drawn = np.concatenate([counts @ both for counts in draw_counts(groups, resamples, seed)])
        parts = drawn.reshape(resamples, runs, 2 * metrics)
        self.draws: Floats = divided(parts[..., :metrics], parts[..., metrics:])

    @cached_property
    def _left_out(self) -> Floats:
        """``(G, r, m)`` the metrics without each group in turn."""
        sums = self.sums
        denominators = sums.denominators.sum(axis=0) - sums.denominators
        return divided(
            sums.numerators.sum(axis=0) - sums.numerators, np.where(denominators > _SAME, denominators, 0)
        )

    def interval(
        self,
        contrast: Sequence[float] | Floats | None = None,
        *,
        confidence: float = 0.95,
        method: Method = "bca",
    ) -> Interval:
        """Confidence intervals of a weighted sum of the runs, for every metric.

        ``bca`` is Efron's bias-corrected and accelerated interval (1987, Eq. 2.3): second-order accurate, it
        stays within the metric's range and follows the skewness of shares near 0 and 1, where the percentile
        interval is off and a studentised one leaves the range. Its acceleration comes from the jackknife over
        groups, in closed form. ``percentile`` suits differences: they are hardly skewed, and where two runs
        differ in a few samples only, of one sign, the correction of the bias would rule out 0 too soon. Both
        intervals are widened for few groups as Hesterberg (2015, Section 5.2)
        does: normal quantiles become √(G/(G−1)) times those of t with G − 1 degrees of freedom.

        Where all groups agree on 0 or on 1, no resampling says how sure that is: the exact binomial interval
        of G groups (Clopper and Pearson) takes its place.

        Args:
            contrast: ``(r,)`` weights of the runs: ``[1, -1]`` for a difference; None for a single run.
            confidence: of the interval.
            method: ``bca`` or ``percentile``.

        Raises:
            ValueError: if a contrast is missing or does not fit, or the confidence is not between 0 and 1.
        """
        if not 0 < confidence < 1:
            raise ValueError(f"confidence is {confidence}; expected a number between 0 and 1")
        weights = np.ones(1) if contrast is None else np.asarray(contrast, dtype=np.float64)
        if weights.shape != (self.draws.shape[1],):
            raise ValueError(f"contrast has shape {weights.shape} for {self.draws.shape[1]} runs")
        used = np.flatnonzero(weights)
        weights = weights[used]
        value = _combined(self.sums.ratios[used], weights)
        draws = np.sort(_combined(self.draws[:, used], weights), axis=0)  # NaN at the end
        groups = self._groups(used)
        tail = (1 - confidence) / 2
        with np.errstate(invalid="ignore", divide="ignore"):
            widening = np.sqrt(groups / (groups - 1))
            reach = widening * t.ppf(1 - tail, groups - 1)
            bias, acceleration = np.zeros_like(value), np.zeros_like(value)
            if method == "bca":
                bias = _bias(draws, value)
                acceleration = _acceleration(_combined(self._left_out[:, used], weights))
            ends = [_quantiles(draws, _adjusted(bias, acceleration, side * reach)) for side in (-1.0, 1.0)]
            error = widening * _deviation(draws)
        low, high = ends
        unsure = np.isnan(value) | (groups < 2)
        low, high, error = (np.where(unsure, np.nan, part) for part in (low, high, error))
        if len(used) == 1 and weights[0] == 1:
            low, high = _of_one_mind(value, low, high, draws, groups, tail)
        return Interval(value, low, high, error)

    def _groups(self, used: NDArray[np.int64]) -> Floats:
        """``(m,)`` how many groups count in each metric, in any of the runs."""
        counts: Floats = (self.sums.denominators[:, used] > 0).any(axis=1).sum(axis=0).astype(np.float64)
        return counts


def draw_counts(groups: int, resamples: int, seed: int) -> Iterator[Floats]:
    """How often each group is drawn, ``(b, groups)`` for some draws at a time: rows sum to ``groups``."""
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK_ELEMENTS // groups)
    for start in range(0, resamples, step):
        count = min(step, resamples - start)
        drawn = rng.integers(groups, size=(count, groups)) + np.arange(count)[:, None] * groups
        yield np.bincount(drawn.reshape(-1), minlength=count * groups).reshape(count, groups).astype(float)


def _combined(values: Floats, weights: Floats) -> Floats:
    """``(…, r, m)`` values of runs as their weighted sum ``(…, m)``."""
    total: Floats = (values * weights[:, None]).sum(axis=-2)
    return total


def _bias(draws: Floats, value: Floats) -> Floats:
    """z0: the normal quantile of the share of draws below the estimate, ties counted half."""
    known = (~np.isnan(draws)).sum(axis=0)
    margin = _SAME * np.maximum(1.0, np.abs(value))
    below = (draws < value - margin).sum(axis=0) + 0.5 * (np.abs(draws - value) <= margin).sum(axis=0)
    # beyond what so many draws can show there is nothing to correct by
    share = np.clip(below / np.maximum(known, 1), 1 / (known + 1), known / (known + 1))
    bias: Floats = norm.ppf(share)
    return bias


def _acceleration(left_out: Floats) -> Floats:
    """a = Σ d³ / (6 (Σ d²)^{3/2}) with the differences d of the jackknife from its mean."""
    difference = _mean(left_out) - left_out
    squares = np.nansum(difference**2, axis=0)
    cubes = np.nansum(difference**3, axis=0)
    found: Floats = np.where(squares > 0, cubes / (6 * np.maximum(squares, 1e-300) ** 1.5), 0.0)
    return found


def _mean(values: Floats) -> Floats:
    """``(m,)`` means of what is known; NaN where nothing is."""
    return divided(np.nansum(values, axis=0), (~np.isnan(values)).sum(axis=0).astype(np.float64))


def _deviation(values: Floats) -> Floats:
    """``(m,)`` standard deviations of what is known."""
    found: Floats = np.sqrt(_mean((values - _mean(values)) ** 2))
    return found


def _adjusted(bias: Floats, acceleration: Floats, reach: Floats) -> Floats:
    """The level of the draws' quantile that stands for the normal quantile ``reach``."""
    moved = bias + reach
    room = 1 - acceleration * moved
    level: Floats = norm.cdf(bias + moved / np.where(room > 0, room, np.nan))
    # so skewed that the formula breaks down: the end of the draws
    return np.where(room > 0, level, (moved > 0).astype(np.float64))


def _quantiles(ordered: Floats, levels: Floats) -> Floats:
    """Quantiles ``(m,)`` of columns in rising order, NaN last, at a level each, interpolated linearly."""
    known = (~np.isnan(ordered)).sum(axis=0)
    place = np.nan_to_num(levels, nan=0.5) * np.maximum(known - 1, 0)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, np.maximum(known - 1, 0))
    columns = np.arange(ordered.shape[1])
    lower, upper = ordered[below, columns], ordered[above, columns]
    found: Floats = lower + (place - below) * (upper - lower)
    return found


def _of_one_mind(
    value: Floats, low: Floats, high: Floats, draws: Floats, groups: Floats, tail: float
) -> tuple[Floats, Floats]:
    """Ends of intervals of shares that are 0 or 1 in every group."""
    same = np.nanmax(draws, axis=0, initial=-np.inf) - np.nanmin(draws, axis=0, initial=np.inf) <= _SAME
    allowance = 1 - tail ** (1 / np.maximum(groups, 1))
    low = np.where(same & (np.abs(value - 1) <= _SAME), 1 - allowance, low)
    high = np.where(same & (np.abs(value) <= _SAME), allowance, high)
    return low, high

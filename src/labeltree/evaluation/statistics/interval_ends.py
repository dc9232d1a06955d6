"""From the draws of a bootstrap to the ends of intervals, whatever was resampled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t

__all__ = [
    "SAME",
    "Floats",
    "Interval",
    "acceleration_of",
    "centred_ends",
    "divided",
    "interval_ends",
    "jackknife_acceleration",
]

Floats = NDArray[np.float64]

# two estimates nearer than this are the same number, added up in another order
SAME = 1e-12


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


def interval_ends(
    draws: Floats,
    value: Floats,
    groups: Floats,
    *,
    confidence: float,
    acceleration: Floats | None = None,
    share: bool | NDArray[np.bool_] = False,
    agreeing: Floats | None = None,
) -> Interval:
    """The intervals of `Bootstrap.interval`, which says whose they are, from draws of any kind.

    Every interval holds its estimate. That of a few groups, or of a ratio that loses its denominator in some
    draws, may be the last of the draws or beyond: then the end moves there, which only widens the interval.

    Args:
        draws: ``(R, m)`` the metrics of each draw, NaN where one is not defined.
        value: ``(m,)`` the metrics of the samples.
        groups: ``(m,)`` how many groups count in each.
        confidence: confidence level of the intervals.
        acceleration: ``(m,)`` of BCa; None gives percentiles.
        share: ``(m,)`` whether the metrics lie between 0 and 1, so that the exact binomial interval stands
            where all draws agree on one of these; or the same for all.
        agreeing: ``(m,)`` number of independent groups for that interval; None takes ``groups``.
    """
    draws = np.sort(draws, axis=0)  # NaN at the end
    tail = (1 - confidence) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        widening = np.sqrt(groups / (groups - 1))
        reach = widening * t.ppf(1 - tail, groups - 1)
        bias = np.zeros_like(value) if acceleration is None else _bias(draws, value)
        skew = np.zeros_like(value) if acceleration is None else acceleration
        ends = [_quantiles(draws, _adjusted(bias, skew, side * reach)) for side in (-1.0, 1.0)]
        error = widening * _deviation(draws)
    low, high = np.minimum(ends[0], value), np.maximum(ends[1], value)
    if np.any(share):
        exact = _of_one_mind(value, low, high, draws, groups if agreeing is None else agreeing, tail)
        low, high = (np.where(share, *pair) for pair in zip(exact, (low, high), strict=True))
    unsure = np.isnan(value) | (groups < 2)
    low, high, error = (np.where(unsure, np.nan, part) for part in (low, high, error))
    return Interval(value, low, high, error)


def centred_ends(draws: Floats, value: Floats, groups: Floats, *, confidence: float) -> Interval:
    """Percentile intervals of draws that are moved to have the value as their mean; cut off at 1.

    For metrics that are greater for samples drawn with replacement than for the samples themselves. The
    arguments are those of `interval_ends`. There is no interval where all draws agree.
    """
    shift = value - _mean(draws)
    found = interval_ends(draws + shift, value, groups, confidence=confidence)
    flat = found.high - found.low <= SAME
    low, high = (np.where(flat, np.nan, np.minimum(part, 1.0)) for part in (found.low, found.high))
    return Interval(value, low, high, found.error)


def _bias(draws: Floats, value: Floats) -> Floats:
    """z0: the normal quantile of the share of draws below the estimate, ties counted half."""
    known = (~np.isnan(draws)).sum(axis=0)
    margin = SAME * np.maximum(1.0, np.abs(value))
    below = (draws < value - margin).sum(axis=0) + 0.5 * (np.abs(draws - value) <= margin).sum(axis=0)
    # beyond what so many draws can show there is nothing to correct by
    share = np.clip(below / np.maximum(known, 1), 1 / (known + 1), known / (known + 1))
    bias: Floats = norm.ppf(share)
    return bias


def jackknife_acceleration(left_out: Floats) -> Floats:
    """``(m,)`` from metrics without each group in turn ``(G, m)``, see `acceleration_of`."""
    difference = _mean(left_out) - left_out
    squares = np.square(difference)
    return acceleration_of(np.nansum(squares, axis=0), np.nansum(squares * difference, axis=0))


def acceleration_of(squares: Floats, cubes: Floats) -> Floats:
    """a = Σ d³ / (6 (Σ d²)^{3/2}), d being the differences of the jackknife's mean from it, or influences."""
    scale = 6 * squares**1.5
    found: Floats = np.where(scale > 0, cubes / np.where(scale > 0, scale, 1.0), 0.0)
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
    same = np.nanmax(draws, axis=0, initial=-np.inf) - np.nanmin(draws, axis=0, initial=np.inf) <= SAME
    allowance = 1 - tail ** (1 / np.maximum(groups, 1))
    low = np.where(same & (np.abs(value - 1) <= SAME), 1 - allowance, low)
    high = np.where(same & (np.abs(value) <= SAME), allowance, high)
    return low, high


def divided(numerators: Floats, denominators: Floats) -> Floats:
    """The quotients; NaN where a denominator is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(denominators > 0, numerators / denominators, np.nan)

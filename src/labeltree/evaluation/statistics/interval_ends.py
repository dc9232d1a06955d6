"""Confidence intervals from bootstrap draws of any kind, and the exact binomial one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr, ndtri, stdtrit

__all__ = [
    "FEWEST_GROUPS",
    "NEAR",
    "SAME",
    "Floats",
    "Interval",
    "acceleration_of",
    "binomial_ends",
    "divided",
    "interval_ends",
    "jackknife_acceleration",
    "without_flat",
    "worst_ends",
]

Floats = NDArray[np.float64]

_FEW_GROUPS = 15
NEAR = 0.1  # to 0 or 1
FEWEST_GROUPS = 6
"""With fewer groups no sign-flip test can reach 5 % (2 / 2⁵ = 6.25 %), and few bootstrap draws differ."""

# estimates closer than this are equal up to the rounding of another order of summation
SAME = 1e-12


@dataclass(frozen=True)
class Interval:
    """Estimates with their uncertainty.

    Attributes:
        value: `(m,)` estimates.
        low: `(m,)` lower ends; NaN where a metric is not defined, or there are too few groups.
        high: `(m,)` upper ends.
        error: `(m,)` standard errors.
    """

    value: Floats
    low: Floats
    high: Floats
    error: Floats

    def where(self, chosen: NDArray[np.bool_], other: Interval) -> Interval:
        """These where `chosen` `(m,)`, the others elsewhere."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Interval(*(np.where(chosen, mine, theirs) for mine, theirs in pairs))


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
    """The intervals of `Bootstrap.interval` (see there for the methods), from bootstrap draws of any kind.

    Every interval contains its estimate. With few groups, or for a ratio whose denominator is 0 in some
    draws, the estimate may be the last of the draws or beyond them; the interval is then widened to it. Draws
    of few groups, or near 0 and 1, know little of the tails, see `_like_samples`. With fewer than six groups
    there is none.

    Args:
        draws: `(R, m)` the metrics in each draw, NaN where one is not defined.
        value: `(m,)` the metrics on the samples.
        groups: `(m,)` number of groups that count in each metric.
        confidence: Confidence level of the intervals.
        acceleration: `(m,)` acceleration of BCa; None = percentile intervals.
        share: `(m,)` or one bool for all: whether a metric lies between 0 and 1, so that it has the exact
            binomial interval if all draws agree on 0 or on 1.
        agreeing: `(m,)` number of independent groups for the binomial interval; None = `groups`.
    """
    draws = np.sort(draws, axis=0)  # NaN at the end
    tail = (1 - confidence) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        widening = np.sqrt(groups / (groups - 1))
        reach: Floats = widening * stdtrit(groups - 1, 1 - tail)
        bias = np.zeros_like(value) if acceleration is None else _bias(draws, value)
        skew = np.zeros_like(value) if acceleration is None else acceleration
        ends = [_quantiles(draws, _adjusted(bias, skew, side * reach)) for side in (-1.0, 1.0)]
        error = widening * np.sqrt(_mean((draws - _mean(draws)) ** 2))
    low, high = np.minimum(ends[0], value), np.maximum(ends[1], value)
    low, high = _like_samples(low, high, value, error, groups, np.asarray(share), confidence)
    if np.any(share):
        exact = _agreeing_draws(value, low, high, draws, groups if agreeing is None else agreeing, tail)
        low, high = (np.where(share, *pair) for pair in zip(exact, (low, high), strict=True))
    unsure = np.isnan(value) | (groups < FEWEST_GROUPS)
    low, high, error = (np.where(unsure, np.nan, part) for part in (low, high, error))
    return Interval(value, low, high, error)


def _like_samples(
    low: Floats,
    high: Floats,
    value: Floats,
    error: Floats,
    groups: Floats,
    share: NDArray[np.bool_],
    confidence: float,
) -> tuple[Floats, Floats]:
    """Ends of intervals by draws, mended where draws say too little of the tails.

    A number p from 0 to 1 with the standard error e is as sure as the share of n = p(1 − p)/e² samples, whose
    interval is exact. Within 0.1 of 0 or 1 that one is taken; with at most 15 groups, the outer ends of both.
    Other numbers of as few groups reach at least as far as the interval of t with G − 1 degrees of freedom.
    """
    inside = share & (value > 0) & (value < 1) & (error > SAME)
    safe = np.where(inside, error, 1.0)
    count = np.where(inside, value * (1 - value) / safe**2, 1.0)
    alike = binomial_ends(np.where(inside, value, 0.5), count, confidence)
    few = groups <= _FEW_GROUPS
    reach = np.where(few, stdtrit(np.maximum(groups - 1, 1), (1 + confidence) / 2) * error, np.nan)
    ends = []
    for end, own, side, outer in ((low, alike[0], -1, np.fmin), (high, alike[1], 1, np.fmax)):
        near = inside & (np.minimum(value, 1 - value) < NEAR) & ~few
        chosen = np.where(near, own, np.where(inside & few, outer(end, own), end))
        ends.append(np.where(share, chosen, outer(chosen, value + side * reach)))
    return ends[0], ends[1]


def binomial_ends(value: Floats, count: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Ends of the exact binomial interval (Clopper & Pearson 1934) of shares `(m,)` of so many units."""
    tail = (1 - confidence) / 2
    hits, misses = value * count, (1 - value) * count
    low = np.where(hits > 0, betaincinv(hits, misses + 1, tail), 0.0)
    high = np.where(misses > 0, betaincinv(hits + 1, misses, 1 - tail), 1.0)
    return low, high


def without_flat(interval: Interval, share: bool | NDArray[np.bool_] = False) -> Interval:
    """NaN in place of intervals without width: draws that all agree do not tell how sure a number is.

    Shares that are 0 or 1 in all draws keep their exact binomial interval, which has a width.
    """
    flat = (interval.high - interval.low <= SAME) & ((np.abs(interval.error) <= SAME) | ~np.asarray(share))
    low, high = (np.where(flat, np.nan, part) for part in (interval.low, interval.high))
    return Interval(interval.value, low, high, interval.error)


def _bias(draws: Floats, value: Floats) -> Floats:
    """Bias correction z0: normal quantile of the fraction of draws below the estimate, ties counted half."""
    known = (~np.isnan(draws)).sum(axis=0)
    margin = SAME * np.maximum(1.0, np.abs(value))
    below = (draws < value - margin).sum(axis=0) + 0.5 * (np.abs(draws - value) <= margin).sum(axis=0)
    # limited to the fractions that this number of draws can resolve
    share = np.clip(below / np.maximum(known, 1), 1 / (known + 1), known / (known + 1))
    bias: Floats = ndtri(share)
    return bias


def jackknife_acceleration(left_out: Floats) -> Floats:
    """Accelerations `(m,)` from metrics `(G, m)` with each group left out; see `acceleration_of`."""
    difference = _mean(left_out) - left_out
    squares = np.square(difference)
    return acceleration_of(np.nansum(squares, axis=0), np.nansum(squares * difference, axis=0))


def acceleration_of(squares: Floats, cubes: Floats) -> Floats:
    """a = Σ d³ / (6 (Σ d²)^{3/2}), d being the jackknife mean minus each jackknife value, or influences."""
    scale = 6 * squares**1.5
    acceleration: Floats = np.where(scale > 0, cubes / np.where(scale > 0, scale, 1.0), 0.0)
    return acceleration


def _mean(values: Floats) -> Floats:
    """Means `(m,)` of the values that are not NaN; NaN if there are none."""
    return divided(np.nansum(values, axis=0), (~np.isnan(values)).sum(axis=0).astype(np.float64))


def _adjusted(bias: Floats, acceleration: Floats, reach: Floats) -> Floats:
    """The quantile level of the draws that replaces the normal quantile `reach`."""
    moved = bias + reach
    room = 1 - acceleration * moved
    level: Floats = ndtr(bias + moved / np.where(room > 0, room, np.nan))
    # with too much skew the formula is not defined; use the last draw
    return np.where(room > 0, level, (moved > 0).astype(np.float64))


def _quantiles(ordered: Floats, levels: Floats) -> Floats:
    """Linearly interpolated quantiles `(m,)` of ascending columns (NaN last), one level for each column."""
    known = (~np.isnan(ordered)).sum(axis=0)
    place = np.nan_to_num(levels, nan=0.5) * np.maximum(known - 1, 0)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, np.maximum(known - 1, 0))
    columns = np.arange(ordered.shape[1])
    lower, upper = ordered[below, columns], ordered[above, columns]
    quantiles: Floats = lower + (place - below) * (upper - lower)
    return quantiles


def _agreeing_draws(
    value: Floats, low: Floats, high: Floats, draws: Floats, groups: Floats, tail: float
) -> tuple[Floats, Floats]:
    """Interval ends with the exact binomial ones for shares that are 0 or 1 in every group."""
    same = np.nanmax(draws, axis=0, initial=-np.inf) - np.nanmin(draws, axis=0, initial=np.inf) <= SAME
    allowance = 1 - tail ** (1 / np.maximum(groups, 1))
    low = np.where(same & (np.abs(value - 1) <= SAME), 1 - allowance, low)
    high = np.where(same & (np.abs(value) <= SAME), allowance, high)
    return low, high


def divided(numerators: Floats, denominators: Floats) -> Floats:
    """The elementwise quotients; NaN where a denominator is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(denominators > 0, numerators / denominators, np.nan)


def worst_ends(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Ends `(…)` of the interval of the lowest of S numbers, from intervals of each.

    The lowest true number lies below all others. It lies below every lower end only if it lies below its own,
    which is as rare as for one number, so that lower ends need no correction. It lies above the least upper
    end if any number lies above its own: upper ends must hold together (Bonferroni). Whichever number came
    out lowest, the interval holds the lowest true one at least as often as promised.

    Args:
        low: `(S, …)` lower ends at the wanted confidence c.
        high: `(S, …)` upper ends at the confidence 1 − (1 − c)/S.
    """
    return low.min(axis=0), high.min(axis=0)

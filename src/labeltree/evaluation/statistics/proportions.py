"""Exact intervals of shares of outcomes, which may lie in groups."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from labeltree.evaluation.statistics.interval_ends import (
    FEWEST_GROUPS,
    Floats,
    Interval,
    binomial_ends,
    divided,
)

__all__ = ["Clusters", "count_outcomes", "difference_ends", "proportion_interval"]

_WHOLE = 1e-9  # of a group's size


class Clusters(NamedTuple):
    """How the outcomes that count in each of m shares lie in groups.

    Attributes:
        groups: `(m,)` number G of groups that have an outcome.
        rarer: `(m,)` number of groups that have the rarer of both outcomes.
        even: `(m,)` (Σ n_g)² / Σ n_g²: so many groups of equal sizes say as much, where all outcomes of a
            group agree.
        variance: `(m,)` variance of the share between groups, by linearisation.
    """

    groups: Floats
    rarer: Floats
    even: Floats
    variance: Floats

    @classmethod
    def of(cls, share: NDArray[np.int64], hits: Floats, sizes: Floats, count: int) -> Clusters:
        """Of sums within groups.

        Args:
            share: `(e,)` number of a share, 0 to m − 1.
            hits: `(e,)` sum of the values of one of its groups.
            sizes: `(e,)` sum of the weights of this group.
            count: m.
        """

        def total(numbers: NDArray[np.float64]) -> Floats:
            return np.bincount(share, numbers, minlength=count).astype(np.float64)

        there = sizes > 0
        value = divided(total(hits), total(sizes))
        groups, squares = total(there.astype(float)), total(sizes**2)
        some = [total((part > _WHOLE * sizes).astype(float)) for part in (hits, sizes - hits)]
        off = total((hits - np.nan_to_num(value)[share] * sizes) ** 2)
        variance = divided(off, total(sizes) ** 2) * divided(groups, groups - 1)
        return cls(groups, np.minimum(*some), divided(total(sizes) ** 2, squares), variance)


def proportion_interval(value: Floats, outcomes: Floats, of: Clusters, confidence: float) -> Interval:
    """Exact intervals of shares; the outcomes of one group may depend on each other.

    With one outcome a group it is the interval of Clopper and Pearson, at any number of groups. Otherwise it
    is that of Korn and Graubard (1998, *Confidence intervals for proportions with small expected number of
    positive counts estimated from survey data*, Survey Methodology 24, p. 196), of as many outcomes as would
    have this variance if they were independent: p(1 − p)/variance, times the squared ratio of the quantiles
    of t with n − 1 and with d degrees of freedom. Theirs are d = G − 1. If few groups have the rarer outcome,
    the variance is less certain than that, and theirs held the true share in 88 % only (30 groups of ten,
    share 0.97, correlation 0.6); so d is at most twice the number of these groups, and the number of outcomes
    no less than that of groups of equal sizes (`even`) and no more than there are. This held it in at least
    92 % at 6 to 100 groups (`benchmarks/proportions.py`). There is none with fewer than six groups of several
    outcomes.

    Args:
        value: `(m,)` shares.
        outcomes: `(m,)` number n of outcomes; NaN for a number that is no share of outcomes, and has none.
        of: How they lie in groups.
        confidence: Confidence level of the intervals.
    """
    tail = (1 - confidence) / 2
    alone, agree = outcomes == of.groups, (value <= 0) | (value >= 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        certain = np.minimum(of.groups - 1, np.maximum(2 * of.rarer, 1))
        few = stdtrit(outcomes - 1, tail) / stdtrit(certain, tail)
        independent = np.where(of.variance > 0, value * (1 - value) / of.variance * few**2, np.inf)
        effective = np.where(agree, of.even, np.clip(independent, of.even, np.maximum(outcomes, of.even)))
        low, high = binomial_ends(value, np.where(alone, outcomes, effective), confidence)
        error = np.sqrt(of.variance)
    unsure = np.isnan(value) | np.isnan(outcomes) | ~(alone | (of.groups >= FEWEST_GROUPS))
    low, high, error = (np.where(unsure, np.nan, part) for part in (low, high, error))
    return Interval(value, low, high, error)


def difference_ends(first: Floats, second: Floats, count: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Ends of the interval of a difference of two shares of the same samples.

    The samples that are right in one run alone decide it. The exact intervals of their two shares are joined
    by the squares of their reaches (Zou and Donner 2008, *Construction of confidence limits about effect
    measures*, Statistics in Medicine 27, eq. 8), with the correlation of two shares of one multinomial. It
    held the difference in at least 95 % of 4,000 repetitions at 50 to 500 samples
    (`benchmarks/paired_difference.py`).

    Args:
        first: `(m,)` share of the samples that are right in the first run alone.
        second: `(m,)` share of those that are right in the second run alone.
        count: `(m,)` number of samples, each independent of the others.
        confidence: Confidence level of the interval.
    """
    ends = [binomial_ends(share, count, confidence) for share in (first, second)]
    below, above = (first - ends[0][0], second - ends[1][0]), (ends[0][1] - first, ends[1][1] - second)
    alike = -np.sqrt(np.nan_to_num(divided(first * second, (1 - first) * (1 - second))))

    def reach(one: Floats, other: Floats) -> Floats:
        squares: Floats = np.sqrt(one**2 + other**2 - 2 * alike * one * other)
        return squares

    apart = first - second
    return np.maximum(apart - reach(below[0], above[1]), -1), np.minimum(apart + reach(above[0], below[1]), 1)


def count_outcomes(values: Floats, weights: Floats, counted: NDArray[np.bool_]) -> Floats:
    """`(…)` number of samples in each share of `(n, …)` values; NaN where it is no share of outcomes.

    It is one if every value that counts is 0 or 1, and all weigh the same.
    """
    plain = ((values == 0) | (values == 1) | ~counted).all(axis=0)
    least = np.where(counted, weights, np.inf).min(axis=0, initial=np.inf)
    most = np.where(counted, weights, -np.inf).max(axis=0, initial=-np.inf)
    return np.where(plain & (least == most) & (least > 0), counted.sum(axis=0), np.nan)

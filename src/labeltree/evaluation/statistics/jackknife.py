"""The delete-block jackknife: how a number varies that is no mean, by its values without blocks of groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from labeltree.evaluation.statistics.interval_ends import FEWEST_GROUPS, SAME, Floats, Interval, binomial_ends

__all__ = ["block_counts", "jackknife", "only_where_present"]

_BLOCKS = 50


def block_counts(groups: int) -> Floats:
    """Counts `(groups, B)` of each group without each block: 0 for those of block b, 1 for the others.

    The groups are divided at random into B = 50 blocks of about equal size, or into as many as there are
    groups. The same number of groups is always divided in the same way.
    """
    count = min(_BLOCKS, groups)
    block = np.random.default_rng(0).permutation(groups) % max(count, 1)
    kept: Floats = (block[:, None] != np.arange(count)).astype(np.float64)
    return kept


def only_where_present(left: Floats, present: NDArray[np.bool_]) -> Floats:
    """The values `(B, m)` without each block, NaN for blocks of which no group `(G, m)` counts."""
    members = block_counts(len(present)) == 0
    return np.where(members.T.astype(np.int64) @ present.astype(np.int64) > 0, left, np.nan)


def jackknife(
    value: Floats,
    left: Floats,
    groups: Floats,
    *,
    confidence: float,
    lowest: float | Floats = 0.0,
    agreeing: Floats | None = None,
) -> Interval:
    """Intervals of numbers, at most 1, from their values without each block of groups.

    The variance is (B − 1)/B·Σ(T₍b₎ − mean)² (Shao & Tu 1995, Section 2.3), and the ends are those of t with
    B − 1 degrees of freedom. Draws with replacement would not do: repeated samples agree with themselves, and
    rare classes are missing from many draws. There is no interval with fewer than six groups, nor if all
    values agree.

    Args:
        value: `(m,)` the numbers.
        left: `(B, m)` those without each block; NaN where one is not defined.
        groups: `(m,)` number of groups that count in each.
        confidence: Confidence level of the intervals.
        lowest: `(m,)` or one for all, the least possible value; NaN = there is no interval, but an error.
        agreeing: `(m,)` number of independent cases behind each number, which are right or wrong: where all
            values agree on 0 or on 1, the interval is the exact binomial one of as many. None: there is none.
    """
    known = ~np.isnan(left)
    count = known.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(known, left, 0.0).sum(axis=0) / count
        squares = np.where(known, np.square(left - mean), 0.0).sum(axis=0)
        error = np.sqrt(squares * (count - 1) / count)
        reach = error * stdtrit(np.minimum(count, groups) - 1, (1 + confidence) / 2)
    few = (np.minimum(count, groups) < FEWEST_GROUPS) | np.isnan(value)
    error = np.where(few, np.nan, error)
    low, high = (
        np.where(few | (error <= SAME), np.nan, np.clip(end, lowest, 1.0))
        for end in (value - reach, value + reach)
    )
    if agreeing is not None:
        sure = ~few & (error <= SAME) & ((np.abs(value) <= SAME) | (np.abs(value - 1) <= SAME))
        exact = binomial_ends(np.clip(value, 0, 1), agreeing, confidence)
        low, high = (np.where(sure, mine, other) for mine, other in zip(exact, (low, high), strict=True))
    return Interval(value, low, high, error)

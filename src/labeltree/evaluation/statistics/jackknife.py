"""The delete-block jackknife: how a number varies that is no mean, by its values without blocks of groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from labeltree.evaluation.statistics.interval_ends import FEWEST_GROUPS, SAME, Floats, Interval

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
    freedom: Floats | None = None,
) -> Interval:
    """Intervals of numbers, at most 1, from their values without each block of groups.

    The variance is (B − 1)/B·Σ(T₍b₎ − mean)² (Shao & Tu 1995, Section 2.3), and the ends are those of t with
    B − 1 degrees of freedom, on the scale of arcsin √((T − lowest)/(1 − lowest)) where a number cannot be
    lower: near its bounds it varies little, and to one side. Draws with replacement would not do: repeated
    samples agree with themselves, and rare classes are missing from many draws. There is no interval with
    fewer than six groups, nor if all values agree.

    Args:
        value: `(m,)` the numbers.
        left: `(B, m)` those without each block; NaN where one is not defined.
        groups: `(m,)` number of groups that count in each.
        confidence: Confidence level of the intervals.
        lowest: `(m,)` or one for all, the least possible value; −∞ = there is none; NaN = there is no
            interval, but an error.
        freedom: `(m,)` most degrees of freedom of t; None = as many as blocks and groups have.
    """
    lowest = np.broadcast_to(lowest, value.shape)
    error, count = _spread(left)
    at, scaled = _stabilised(value, lowest), _stabilised(left, lowest)
    with np.errstate(invalid="ignore"):
        degrees = np.minimum(np.minimum(count, groups) - 1, np.inf if freedom is None else freedom)
        reach = _spread(scaled)[0] * stdtrit(degrees, (1 + confidence) / 2)
    few = (np.minimum(count, groups) < FEWEST_GROUPS) | np.isnan(value)
    error = np.where(few, np.nan, error)
    low, high = (
        np.where(few | (error <= SAME), np.nan, _original(end, lowest)) for end in (at - reach, at + reach)
    )
    return Interval(value, low, high, error)


def _spread(left: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """The standard error `(m,)` of the jackknife, and of how many blocks `(m,)` it is."""
    known = ~np.isnan(left)
    count = known.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(known, left, 0.0).sum(axis=0) / count
        squares = np.where(known, np.square(left - mean), 0.0).sum(axis=0)
        return np.sqrt(squares * (count - 1) / count), count


def _stabilised(numbers: Floats, lowest: Floats) -> Floats:
    """Numbers `(…, m)` of at most 1 on the scale of the arcsine; unchanged where there is no lowest one."""
    bounded = np.isfinite(lowest)
    share = (numbers - np.where(bounded, lowest, 0.0)) / (1 - np.where(bounded, lowest, 0.0))
    return np.where(bounded, np.arcsin(np.sqrt(np.clip(share, 0.0, 1.0))), numbers)


def _original(scaled: Floats, lowest: Floats) -> Floats:
    """The inverse of `_stabilised`, for numbers that are at most 1; NaN where `lowest` is."""
    bounded = np.isfinite(lowest)
    share = np.square(np.sin(np.clip(scaled, 0.0, np.pi / 2)))
    within = np.where(bounded, lowest, 0.0) * (1 - share) + share
    return np.where(bounded, within, np.clip(scaled, lowest, 1.0))

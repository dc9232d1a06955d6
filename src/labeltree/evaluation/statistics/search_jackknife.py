"""How sure means over samples are that are searched among each other: a delete-block jackknife."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from labeltree.evaluation.statistics.interval_ends import (
    FEWEST_GROUPS,
    NEAR,
    SAME,
    Floats,
    Interval,
    binomial_ends,
)

__all__ = ["BlockEffects", "QueryCounts", "SearchJackknife"]


class QueryCounts(NamedTuple):
    """How many queries count in each of m means, and how they lie in independent units.

    Attributes:
        queries: `(m,)` number of queries.
        units: `(m,)` number of groups, else of samples, that they are of.
        rarer: `(m,)` number of units that have the rarer of right and wrong queries.
    """

    queries: Floats
    units: Floats
    rarer: Floats

    @classmethod
    def of(cls, mean: NDArray[np.int64], units: NDArray[np.int64], values: Floats, count: int) -> QueryCounts:
        """Those of e queries in means.

        Args:
            mean: `(e,)` number of a mean, 0 to m − 1.
            units: `(e,)` unit of the query.
            values: `(e,)` its value.
            count: m.
        """

        width = int(units.max(initial=0)) + 1
        pairs, place = np.unique(mean * width + units, return_inverse=True)

        def different(chosen: NDArray[np.bool_]) -> Floats:
            there = np.bincount(place, chosen, minlength=len(pairs)) > 0
            return np.bincount(pairs[there] // width, minlength=count).astype(np.float64)

        queries = np.bincount(mean, minlength=count).astype(np.float64)
        every = np.bincount(pairs // width, minlength=count).astype(np.float64)
        return cls(queries, every, np.minimum(different(values > 0), different(values < 1)))


@dataclass(frozen=True)
class BlockEffects:
    """By how much each of B blocks of samples moves m means, see `WithoutBlocks.effects`.

    Attributes:
        value: `(m,)` the means.
        queries: `(B, m)` what a block adds with its own samples as queries.
        results: `(B, m)` what it adds with its samples as results of others; NaN where that is not known.
        pairs: `(b, B, m)` what in the `results` of each block comes from the queries of each of the b blocks
            of its search, beyond what the two do to all others.
        counted: `(B, m)` whether a block has queries that count.
    """

    value: Floats
    queries: Floats
    results: Floats
    pairs: Floats
    counted: NDArray[np.bool_]

    @classmethod
    def unknown(cls, searches: NDArray[np.int64]) -> BlockEffects:
        """Those of blocks of such searches `(B,)` on one mean that is not defined."""
        nothing = np.full((int(np.bincount(searches).max()), len(searches), 1), np.nan)
        return cls(nothing[0, 0], nothing[0], nothing[0], nothing, np.zeros((len(searches), 1), dtype=bool))

    @classmethod
    def joined(cls, parts: Sequence[BlockEffects]) -> BlockEffects:
        """Those on the means of all parts."""
        names = [each.name for each in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in names))


class SearchJackknife:
    """The counterpart of `Bootstrap` for means, from 0 to 1, over samples that are searched among each other.

    Without block b as queries and as results a mean T becomes T₍b₎. The variance of the delete-block
    jackknife, (B − 1)/B·Σ(T₍b₎ − mean)² (Shao & Tu 1995, Section 2.3), counts twice what two blocks do
    together (Efron & Stein 1981): a query that is right because of one result counts with the block of the
    query and again with that of the result. The effects of pairs of blocks are therefore taken off once.

    With ρ, the share of the variance that is left, the degrees of freedom are (B' − 1)·ρ² (Satterthwaite
    1946), B' being the number of blocks with queries. At most so much is taken off that five degrees are
    left, as six blocks have, and that the variance of the queries alone is left, if there was as much.

    Differences have the interval and the test of t. A number p has the exact interval (Clopper & Pearson
    1934) of a share of n samples, n = p(1 − p)/e², where e is the standard error times the quantile of t and
    divided by that of the normal distribution; n is the number of units where p is 0 or 1, and at most that
    of queries in a share of them. Where units have several queries, t gives n up to the number of units only;
    beyond it, it has at most twice as many degrees of freedom as units have the rarer outcome (see
    `proportion_interval`). In other numbers within 0.1 of 0 and 1, where most draws vary little and few vary
    much, less is taken off, down to half at 0 and 1.

    There is no interval with fewer than six blocks of queries, nor where all blocks agree on a number other
    than 0 and 1.

    Args:
        runs: The effects of the blocks on m means, for each of r runs.
        counts: The queries of the m means of each run.
        single: `(r, m)` whether a mean is the share of queries of which something is true.

    Attributes:
        ratios: `(r, m)` the means.
    """

    def __init__(
        self, runs: list[BlockEffects], counts: Sequence[QueryCounts], single: NDArray[np.bool_]
    ) -> None:
        self.ratios: Floats = np.stack([each.value for each in runs])
        self._runs, self._counts, self._single = runs, counts, single

    def variance(self, contrast: Floats) -> tuple[Floats, Floats]:
        """The variance `(m,)` of a weighted sum of the runs, and its degrees of freedom `(m,)`.

        Args:
            contrast: `(r,)` weights of the runs.
        """
        used = np.flatnonzero(contrast)
        of_runs = [(self._runs[run], contrast[run]) for run in used]
        queries = np.sum([weight * each.queries for each, weight in of_runs], axis=0)
        results = np.sum([weight * each.results for each, weight in of_runs], axis=0)
        pairs = np.sum([weight * each.pairs for each, weight in of_runs], axis=0)
        count = np.any([each.counted for each, _ in of_runs], axis=0).sum(axis=0)
        most = np.maximum(count - 1, 1)
        whole, alone, twice = (
            count / most * np.square(part).reshape(-1, len(count)).sum(axis=0)
            for part in (queries + results, queries, pairs)
        )
        near = np.minimum(np.abs(value := contrast @ np.nan_to_num(self.ratios)), np.abs(1 - value))
        ceiling = _is_mean(contrast) & ~self._single[used].all(axis=0)
        off = np.where(ceiling, 0.5 + 0.5 * np.minimum(near / NEAR, 1.0), 1.0) * twice
        least = np.maximum(alone, np.sqrt(np.minimum((FEWEST_GROUPS - 1) / most, 1.0)) * whole)
        left = np.clip(whole - off, np.minimum(least, whole), whole)
        some = whole > SAME**2
        kept = np.where(some, left / np.where(some, whole, 1.0), 1.0)
        return np.where(count < FEWEST_GROUPS, np.nan, left), most * kept**2

    def groups(self, contrast: Floats) -> Floats:
        """As many independent groups `(m,)` know the variance as well: its degrees of freedom and one."""
        return self.variance(contrast)[1] + 1

    def interval(
        self, contrast: Floats, *, confidence: float = 0.95, method: str = "", share: Any = False
    ) -> Interval:
        """Intervals of a weighted sum of the runs, for every mean; `method` and `share` are ignored."""
        used = np.flatnonzero(contrast)
        value: Floats = contrast[used] @ self.ratios[used]
        variance, freedom = self.variance(contrast)
        bounded, single = _is_mean(contrast), self._single[used].all(axis=0)
        counts = [self._counts[run] for run in used.tolist()]
        queries, units, rarer = (np.min(several, axis=0) for several in zip(*counts, strict=True))
        error, level = np.sqrt(variance), (1 + confidence) / 2
        reach = error * stdtrit(freedom, level)
        agree = np.isnan(error) | (error <= SAME)
        low, high = (np.where(agree, np.nan, end) for end in (value - reach, value + reach))
        inside = bounded & (value > SAME) & (value < 1 - SAME) & ~agree
        safe = np.where(inside, error, 1.0)

        def like(degrees: Floats) -> Floats:
            """So many samples have a share that is known as well."""
            return value * (1 - value) / np.square(safe * stdtrit(degrees, level) / ndtri(level))

        sure, few = like(freedom), np.minimum(freedom, np.maximum(2 * rarer, 1))
        grouped = np.maximum(np.minimum(sure, units), like(few))
        sure = np.where(single, np.minimum(np.where(units < queries, grouped, sure), queries), sure)
        ends = bounded & ~inside & ~np.isnan(error) & (np.minimum(value, 1 - value) <= SAME)
        share_of = np.where(inside, value, np.round(np.clip(np.nan_to_num(value), 0, 1)))
        exact = binomial_ends(share_of, np.where(inside, sure, units), confidence)
        low, high = (np.where(inside | ends, *pair) for pair in zip(exact, (low, high), strict=True))
        return Interval(value, low, high, error)

    @staticmethod
    def limited(low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Ends of intervals of the means, within their range."""
        return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def _is_mean(contrast: Floats) -> bool:
    """Whether a weighted sum of runs is their mean, from 0 to 1."""
    return bool((contrast >= 0).all() and abs(contrast.sum() - 1) <= SAME)

"""Intervals of a share of samples: do they hold the true share, and how wide are they?

    python benchmarks/proportions.py [--short]

Samples are right with a given share, each by itself or in groups; the shares of groups are drawn from a Beta
distribution of a given intraclass correlation. *Uneven*: the sizes of groups run from near 0 to twice the
mean. Written down, from 4,000 repetitions, are how often the 95 % interval holds the share, and its median
width over that of the true sampling distribution, of labeltree and of two others: *Korn–Graubard* is the
published interval for groups, without labeltree's allowance for few groups with the rarer outcome; *BCa* is
the bootstrap of groups. A cell fails if a binomial test against a coverage of 0.93 rejects at 0.05 divided by
the number of cells.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, t

from harness import Results, Row, Size, Table, choose, main
from labeltree.evaluation.statistics import Bootstrap, GroupSums
from labeltree.evaluation.statistics.interval_ends import binomial_ends

Floats = NDArray[np.float64]
LEAST = 0.93
_BY_BOOTSTRAP = 300  # repetitions, as it takes much longer


def drawn(
    groups: int, size: int, share: float, correlation: float, uneven: bool, repetitions: int
) -> tuple[Floats, Floats]:
    """Right answers ``(G, repetitions)`` and samples ``(G,)`` of each group."""
    rng = np.random.default_rng(0)
    sizes = np.full(groups, size)
    if uneven:
        sizes = np.maximum(1, (2 * size * np.arange(1, groups + 1) / groups).astype(int))
    rates = np.full((groups, repetitions), share)
    if correlation:
        several = 1 / correlation - 1
        rates = rng.beta(share * several, (1 - share) * several, rates.shape)
    return rng.binomial(sizes[:, None], rates).astype(float), sizes.astype(float)


def korn_graubard(hits: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Ends of the published interval."""
    n, groups = sizes.sum(), len(sizes)
    value = hits.sum(0) / n
    off = ((hits - value * sizes[:, None]) ** 2).sum(0) / n**2 * groups / (groups - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        count = value * (1 - value) / off * (t.ppf(0.025, n - 1) / t.ppf(0.025, groups - 1)) ** 2
    count = np.where((value <= 0) | (value >= 1), groups, np.minimum(count, n))
    return binomial_ends(value, count, 0.95)


def cell(
    groups: int, size: int, share: float, correlation: float, uneven: bool, repetitions: int
) -> tuple[Row, int]:
    """A row of the table, and in how many of the repetitions the interval held the share."""
    hits, sizes = drawn(groups, size, share, correlation, uneven, repetitions)
    value = hits.sum(0) / sizes.sum()
    true_width = 2 * 1.96 * value.std()

    def sums(upto: int, outcomes: bool) -> GroupSums:
        part = hits[:, None, :upto]
        number = np.full(part.shape[1:], sizes.sum()) if outcomes else None
        return GroupSums(part, np.broadcast_to(sizes[:, None, None], part.shape), number)

    ours = Bootstrap(sums(repetitions, True), resamples=1).interval()
    few = min(_BY_BOOTSTRAP, repetitions)
    bca = Bootstrap(sums(few, False), resamples=choose_draws(repetitions)).interval()
    row: Row = [groups, size, share, correlation, "yes" if uneven else "no"]
    held = 0
    for low, high in ((ours.low, ours.high), korn_graubard(hits, sizes), (bca.low, bca.high)):
        holds = (low <= share) & (share <= high)
        held = held or int(holds.sum())
        row += [float(holds.mean()), float(np.median(high - low) / true_width)]
    return row, held


def choose_draws(repetitions: int) -> int:
    """Draws of the bootstrap."""
    return 1000 if repetitions > 100 else 50


def measure(size: Size) -> Results:
    """A row for each world."""
    repetitions = choose(size, full=4000, short=4000, tiny=20)
    counts = choose(size, full=(6, 8, 10, 15, 30, 100), short=(6, 15, 30), tiny=(6,))
    worlds = [(n, 1, p, 0.0, False) for n, p in product((10, 50, 500), (0.6, 0.9, 0.97))]
    sizes, shares = choose(size, full=(3, 10), short=(10,), tiny=(3,)), (0.6, 0.9, 0.97)
    worlds += list(product(counts, sizes, shares, (0.0, 0.2, 0.6), (False, True)))
    columns = ("groups", "samples of each", "share", "correlation", "uneven")
    columns += tuple(
        f"{what}, {by}" for by in ("labeltree", "Korn–Graubard", "BCa") for what in ("held", "width")
    )
    cells = [cell(*world, repetitions) for world in worlds]
    doubtful = binom.cdf([held for _, held in cells], repetitions, LEAST) < 0.05 / len(cells)
    least = min(row[5] for row, _ in cells)
    notes = [
        f"{int(doubtful.sum())} of {len(cells)} cells fail; the least coverage is {least:.3f}. "
        f"{repetitions:,} repetitions, of BCa {min(_BY_BOOTSTRAP, repetitions)}."
    ]
    return Results([Table("Shares of samples, 95 %", columns, [row for row, _ in cells])], {}, notes)


if __name__ == "__main__":
    main(__doc__, measure)

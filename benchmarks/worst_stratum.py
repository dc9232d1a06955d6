"""The interval of the lowest share over strata: does it hold the lowest true share, and how wide is it?

    python benchmarks/worst_stratum.py [--short]

Strata have true shares that are all equal, spread over 0.1, or equal but for one that is lower by 0.15, and
samples by themselves or in groups of ten with an intraclass correlation of 0.2. *Uneven*: the sizes of strata
run from near 0 to twice the mean. Written down, from 4,000 repetitions, are how often the 95 % interval holds
the lowest true share, its median width, the mean of the lowest observed share less the truth, and how often
the plain interval of the stratum that came out lowest would hold it. A cell fails if a binomial test against
a coverage of 0.93, which is the least of a single share, rejects at 0.05 divided by the number of cells.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.stats import binom

from harness import Results, Row, Size, Table, choose, main
from labeltree.evaluation.statistics import Bootstrap, GroupSums, worst_ends
from proportions import LEAST, drawn

SHAPES = ("equal", "spread", "one lower")


def true_shares(strata: int, share: float, shape: str) -> list[float]:
    """The true share of each stratum."""
    if shape == "spread":
        return (share + 0.1 * (np.arange(strata) / (strata - 1) - 0.5)).tolist()
    return [share - 0.15 * (shape == "one lower" and place == 0) for place in range(strata)]


def cell(
    strata: int, samples: int, share: float, shape: str, grouped: bool, uneven: bool, repetitions: int
) -> tuple[Row, int]:
    """A row of the table, and in how many of the repetitions the interval held the lowest share."""
    shares = true_shares(strata, share, shape)
    values, lows, highs, own_highs = np.zeros((4, strata, repetitions))
    rng = np.random.default_rng(0)
    for place, true in enumerate(shares):
        mean = samples * 2 * (place + 1) / (strata + 1) if uneven else samples
        size = 10 if grouped else 1
        groups = max(6, round(mean / size))
        hits, sizes = drawn(groups, size, true, 0.2 if grouped else 0.0, False, repetitions)
        hits = hits[:, rng.permutation(repetitions)]  # strata are independent
        parts = hits[:, None], np.broadcast_to(sizes[:, None, None], (groups, 1, repetitions))
        sums = Bootstrap(GroupSums(*parts, np.full((1, repetitions), sizes.sum())), resamples=1)
        plain = sums.interval()
        values[place], lows[place] = plain.value, plain.low
        highs[place], own_highs[place] = sums.interval(confidence=1 - 0.05 / strata).high, plain.high
    low, high = worst_ends(lows, highs)
    least = min(shares)
    holds = (low <= least) & (least <= high)
    first, every = values.argmin(0), np.arange(repetitions)
    naive = (lows[first, every] <= least) & (least <= own_highs[first, every])
    bias = float(values.min(0).mean() - least)
    row: Row = [strata, samples, share, shape, "yes" if grouped else "no", "yes" if uneven else "no"]
    return [*row, float(holds.mean()), float(np.median(high - low)), bias, float(naive.mean())], int(
        holds.sum()
    )


def measure(size: Size) -> Results:
    """A row for each world."""
    repetitions = choose(size, full=4000, short=4000, tiny=20)
    counts = choose(size, full=(2, 5, 20), short=(2, 20), tiny=(2,))
    samples = (60,)
    worlds = list(product(counts, samples, (0.6, 0.9), SHAPES, (False, True), (False, True)))
    cells = [cell(*world, repetitions) for world in worlds]
    columns = ("strata", "samples of each", "share", "true shares", "groups", "uneven")
    columns += ("held", "width", "lowest observed − true", "held by the plain interval")
    doubtful = binom.cdf([held for _, held in cells], repetitions, LEAST) < 0.05 / len(cells)
    held, naive = min(row[6] for row, _ in cells), min(row[9] for row, _ in cells)
    notes = [
        f"{int(doubtful.sum())} of {len(cells)} cells fail; the least coverage is {held:.3f}, that of the "
        f"plain interval {naive:.3f}. {repetitions:,} repetitions."
    ]
    return Results([Table("Lowest share over strata, 95 %", columns, [row for row, _ in cells])], {}, notes)


if __name__ == "__main__":
    main(__doc__, measure)

"""Coverage of the interval beside "Training added …": a difference of two shares on the same samples.

    python benchmarks/paired_difference.py [--short]

Two classifiers answer n samples, of single units or of groups. A share of the samples is answered right by
the first alone, another share by the second alone; both are drawn anew for every repetition. In groups, the
shares of each group are drawn from a Beta distribution, so that samples of a group are alike (intraclass
correlation 0.2). Written down is how often the 95 % interval of the comparison holds the true difference, how
often it misses on either side, how often there is none, and its median width over that of the true sampling
distribution. The choice of the classifier on validation is no part of it: both classifiers are given.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness import Results, Row, Size, Table, choose, main
from labeltree.evaluation.statistics import Bootstrap, GroupSums

WORLDS = {  # right by the first alone, by the second alone
    "far apart": (0.25, 0.10),
    "alike": (0.10, 0.10),
    "near the ceiling": (0.02, 0.01),
    "one never better": (0.05, 0.0),
}
ALIKE = 0.2  # intraclass correlation of the samples of a group
AT_ONCE = 100


def drawn(
    n: int, groups: int | None, shares: tuple[float, float], repetitions: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
    """Right answers ``(n, 2, repetitions)`` of both, and the group of each sample."""
    draw = np.random.default_rng(seed)
    first, second = shares
    unit = np.arange(n) if groups is None else np.arange(n) % groups
    either = np.full((n, repetitions), first + second)
    if groups is not None:
        total = (1 - ALIKE) / ALIKE
        either = draw.beta(total * (first + second), total * (1 - first - second), (groups, repetitions))[
            unit
        ]
    differ = draw.random((n, repetitions)) < either
    ours = draw.random((n, repetitions)) < first / (first + second)
    both = draw.random((n, repetitions)) < 0.7
    values = np.stack([np.where(differ, ours, both), np.where(differ, ~ours, both)], axis=1)
    return values.astype(np.float64), None if groups is None else unit


def measured(n: int, groups: int | None, world: str, repetitions: int, resamples: int) -> Row:
    """Coverage, misses on either side, share without an interval, and relative width."""
    truth = WORLDS[world][0] - WORLDS[world][1]
    low, high, value = [], [], []
    for part in range(-(-repetitions // AT_ONCE)):
        values, unit = drawn(n, groups, WORLDS[world], AT_ONCE, part)
        found = Bootstrap(GroupSums.of(values, unit), resamples=resamples, seed=part).interval(
            np.array([1.0, -1.0]), method="percentile"
        )
        low.append(found.low)
        high.append(found.high)
        value.append(found.value)
    lows, highs, differences = (np.concatenate(each) for each in (low, high, value))
    given = ~np.isnan(lows)
    over, under = (lows > truth + 1e-12)[given].mean(), (highs < truth - 1e-12)[given].mean()
    spread = np.quantile(differences, 0.975) - np.quantile(differences, 0.025)
    width = float(np.median((highs - lows)[given])) / spread if spread > 0 else float("nan")
    return [
        world, n, "–" if groups is None else groups, 1 - float(over + under), float(over), float(under),
        1 - float(given.mean()), width,
    ]  # fmt: skip


def measure(size: Size) -> Results:
    """One table: a row for each world, number of samples and of groups."""
    repetitions = choose(size, full=4000, short=1000, tiny=AT_ONCE)
    resamples = choose(size, full=2000, short=2000, tiny=200)
    cells = [(50, None), (150, None), (500, None), (150, 10), (500, 30), (500, 100)]
    rows = [
        measured(n, groups, world, repetitions, resamples)
        for world in WORLDS
        for n, groups in choose(size, full=cells, short=cells, tiny=cells[:1])
    ]
    columns = (
        "world", "samples", "groups", "coverage", "truth below", "truth above", "no interval",
        "relative width",
    )  # fmt: skip
    table = Table(f"95 % intervals of a difference of shares, {repetitions:,} repetitions", columns, rows)
    return Results([table], {})


if __name__ == "__main__":
    main(__doc__, measure)

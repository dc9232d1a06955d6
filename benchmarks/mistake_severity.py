"""The level of the paired test of means over mistakes, where one run makes more mistakes than the other.

    python benchmarks/mistake_severity.py --trials 2000

Both runs draw the severities of their mistakes from one distribution, so there is no difference, and 5 % of
the p-values should be below 0.05. ``exchange`` compares plain differences after each exchange of the two
runs' outcomes. ``studentised`` divides them by their standard error: `sign_flip_test`, which ``compare``
uses.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from labeltree.evaluation.statistics import GroupSums, sign_flip_test

Floats = NDArray[np.float64]

# samples, error rates of the two runs, and shares of the severities 1, 2 and 3
CASES = (
    (200, (0.03, 0.185), (0.4, 0.3, 0.3)),
    (200, (0.10, 0.30), (0.4, 0.3, 0.3)),
    (1000, (0.05, 0.15), (0.4, 0.3, 0.3)),
    (1000, (0.10, 0.10), (0.4, 0.3, 0.3)),
    (200, (0.03, 0.185), (0.8, 0.1, 0.1)),
    (200, (0.10, 0.30), (0.8, 0.1, 0.1)),
    (1000, (0.05, 0.15), (0.8, 0.1, 0.1)),
)


def exchange_test(sums: GroupSums, permutations: int) -> Floats:
    """p-values (m,) of the plain difference."""
    draw = np.random.default_rng(0)
    both = np.stack([sums.numerators, sums.denominators])  # (2, n, r, m)
    half, middle = (both[:, :, 0] - both[:, :, 1]) / 2, both.sum(axis=(1, 2)) / 2
    observed = np.abs(sums.ratios[0] - sums.ratios[1])
    extreme = np.ones(len(observed))
    for _ in range(permutations):
        moved = np.tensordot(draw.choice([-1.0, 1.0], size=half.shape[1]), half, axes=(0, 1))
        with np.errstate(invalid="ignore", divide="ignore"):
            first, second = ((middle + side * moved) for side in (1, -1))
            extreme += np.abs(first[0] / first[1] - second[0] / second[1]) >= observed - 1e-9
    return np.where(np.isnan(observed), np.nan, extreme / (permutations + 1))


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--permutations", type=int, default=199)
    options = parser.parse_args()
    print("| samples | mistakes of the two runs | severities 1, 2, 3 | exchange | studentised |")
    print("|---:|---|---|---:|---:|")
    for samples, rates, shares in CASES:
        draw = np.random.default_rng(1)
        shape = (samples, 2, options.trials)
        severity = draw.choice([1.0, 2.0, 3.0], p=shares, size=shape)
        mistakes = draw.random(shape) < np.array(rates)[:, None]
        sums = GroupSums.of(np.where(mistakes, severity, np.nan))
        found = [
            float(np.nanmean(p <= 0.05))
            for p in (
                exchange_test(sums, options.permutations),
                sign_flip_test(sums, permutations=options.permutations),
            )
        ]
        made = " and ".join(f"{samples * rate:.0f}" for rate in rates)
        mix = ", ".join(f"{share:.0%}" for share in shares)
        print(f"| {samples:,} | {made} | {mix} | {found[0]:.3f} | {found[1]:.3f} |", flush=True)


if __name__ == "__main__":
    main()

"""Estimates and differences of methods on the same samples, metric by metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from labeltree.evaluation.comparison import Difference, Estimate
from labeltree.evaluation.outcomes import Key, Outcomes
from labeltree.evaluation.statistics import Bootstrap, GroupSums, across_runs, mcnemar, sign_flip_test
from labeltree.evaluation.statistics.group_sums import Floats

__all__ = ["Found", "PairedEstimates"]

Found = tuple[int, dict[str, Estimate], dict[str, Difference]]
"""Samples that count, estimates by method, differences to the baseline by method."""


@dataclass(frozen=True)
class PairedEstimates:
    """Estimates and differences of methods on the same samples, by the choices of a comparison.

    Attributes:
        baseline: the method that the others are compared with.
        confidence: of the intervals.
        resamples: of the bootstrap.
        permutations: of the sign-flip test.
        seed: of both.
    """

    baseline: str
    confidence: float
    resamples: int
    permutations: int
    seed: int

    def measure(self, methods: Mapping[str, Sequence[Outcomes]], keys: list[Key]) -> list[Found]:
        """Samples, estimates and differences of every metric, for runs on the same samples."""
        if not keys:
            return []
        place: dict[str, list[int]] = {}
        for name, outcomes in methods.items():
            place[name] = [sum(map(len, place.values())) + number for number in range(len(outcomes))]
        values, sums = _stacked([run for outcomes in methods.values() for run in outcomes], keys)
        bootstrap = Bootstrap(sums, resamples=self.resamples, seed=self.seed)
        base = place[self.baseline]
        estimates = {name: self._estimates(bootstrap, runs) for name, runs in place.items()}
        grouped = methods[self.baseline][0].units is not None
        differences = {
            name: self._differences(bootstrap, values, runs, base, grouped)
            for name, runs in place.items()
            if name != self.baseline
        }
        samples = (~np.isnan(values[:, base[0]])).sum(axis=0)
        return [
            (
                int(samples[k]),
                {name: entries[k] for name, entries in estimates.items() if not np.isnan(entries[k].value)},
                {name: entries[k] for name, entries in differences.items() if not np.isnan(entries[k].value)},
            )
            for k in range(len(keys))
        ]

    def _estimates(self, bootstrap: Bootstrap, runs: list[int]) -> list[Estimate]:
        single = bootstrap.sums.ratios[runs]
        found = bootstrap.interval(_contrast(bootstrap, runs), confidence=self.confidence)
        low, high, error = found.low, found.high, found.error
        sd = np.full_like(low, np.nan)
        if len(runs) > 1:
            parts = across_runs(found.value, [single], error, len(bootstrap.sums), confidence=self.confidence)
            low, high, error, sd = parts.low, parts.high, parts.error, single.std(axis=0, ddof=1)
        rows = np.stack([found.value, low, high, error, sd], axis=1).tolist()
        return [
            Estimate(value, start, end, off, runs=single[:, k].tolist(), sd=deviation)
            for k, (value, start, end, off, deviation) in enumerate(rows)
        ]

    def _differences(
        self, bootstrap: Bootstrap, values: Floats, runs: list[int], base: list[int], grouped: bool
    ) -> list[Difference]:
        sums = bootstrap.sums
        contrast = _contrast(bootstrap, runs) - _contrast(bootstrap, base)
        found = bootstrap.interval(contrast, confidence=self.confidence, method="percentile")
        low, high = found.low, found.high
        exact = np.full_like(low, np.nan)
        if len(runs) == len(base) == 1:
            test = "sign flips"
            p = sign_flip_test(sums.runs(runs + base), permutations=self.permutations, seed=self.seed)
            if not grouped:
                a, b = values[:, runs[0]], values[:, base[0]]
                exact = np.array([mcnemar(a[:, k], b[:, k]) for k in range(len(low))])
        else:
            test = "runs and samples"
            spread = [sums.ratios[runs], sums.ratios[base]]
            parts = across_runs(found.value, spread, found.error, len(sums), confidence=self.confidence)
            low, high, p = parts.low, parts.high, parts.p
        rows = np.stack([found.value, low, high, p, exact], axis=1).tolist()
        return [
            Difference(value, start, end, p=chance, mcnemar=precise, test=test)
            for value, start, end, chance, precise in rows
        ]


def _stacked(runs: list[Outcomes], keys: list[Key]) -> tuple[Floats, GroupSums]:
    """Values ``(n, r, m)`` of all runs, NaN where a run has no such metric, and their sums."""
    n, shape = len(runs[0]), (len(runs[0]), len(runs), len(keys))
    values, weights = np.full(shape, np.nan), np.ones(shape)
    for place, run in enumerate(runs):
        for column, key in enumerate(keys):
            values[:, place, column] = run.values.get(key, np.full(n, np.nan))
            if key in run.weights:
                weights[:, place, column] = run.weights[key]
    return values, GroupSums.of(values, runs[0].units, weights)


def _contrast(bootstrap: Bootstrap, runs: list[int]) -> Floats:
    weights = np.zeros(bootstrap.draws.shape[1])
    weights[runs] = 1 / len(runs)
    return weights

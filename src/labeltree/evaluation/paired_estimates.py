"""Estimates and differences of methods on the same samples, metric by metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeltree.evaluation.comparison import Difference, Estimate
from labeltree.evaluation.outcomes import Key, Outcomes
from labeltree.evaluation.statistics import (
    Bootstrap,
    GroupSums,
    JointBootstrap,
    Resampling,
    across_runs,
    mcnemar,
    mean_of_parts,
    number_groups,
    sign_flip_test,
)
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

    def measure(self, methods: Mapping[str, Sequence[Outcomes]], keys: Sequence[Key]) -> dict[Key, Found]:
        """Samples, estimates and differences of every metric, for runs on the same samples."""
        runs = [run for outcomes in methods.values() for run in outcomes]
        place: dict[str, list[int]] = {}
        for name, outcomes in methods.items():
            place[name] = [sum(map(len, place.values())) + number for number in range(len(outcomes))]
        means = [key for key in keys if any(key in run.values for run in runs)]
        found: dict[Key, Found] = {}
        if means:
            values, sums = _stacked(runs, means)
            bootstrap = Bootstrap(sums, resamples=self.resamples, seed=self.seed)
            samples = (~np.isnan(values[:, place[self.baseline][0]])).sum(axis=0)
            found = dict(zip(means, self._found(bootstrap, values, samples, place, runs), strict=True))
        joint = [key for key in keys if key not in found]
        if joint:
            bootstrap_of_joint = self._joint(runs, joint)
            samples = np.array([runs[place[self.baseline][0]].counted(key).sum() for key in joint])
            found |= zip(joint, self._found(bootstrap_of_joint, None, samples, place, runs), strict=True)
        return found

    def _found(
        self,
        bootstrap: Bootstrap | JointBootstrap,
        values: Floats | None,
        samples: NDArray[np.int64],
        place: Mapping[str, list[int]],
        runs: Sequence[Outcomes],
    ) -> list[Found]:
        base = place[self.baseline]
        grouped = runs[base[0]].units is not None
        estimates = {name: self._estimates(bootstrap, of) for name, of in place.items()}
        differences = {
            name: self._differences(bootstrap, None if grouped else values, of, base)
            for name, of in place.items()
            if name != self.baseline
        }
        return [
            (
                int(count),
                {name: entries[k] for name, entries in estimates.items() if not np.isnan(entries[k].value)},
                {name: entries[k] for name, entries in differences.items() if not np.isnan(entries[k].value)},
            )
            for k, count in enumerate(samples)
        ]

    def _joint(self, runs: Sequence[Outcomes], keys: Sequence[Key]) -> JointBootstrap:
        """Metrics that are no means, in the draws that means have, too."""
        units = runs[0].units
        groups = number_groups(np.arange(len(runs[0])) if units is None else units)
        count = int(groups.max()) + 1
        resampling = Resampling(self.resamples, confidence=self.confidence, seed=self.seed)
        value = np.full((len(runs), len(keys)), np.nan)
        draws = np.full((self.resamples, *value.shape), np.nan)
        for place, run in enumerate(runs):
            drawn: dict[int, tuple[Floats, Floats]] = {}  # the numbers of one statistic are computed at once
            for column, key in enumerate(keys):
                parts = []
                for statistic in run.joint(key):
                    if id(statistic) not in drawn:
                        of = groups[statistic.rows], count, run.dag or run.taxonomy, resampling
                        drawn[id(statistic)] = statistic.drawn(*of)
                    number = statistic.names.index(key[1])
                    parts.append(tuple(each[number] for each in drawn[id(statistic)]))
                if parts:
                    value[place, column], draws[:, place, column] = mean_of_parts(parts)
        return JointBootstrap(value, draws, count)

    def _estimates(self, bootstrap: Bootstrap | JointBootstrap, runs: list[int]) -> list[Estimate]:
        single = bootstrap.ratios[runs]
        found = bootstrap.interval(_contrast(bootstrap, runs), confidence=self.confidence)
        low, high, error = found.low, found.high, found.error
        sd = np.full_like(low, np.nan)
        if len(runs) > 1:
            parts = across_runs(found.value, [single], error, len(bootstrap), confidence=self.confidence)
            low, high, error, sd = parts.low, parts.high, parts.error, single.std(axis=0, ddof=1)
        rows = np.stack([found.value, low, high, error, sd], axis=1).tolist()
        return [
            Estimate(value, start, end, off, runs=single[:, k].tolist(), sd=deviation)
            for k, (value, start, end, off, deviation) in enumerate(rows)
        ]

    def _differences(
        self, bootstrap: Bootstrap | JointBootstrap, values: Floats | None, runs: list[int], base: list[int]
    ) -> list[Difference]:
        """From the baseline's runs to others; ``values`` of the samples where McNemar's test suits them."""
        contrast = _contrast(bootstrap, runs) - _contrast(bootstrap, base)
        found = bootstrap.interval(contrast, confidence=self.confidence, method="percentile")
        low, high = found.low, found.high
        exact = np.full_like(low, np.nan)
        single = len(runs) == len(base) == 1
        if single and isinstance(bootstrap, Bootstrap):
            test, both = "sign flips", bootstrap.sums.runs(runs + base)
            p = sign_flip_test(both, permutations=self.permutations, seed=self.seed)
            if values is not None:
                a, b = values[:, runs[0]], values[:, base[0]]
                exact = np.array([mcnemar(a[:, k], b[:, k]) for k in range(len(low))])
        else:
            test = "bootstrap" if single else "runs and samples"
            spread = [bootstrap.ratios[runs], bootstrap.ratios[base]]
            parts = across_runs(found.value, spread, found.error, len(bootstrap), confidence=self.confidence)
            p = parts.p
            if not single:
                low, high = parts.low, parts.high
        rows = np.stack([found.value, low, high, p, exact], axis=1).tolist()
        return [
            Difference(value, start, end, p=chance, mcnemar=precise, test=test)
            for value, start, end, chance, precise in rows
        ]


def _stacked(runs: Sequence[Outcomes], keys: Sequence[Key]) -> tuple[Floats, GroupSums]:
    """Values ``(n, r, m)`` of all runs, NaN where a run has no such metric, and their sums."""
    n, shape = len(runs[0]), (len(runs[0]), len(runs), len(keys))
    values, weights = np.full(shape, np.nan), np.ones(shape)
    for place, run in enumerate(runs):
        for column, key in enumerate(keys):
            values[:, place, column] = run.values.get(key, np.full(n, np.nan))
            if key in run.weights:
                weights[:, place, column] = run.weights[key]
    return values, GroupSums.of(values, runs[0].units, weights)


def _contrast(bootstrap: Bootstrap | JointBootstrap, runs: list[int]) -> Floats:
    weights = np.zeros(bootstrap.draws.shape[1])
    weights[runs] = 1 / len(runs)
    return weights

"""The result of a comparison: every metric of several methods, with intervals, differences and tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from labeltree.counted_nouns import say_count, say_list
from labeltree.errors import DataError
from labeltree.evaluation.json_numbers import from_fields
from labeltree.runs.run_folder import plain_json

__all__ = ["Comparison", "Difference", "Estimate", "MetricComparison", "StratumComparison"]

FORMAT = 1
ALPHA = 0.05
"""Below it a corrected p-value is called a difference."""


@dataclass(frozen=True)
class Estimate:
    """A metric of one method.

    Attributes:
        value: The metric; the mean over runs if there are several.
        low: Lower end of the confidence interval; NaN if there is none.
        high: Upper end of the confidence interval.
        error: Standard error.
        runs: The metric of each run.
        sd: Standard deviation over the runs; NaN with one run.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    error: float = math.nan
    runs: list[float] = field(default_factory=list)
    sd: float = math.nan


@dataclass(frozen=True)
class Difference:
    """A metric of one method minus that of the baseline, on the same samples.

    Attributes:
        value: The difference.
        low: Lower end of the confidence interval; NaN if there is none.
        high: Upper end of the confidence interval.
        p: p-value of the hypothesis that there is no difference; NaN if it cannot be tested.
        corrected: `p` after Holm's correction over all metrics, or subtrees, and methods.
        mcnemar: p-value of the exact McNemar test, for accuracies of single runs on samples without groups;
            NaN elsewhere, such as for means over classes, in which samples have different weights.
        test: The test that gave `p`: `sign flips` between two runs (`sign_flip_test`), `studentised sign
            flips` for means over samples that differ between them (the severity of mistakes), `jackknife` for
            a search among the samples (`SearchJackknife`) and for metrics that are not means; `runs and
            samples` if either method has several runs (`across_runs`).
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan
    corrected: float = math.nan
    mcnemar: float = math.nan
    test: str = ""


@dataclass(frozen=True)
class MetricComparison:
    """One metric of all methods.

    Attributes:
        role: Representation or classifier measured, as in `MethodResult.scores`.
        metric: Name of the metric.
        larger_is_better: Whether a larger value is better; None: neither is, and nothing is tested.
        samples: Number of samples that count in the metric, in the first run of the baseline.
        estimates: Method → the estimate of the metric.
        differences: Method → its difference from the baseline, for every other method.
        share: Whether the metric is a share, between 0 and 1, as opposed to a cost or a depth; None in older
            files.
        units: Number of groups of these samples, or of samples if there are no groups: what intervals and
            tests draw from; 0 in older files.
        counted: Method → `samples` and `units` of its first run, if they differ between methods, as the
            numbers of mistakes do; empty if they do not, and in older files.
    """

    role: str
    metric: str
    larger_is_better: bool | None
    samples: int
    estimates: dict[str, Estimate]
    differences: dict[str, Difference]
    share: bool | None = field(default=None, kw_only=True)
    units: int = field(default=0, kw_only=True)
    counted: dict[str, tuple[int, int]] = field(default_factory=dict, kw_only=True)

    def better_by(self, part: Difference) -> float:
        """A difference, with its sign chosen so that values above 0 mean better than the baseline.

        It is NaN for a metric of which neither direction is better.
        """
        if self.larger_is_better is None:
            return math.nan
        return part.value if self.larger_is_better else -part.value

    def counts(self, methods: Sequence[str]) -> tuple[list[int], list[int]]:
        """Numbers of samples that count and of their units: one of each, or those of each method."""
        numbers = [self.counted[name] for name in methods] if self.counted else [(self.samples, self.units)]
        return [samples for samples, _ in numbers], [units for _, units in numbers]


@dataclass(frozen=True)
class StratumComparison(MetricComparison):
    """One metric of all methods on some of the samples.

    Attributes:
        kind: `subtree` (samples labelled at or below a node), `depth` (samples whose label lies at a
            depth), `frequency` (samples of classes with many or few training samples) or `attribute`
            (samples with one value, such as a site).
        name: The node's path name, `depth 2`, `head`.
        node: Node of the taxonomy; −1 if the stratum is not a subtree.
    """

    kind: str
    name: str
    node: int


@dataclass(frozen=True, repr=False)
class Comparison:
    """The result of `labeltree.evaluation.compare`, saved as `comparison.json`.

    Attributes:
        methods: Method → names of its runs, in the order given.
        baseline: The method that the others are compared with.
        samples: Number of samples that all runs have in common; the comparison uses only these.
        groups: Number of resampling units: groups, or samples if there are none.
        grouped: Whether the samples form groups.
        left_out: Method → number of its samples that are missing from another run.
        confidence: Confidence level of all intervals.
        tests: Number of tests that the p-values of `metrics` are corrected for.
        metrics: One entry for each metric.
        strata: Metrics on subsets of the samples.
        notes: Sentences on the samples compared and the assumptions of the tests.
        classifiers: Method → the classifier that gives each run's answers: `own`, `probe` or
            `prototypes`; an empty string if it is not known.
        same: `ROLE.METRIC` → the metric, earlier in `metrics`, that has the same value for every sample;
            it stands for both in `strata`.
        blocks: What is measured on the same samples, `answers`, `violations`, `retrieval` or a protocol →
            numbers of the samples that count and of their groups (or of samples again); `accuracy at depth 1`
            and the like where others count than in the answers; empty in older files.
    """

    methods: dict[str, list[str]]
    baseline: str
    samples: int
    groups: int
    grouped: bool
    left_out: dict[str, int]
    confidence: float
    tests: int
    metrics: list[MetricComparison]
    strata: list[StratumComparison] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    classifiers: dict[str, list[str]] = field(default_factory=dict)
    same: dict[str, str] = field(default_factory=dict)
    blocks: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __repr__(self) -> str:
        """What was compared, and where the numbers are."""
        methods = say_list([repr(name) for name in self.methods])
        counted = f"{say_count(len(self.metrics), 'metric')} on {say_count(self.samples, 'sample')}"
        return f"Comparison of {methods}: {counted}; .metric(NAME) has one of them, .to_dict() all"

    @property
    def distinct(self) -> list[MetricComparison]:
        """The metrics without those that equal an earlier one, or its complement, for every sample."""
        return [entry for entry in self.metrics if f"{entry.role}.{entry.metric}" not in self.same]

    def counted(self) -> list[tuple[str, tuple[int, int]]]:
        """What rests on the same samples, in words, with the numbers of these and of their groups.

        Empty if everything rests on all samples.
        """
        parts: dict[tuple[int, int], list[str]] = {}
        for name, numbers in self.blocks.items():
            parts.setdefault(numbers, []).append(name)
        if list(parts) in ([], [(self.samples, self.groups)]):
            return []
        return [(say_list(names), numbers) for numbers, names in parts.items()]

    def metric(self, metric: str, role: str | None = None) -> MetricComparison:
        """The comparison of one metric; if `role` is None, of the first role that has this metric.

        Raises:
            KeyError: If the metric was not compared.
        """
        for entry in self.metrics:
            if entry.metric == metric and role in (None, entry.role):
                return entry
        raise KeyError(f"{role or 'any role'}/{metric}")

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers; NaN becomes None, as JSON has no NaN."""
        content: dict[str, Any] = plain_json(asdict(self))
        return {"format": FORMAT, **content}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Comparison:
        """The inverse of `to_dict`.

        Raises:
            DataError: If `content` is not a comparison, or was written by a newer version.
        """
        if content.get("format") != FORMAT:
            raise DataError(
                f"this is not a comparison that this version of labeltree can read: its format is "
                f"{content.get('format')!r}, expected {FORMAT}; compare again"
            )
        try:
            comparison: Comparison = from_fields(cls, content)
            return comparison
        except (AttributeError, KeyError, TypeError) as error:
            raise DataError(f"the comparison is incomplete: {error}; compare again") from error

"""The statistics of a study: mean, spread and significance of every method and metric over the seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labeltree.evaluation.statistics.paired_tests import holm
from labeltree.metrics.catalogue import is_larger_better, metric_name

__all__ = [
    "Difference",
    "Entry",
    "Summary",
    "difference",
    "differences",
    "is_larger_better_in",
    "metric_title",
    "p_against_best",
    "significance",
    "welch",
]

_LEVEL = 0.05
_CONFIDENCE = 0.95
_FEWEST = 3
"""The seeds that a test needs: with two, it finds next to nothing significant."""
_ROUNDING = 1e-5


def significance(seeds: int) -> str:
    """What marks in a table of so many seeds mean, as a sentence without its full stop."""
    if seeds < _FEWEST:
        return (
            "No marks say which differences are significant: a test over fewer than three seeds finds next "
            "to nothing"
        )
    return (
        "≈ marks what is not significantly worse than the best (p ≥ 0.05 in Welch's two-sided t-test over "
        "the seeds, with Holm's correction for the methods compared with it)"
    )


def is_larger_better_in(column: str) -> bool | None:
    """Whether larger values of a column's metric are better; None: neither are."""
    return is_larger_better(column.rpartition("/")[2].replace("@", "_at_"))


def metric_title(column: str) -> str:
    """A column's metric as a table heading, with an arrow for the better direction, if it has one."""
    name = metric_name(column.split("/", 1)[1].replace("@", "_at_"))
    arrow = {True: " ↑", False: " ↓", None: ""}[is_larger_better_in(column)]
    return f"{name}{arrow}"


@dataclass(frozen=True)
class Entry:
    """One cell of a table.

    Attributes:
        mean: Mean over the seeds, rounded to four digits so that bold type does not depend on hidden digits.
        sd: Standard deviation over the seeds (n − 1); None with one seed.
        n: Number of seeds.
        best: True if no compared mean is better; False everywhere if all values are equal.
        p: Corrected p-value of the difference from the best; NaN if it cannot be tested or there is no best.
        fewest: Number of seeds of this entry or of the best, whichever has fewer.
    """

    mean: float
    sd: float | None
    n: int
    best: bool
    p: float
    fewest: int

    @property
    def close(self) -> bool:
        """Whether the entry is neither the best nor significantly worse; never with two seeds or one."""
        return not self.best and self.fewest >= _FEWEST and self.p >= _LEVEL


class Summary:
    """The results of a study, by method and column.

    Args:
        results: One entry per run: `method`, `seed`, `scores`; None and NaN are undefined.
    """

    def __init__(self, results: Sequence[dict[str, Any]]) -> None:
        self.methods = list(dict.fromkeys(result["method"] for result in results))
        self.columns = list(dict.fromkeys(name for result in results for name in result["scores"]))
        self._values: dict[tuple[str, str], list[tuple[int, float]]] = {}
        for result in results:
            for column, value in result["scores"].items():
                if value is not None and math.isfinite(value):  # an undefined value cannot be best
                    self._values.setdefault((result["method"], column), []).append((result["seed"], value))

    @property
    def roles(self) -> list[str]:
        """The roles of the columns, in order."""
        return list(dict.fromkeys(column.split("/")[0] for column in self.columns))

    def values(self, method: str, column: str) -> list[float]:
        """The values of all seeds, in the order of the results."""
        return [value for _, value in self._values.get((method, column), [])]

    def by_seed(self, method: str, column: str) -> dict[int, float]:
        """The values by seed."""
        return dict(self._values.get((method, column), []))

    def mean(self, method: str, column: str) -> float | None:
        """Unrounded mean over the seeds; None without values."""
        known = self.values(method, column)
        return statistics.mean(known) if known else None

    def are_equal(self, method: str, first: str, second: str) -> bool:
        """Whether a method has the same values in two columns, up to rounding."""
        ours, theirs = self.by_seed(method, first), self.by_seed(method, second)
        return ours.keys() == theirs.keys() and all(abs(ours[s] - theirs[s]) < _ROUNDING for s in ours)

    def entries(self, column: str, methods: Iterable[str]) -> dict[str, Entry]:
        """The table cells of the methods that have a value, compared with the best of these methods.

        There is no best one in a column of which neither direction is better.
        """
        known = {name: self.values(name, column) for name in methods if self.values(name, column)}
        if not known:
            return {}
        better = is_larger_better_in(column)
        lower = better is False
        p = p_against_best(known, lower=lower)
        means = {name: round(statistics.mean(values), 4) for name, values in known.items()}
        best = (min if lower else max)(means.values())
        leads = min(len(values) for name, values in known.items() if means[name] == best)
        told = len(known) == 1 or len({value for values in known.values() for value in values}) > 1
        told = told and better is not None
        return {
            name: Entry(
                means[name],
                statistics.stdev(values) if len(values) > 1 else None,
                len(values),
                told and means[name] == best,
                p[name] if told else math.nan,
                min(len(values), leads),
            )
            for name, values in known.items()
        }


@dataclass(frozen=True)
class Difference:
    """How far the mean of one method is ahead of another's in a column.

    Attributes:
        mean: Difference of the means over the seeds, above 0 if the first method is better.
        error: Its standard error, that of Welch's test; NaN with one seed.
        p: p-value of Welch's two-sided test, corrected for the other methods by Holm; NaN if not tested.
        fewest: Number of seeds of the method with fewer.
        low: Lower end of the 95 % interval of the difference, that of Welch's test for this pair alone;
            NaN with fewer than three seeds, or if no value varies.
        high: Its upper end.
    """

    mean: float
    error: float
    p: float
    fewest: int
    low: float = math.nan
    high: float = math.nan

    @property
    def decided(self) -> bool:
        """Whether the seeds say which of the two is better; never with two seeds or one."""
        return self.fewest >= _FEWEST and self.p < _LEVEL


def differences(summary: Summary, column: str, first: str) -> dict[str, Difference]:
    """The lead of one method over each other one in a column; empty if it has no values there, or no lead."""
    better = is_larger_better_in(column)
    if better is None:
        return {}
    ours = summary.values(first, column)
    others = {name: summary.values(name, column) for name in summary.methods if name != first}
    known = {name: values for name, values in others.items() if values and ours}
    corrected = holm([welch(ours, values) for values in known.values()]).tolist() if known else []
    sign = 1 if better else -1
    return {
        name: difference([sign * value for value in ours], [sign * value for value in values], p)
        for (name, values), p in zip(known.items(), corrected, strict=True)
    }


def difference(ours: Sequence[float], theirs: Sequence[float], p: float) -> Difference:
    """The difference of two means over seeds, with its standard error and interval.

    Args:
        ours: The values of one method, larger is better.
        theirs: The values of the other.
        p: The p-value of the difference.
    """
    mean, error = statistics.mean(ours) - statistics.mean(theirs), math.hypot(_error(ours), _error(theirs))
    fewest = min(len(ours), len(theirs))
    if fewest < _FEWEST or error == 0:
        return Difference(mean, error, p, fewest)
    from scipy.stats import t

    freedom = error**4 / sum(_error(values) ** 4 / (len(values) - 1) for values in (ours, theirs))
    reach = error * float(t.ppf(0.5 + _CONFIDENCE / 2, freedom))
    return Difference(mean, error, p, fewest, mean - reach, mean + reach)


def _error(values: Sequence[float]) -> float:
    """The standard error of a mean; NaN with one value."""
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def welch(first: Sequence[float], second: Sequence[float]) -> float:
    """Two-sided p-value of Welch's t-test; NaN with fewer than two values on a side.

    If neither side varies, p is 1 for equal means and 0 otherwise.

    Example:
        >>> round(welch([1.0, 2.0, 3.0], [2.0, 3.0, 5.0]), 4)
        0.2846
    """
    if len(first) < 2 or len(second) < 2:
        return math.nan
    if np.ptp(first) == np.ptp(second) == 0:
        return 1.0 if first[0] == second[0] else 0.0
    from scipy.stats import ttest_ind_from_stats

    (a, b), (sa, sb) = (
        [float(np.mean(side)) for side in (first, second)],
        [float(np.std(side, ddof=1)) for side in (first, second)],
    )
    test = ttest_ind_from_stats(a, sa, len(first), b, sb, len(second), equal_var=False)
    return float(test.pvalue)


def p_against_best(values: Mapping[str, Sequence[float]], *, lower: bool) -> dict[str, float]:
    """Corrected p-values of all methods against the method with the best mean, whose own value is 1.

    Args:
        values: Values over the seeds by method; methods without values are left out.
        lower: True if smaller values are better.
    """
    means = {name: float(np.mean(known)) for name, known in values.items() if len(known)}
    if not means:
        return {}
    best = (min if lower else max)(means, key=means.__getitem__)
    others = [name for name in means if name != best]
    corrected = holm([welch(values[best], values[name]) for name in others]).tolist()
    return {best: 1.0, **dict(zip(others, corrected, strict=True))}

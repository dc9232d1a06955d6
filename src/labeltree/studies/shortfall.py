"""How far each method of a study falls behind the best one, over all columns that have a margin."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labeltree.report.pages.document import Block, Cell, Heading, Table, Text
from labeltree.studies.study_statistics import Summary, is_larger_better_in, metric_title

__all__ = ["Shortfall", "pareto_set", "shortfall_blocks", "shortfalls"]

_LEVEL = 0.95


@dataclass(frozen=True)
class Shortfall:
    """A method beside the best other method of a column.

    Attributes:
        column: The column, as `role/metric`.
        best: The other method with the best mean of the column.
        mean: By how much the method is behind it, in the column's own unit, mean over the seeds of both;
            below 0 if it is ahead, NaN without a seed in common.
        upper: Upper limit of the one-sided 95 % interval of that mean: paired t over the seeds; NaN with
            fewer than two seeds in common, or if the method lacks seeds that others have.
        margin: The shortfall up to which a method counts as not behind.
    """

    column: str
    best: str
    mean: float
    upper: float
    margin: float

    @property
    def within(self) -> bool:
        """Whether the method is not behind by the margin or more, at 95 %."""
        return self.upper < self.margin

    @property
    def in_margins(self) -> float:
        """The upper limit in units of the margin; below 1 is within."""
        return self.upper / self.margin


def shortfalls(
    summary: Summary, methods: Sequence[str], margins: Mapping[str, float]
) -> dict[str, list[Shortfall]]:
    """The shortfalls of every method in every column of `margins` that it and another method have.

    Not every method has every column: without a classifier there are no answers of its own.

    Args:
        summary: The results of a study.
        methods: The methods that are compared, such as all but the baselines.
        margins: Margin of each column, above 0.
    """
    by_method: dict[str, list[Shortfall]] = {name: [] for name in methods}
    for column, margin in margins.items():
        better = is_larger_better_in(column)
        if better is None:
            continue
        measured = {name: summary.by_seed(name, column) for name in methods}
        values = {name: by_seed for name, by_seed in measured.items() if by_seed}
        # In a study that is half done, a method with easy seeds alone would be the best.
        most = max(map(len, values.values()), default=0)
        whole = [name for name, by_seed in values.items() if len(by_seed) == most]
        sign = 1.0 if better else -1.0
        order = sorted(whole, key=lambda name: -sign * statistics.mean(values[name].values()))
        for name in values:
            best = next((other for other in order if other != name), None)
            if best is None:
                continue
            seeds = sorted(values[name].keys() & values[best].keys())
            behind = [sign * (values[best][seed] - values[name][seed]) for seed in seeds]
            mean, upper = _upper_limit(behind)
            by_method[name].append(
                Shortfall(column, best, mean, upper if name in whole else math.nan, margin)
            )
    return by_method


def pareto_set(summary: Summary, methods: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The methods to which no other one is at least equal in every column's mean and better in one."""
    places = {}
    signs = {column: {True: 1, False: -1, None: 0}[is_larger_better_in(column)] for column in columns}
    for name in methods:
        signed = []
        for column in columns:
            mean = summary.mean(name, column)
            signed.append(-math.inf if mean is None else signs[column] * mean)
        places[name] = signed
    return [
        name
        for name in methods
        if not any(
            all(a >= b for a, b in zip(places[other], places[name], strict=True))
            and places[other] != places[name]
            for other in methods
        )
    ]


def shortfall_blocks(summary: Summary, methods: Sequence[str], margins: Mapping[str, float]) -> list[Block]:
    """The section of a study's page; nothing without margins, or without columns that all methods have."""
    behind = {name: own for name, own in shortfalls(summary, methods, margins).items() if own}
    if not behind:
        return []
    common = [column for column in margins if all(summary.mean(name, column) is not None for name in behind)]
    worst = {name: max(own, key=_weight) for name, own in behind.items()}
    order = sorted(behind, key=lambda name: _weight(worst[name]))
    front = pareto_set(summary, order, common) if common else []
    rows = []
    for name in order:
        one = worst[name]
        rows.append(
            [
                Cell(name, name == order[0]),
                Cell(f"{sum(own.within for own in behind[name])} of {len(behind[name])}"),
                Cell(_title(one.column)),
                Cell(one.best),
                Cell("–" if math.isnan(one.mean) else f"{one.mean:.4f}"),
                Cell("–" if math.isnan(one.upper) else f"{one.upper:.4f}"),
                Cell(f"{one.margin:g}"),
                Cell("yes" if name in front else ""),
            ]
        )
    header = ["method", "columns within", "worst column", "best there", "behind by", "up to", "margin"]
    listed = ", ".join(f"{_title(column)} {margin:g}" for column, margin in margins.items())
    some = {column for column in margins if any(summary.mean(name, column) is not None for name in behind)}
    rest = ", ".join(_title(column) for column in margins if column in some and column not in common)
    none = ", ".join(column for column in margins if column not in some)
    left = f" Not of all methods, so not in the Pareto set: {rest}." if rest else ""
    left += f" Not measured: {none}." if none else ""
    neutral = ", ".join(_title(column) for column in margins if is_larger_better_in(column) is None)
    left += f" Neither direction is better, so it judges nobody: {neutral}." if neutral else ""
    return [
        Heading("Behind the best"),
        Text(
            "For each method, the table shows the column in which it may be furthest behind the best other "
            "method, in units of the column's margin. “Up to” is the upper limit of the one-sided 95 % "
            "interval (t, paired by seed). A column counts as within if that is below the margin. The best "
            "is chosen among the same runs, so others look further behind than they are. Some methods lack "
            "columns, such as answers of their own, and are judged on fewer. A column that only one method "
            "has judges nobody. A method is in the Pareto set if no other method is at least equal in every "
            f"mean and better in one. Margins: {listed}.{left}"
        ),
        Table([*header, "Pareto"], rows),
    ]


def _weight(shortfall: Shortfall) -> float:
    """The order of shortfalls: without an interval by the mean, after all that have one."""
    if math.isnan(shortfall.mean):
        return math.inf
    value = shortfall.in_margins
    return 1e6 + shortfall.mean / shortfall.margin if math.isnan(value) else value


def _upper_limit(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and the upper limit of its one-sided interval by Student's t; NaN with too few values."""
    if not values:
        return math.nan, math.nan
    mean = statistics.mean(values)
    if len(values) < 2:
        return mean, math.nan
    from scipy.stats import t

    spread = statistics.stdev(values) / math.sqrt(len(values))
    return mean, mean + float(t.ppf(_LEVEL, len(values) - 1)) * spread


def _title(column: str) -> str:
    return f"{column.split('/')[0]} {metric_title(column)}"

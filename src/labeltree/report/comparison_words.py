"""A comparison in words: names of metrics, values, differences and their significance."""

from __future__ import annotations

import math
from dataclasses import replace

from labeltree.evaluation.comparing.comparison import (
    ALPHA,
    Comparison,
    Difference,
    MetricComparison,
    StratumComparison,
)
from labeltree.metrics.catalogue import Metric
from labeltree.report.wording import format_interval, format_score, metric_words, percent, plural

__all__ = [
    "difference_text",
    "estimate_text",
    "metric_of_entry",
    "sentences",
    "summary",
    "tested",
    "verdict",
]

_FIRST = ("answer_top1", "top1", "recall_at_1", "ahp", "parent_violations")

Compared = MetricComparison | StratumComparison


def metric_of_entry(entry: Compared) -> Metric:
    """The metric of an entry, as a share only if the entry does not deny it."""
    metric = metric_words(entry.metric)
    return replace(metric, unit="number") if entry.share is False else metric


def verdict(entry: Compared, part: Difference) -> str:
    """`better`, `worse`, `not sure` if that is not significant, or `neither` if neither is better."""
    if entry.larger_is_better is None:
        return "neither"
    if math.isnan(part.value) or math.isnan(part.corrected) or part.corrected >= ALPHA or part.value == 0:
        return "not sure"
    return "better" if entry.better_by(part) > 0 else "worse"


def estimate_text(entry: Compared, method: str) -> tuple[str, str]:
    """A value and the ends of its interval."""
    share = metric_of_entry(entry).share
    estimate = entry.estimates.get(method)
    if estimate is None:
        return "–", ""
    return format_score(estimate.value, share=share), format_interval(
        estimate.low, estimate.high, share=share
    )


def difference_text(entry: Compared, part: Difference) -> tuple[str, str]:
    """A difference and the ends of its interval, with signs; shares in points."""
    scale, digits = (100.0, 1) if metric_of_entry(entry).share else (1.0, 2)
    if math.isnan(part.value):
        return "–", ""

    def text(value: float) -> str:
        shown = f"{scale * value:+.{digits}f}"
        return (shown if float(shown) else shown[1:]).replace("-", "−")

    return text(part.value), "" if math.isnan(part.low) else f"{text(part.low)} to {text(part.high)}"


def summary(comparison: Comparison) -> str:
    """One sentence: the number of metrics in which each method is significantly better or worse.

    Metrics that are the same for every sample count once, as they are tested once.
    """
    clauses = []
    for name in comparison.methods:
        says = [
            verdict(entry, entry.differences[name])
            for entry in comparison.distinct
            if name in entry.differences and entry.larger_is_better is not None
        ]
        if says:
            better, worse = says.count("better"), says.count("worse")
            clauses.append(
                f"{name} is significantly better than {comparison.baseline} in {better or 'none'} of "
                f"{len(says)} metrics and significantly worse in {worse or 'none'}"
            )
    return "; ".join(clauses) + "." if clauses else ""


def tested(comparison: Comparison) -> str:
    """How many samples and groups were compared; of each block of metrics, where they differ."""

    def counted(samples: int, groups: int) -> str:
        return plural(samples, "sample") + (f" in {plural(groups, 'group')}" if comparison.grouped else "")

    whole = f"{counted(comparison.samples, comparison.groups)} that all runs share"
    if len(set(comparison.blocks.values())) < 2:
        return whole
    words = {"answers": "answers and violations"}
    parts = [f"{words.get(name, name)} on {counted(*of)}" for name, of in comparison.blocks.items()]
    return f"{whole}: {', '.join(parts)}"


def sentences(comparison: Comparison) -> list[str]:
    """One sentence per main metric: which method is better, and whether significantly."""
    lines = []
    for key in _FIRST:
        try:
            entry = comparison.metric(key)
        except KeyError:
            continue
        metric = metric_of_entry(entry)
        base = entry.estimates.get(comparison.baseline)
        parts = [_part(entry, name, part) for name, part in entry.differences.items()]
        if base is None or not parts:
            continue
        what = f"{metric.title[:1].upper()}{metric.title[1:]} ({metric.name})"
        value = percent(base.value) if metric.share else f"{base.value:.2f}"
        lines.append(f"{what}: {comparison.baseline} {value}; {'; '.join(parts)}.")
    return lines


def _part(entry: MetricComparison, name: str, part: Difference) -> str:
    metric = metric_of_entry(entry)
    value = entry.estimates[name].value
    shown = percent(value) if metric.share else f"{value:.2f}"
    says = verdict(entry, part)
    if says == "neither":
        return f"{name} {shown}"
    if says == "not sure":
        return f"{name} {shown}, not significantly different"
    text = difference_text(entry, part)[0].lstrip("+−")
    return f"{name} {shown}, {says} by {text}{' points' if metric.share else ''}"

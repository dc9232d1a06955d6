"""A comparison in words: names of metrics, values, differences and their significance."""

from __future__ import annotations

import math
from dataclasses import replace

from labeltree.evaluation.comparison import ALPHA, Comparison, Difference, MetricComparison, StratumComparison
from labeltree.report.wording import GROUPS, Measure, format_interval, format_score, percent, plural

__all__ = [
    "better_by",
    "difference_text",
    "estimate_text",
    "measure_of",
    "measure_of_entry",
    "sentences",
    "summary",
    "tested",
    "verdict",
]

_MEASURES = {(m.metric, m.role): m for group in GROUPS for m in group.measures}
_BY = {
    "answer_": "by the chosen classifier of each run",
    "prototype_": "by the nearest class mean",
    "own_": "by its own answer",
    "lda_": "by discriminants of the features",
    "feature_mean_": "by the nearest class mean of the features",
}
_NUMBERED = {
    "accuracy_at_depth_": ("Right at depth {}", "accuracy at depth {}"),
    "hp_at_": ("Near kinds among the first {}", "HP@{}"),
    "recall_at_": ("One of {} is alike", "recall@{}"),
    "ap_at_depth_": ("Those that share exactly depth {} come first", "AP at depth {}"),
}
_FIRST = ("answer_top1", "top1", "recall_at_1", "ahp", "parent_violations")

Compared = MetricComparison | StratumComparison


def measure_of(metric: str, role: str) -> Measure:
    """The report's words for a metric; a metric without words keeps its name and is shown as a number."""
    named = [m for (name, _), m in _MEASURES.items() if name == metric]
    if named:
        return next((m for wanted in (role, "") for m in named if m.role == wanted), named[0])
    for prefix, by in _BY.items():
        if metric.startswith(prefix):
            base = measure_of(metric.removeprefix(prefix), role)
            return replace(base, metric=metric, role=role, title=f"{base.title}, {by}")
    for start, (title, term) in _NUMBERED.items():
        if metric.startswith(start) and (number := metric.removeprefix(start)).isdigit():
            return Measure(metric, role, title.format(number), term.format(number), "")
    if metric.endswith("_micro"):
        base = measure_of(metric.removesuffix("_micro"), role)
        return replace(
            base, metric=metric, role=role, title=f"{base.title}, pooled", term=f"{base.term}, micro"
        )
    if metric == "h_ap_map":
        return Measure(metric, role, "Own kind first, as a mean over depths", "H-AP (relevance map)", "")
    words = metric.replace("_", " ")
    return Measure(metric, role, words[:1].upper() + words[1:], "", "", share="severity" not in metric)


def measure_of_entry(entry: Compared) -> Measure:
    """The report's words for the metric of an entry, as a share only if the entry does not deny it."""
    measure = measure_of(entry.metric, entry.role)
    return replace(measure, share=False) if entry.share is False else measure


def better_by(entry: Compared, part: Difference) -> float:
    """The difference, with its sign chosen so that values above 0 mean better than the baseline."""
    return part.value if entry.larger_is_better else -part.value


def verdict(entry: Compared, part: Difference) -> str:
    """``better``, ``worse``, or ``not sure`` if the corrected p-value is not significant."""
    if math.isnan(part.value) or math.isnan(part.corrected) or part.corrected >= ALPHA or part.value == 0:
        return "not sure"
    return "better" if better_by(entry, part) > 0 else "worse"


def estimate_text(entry: Compared, method: str) -> tuple[str, str]:
    """A value and the ends of its interval."""
    share = measure_of_entry(entry).share
    found = entry.estimates.get(method)
    if found is None:
        return "–", ""
    return format_score(found.value, share=share), format_interval(found.low, found.high, share=share)


def difference_text(entry: Compared, part: Difference) -> tuple[str, str]:
    """A difference and the ends of its interval, with signs; shares in points."""
    scale, digits = (100.0, 1) if measure_of_entry(entry).share else (1.0, 2)
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
    found = []
    for name in comparison.methods:
        says = [verdict(e, e.differences[name]) for e in comparison.distinct if name in e.differences]
        if says:
            better, worse = says.count("better"), says.count("worse")
            found.append(
                f"{name} is significantly better than {comparison.baseline} in {better or 'none'} of "
                f"{len(says)} metrics and significantly worse in {worse or 'none'}"
            )
    return "; ".join(found) + "." if found else ""


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
    found = []
    for metric in _FIRST:
        try:
            entry = comparison.metric(metric)
        except KeyError:
            continue
        measure = measure_of_entry(entry)
        base = entry.estimates.get(comparison.baseline)
        parts = [_part(entry, name, part) for name, part in entry.differences.items()]
        if base is None or not parts:
            continue
        what = f"{measure.title[:1].upper()}{measure.title[1:]} ({measure.term})"
        value = percent(base.value) if measure.share else f"{base.value:.2f}"
        found.append(f"{what}: {comparison.baseline} {value}; {'; '.join(parts)}.")
    return found


def _part(entry: MetricComparison, name: str, part: Difference) -> str:
    measure = measure_of_entry(entry)
    value = entry.estimates[name].value
    shown = percent(value) if measure.share else f"{value:.2f}"
    says = verdict(entry, part)
    if says == "not sure":
        return f"{name} {shown}, not significantly different"
    text = difference_text(entry, part)[0].lstrip("+−")
    return f"{name} {shown}, {says} by {text}{' points' if measure.share else ''}"

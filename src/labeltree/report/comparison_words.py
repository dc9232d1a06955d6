"""A comparison in words: names of metrics, values, differences and their significance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from labeltree.counted_nouns import say_count
from labeltree.decisions.choose_classifier import classifier_words
from labeltree.evaluation.answer_columns import ANSWERS, is_of_answers
from labeltree.evaluation.comparing.comparison import (
    ALPHA,
    Comparison,
    Difference,
    Estimate,
    MetricComparison,
    StratumComparison,
)
from labeltree.evaluation.outcomes import is_retrieval
from labeltree.evaluation.representations import POSTERIOR
from labeltree.metrics.catalogue import Metric, metric_name
from labeltree.report.wording import format_interval, format_score, metric_words, percent
from labeltree.taxonomy.naming import short_name

__all__ = [
    "comparison_verdict",
    "difference_text",
    "estimate_text",
    "metric_of_entry",
    "name_place",
    "p_text",
    "sentences",
    "short_comparison",
    "short_entries",
    "short_rows",
    "summary",
    "tested",
    "verdict",
]

_SURE = ("better", "worse")
_FEW = 100  # fewer samples or groups show large differences only
_NAMED = 3  # methods and branches that a verdict names
_SHORT = (
    ("answer_top1", None),
    ("answer_hierarchical_f1", None),
    ("recall_at_1", "embeddings"),
    ("map_at_r", "embeddings"),
    ("parent_violations", "embeddings"),
)
_FIRST = ("answer_top1", "top1", "recall_at_1", "ahp", "parent_violations")

Compared = MetricComparison | StratumComparison


def metric_of_entry(entry: Compared) -> Metric:
    """The metric of an entry, as a share only if the entry does not deny it."""
    metric = metric_words(entry.metric)
    return replace(metric, unit="number") if entry.share is False else metric


def _name_entry(entry: Compared) -> str:
    """The name of a metric, and what it is measured of where that is neither answers nor embeddings."""
    metric, role = metric_of_entry(entry), entry.role
    name = metric.name or metric.title
    if is_of_answers(entry.metric) and role != ANSWERS:
        return f"{name} of {classifier_words('probe', features=role != 'embeddings')}"
    if role == "features" and is_retrieval(entry.metric):
        return f"{name} of the features"
    return f"{name} in the posterior space" if role == POSTERIOR else name


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


def p_text(p: float) -> str:
    """A p-value; empty if it is undefined."""
    return "" if math.isnan(p) else "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.995 else "p = 1"


def comparison_verdict(comparison: Comparison) -> list[str]:
    """Which method is better in the main metric, in how many others and in which branches, in sentences.

    Where all methods give the same answers, as heads on the same frozen features may, the main metric is the
    first in which they differ. What is named stands in `short_entries`.
    """
    entry, main = _main_entries(comparison)
    examples = [_example(*each) for each in _examples(comparison)]
    if entry is None or main is None:
        return [text, *examples] if (text := summary(comparison)) else []
    named, others = _order_methods(entry), len(entry.differences) - _NAMED
    said = [_same_answers(comparison, main)] if entry is not main else []
    said += [_beside(comparison, entry, name) for name in named[:_NAMED]]
    if others > 0:
        said.append(f"The table has {say_count(others, 'further method')}.")
    said += [summary(comparison) if len(_apart(comparison)) > 1 else "", *examples]
    said.append(_branches(comparison, entry))
    units = entry.units or comparison.groups  # those of this metric, which older files do not tell
    if units < _FEW:
        counted = say_count(units, "group" if comparison.grouped else "sample")
        was = "was" if units == 1 else "were"
        said.append(f"Only {counted} {was} compared: small differences cannot be seen.")
    return [sentence for sentence in said if sentence]


def _apart(comparison: Comparison) -> list[MetricComparison]:
    """The metrics of the baseline that are compared with others."""
    return [each for each in comparison.metrics if comparison.baseline in each.estimates if each.differences]


def _main_entries(comparison: Comparison) -> tuple[MetricComparison | None, MetricComparison | None]:
    """The metric that the verdict is about, and the one that it would be if methods differed in it."""
    apart = _apart(comparison)
    keys = [place for key in _FIRST for place in _places(key)]
    main = _first(apart, keys)
    if main is None:  # none of the usual ones was asked for: the answers lead
        main = next((each for each in apart if each.role == ANSWERS), None)
    if main is None or not _is_same(main):
        return main, main
    return _first([each for each in apart if not _is_same(each)], keys) or main, main


def _places(key: str) -> tuple[tuple[str, str | None], ...]:
    """A metric in the embeddings, which the short table shows, or else in the first role that has it."""
    return (key, "embeddings"), (key, None)


def _is_same(entry: MetricComparison) -> bool:
    """Whether no method differs from the baseline in the value of any sample."""
    return all(not part.value and math.isnan(part.low) and part.p == 1 for part in entry.differences.values())


def _same_answers(comparison: Comparison, entry: MetricComparison) -> str:
    metric, value = metric_of_entry(entry), entry.estimates[comparison.baseline].value
    shown = percent(value) if metric.share else format_score(value, share=False)
    who = "All methods" if len(entry.estimates) > 2 else " and ".join(entry.estimates)
    return f"{who} have the same {_name_entry(entry)}, sample by sample: {shown}."


def _order_methods(entry: MetricComparison) -> list[str]:
    """The methods as they are named: if they are many, those that differ significantly, the best first."""
    names = list(entry.differences)
    if len(names) <= _NAMED:
        return names

    def place(name: str) -> tuple[bool, float]:
        part = entry.differences[name]
        sure = verdict(entry, part) in _SURE
        return not sure, -entry.better_by(part) if sure else 0.0

    return sorted(names, key=place)


def _first(
    entries: Sequence[MetricComparison], keys: Sequence[tuple[str, str | None]]
) -> MetricComparison | None:
    """The first of some metrics, by their keys and roles, that is among the entries."""
    known = {(entry.metric, role): entry for entry in entries[::-1] for role in (None, entry.role)}
    return next((known[key] for key in keys if key in known), None)


def _beside(comparison: Comparison, entry: MetricComparison, name: str) -> str:
    """How a method compares with the baseline in one metric."""
    metric, part, base = metric_of_entry(entry), entry.differences[name], comparison.baseline
    of_what = _name_entry(entry)
    ours, theirs = (
        percent(value) if metric.share else format_score(value, share=False)
        for value in (entry.estimates[name].value, entry.estimates[base].value)
    )
    points, says = _points(entry, part), verdict(entry, part)
    if says in _SURE:
        return f"{name} is {says} than {base} in {of_what}: {ours} against {theirs} ({points})."
    said = f"{name} and {base} do not differ significantly in {of_what}: {ours} against {theirs} ({points})."
    if says == "not sure" and part.p < ALPHA:  # the interval, which is not corrected, may say otherwise
        said += (
            f" Tested alone, the difference would be significant ({p_text(part.p)}); corrected for the "
            f"number of tests, it is not ({p_text(part.corrected)})."
        )
    return said


def _points(entry: Compared, part: Difference) -> str:
    """A difference with its unit and its interval."""
    text, ends = difference_text(entry, part)
    unit = " points" if metric_of_entry(entry).share else ""
    return f"{text}{unit}, interval {ends}" if ends else f"{text}{unit}"


def _examples(comparison: Comparison) -> list[tuple[MetricComparison, str, Difference]]:
    """The surest metrics in which methods are better or worse, where no main metric shows that they are."""
    shown = [*_usual_entries(comparison), _main_entries(comparison)[0]]
    sure = [
        (entry, name, part, verdict(entry, part))
        for entry in comparison.distinct
        for name, part in entry.differences.items()
        if verdict(entry, part) in _SURE
    ]
    sure.sort(key=lambda each: (each[2].corrected, -abs(each[2].value)))
    examples: dict[tuple[str, str], tuple[MetricComparison, str, Difference]] = {}
    for entry, name, part, says in sure:
        parts = [(each, each.differences.get(name)) for each in shown if each is not None]
        if not any(part is not None and verdict(each, part) == says for each, part in parts):
            examples.setdefault((name, says), (entry, name, part))
    return list(examples.values())[:_NAMED]


def _example(entry: MetricComparison, name: str, part: Difference) -> str:
    points = _points(entry, part)
    return f"{name} is {verdict(entry, part)}, for example, in {_name_entry(entry)} ({points})."


def _sure_branches(
    comparison: Comparison, entry: MetricComparison
) -> list[tuple[StratumComparison, str, Difference]] | None:
    """The branches in which methods differ significantly in a metric, the largest difference first.

    None if no branch was compared.
    """
    strata = [
        each
        for each in comparison.strata
        if each.kind == "subtree" and (each.metric, each.role) == (entry.metric, entry.role)
    ]
    sure = [
        (each, name, part)
        for each in strata
        for name, part in each.differences.items()
        if verdict(each, part) in _SURE
    ]
    return sorted(sure, key=lambda each: -abs(each[2].value)) if strata else None


def _branches(comparison: Comparison, entry: MetricComparison) -> str:
    """The branches in which the main metric differs significantly; empty if none was compared."""
    sure = _sure_branches(comparison, entry)
    if sure is None:
        return ""
    name_of = _name_entry(entry)
    if not sure:
        return f"In no branch of the tree does {name_of} differ significantly."
    listed = ", ".join(
        f"{short_name(each.name)} ({name} {verdict(each, part)}, {_points(each, part)})"
        for each, name, part in sure[:_NAMED]
    )
    more = f" and {len(sure) - _NAMED:,} more" if len(sure) > _NAMED else ""
    return f"By branch, {name_of} differs significantly in {listed}{more}."


def short_comparison(comparison: Comparison) -> str:
    """The main metrics of every method and the differences as a plain-text table, and the notes below it."""
    rows = short_rows(comparison)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    level = f"{comparison.confidence:.0%}"
    lines.append(f"in brackets: {level} confidence intervals; better and worse are said where significant")
    return "\n".join([*lines, *comparison.notes])


def short_entries(comparison: Comparison) -> list[Compared]:
    """The main metrics, and whatever else the verdict names: a metric, a branch."""
    entries: list[Compared] = [*_usual_entries(comparison)]
    entry, main = _main_entries(comparison)
    named: list[Compared | None] = [main, entry, *(each for each, _, _ in _examples(comparison))]
    if entry is not None:
        named += [each for each, _, _ in (_sure_branches(comparison, entry) or [])[:_NAMED]]
    for each in named:
        if each is not None and not any(each is known for known in entries):
            entries.append(each)
    return entries


def _usual_entries(comparison: Comparison) -> list[MetricComparison]:
    """The main metrics; the first others where none of them was asked for."""
    entries = [entry for key in _SHORT if (entry := _first(comparison.metrics, [key])) is not None]
    return entries or [entry for entry in comparison.distinct if entry.estimates][: len(_SHORT)]


def name_place(entry: Compared) -> str:
    """The branch or part that an entry is about; empty for all samples."""
    return f"in {short_name(entry.name)}" if isinstance(entry, StratumComparison) else ""


def short_rows(comparison: Comparison) -> list[list[str]]:
    """The metrics of `short_entries` of every method, and the differences, as rows below a row of heads."""
    usual = _usual_entries(comparison)
    others = [name for name in comparison.methods if name != comparison.baseline]
    rows = [["", comparison.baseline, *(cell for name in others for cell in (name, "difference"))]]
    for entry in short_entries(comparison):
        role = f", {entry.role}" if entry.role in ("features", "posterior") else ""
        is_usual = any(entry is each for each in usual)
        name_of = metric_name(entry.metric) + role
        if not is_usual:
            name_of = f"{_name_entry(entry)} {name_place(entry)}".rstrip()
        cells = [name_of, _number(entry.estimates.get(comparison.baseline))]
        for name in others:
            part = entry.differences.get(name)
            says = "" if part is None or verdict(entry, part) not in _SURE else f" {verdict(entry, part)}"
            cells += [_number(entry.estimates.get(name)), _number(part, "+") + says]
        rows.append(cells)
    return rows


def _number(part: Estimate | Difference | None, sign: str = "") -> str:
    """A value and its interval, as `evaluate` prints them."""
    if part is None or math.isnan(part.value):
        return "–"
    ends = "" if math.isnan(part.low) else f" [{part.low:{sign}.3f}, {part.high:{sign}.3f}]"
    return f"{part.value:{sign}.4f}{ends}"


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
        if len(says) == 1:
            how = (
                f"is significantly {says[0]} than"
                if says[0] in _SURE
                else "is not significantly different from"
            )
            clauses.append(f"{name} {how} {comparison.baseline} in the one metric that is compared")
        elif says:
            better, worse = says.count("better"), says.count("worse")
            clauses.append(
                f"{name} is significantly better than {comparison.baseline} in {better or 'none'} of "
                f"{len(says)} metrics and significantly worse in {worse or 'none'}"
            )
    return "; ".join(clauses) + "." if clauses else ""


def tested(comparison: Comparison) -> str:
    """How many samples and groups were compared; of each block of metrics, where they differ."""

    def counted(samples: int, groups: int) -> str:
        return say_count(samples, "sample") + (
            f" in {say_count(groups, 'group')}" if comparison.grouped else ""
        )

    whole = f"{counted(comparison.samples, comparison.groups)} that all runs share"
    parts = [f"{names} on {counted(*numbers)}" for names, numbers in comparison.counted()]
    return ": ".join(filter(None, [whole, ", ".join(parts)]))


def sentences(comparison: Comparison) -> list[str]:
    """One sentence per main metric, and for what else the verdict names: which is better, and how surely."""
    entries: list[Compared] = [*short_entries(comparison)]
    further = [_first(comparison.metrics, _places(key)) for key in _FIRST]
    entries += [each for each in further if each is not None and not any(each is known for known in entries)]
    lines = []
    for entry in entries:
        metric = metric_of_entry(entry)
        base = entry.estimates.get(comparison.baseline)
        parts = [_part(entry, name, part) for name, part in entry.differences.items()]
        if base is None or not parts:
            continue
        title, place = metric.title, name_place(entry)
        title = f"{place}: {title[:1].lower()}{title[1:]}" if place else title
        what = f"{title[:1].upper()}{title[1:]} ({metric.name})"
        value = percent(base.value) if metric.share else f"{base.value:.2f}"
        lines.append(f"{what}: {comparison.baseline} {value}; {'; '.join(parts)}.")
    return lines


def _part(entry: Compared, name: str, part: Difference) -> str:
    metric = metric_of_entry(entry)
    value = entry.estimates[name].value
    shown = percent(value) if metric.share else f"{value:.2f}"
    says = verdict(entry, part)
    text, ends = difference_text(entry, part)
    interval = f" ({ends})" if ends else ""
    if says == "neither":
        return f"{name} {shown}"
    if says == "not sure":
        return f"{name} {shown}, not significantly different{interval}"
    return f"{name} {shown}, {says} by {text.lstrip('+−')}{' points' if metric.share else ''}{interval}"

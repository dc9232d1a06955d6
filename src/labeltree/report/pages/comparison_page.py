"""The comparison of several runs as one HTML page that works offline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from labeltree.atomic import write_text
from labeltree.evaluation import EvaluationResult
from labeltree.evaluation.comparing.comparison import (
    Comparison,
    Difference,
    MetricComparison,
    StratumComparison,
)
from labeltree.report.charts.bar_charts import (
    DotRow,
    difference_chart,
    dot_chart,
    for_screens,
    method_mark,
)
from labeltree.report.charts.figures import curve_chart, depth_chart
from labeltree.report.comparison_words import (
    comparison_verdict,
    difference_text,
    estimate_text,
    metric_of_entry,
    name_place,
    p_text,
    sentences,
    short_entries,
    tested,
    verdict,
)
from labeltree.report.pages.template import read_script, render_page
from labeltree.report.wording import metric_words
from labeltree.runs.versions import versions
from labeltree.taxonomy.naming import split_path

__all__ = ["DifferenceNode", "comparison_page", "difference_tree", "write_comparison_page"]

Results = Mapping[str, EvaluationResult | Sequence[EvaluationResult]]

_CHARTED = (
    ("answer_top1", "answers"),
    ("answer_hierarchical_f1", "answers"),
    ("top1", ""),
    ("hierarchical_f1", ""),
    ("own_top1", "predictions"),
    ("prototype_top1", "embeddings"),
    ("recall_at_1", "features"),
    ("map_at_r", "features"),
    ("ahp", "features"),
    ("recall_at_1", "embeddings"),
    ("ahp", "embeddings"),
    ("parent_violations", "embeddings"),
)
_UNKNOWN = Difference(math.nan)
_TREES = ("answer_top1", "top1", "recall_at_1", "own_top1")


def comparison_page(
    comparison: Comparison,
    results: Results | None = None,
    *,
    title: str | None = None,
) -> str:
    """The page as a string of HTML; deterministic.

    Args:
        comparison: Result of `labeltree.evaluation.compare`.
        results: For each method, the results of its runs or of one run, for the charts of HP@k and accuracy
            by depth on each run's own test samples; several runs are averaged. Missing methods are left out.
        title: Title of the page.
    """
    given = {n: [r] if isinstance(r, EvaluationResult) else list(r) for n, r in (results or {}).items()}
    others = [name for name in comparison.methods if name != comparison.baseline]
    order = [comparison.baseline, *others]
    charted = _charted(comparison)
    return render_page(
        "comparison",
        title or "Which of them follows the tree better",
        script=read_script(),
        comparison=comparison,
        methods=order,
        others=others,
        marks=[method_mark(i) for i in range(len(order))],
        said=comparison_verdict(comparison),
        sentences=sentences(comparison),
        dots=_dots(charted, order),
        differences=_differences(charted, comparison.baseline, others) if others else None,
        trees=_trees(comparison),
        strata=_strata(comparison, order),
        own_samples=_own_samples(comparison),
        depth=depth_chart(given, order),
        curve=curve_chart(given, order),
        tested=tested(comparison),
        copies=len(comparison.same),
        table=[_row(entry, order) for entry in comparison.distinct],
        versions=versions(),
    )


def write_comparison_page(
    comparison: Comparison, path: str | Path, results: Results | None = None, *, title: str | None = None
) -> Path:
    """Write the page as one HTML file, atomically; see `comparison_page`.

    Returns:
        The path of the file.
    """
    write_text(path, comparison_page(comparison, results, title=title))
    return Path(path)


def _charted(comparison: Comparison) -> list[MetricComparison]:
    """The proportions that the terminal shows, and the other main metrics; without any, the first ones."""
    known = [e for e in comparison.distinct if e.estimates and e.larger_is_better is not None]
    charted = [e for e in short_entries(comparison) if e.estimates and e.larger_is_better is not None]
    charted = [entry for entry in charted if metric_of_entry(entry).share]
    copied = {comparison.same.get(f"{entry.role}.{entry.metric}") for entry in charted}
    for metric, role in _CHARTED:
        entry = next((e for e in known if e.metric == metric and role in ("", e.role)), None)
        if entry is None or f"{entry.role}.{entry.metric}" in copied:
            continue
        if not any(entry is each for each in charted):
            charted.append(entry)
    return charted or [entry for entry in known if metric_of_entry(entry).share][:8]


def _row_label(entry: MetricComparison) -> str:
    """The metric, or the branch that it is of, which the detail below names."""
    return name_place(entry).replace("in ", "In ", 1) or metric_of_entry(entry).title


def _dots(entries: list[MetricComparison], order: list[str]) -> Any:
    rows = []
    for entry in entries:
        metric = metric_of_entry(entry)
        estimates = [entry.estimates.get(name) for name in order]
        values = [math.nan if part is None else part.value for part in estimates]
        bounds = [(math.nan, math.nan) if part is None else (part.low, part.high) for part in estimates]
        rows.append(DotRow(_row_label(entry), f"{metric.name}, {entry.role}", values, bounds))
    title = "Every method by the main measures, with intervals"
    return for_screens(lambda narrow: dot_chart(rows, order, title=title, narrow=narrow))


def _differences(entries: list[MetricComparison], baseline: str, others: list[str]) -> Any:
    rows = []
    for entry in entries:
        metric = metric_of_entry(entry)
        parts = [entry.differences.get(name, _UNKNOWN) for name in others]
        ends = [(p.low, p.high) if entry.larger_is_better else (-p.high, -p.low) for p in parts]
        rows.append(
            DotRow(
                _row_label(entry),
                f"{metric.name}, {entry.role}" + ("" if entry.larger_is_better else "; + is fewer"),
                [entry.better_by(part) for part in parts],
                ends,
                [difference_text(entry, replace(part, value=entry.better_by(part)))[0] for part in parts],
                [verdict(entry, part) != "not sure" for part in parts],
            )
        )
    title = f"Differences to {baseline}"
    return for_screens(
        lambda narrow: difference_chart(rows, others, baseline=baseline, title=title, narrow=narrow)
    )


def _trees(comparison: Comparison) -> list[dict[str, Any]]:
    keys = list(dict.fromkeys((e.metric, e.role) for e in comparison.strata if e.kind == "subtree"))
    keys.sort(key=lambda key: _TREES.index(key[0]) if key[0] in _TREES else len(_TREES))
    trees = []
    for metric, role in keys:
        nodes = difference_tree(comparison, metric, role)
        if nodes and nodes[0].cells:
            trees.append({"metric": metric_words(metric), "role": role, "nodes": nodes})
    return trees


@dataclass(frozen=True)
class DifferenceCell:
    """The difference of one method from the baseline at one branch, its bar, and its significance.

    Attributes:
        text: The difference as text.
        ends: The ends of its interval as text.
        verdict: `better`, `worse`, `not sure` or `neither`.
        share: Length of the bar relative to the largest difference, 0 to 1.
        right: True if the bar points to the right: the method is better.
    """

    text: str
    ends: str
    verdict: str
    share: float
    right: bool


@dataclass
class DifferenceNode:
    """A branch or class with its parts; `open` if the tree is small or holds a significant difference."""

    name: str
    path: str
    samples: int
    base: str
    cells: list[DifferenceCell]
    children: list[DifferenceNode] = field(default_factory=list)
    open: bool = False


def difference_tree(
    comparison: Comparison, metric: str, role: str, *, most_open: int = 40
) -> list[DifferenceNode]:
    """The coarsest branches compared by one metric, with all branches inside them.

    Args:
        comparison: Comparison with strata of the kind `subtree`.
        metric: The metric to show.
        role: Role of the metric.
        most_open: With more rows than this, only branches with a significant difference inside are unfolded.
    """
    entries = [
        entry
        for entry in comparison.strata
        if entry.kind == "subtree" and (entry.metric, entry.role) == (metric, role)
    ]
    parts = [part for entry in entries for part in entry.differences.values()]
    largest = max((abs(part.value) for part in parts if math.isfinite(part.value)), default=0.0) or 1.0
    top: list[DifferenceNode] = []
    line: list[tuple[tuple[str, ...], DifferenceNode]] = []
    for entry in sorted(entries, key=lambda entry: entry.node):
        path = split_path(entry.name)
        node = _node(entry, path, comparison.baseline, largest)
        while line and line[-1][0] != path[: len(line[-1][0])]:
            line.pop()
        (line[-1][1].children if line else top).append(node)
        line.append((path, node))
    small = len(entries) <= most_open
    for node in top:
        _unfold(node, small)
    return top


def _node(entry: StratumComparison, path: tuple[str, ...], baseline: str, largest: float) -> DifferenceNode:
    cells = []
    for part in entry.differences.values():
        text, ends = difference_text(entry, part)
        good = entry.better_by(part)
        share = abs(good) / largest if math.isfinite(good) else 0.0
        cells.append(DifferenceCell(text, ends, verdict(entry, part), share, good > 0))
    name = path[-1] if path else "All classes"
    return DifferenceNode(name, " › ".join(path), entry.samples, estimate_text(entry, baseline)[0], cells)


def _unfold(node: DifferenceNode, everything: bool) -> bool:
    """Unfold the path to every significant difference; returns whether there is one at or below the node."""
    inside = [_unfold(child, everything) for child in node.children]
    node.open = everything or any(inside)
    return any(inside) or any(cell.verdict in ("better", "worse") for cell in node.cells)


def _strata(comparison: Comparison, order: list[str]) -> list[dict[str, Any]]:
    """Tables by the depth of the label, by the frequency of the class, and by attributes."""
    titles = {
        "depth": "By the depth of the label",
        "frequency": "By the frequency of the class in training",
        "attribute": "By attribute",
    }
    parts = []
    for kind, title in titles.items():
        rows = [
            {"name": entry.name, **_row(entry, order)} for entry in comparison.strata if entry.kind == kind
        ]
        if rows:
            parts.append({"title": title, "rows": rows})
    return parts


def _row(entry: Any, order: list[str]) -> dict[str, Any]:
    metric = metric_of_entry(entry)
    cells = []
    for name in order:
        value, ends = estimate_text(entry, name)
        part = entry.differences.get(name)
        cells.append(
            {
                "value": value,
                "ends": ends,
                "difference": "" if part is None else difference_text(entry, part)[0],
                "verdict": "" if part is None else verdict(entry, part),
                "p": "" if part is None else p_text(part.corrected),
            }
        )
    counted, units = (
        " / ".join(f"{number:,}" if number else "–" for number in of) for of in entry.counts(order)
    )
    counts = {"counted": counted, "units": units}
    return {
        "metric": metric, "role": entry.role, "larger": entry.larger_is_better, "cells": cells, **counts,
    }  # fmt: skip


def _own_samples(comparison: Comparison) -> str:
    """A note on the samples of the curves, if they differ from the samples of the comparison."""
    parts = []
    if any(comparison.left_out.values()):
        parts.append("Every method on all its own test samples, including those that others do not have.")
    if any(len(runs) > 1 for runs in comparison.methods.values()):
        parts.append("For several runs, the mean.")
    return " ".join(parts)

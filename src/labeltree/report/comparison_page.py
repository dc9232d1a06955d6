"""The comparison of several runs as one HTML page that needs no network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from labeltree.atomic import atomic_write
from labeltree.evaluation import EvaluationResult
from labeltree.evaluation.comparison import Comparison, Difference, MetricComparison
from labeltree.report.charts import (
    DifferenceRow,
    DotRow,
    difference_chart,
    dot_chart,
    for_screens,
    method_mark,
)
from labeltree.report.comparison_words import (
    better_by,
    difference_text,
    estimate_text,
    measure_of,
    sentences,
    summary,
    verdict,
)
from labeltree.report.difference_tree import difference_tree
from labeltree.report.figures import curve_chart, depth_chart
from labeltree.report.template import read_script, render_page
from labeltree.runs.versions import versions

__all__ = ["comparison_page", "write_comparison_page"]

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
    """The page as a string of HTML: the same for the same input.

    Args:
        comparison: of `labeltree.evaluation.compare`.
        results: method → the results of its runs, or of one, for HP@k and the accuracy by depth, which are
            those of the runs' own test samples; of several the mean is drawn. Methods that are missing are
            left out.
        title: of the page.
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
        summary=summary(comparison),
        sentences=sentences(comparison),
        dots=_dots(charted, order),
        differences=_differences(charted, comparison.baseline, others) if others else None,
        trees=_trees(comparison),
        strata=_strata(comparison, order),
        own_samples=_own_samples(comparison),
        depth=depth_chart(given, order),
        curve=curve_chart(given, order),
        table=[_row(entry, order) for entry in comparison.metrics],
        versions=versions(),
    )


def write_comparison_page(
    comparison: Comparison, path: str | Path, results: Results | None = None, *, title: str | None = None
) -> Path:
    """Write the page as one HTML file, atomically; see `comparison_page`.

    Returns:
        the path of the file.
    """
    page = comparison_page(comparison, results, title=title)
    with atomic_write(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return Path(path)


def _charted(comparison: Comparison) -> list[MetricComparison]:
    """The metrics that are drawn, each once, without those that no method has; else the first shares."""
    found: list[MetricComparison] = []
    for metric, role in _CHARTED:
        entry = next((e for e in comparison.metrics if e.metric == metric and role in ("", e.role)), None)
        if entry is not None and entry.estimates and entry not in found:
            found.append(entry)
    return found or [e for e in comparison.metrics if e.estimates and measure_of(e.metric, e.role).share][:8]


def _dots(entries: list[MetricComparison], order: list[str]) -> Any:
    rows = []
    for entry in entries:
        measure = measure_of(entry.metric, entry.role)
        found = [entry.estimates.get(name) for name in order]
        values = [math.nan if part is None else part.value for part in found]
        bounds = [(math.nan, math.nan) if part is None else (part.low, part.high) for part in found]
        rows.append(DotRow(measure.title, f"{measure.term}, {entry.role}", values, bounds))
    title = "Every method by the main measures, with intervals"
    return for_screens(lambda narrow: dot_chart(rows, order, title=title, narrow=narrow))


def _differences(entries: list[MetricComparison], baseline: str, others: list[str]) -> Any:
    rows = []
    for entry in entries:
        measure = measure_of(entry.metric, entry.role)
        parts = [entry.differences.get(name, _UNKNOWN) for name in others]
        ends = [(p.low, p.high) if entry.larger_is_better else (-p.high, -p.low) for p in parts]
        rows.append(
            DifferenceRow(
                measure.title,
                f"{measure.term}, {entry.role}" + ("" if entry.larger_is_better else "; + is fewer"),
                [better_by(entry, part) for part in parts],
                ends,
                [verdict(entry, part) != "not sure" for part in parts],
                [difference_text(entry, _turned(entry, part))[0] for part in parts],
            )
        )
    title = f"Differences to {baseline}"
    return for_screens(
        lambda narrow: difference_chart(rows, others, baseline=baseline, title=title, narrow=narrow)
    )


def _turned(entry: MetricComparison, part: Difference) -> Difference:
    """The difference as the chart draws it, + for better."""
    return replace(part, value=better_by(entry, part))


def _trees(comparison: Comparison) -> list[dict[str, Any]]:
    keys = list(dict.fromkeys((e.metric, e.role) for e in comparison.strata if e.kind == "subtree"))
    keys.sort(key=lambda key: _TREES.index(key[0]) if key[0] in _TREES else len(_TREES))
    found = []
    for metric, role in keys:
        nodes = difference_tree(comparison, metric, role)
        if nodes and nodes[0].cells:
            found.append({"measure": measure_of(metric, role), "role": role, "nodes": nodes})
    return found


def _strata(comparison: Comparison, order: list[str]) -> list[dict[str, Any]]:
    """Tables by the depth of the label and by the frequency of the class."""
    titles = {"depth": "By the depth of the label", "frequency": "By the frequency of the class in training"}
    found = []
    for kind, title in titles.items():
        rows = [
            {"name": entry.name, "samples": entry.samples, **_row(entry, order)}
            for entry in comparison.strata
            if entry.kind == kind
        ]
        if rows:
            found.append({"title": title, "rows": rows})
    return found


def _row(entry: Any, order: list[str]) -> dict[str, Any]:
    measure = measure_of(entry.metric, entry.role)
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
                "p": "" if part is None else _chance(part.corrected),
            }
        )
    return {"measure": measure, "role": entry.role, "larger": entry.larger_is_better, "cells": cells}


def _chance(p: float) -> str:
    return "" if math.isnan(p) else "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.995 else "p = 1"


def _own_samples(comparison: Comparison) -> str:
    """What curves are drawn from, where that is not what everything else is."""
    parts = []
    if any(comparison.left_out.values()):
        parts.append("Every method by all its own test samples, also those that others do not have.")
    if any(len(runs) > 1 for runs in comparison.methods.values()):
        parts.append("Of several runs the mean.")
    return " ".join(parts)

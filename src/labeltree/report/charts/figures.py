"""Charts of accuracy by depth and HP@k, for one result or for the runs of several methods."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from markupsafe import Markup
from torch import Tensor

from labeltree.counted_nouns import say_count
from labeltree.evaluation import EvaluationResult
from labeltree.report.charts.bar_charts import (
    DotRow,
    Line,
    clip,
    dot_chart,
    for_screens,
    line_chart,
)
from labeltree.report.charts.node_names import NodeNames
from labeltree.report.wording import percent
from labeltree.taxonomy import Taxonomy

__all__ = ["curve_chart", "curve_figure", "depth_chart", "depth_figure"]

_UNKNOWN = (math.nan, math.nan)


def depth_figure(result: EvaluationResult, taxonomy: Taxonomy, nodes: Tensor) -> dict[str, Any]:
    """The chart and the table of accuracy by depth; `nodes` are the labels of the test samples."""
    labels = taxonomy.paths[nodes]
    names = NodeNames(taxonomy)
    details = []
    for depth in range(taxonomy.max_depth):
        groups = labels[:, depth]
        bands = torch.unique(groups[groups > 0]).tolist()
        listed = _list_names([names.short(node) for node in bands], 31 - len(str(len(bands))))
        last = depth == taxonomy.max_depth - 1
        details.append(f"{say_count(len(bands), *(('class', 'classes') if last else ('group',)))}: {listed}")
    classifiers = {
        "probe": f"linear classifier on {next(iter(result.main.representations.values())).source}",
        "prototypes": "nearest class mean of embeddings",
        "own": "the model's own answers",
    }
    table_rows = [
        (method.name, classifiers.get(protocol, protocol), [percent(v) for v in values])
        for method in result.methods.values()
        for protocol, values in method.by_depth.items()
    ]
    methods = {
        name: (method.answer_by_depth, method.depth_intervals.get(method.classifier.name, []))
        for name, method in result.methods.items()
    }
    return {
        "chart": _depth_chart(methods, details),
        "rows": table_rows,
        "depths": list(range(1, taxonomy.max_depth + 1)),
    }


def _depth_chart(
    methods: Mapping[str, tuple[Sequence[float], Sequence[tuple[float, float]]]], details: Sequence[str]
) -> Markup:
    """Accuracy by depth: method → its values and their intervals, coarse to fine, as many as there are."""
    rows = []
    for place, detail in enumerate(details):
        what = ", the exact class" if place == len(details) - 1 else ", the coarsest" if place == 0 else ""
        values = [known[place] if place < len(known) else math.nan for known, _ in methods.values()]
        bounds = [ends[place] if place < len(ends) else _UNKNOWN for _, ends in methods.values()]
        rows.append(DotRow(f"Depth {place + 1}{what}", detail, values, bounds))
    title = "Accuracy of every method at every depth of the tree"
    return for_screens(lambda narrow: dot_chart(rows, list(methods), title=title, narrow=narrow))


def _list_names(names: list[str], limit: int) -> str:
    text = ""
    for i, name in enumerate(names):
        longer = f"{text}, {name}" if text else name
        if len(longer) + 3 * (i < len(names) - 1) > limit:
            return f"{text}, …" if text else clip(name, limit)
        text = longer
    return text


def curve_figure(result: EvaluationResult) -> Markup:
    """HP@k of all methods; for the evaluated one, with both representations."""
    lines = []
    for style, (key, method) in enumerate(result.methods.items()):
        for role, values in method.hp_curve.items():
            if key != result.name and role != next(iter(method.hp_curve)):
                continue
            both = key == result.name and len(method.hp_curve) > 1
            name = f"{method.name}, {role}" if both else method.name
            lines.append(Line(name, values, style, dashed=both and role == "embeddings"))
    return _hp_chart(lines)


def _hp_chart(lines: Sequence[Line]) -> Markup:
    """HP@k as lines, for wide screens and narrow ones."""
    return for_screens(
        lambda narrow: line_chart(
            lines,
            title="Hierarchical precision of the first k results, for every method",
            x_label="length of the list of results, k",
            y_label="share of the best possible list (HP@k)",
            narrow=narrow,
        )
    )


def depth_chart(results: Mapping[str, Sequence[EvaluationResult]], order: Sequence[str]) -> Markup | None:
    """The linear probe's accuracy at every depth; None without any values.

    Args:
        results: Method → the results of its runs; several are averaged, and then have no intervals.
        order: All methods, each with the style of its place.
    """
    methods = {}
    for name in order:
        runs = [run.main for run in results.get(name, [])]
        ends = runs[0].depth_intervals.get("probe", []) if len(runs) == 1 else []
        methods[name] = _mean([run.by_depth.get("probe", []) for run in runs]), ends
    depths = max((len(values) for values, _ in methods.values()), default=0)
    return _depth_chart(methods, [""] * depths) if depths else None


def curve_chart(results: Mapping[str, Sequence[EvaluationResult]], order: Sequence[str]) -> Markup | None:
    """HP@k with the first representation, the features if there are any; None without any values.

    Args:
        results: As for `depth_chart`.
        order: As for `depth_chart`.
    """
    lines = []
    for style, name in enumerate(order):
        curves = [next(iter(run.main.hp_curve.values()), []) for run in results.get(name, [])]
        if any(curves):
            lines.append(Line(name, _mean(curves), style))
    return _hp_chart(lines) if lines else None


def _mean(curves: Sequence[Sequence[float]]) -> list[float]:
    """The mean at each position, as far as all curves reach."""
    shortest = min(map(len, curves), default=0)
    return [sum(curve[i] for curve in curves) / len(curves) for i in range(shortest)]

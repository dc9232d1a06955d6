"""The figures of the report that show one result over depths and list lengths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from markupsafe import Markup
from torch import Tensor

from labeltree.evaluation import EvaluationResult, MethodResult
from labeltree.report.charts import DotRow, Line, clip, dot_chart, for_screens, line_chart
from labeltree.report.names import NodeNames
from labeltree.report.wording import percent, plural
from labeltree.taxonomy import Taxonomy

__all__ = ["curve_figure", "depth_figure", "hp_chart"]


def depth_figure(result: EvaluationResult, taxonomy: Taxonomy, nodes: Tensor) -> dict[str, Any]:
    """The chart and the table of the accuracy by depth; ``nodes`` are the labels of the test samples."""
    labels = taxonomy.paths[nodes]
    names = NodeNames(taxonomy)
    rows = []
    for depth in range(1, taxonomy.max_depth + 1):
        groups = labels[:, depth - 1]
        found = torch.unique(groups[groups > 0]).tolist()
        last = depth == taxonomy.max_depth
        what = ", the exact class" if last else ", the coarsest" if depth == 1 else ""
        detail = _as_many_as_fit([names.short(node) for node in found], 31 - len(str(len(found))))
        values = [method.answer_by_depth[depth - 1] for method in result.methods.values()]
        rows.append(
            DotRow(
                f"Depth {depth}{what}",
                plural(len(found), "group") + f": {detail}"
                if not last
                else plural(len(found), "class", "classes") + f": {detail}",
                values,
                [_bounds(method, depth) for method in result.methods.values()],
            )
        )
    classifiers = {
        "probe": f"linear classifier on {next(iter(result.main.representations.values())).source}",
        "prototypes": "nearest class average of embeddings",
        "own": "the model's own answers",
    }
    table_rows = [
        (method.name, classifiers.get(protocol, protocol), [percent(v) for v in values])
        for method in result.methods.values()
        for protocol, values in method.by_depth.items()
    ]
    title = "Accuracy of every method at every depth of the tree"
    chart = for_screens(lambda narrow: dot_chart(rows, list(result.methods), title=title, narrow=narrow))
    return {"chart": chart, "rows": table_rows, "depths": list(range(1, taxonomy.max_depth + 1))}


def _bounds(method: MethodResult, depth: int) -> tuple[float, float]:
    given = method.depth_intervals.get(method.classifier.name, [])
    return given[depth - 1] if depth <= len(given) else (math.nan, math.nan)


def _as_many_as_fit(names: list[str], limit: int) -> str:
    text = ""
    for i, name in enumerate(names):
        longer = f"{text}, {name}" if text else name
        if len(longer) + 3 * (i < len(names) - 1) > limit:
            return f"{text}, …" if text else clip(name, limit)
        text = longer
    return text


def curve_figure(result: EvaluationResult) -> Markup:
    """HP@k of all methods; of the evaluated one by both representations."""
    lines = []
    for style, (key, method) in enumerate(result.methods.items()):
        for role, values in method.hp_curve.items():
            if key != result.name and role != next(iter(method.hp_curve)):
                continue
            both = key == result.name and len(method.hp_curve) > 1
            name = f"{method.name}, {role}" if both else method.name
            lines.append(Line(name, values, style, dashed=both and role == "embeddings"))
    return hp_chart(lines)


def hp_chart(lines: Sequence[Line]) -> Markup:
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

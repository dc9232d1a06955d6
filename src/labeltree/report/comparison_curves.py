"""Accuracy by depth and HP@k of several methods, from the results of their runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from labeltree.evaluation import EvaluationResult
from labeltree.report.charts import DotRow, Line, dot_chart, for_screens
from labeltree.report.figures import hp_chart

__all__ = ["curve_chart", "depth_chart"]

Bounds = tuple[float, float]
_NO_BOUNDS: Bounds = (math.nan, math.nan)


def depth_chart(results: Mapping[str, Sequence[EvaluationResult]], order: Sequence[str]) -> Markup | None:
    """The linear probe's accuracy at every depth; None without any.

    Args:
        results: method → the results of its runs; several are averaged, and then have no intervals.
        order: all methods, each with the style of its place.
    """
    values = {
        name: _mean([run.main.by_depth.get("probe", []) for run in results.get(name, [])]) for name in order
    }
    depths = max(map(len, values.values()), default=0)
    if not depths:
        return None
    rows = []
    for depth in range(depths):
        last = depth == depths - 1
        what = ", the exact class" if last else ", the coarsest" if depth == 0 else ""
        rows.append(
            DotRow(
                f"Depth {depth + 1}{what}",
                "",
                [values[name][depth] if depth < len(values[name]) else math.nan for name in order],
                [_bounds(results.get(name, []), depth) for name in order],
            )
        )
    title = "Accuracy of every method at every depth of the tree"
    return for_screens(lambda narrow: dot_chart(rows, order, title=title, narrow=narrow))


def curve_chart(results: Mapping[str, Sequence[EvaluationResult]], order: Sequence[str]) -> Markup | None:
    """HP@k by the representation that is read first, the features where there are some; None without any.

    Args:
        results: as for `depth_chart`.
        order: as for `depth_chart`.
    """
    lines = []
    for style, name in enumerate(order):
        curves = [next(iter(run.main.hp_curve.values()), []) for run in results.get(name, [])]
        if any(curves):
            lines.append(Line(name, _mean(curves), style))
    return hp_chart(lines) if lines else None


def _mean(curves: Sequence[Sequence[float]]) -> list[float]:
    """Place by place, as far as all curves reach."""
    shortest = min(map(len, curves), default=0)
    return [sum(curve[i] for curve in curves) / len(curves) for i in range(shortest)]


def _bounds(runs: Sequence[EvaluationResult], depth: int) -> Bounds:
    known = runs[0].main.depth_intervals.get("probe", []) if len(runs) == 1 else []
    return known[depth] if depth < len(known) else _NO_BOUNDS

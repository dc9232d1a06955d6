"""The curve over the dial `tree` of a posterior space: finding the class against the order of the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from markupsafe import Markup

from labeltree.evaluation.chosen_samples import stratified_subsample
from labeltree.evaluation.queries_and_gallery import SearchPlan
from labeltree.geometry import Sphere
from labeltree.metrics.retrieval import Retrieval
from labeltree.report.charts.bar_charts import for_screens, round_ticks
from labeltree.report.charts.svg import SHAPES, Drawing, marker
from labeltree.report.wording import percent
from labeltree.ridge import TreeRidgeLoss
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

__all__ = ["DialPoint", "dial_figure", "dial_points"]

_QUERIES = 500


@dataclass(frozen=True)
class DialPoint:
    """Two numbers of a search at one position of the dial."""

    tree: float
    map_at_r: float
    ahp: float


def dial_points(
    table: EmbeddingTable,
    plan: SearchPlan,
    taxonomy: Taxonomy,
    solver: TreeRidgeLoss,
    *,
    hp_k: int = 250,
    seed: int = 0,
) -> list[DialPoint]:
    """MAP@R and AHP at `tree` 0, 0.1 … 1 and where the run has it, of at most 500 queries of the plan.

    Args:
        table: With embeddings of the solver.
        plan: The search. Each query is left out of its own results.
        taxonomy: Of the labels.
        solver: Turns the embeddings.
        hp_k: The K of AHP@K.
        seed: Of the draw of queries.
    """
    nodes, gallery = table.nodes, plan.queries if plan.gallery is None else plan.gallery
    queries = stratified_subsample(plan.queries, nodes[plan.queries], _QUERIES, seed)
    alone, groups = torch.arange(len(table)), plan.groups
    if plan.gallery is None:
        groups = alone if groups is None else torch.where(groups >= 0, groups, int(groups.max()) + 1 + alone)
    left_out: dict[str, Any] = {}
    if groups is not None:
        left_out = {"query_groups": groups[queries], "key_groups": groups[gallery]}
    points = []
    for tree in sorted({*(step / 10 for step in range(11)), float(solver.space["tree"])}):
        turn = solver.turning(tree=tree)
        asked, keys = (turn(table.embeddings[rows]).float() for rows in (queries, gallery))
        search = Retrieval(
            asked, nodes[queries], taxonomy, keys, nodes[gallery], geometry=Sphere(), **left_out
        ).metrics(ks=(1,), ahp_k=hp_k)
        points.append(DialPoint(tree, float(search["map@r"]), float(search[f"ahp@{hp_k}"])))
    if any(math.isnan(point.map_at_r) or math.isnan(point.ahp) for point in points):
        return []  # none of the queries drawn has anything to find
    return points


def dial_figure(points: Sequence[DialPoint], chosen: float) -> dict[str, Any]:
    """The chart of the points, with the chosen position marked, and their rows as text."""
    return {
        "chart": for_screens(lambda narrow: _draw(points, chosen, narrow=narrow)),
        "rows": [
            (f"{point.tree:g}", percent(point.map_at_r), percent(point.ahp), point.tree == chosen)
            for point in points
        ],
        "chosen": f"{chosen:g}",
    }


def _draw(points: Sequence[DialPoint], chosen: float, *, narrow: bool) -> Markup:
    width, height = (400.0, 320.0) if narrow else (860.0, 380.0)
    left, right, top, bottom = 52.0, 24.0, 34.0, 46.0
    across = round_ticks(*_range(point.map_at_r for point in points))
    up = round_ticks(*_range(point.ahp for point in points))
    first, last, told = (
        f"{percent(point.map_at_r)} and {percent(point.ahp)} at {point.tree:g}"
        for point in (points[0], points[-1], next(point for point in points if point.tree == chosen))
    )
    title = f"MAP@R against AHP over the dial tree: from {first} to {last}; chosen: {told}"
    drawing = Drawing(width, height, title)

    def x_of(value: float) -> float:
        return left + (width - left - right) * (value - across[0]) / (across[-1] - across[0])

    def y_of(value: float) -> float:
        return top + (height - top - bottom) * (up[-1] - value) / (up[-1] - up[0])

    for mark in up:
        drawing.line(left, y_of(mark), width - right, y_of(mark), "grid")
        drawing.text(left - 8, y_of(mark) + 4, f"{100 * mark:.4g}%", "tick end")
    for mark in across:
        drawing.line(x_of(mark), height - bottom, x_of(mark), height - bottom + 5, "axis")
        drawing.text(x_of(mark), height - bottom + 19, f"{100 * mark:.4g}%", "tick mid")
    drawing.text((left + width - right) / 2, height - 6, "the same class is found (MAP@R)", "label mid")
    drawing.text(8, 16, "related classes come next (AHP)", "label")
    path = "M" + "L".join(f"{x_of(point.map_at_r):.1f} {y_of(point.ahp):.1f}" for point in points)
    drawing.add("path", d=path, css="line m0")
    middle = (left + width - right) / 2
    for point in points:
        x, y, here = x_of(point.map_at_r), y_of(point.ahp), point.tree == chosen
        said = f"tree {point.tree:g}: MAP@R {percent(point.map_at_r)}, AHP {percent(point.ahp)}"
        with drawing.group(said):
            drawing.add("path", d=marker(SHAPES[0], x, y, 8.0 if here else 4.0), css="dot m0")
        if here or point.tree in (0.0, 1.0):
            side, beside = ("", -4.0) if x < middle else (" end", -12.0)  # inside the curve
            words = f"tree {point.tree:g}" + (", chosen" if here else "")
            drawing.text(x + beside, y + (4.5 if point.tree == 0 else 24.0), words, f"name m0{side}")
    return drawing.markup()


def _range(values: Any) -> tuple[float, float]:
    """The least and the largest number, a little apart."""
    known = list(values)
    return min(known) - 0.002, max(known) + 0.002

"""The figures of a study: differences as dots with intervals; along a grid, bands or maps."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from labeltree.report.charts.grid_charts import Band, band_chart, cell_chart
from labeltree.report.charts.interval_chart import IntervalDot, IntervalRow, interval_chart
from labeltree.report.pages.document import Block, Figure, Text
from labeltree.studies.comparison_sentences import claimed_method
from labeltree.studies.study_plan import Study, slug
from labeltree.studies.study_statistics import (
    Entry,
    Summary,
    differences,
    is_larger_better_in,
    metric_title,
)

__all__ = ["difference_blocks", "measured_baselines", "study_figures"]

_MOST = 6
"""Columns that are drawn, the first ones: the others are in the tables."""


def difference_blocks(study: Study, summary: Summary, columns: Sequence[str]) -> list[Block]:
    """What the dots say, and a chart for each column: every method's difference from one of them.

    That one is the first with the objective SupCon, which knows no tree; without one, the method that the
    claim names.
    """
    own = [method for method in study.methods if method.name in summary.methods]
    if not own or len(summary.methods) < 2:
        return []
    plain = (m.name for m in own if {**study.shared, **m.settings}.get("objective") == "supcon")
    first = next(plain, None) or claimed_method(study, [method.name for method in own])
    figures: list[Block] = []
    for column in columns:
        differs = differences(summary, column, first)
        if len(figures) == _MOST or not any(each.mean for each in differs.values()):
            continue
        rows = [
            IntervalRow(name, [IntervalDot(-d.mean, -d.high, -d.low, d.decided, 0)])
            for name, d in differs.items()
        ]
        title = f"{column.split('/')[0]}: {metric_title(column)}"
        figures.append(Figure(f"differences-{slug(column)}", title, interval_chart(rows, title=title)))
    if not figures:
        return []
    said = f"Dots: by how much each method is better than {first} (right of the line) or worse. "
    if len(study.seeds) < 3:
        said += "With fewer than three seeds there are no intervals, and chance may have made any of these."
    else:
        said += (
            "Lines: 95 % interval over the seeds, of this pair alone. It says what other seeds would give, "
            "not what other samples would. Filled: p < 0.05 with Holm's correction."
        )
    return [Text(said), *figures]


def study_figures(study: Study, summary: Summary, columns: Sequence[str]) -> list[Figure]:
    """Charts: with one axis, one per column; with two axes, one per column and method; otherwise none."""
    figures = []
    for column in columns:
        title = f"{column.split('/')[0]}: {metric_title(column)}"
        if len(study.grid) == 1:
            figures.append(Figure(slug(column), title, _bands(study, summary, column, title)))
        elif len(study.grid) == 2:
            for family in study.families:
                if any(method.family == family and len(method.point) == 2 for method in study.methods):
                    chart = _cells(study, summary, column, family, f"{family}, {title}")
                    figures.append(Figure(f"{slug(column)}-{slug(family)}", f"{family}, {title}", chart))
    return figures


def _bands(study: Study, summary: Summary, column: str, title: str) -> Markup:
    """A line for each method along the axis, and a dashed line for each baseline."""
    (axis,) = study.grid
    entries = summary.entries(column, summary.methods)
    rows: dict[str, list[Entry | None]] = {}
    for family in study.families:
        methods = [study.method_at(family, {axis.name: label}) for label in axis.points]
        rows[family] = [entries.get(method.name) if method else None for method in methods]
    for name in measured_baselines(study, summary):
        rows[name] = [entries.get(name)] * len(axis.points)
    bands = [
        Band(name, [(e.mean, e.sd or 0.0) if e else None for e in row], len({id(e) for e in row}) == 1)
        for name, row in rows.items()
    ]
    return band_chart(bands, list(axis.points), title=title, x_label=axis.name)


def _cells(study: Study, summary: Summary, column: str, family: str, title: str) -> Markup:
    """The means of one method at every point of the two axes."""
    down, across = study.grid
    values: list[list[float | None]] = []
    for row in down.points:
        points = [{down.name: row, across.name: label} for label in across.points]
        methods = [study.method_at(family, point) for point in points]
        values.append([summary.mean(method.name, column) if method else None for method in methods])
    return cell_chart(
        values,
        list(down.points),
        list(across.points),
        title=title,
        x_label=across.name,
        y_label=down.name,
        larger_is_better=is_larger_better_in(column),
    )


def measured_baselines(study: Study, summary: Summary) -> list[str]:
    """The baselines that were measured."""
    own = {method.name for method in study.methods}
    return [name for name in summary.methods if name not in own]

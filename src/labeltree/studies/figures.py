"""Figures of a grid: curves with bands along one axis, maps of cells along two."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from labeltree.report.svg import SHAPES, STYLES, Drawing, marker
from labeltree.studies.plan import Axis, Study, slug
from labeltree.studies.summary import Entry, Summary, lower_is_better, metric_title

__all__ = ["study_figures"]

_WIDTH, _HEIGHT = 820.0, 360.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 236.0, 30.0, 52.0


def study_figures(study: Study, summary: Summary, columns: Sequence[str]) -> list[tuple[str, str, Markup]]:
    """A figure a column, or a column and method where the grid has two axes.

    Returns:
        Of each, the name of its file without suffix, its title, and the chart.
    """
    figures = []
    for column in columns:
        title = f"{column.split('/')[0]}: {metric_title(column)}"
        if len(study.grid) == 1:
            figures.append((slug(column), title, _curves(study, summary, column, title)))
        elif len(study.grid) == 2:
            for family in study.families:
                if any(method.family == family and len(method.point) == 2 for method in study.methods):
                    name = f"{slug(column)}-{slug(family)}"
                    full = f"{family}, {title}"
                    figures.append((name, full, _cells(study, summary, column, family, full)))
    return figures


def _curves(study: Study, summary: Summary, column: str, title: str) -> Markup:
    (axis,) = study.grid
    entries = summary.entries(column, summary.methods)
    lines: list[tuple[str, list[Entry | None]]] = []
    for family in study.families:
        methods = [study.method_at(family, {axis.name: label}) for label in axis.points]
        lines.append((family, [entries.get(method.name) if method else None for method in methods]))
    planned = {method.name for method in study.methods}
    lines += [
        (name, [entries.get(name)] * len(axis.points)) for name in summary.methods if name not in planned
    ]
    drawing = Drawing(_WIDTH, _HEIGHT, title)
    known = [entry for _, row in lines for entry in row if entry]
    if not known:
        return drawing.text(_WIDTH / 2, _HEIGHT / 2, "nothing was measured yet", "mid").markup()
    marks = _ticks(min(_low(e) for e in known), max(_high(e) for e in known))
    low, high = marks[0], marks[-1]

    def y_of(value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - value) / (high - low)

    places = _frame(drawing, axis, column)
    for mark in marks:
        drawing.line(_LEFT, y_of(mark), _WIDTH - _RIGHT, y_of(mark), "grid")
        drawing.text(_LEFT - 8, y_of(mark) + 4, f"{mark:.4g}", "tick end")
    for number, (name, row) in enumerate(lines):
        points = [(x, entry) for x, entry in zip(places, row, strict=True) if entry]
        css = f"m{number % STYLES}"
        constant = len({id(entry) for entry in row}) == 1
        upper = [f"{x:.1f} {y_of(_high(entry)):.1f}" for x, entry in points]
        lower = [f"{x:.1f} {y_of(_low(entry)):.1f}" for x, entry in reversed(points)]
        if points:
            drawing.add("path", d="M" + "L".join([*upper, *lower]) + "z", css=f"band {css}")
            path = "M" + "L".join(f"{x:.1f} {y_of(entry.mean):.1f}" for x, entry in points)
            drawing.add("path", d=path, css=f"line {css}{' dashed' if constant else ''}")
        shape = SHAPES[number % len(SHAPES)]
        for x, entry in [] if constant else points:
            drawing.add("path", d=marker(shape, x, y_of(entry.mean), 4.5), css=f"dot {css}")
        y = _TOP + 10 + 21 * number
        drawing.add("path", d=marker(shape, _WIDTH - _RIGHT + 20, y, 5), css=f"dot {css}")
        drawing.text(_WIDTH - _RIGHT + 32, y + 4.5, name, f"name {css}")
    return drawing.markup()


def _cells(study: Study, summary: Summary, column: str, family: str, title: str) -> Markup:
    down, across = study.grid
    drawing = Drawing(_WIDTH, _HEIGHT, title)
    known = {}
    for row in down.points:
        for label in across.points:
            method = study.method_at(family, {down.name: row, across.name: label})
            mean = summary.mean(method.name, column) if method else None
            if mean is not None:
                known[row, label] = mean
    best = (min if lower_is_better(column) else max)(known.values(), default=math.nan)
    if len(known) > 1 and len(set(known.values())) == 1:
        best = math.nan  # where all are alike, none is best
    low, high = min(known.values(), default=0.0), max(known.values(), default=1.0)
    width = (_WIDTH - _LEFT - 40) / len(across.points)
    height = (_HEIGHT - _TOP - _BOTTOM) / len(down.points)
    for i, row in enumerate(down.points):
        y = _TOP + height * i
        drawing.text(_LEFT - 8, y + height / 2 + 4, row, "tick end")
        for j, label in enumerate(across.points):
            x = _LEFT + width * j
            value = known.get((row, label))
            share = 0.0 if value is None or high == low else (value - low) / (high - low)
            fill = "none" if value is None else f"rgb({_shade(share)})"
            box = {"x": x + 1, "y": y + 1, "width": width - 2, "height": height - 2, "rx": 3}
            drawing.add("rect", None, **box, fill=fill, style="stroke:var(--ink)" if value == best else None)
            text = "–" if value is None else f"{value:.4f}" + (" best" if value == best else "")
            colour = f"fill:{_on(share)}"
            drawing.text(
                x + width / 2, y + height / 2 + 4, text, "mid", style=None if value is None else colour
            )
    for j, label in enumerate(across.points):
        drawing.text(_LEFT + width * (j + 0.5), _HEIGHT - _BOTTOM + 18, label, "tick mid")
    drawing.text((_LEFT + _WIDTH - 40) / 2, _HEIGHT - 8, across.name, "mid")
    drawing.text(4, 16, f"{down.name} (down); {title}", "")
    return drawing.markup()


def _frame(drawing: Drawing, axis: Axis, column: str) -> list[float]:
    """Labels of the axes; the places of the points, evenly spaced whatever their values."""
    width = _WIDTH - _LEFT - _RIGHT
    places = [_LEFT + width * (i + 0.5) / len(axis.points) for i in range(len(axis.points))]
    for x, label in zip(places, axis.points, strict=True):
        drawing.text(x, _HEIGHT - _BOTTOM + 18, label, "tick mid")
    drawing.text(_LEFT + width / 2, _HEIGHT - 8, axis.name, "mid")
    drawing.text(4, 16, f"{column.split('/')[0]}: {metric_title(column)}", "")
    return places


def _low(entry: Entry) -> float:
    return entry.mean - (entry.sd or 0.0)


def _high(entry: Entry) -> float:
    return entry.mean + (entry.sd or 0.0)


def _ticks(low: float, high: float) -> list[float]:
    """Round values that enclose the range, four to seven of them."""
    span = max(high - low, 1e-4)
    power = 10.0 ** math.floor(math.log10(span))
    step = next(power * f for f in (0.2, 0.25, 0.5, 1.0, 2.0) if span / (power * f) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [i * step for i in range(first, max(last, first + 1) + 1)]


def _shade(share: float) -> str:
    """From pale to deep blue."""
    return ",".join(map(str, _mixed(share)))


def _mixed(share: float) -> list[int]:
    return [round(a + (b - a) * share) for a, b in ((226, 8), (237, 64), (248, 120))]


def _on(share: float) -> str:
    """White or black, whichever stands out more from that blue: by WCAG's contrast, 4.6 at least."""
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in _mixed(share))
    ]
    luminance = sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))
    return "#fff" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "#000"

"""The charts of a study's grid: bands along one axis, and maps of two."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from labeltree.report.charts.bar_charts import clip, round_ticks
from labeltree.report.charts.svg import SHAPES, STYLES, Drawing, marker

__all__ = ["Band", "band_chart", "cell_chart"]

_WIDTH, _LEFT, _RIGHT = 400.0, 56.0, 388.0  # as wide as a telephone; the ends of what is drawn
_LINE, _PLOT, _BELOW = 17.0, 240.0, 44.0  # heights of a line, of what is drawn, and of the labels below it


@dataclass(frozen=True)
class Band:
    """A line of a band chart.

    Attributes:
        name: Name in the legend.
        values: Mean and spread at each place; None where nothing was measured.
        constant: True for a single value that does not depend on the place; drawn dashed, without marks.
    """

    name: str
    values: Sequence[tuple[float, float] | None]
    constant: bool = False


def band_chart(bands: Sequence[Band], places: Sequence[str], *, title: str, x_label: str) -> Markup:
    """Draw means as lines and their spread as bands, over evenly spaced places; names stand below."""
    heading = textwrap.wrap(title, 46)
    top = _LINE * len(heading) + 12
    bottom = top + _PLOT
    names = [textwrap.wrap(band.name, 52, max_lines=2, placeholder=" …") or [""] for band in bands]
    height = bottom + _BELOW + _LINE * sum(map(len, names)) + 8
    drawing = Drawing(_WIDTH, height, title)
    known = [value for band in bands for value in band.values if value]
    if not known:
        return drawing.text(_WIDTH / 2, height / 2, "nothing was measured yet", "mid").markup()
    marks = round_ticks(
        min(mean - spread for mean, spread in known), max(mean + spread for mean, spread in known)
    )
    low, high = marks[0], marks[-1]
    across = [_LEFT + (_RIGHT - _LEFT) * (i + 0.5) / len(places) for i in range(len(places))]

    def y_of(value: float) -> float:
        return top + _PLOT * (high - value) / (high - low)

    for number, line in enumerate(heading):
        drawing.text(0, 14 + _LINE * number, line, "name")
    for x, label in zip(across, places, strict=True):
        drawing.text(x, bottom + 17, clip(label, 12), "tick mid")
    drawing.text((_LEFT + _RIGHT) / 2, bottom + 35, x_label, "mid")
    for mark in marks:
        drawing.line(_LEFT, y_of(mark), _RIGHT, y_of(mark), "grid")
        drawing.text(_LEFT - 8, y_of(mark) + 4, f"{mark:.4g}", "tick end")
    y = bottom + _BELOW + 8
    for number, (band, lines) in enumerate(zip(bands, names, strict=True)):
        css, shape = f"m{number % STYLES}", SHAPES[number % len(SHAPES)]
        points = [(x, *value) for x, value in zip(across, band.values, strict=True) if value]
        if points:
            upper = [f"{x:.1f} {y_of(mean + spread):.1f}" for x, mean, spread in points]
            lower = [f"{x:.1f} {y_of(mean - spread):.1f}" for x, mean, spread in reversed(points)]
            drawing.add("path", d="M" + "L".join([*upper, *lower]) + "z", css=f"band {css}")
            path = "M" + "L".join(f"{x:.1f} {y_of(mean):.1f}" for x, mean, _ in points)
            drawing.add("path", d=path, css=f"line {css}{' dashed' if band.constant else ''}")
        for x, mean, _ in [] if band.constant else points:
            drawing.add("path", d=marker(shape, x, y_of(mean), 4.5), css=f"dot {css}")
        drawing.add("path", d=marker(shape, 8, y, 5), css=f"dot {css}")
        for line in lines:
            drawing.text(20, y + 4.5, line, f"name {css}")
            y += _LINE
    return drawing.markup()


def cell_chart(
    values: Sequence[Sequence[float | None]],
    down: Sequence[str],
    across: Sequence[str],
    *,
    title: str,
    x_label: str,
    y_label: str,
    larger_is_better: bool | None = True,
) -> Markup:
    """Draw a grid of numbers, shaded by their size, with a frame around the best.

    Args:
        values: One row per entry of `down` with one number per entry of `across`; None = not measured.
        down: Labels of the rows.
        across: Labels of the columns.
        title: Title of the chart.
        x_label: Label of the column axis.
        y_label: Label of the row axis.
        larger_is_better: Whether the largest number is the best, or the smallest; None: none is, and none is
            framed. Nor is one if all numbers are equal.
    """
    heading = textwrap.wrap(f"{y_label} (down); {title}", 46)
    top = _LINE * len(heading) + 12
    height = 52.0
    bottom = top + height * len(down)
    drawing = Drawing(_WIDTH, bottom + _BELOW, title)
    known = [value for row in values for value in row if value is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    best = high if larger_is_better else low
    if larger_is_better is None or (low == high and len(known) > 1):
        best = math.nan
    width = (_RIGHT - _LEFT) / len(across)
    for number, line in enumerate(heading):
        drawing.text(0, 14 + _LINE * number, line, "name")
    for i, (label, row) in enumerate(zip(down, values, strict=True)):
        y = top + height * i
        drawing.text(_LEFT - 8, y + height / 2 + 4, clip(label, 7), "tick end")
        for j, value in enumerate(row):
            x = _LEFT + width * j
            share = 0.0 if value is None or high == low else (value - low) / (high - low)
            fill = "none" if value is None else f"rgb({','.join(map(str, _shade(share)))})"
            box = {"x": x + 1, "y": y + 1, "width": width - 2, "height": height - 2, "rx": 3}
            drawing.add("rect", None, **box, fill=fill, style="stroke:var(--ink)" if value == best else None)
            text = "–" if value is None else f"{value:.4f}"
            style = None if value is None else f"fill:{_ink_on(share)}"
            middle = y + height / 2 + (4 if value != best else -4)
            drawing.text(x + width / 2, middle, text, "mid", style=style)
            if value == best:
                drawing.text(x + width / 2, middle + 16, "best", "mid", style=style)
    for j, label in enumerate(across):
        drawing.text(_LEFT + width * (j + 0.5), bottom + 17, clip(label, 12), "tick mid")
    return drawing.text((_LEFT + _RIGHT) / 2, bottom + 35, x_label, "mid").markup()


def _shade(share: float) -> list[int]:
    """A colour from pale to deep blue, as red, green and blue."""
    return [round(a + (b - a) * share) for a, b in ((226, 8), (237, 64), (248, 120))]


def _ink_on(share: float) -> str:
    """White or black, whichever has the higher WCAG contrast with the shade; it is at least 4.6."""
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in _shade(share))
    ]
    luminance = sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))
    return "#fff" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "#000"

"""The chart of dots and intervals: differences from zero, a row a method."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from labeltree.report.charts.bar_charts import round_ticks
from labeltree.report.charts.svg import SHAPES, Drawing, marker

__all__ = ["IntervalDot", "IntervalRow", "interval_chart"]

_WIDTH, _LEFT, _RIGHT = 400.0, 156.0, 380.0  # of the drawing; the ends of the axis
_LINE, _LANE = 15.0, 13.0  # heights of a line of a label and of a dot
_NAME, _TITLE = 22, 40  # characters of a line of a label and of the title


@dataclass(frozen=True)
class IntervalDot:
    """A difference and its interval.

    Attributes:
        value: The difference, above 0 where it is for the better; NaN is not drawn.
        low: Lower end of its interval; NaN if there is no interval.
        high: Upper end, likewise.
        filled: Whether the dot is filled.
        style: Index of its colour and shape.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    filled: bool = True
    style: int = 0


@dataclass(frozen=True)
class IntervalRow:
    """A row: its label and its dots, one below the other. A row without dots is a heading."""

    label: str
    dots: Sequence[IntervalDot] = ()


def interval_chart(rows: Sequence[IntervalRow], *, title: str) -> Markup:
    """Draw differences as dots with intervals around a line at 0.

    The chart is as wide as a telephone; wide pages show several side by side.

    Args:
        rows: The rows and headings, from the top.
        title: Stands above the chart and is its text alternative.
    """
    known = [end for row in rows for dot in row.dots for end in (dot.value, dot.low, dot.high)]
    ends = [0.0, *(end for end in known if math.isfinite(end))]
    marks = round_ticks(min(ends), max(ends))
    low, high = marks[0], marks[-1]

    def x_of(value: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (value - low) / (high - low)

    labels = [_label(row) for row in rows]
    heights = [
        max(_LINE * len(lines), _LANE * len(row.dots)) + (5.0 if row.dots else 12.0)
        for row, lines in zip(rows, labels, strict=True)
    ]
    heading = textwrap.wrap(title, _TITLE)
    top = 18.0 * len(heading) + 26
    bottom = top + sum(heights)
    drawing = Drawing(_WIDTH, bottom + 24, title)
    for number, line in enumerate(heading):
        drawing.text(0, 14 + 18 * number, line, "rowname")
    drawing.text(_RIGHT, top - 10, "better →", "tick end")
    every = 1 if len(marks) <= 5 else 2  # more texts would touch
    for mark in marks:
        number = round(mark / (marks[1] - marks[0]))
        for begin, end in _stretches(rows, heights, top):
            drawing.line(x_of(mark), begin, x_of(mark), end, "grid" if number else "axis")
        if number % every == 0:
            text = f"{mark:+.3g}".replace("-", "−").replace("0.", ".") if number else "0"
            drawing.text(x_of(mark), bottom + 17, text, "tick mid")
    y = top
    for row, lines, height in zip(rows, labels, heights, strict=True):
        middle = y + height / 2 + (0.0 if row.dots else 4.0)
        for number, line in enumerate(lines):
            place = middle + 4.5 + _LINE * (number - (len(lines) - 1) / 2)
            drawing.text(0, place, line, "detail" if row.dots else "name")
        for number, dot in enumerate(row.dots):
            if math.isfinite(dot.value):
                _draw(drawing, dot, x_of, middle + _LANE * (number - (len(row.dots) - 1) / 2), row.label)
        y += height
    return drawing.markup()


def _label(row: IntervalRow) -> list[str]:
    return textwrap.wrap(row.label, _NAME if row.dots else 54, max_lines=3, placeholder=" …") or [""]


def _stretches(rows: Sequence[IntervalRow], heights: Sequence[float], y: float) -> list[tuple[float, float]]:
    """Top and bottom of the rows between two headings: no line of the axis runs through a heading."""
    stretches: list[tuple[float, float]] = []
    open_ = False
    for row, height in zip(rows, heights, strict=True):
        if row.dots and open_:
            stretches[-1] = (stretches[-1][0], y + height)
        elif row.dots:
            stretches.append((y, y + height))
        open_ = bool(row.dots)
        y += height
    return stretches


def _draw(drawing: Drawing, dot: IntervalDot, x_of: Callable[[float], float], y: float, label: str) -> None:
    css = f"m{dot.style}"
    known = math.isfinite(dot.low) and math.isfinite(dot.high)
    interval = f" [{dot.low:+.3f}, {dot.high:+.3f}]" if known else ""
    with drawing.group(f"{label}: {dot.value:+.3f}{interval}"):
        if known:
            drawing.line(x_of(dot.low), y, x_of(dot.high), y, f"line {css} whisker")
        mark = marker(SHAPES[dot.style % len(SHAPES)], x_of(dot.value), y, 4.6)
        drawing.add("path", d=mark, css=f"dot {css}" + ("" if dot.filled else " open"))

"""The charts of reports and comparisons: line, dot and difference charts, and sparklines."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from labeltree.report.charts.svg import SHAPES, STYLES, Drawing, legend_mark, marker, text_width

__all__ = [
    "DotRow",
    "Line",
    "clip",
    "difference_chart",
    "dot_chart",
    "for_screens",
    "line_chart",
    "method_mark",
    "round_ticks",
    "sparkline",
]

_LINE = 17.0  # height of a line of text


@dataclass(frozen=True)
class Line:
    """A line of a chart: its name, its values at x = 1, 2, … and the index of its style."""

    name: str
    values: Sequence[float]
    style: int
    dashed: bool = False


@dataclass(frozen=True)
class DotRow:
    """A row of a dot chart or difference chart: its labels, and a mark for each method.

    Attributes:
        label: Label in plain words.
        detail: Smaller text below the label.
        values: One value per method; NaN where undefined.
        bounds: The ends of each value's interval; optional.
        texts: The values as text; by default in percent.
        sure: Whether each difference is significant; the others are drawn as open marks.
    """

    label: str
    detail: str
    values: Sequence[float]
    bounds: Sequence[tuple[float, float]] = ()
    texts: Sequence[str] = ()
    sure: Sequence[bool] = ()


def method_mark(style: int) -> Markup:
    """The marker of a method for a legend; `style` is the index of the method."""
    return legend_mark(SHAPES[style % len(SHAPES)], css=f"dot m{style % STYLES}")


def for_screens(draw: Callable[[bool], Markup]) -> Markup:
    """A chart drawn twice, for wide and for narrow screens; the style sheet shows one of the two.

    Args:
        draw: Called with True to draw for a narrow screen, with False for a wide one.
    """
    return Markup('<div class="on-wide">{}</div><div class="on-narrow">{}</div>').format(
        draw(False), draw(True)
    )


def line_chart(
    lines: Sequence[Line], *, title: str, x_label: str, y_label: str, narrow: bool = False
) -> Markup:
    """Draw shares over k, on a logarithmic axis because the first results matter most.

    A narrow chart has the names of its lines below it.
    """
    names = 0.0 if narrow else max((text_width(clip(line.name, 24), 13.5) for line in lines), default=0.0)
    left, right, top, bottom = (44.0, 12.0, 34.0, 46.0) if narrow else (52.0, 82.0 + names, 34.0, 46.0)
    width = 400.0 if narrow else 860.0
    height = 300.0 if narrow else max(380.0, top + bottom + _LINE * len(lines))  # every name has its own line
    finite = [v for line in lines for v in line.values if math.isfinite(v)]
    longest = max((len(line.values) for line in lines), default=0)
    drawing = Drawing(width, height, title)
    if not finite or longest == 0:
        return drawing.text(width / 2, height / 2, "not defined for these samples", "label mid").markup()
    span = max(finite) - min(finite)
    step = next(size for size in (0.02, 0.05, 0.1, 0.2) if (span + 0.02) / size <= 5.5)
    low = max(0.0, step * math.floor((min(finite) - 0.01) / step))
    high = min(1.0, step * math.ceil((max(finite) + 0.005) / step))

    def x_of(k: float) -> float:
        return left + (width - left - right) * (math.log(k) / math.log(longest) if longest > 1 else 0.5)

    def y_of(value: float) -> float:
        return top + (height - top - bottom) * (high - value) / (high - low)

    for i in range(round((high - low) / step) + 1):
        value = low + i * step
        drawing.line(left, y_of(value), width - right, y_of(value), "grid")
        drawing.text(left - 8, y_of(value) + 4, f"{100 * value:.0f}%", "tick end")
    marks = [k for k in (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000) if k <= longest]
    if longest not in marks:
        marks = [k for k in marks if k * 1.35 < longest] + [longest]
    if narrow:
        marks = [k for k in marks if k not in (2, 25)]
    for k in marks:
        drawing.line(x_of(k), height - bottom, x_of(k), height - bottom + 5, "axis")
        drawing.text(x_of(k), height - bottom + 19, str(k), "tick mid")
    drawing.text((left + width - right) / 2, height - 6, x_label, "label mid")
    drawing.text(8, 16, y_label, "label")
    ends = []
    for line in reversed(lines):
        points = [(x_of(i + 1), y_of(v)) for i, v in enumerate(line.values) if math.isfinite(v)]
        if not points:
            continue
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        dashed = " dashed" if line.dashed else ""
        drawing.add("path", d=path, css=f"line m{line.style % STYLES}{dashed}")
        shape = SHAPES[line.style % len(SHAPES)]
        drawing.add("path", d=marker(shape, *points[-1], 4.5), css=f"dot m{line.style % STYLES}")
        last = next(v for v in reversed(line.values) if math.isfinite(v))
        ends.append((points[-1][1], line.name, f"{100 * last:.1f}%", line.style))
    if narrow:
        return drawing.markup() + _named_below(lines)
    places = _spread([y for y, *_ in ends], _LINE, top, height - bottom)
    for (_, name, share, style), y in zip(ends, places, strict=True):
        drawing.text(width - right + 14, y + 4.5, share, f"name m{style % STYLES}")
        drawing.text(width - right + 76, y + 4.5, clip(name, 24), f"name m{style % STYLES}")
    return drawing.markup()


def _named_below(lines: Sequence[Line]) -> Markup:
    """The names of the lines with their last values, as a list."""
    items = []
    for line in lines:
        last = next((value for value in reversed(line.values) if math.isfinite(value)), None)
        if last is not None:
            mark = method_mark(line.style)
            name = f"{line.name} (dashed)" if line.dashed else line.name
            items.append(
                Markup("<li>{}<span>{} <b>{}</b></span></li>").format(mark, name, f"{100 * last:.1f}%")
            )
    return Markup('<ul class="legend">{}</ul>').format(Markup("").join(items))


def dot_chart(rows: Sequence[DotRow], methods: Sequence[str], *, title: str, narrow: bool = False) -> Markup:
    """Draw a dot for each method in every row, on an axis of shares that ends at 100 %."""
    shown = [value for row in rows for value in (*row.values, *(low for low, _ in row.bounds))]
    known = [value for value in shown if math.isfinite(value)]
    low = max(0.0, math.floor(10 * (min(known, default=0.0) - 0.03)) / 10)
    step = 0.2 if low < 0.5 else 0.1 if low < 0.8 else 0.05
    marks = [1 - i * step for i in range(math.ceil((1 - low) / step - 1e-9) + 1)]  # the axis ends at the last
    texts = {mark: f"{100 * abs(mark):.0f}%" for mark in marks}
    axis = _RowAxis(marks[-1], 1.0, texts, top=4.0 if narrow else 12.0)
    return _row_chart(rows, methods, axis, title, narrow).markup()


def difference_chart(
    rows: Sequence[DotRow], methods: Sequence[str], *, baseline: str, title: str, narrow: bool = False
) -> Markup:
    """Draw differences to a baseline around its line: filled where significant, else open.

    Args:
        rows: One row per metric, with `texts` and `sure`; values above 0 are better than the baseline.
        methods: Names of the methods that are compared with the baseline; the baseline has style 0.
        baseline: Name of the baseline.
        title: Text alternative of the chart, for screen readers.
        narrow: Draw the labels above the marks, for a narrow screen.
    """
    ends = [v for row in rows for v in (*row.values, *(e for b in row.bounds for e in b)) if math.isfinite(v)]
    reach = max((abs(v) for v in ends), default=0.0) or 0.01
    step = next(s for s in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if reach / s <= 4.5)
    count = math.ceil(reach / step)
    marks = {
        i * step: f"{100 * i * step:+g}".replace("-", "−") if i else "0" for i in range(-count, count + 1)
    }
    axis = _RowAxis(-count * step, count * step, marks, top=30.0, right=56.0 if narrow else 96.0)
    drawing = _row_chart(rows, methods, axis, title, narrow, first_style=1)
    zero = axis.place(0.0, narrow)
    drawing.text(zero - 8, 18, f"← {clip(baseline, 12 if narrow else 24)} is better", "label end")
    return drawing.text(zero + 8, 18, "the other is better →", "label").markup()


@dataclass(frozen=True)
class _RowAxis:
    """The horizontal axis of a chart of rows: its ends, the text of each tick value, and the margins."""

    low: float
    high: float
    marks: dict[float, str]
    top: float
    right: float = 76.0

    def place(self, value: float, narrow: bool) -> float:
        """Horizontal position of a value, from the left of the chart."""
        left, width = (16.0, 400.0) if narrow else (262.0, 860.0)
        return left + (width - left - self.right) * (value - self.low) / (self.high - self.low)


def _row_chart(
    rows: Sequence[DotRow],
    methods: Sequence[str],
    axis: _RowAxis,
    title: str,
    narrow: bool,
    *,
    first_style: int = 0,
) -> Drawing:
    """Draw the rows with labels, intervals and marks; in a narrow chart the labels are above the marks."""
    labels = [_wrap(row.label, 44 if narrow else 30) for row in rows]
    more = _LINE * (max(map(len, labels), default=1) - 1)
    lane, bottom, above = (20.0, 30.0, 42.0 + more) if narrow else (17.0, 34.0, 0.0)
    gap = above + max(lane * len(methods), 34.0) + (10 if narrow else 22)
    width, height = 400.0 if narrow else 860.0, axis.top + gap * len(rows) + bottom
    end = width - axis.right
    drawing = Drawing(width, height, title)
    for value, text in axis.marks.items():
        x = axis.place(value, narrow)
        drawing.line(x, axis.top, x, height - bottom, "axis" if text == "0" else "grid")
        drawing.text(x, height - bottom + 20, text, "tick mid")
    for i, row in enumerate(rows):
        y = axis.top + gap * (i + 0.5) + above / 2
        label_y = axis.top + gap * i + 20 if narrow else y - 4 - _LINE / 2 * (len(labels[i]) - 1)
        for line in labels[i]:
            drawing.text(0, label_y, line, "rowname")
            label_y += _LINE
        drawing.text(0, label_y + 1, clip(row.detail, 58 if narrow else 44), "detail")
        if i:
            drawing.line(0, axis.top + gap * i, end, axis.top + gap * i, "grid")
        if not any(map(math.isfinite, row.values)):
            middle = (axis.place(axis.low, narrow) + end) / 2
            drawing.text(middle, y + 4.5, "– not defined here", "detail mid")
        for j, value in enumerate(row.values):
            if not math.isfinite(value):
                continue
            style, place = first_style + j, y + lane * (j - (len(row.values) - 1) / 2)
            ends = row.bounds[j] if row.bounds else (math.nan, math.nan)
            x, low, high = (axis.place(v, narrow) for v in (value, *ends))
            known, sure = math.isfinite(low) and math.isfinite(high), not row.sure or row.sure[j]
            text = row.texts[j] if row.texts else f"{100 * value:.1f}%"
            css, shape = f"m{style % STYLES}", SHAPES[style % len(SHAPES)]
            says = f": {text} ({'significant' if sure else 'not significant'})" if row.sure else ""
            with drawing.group(methods[j] + says):
                if known:
                    drawing.line(low, place, high, place, f"line {css} whisker")
                mark = marker(shape, x, place, 5.2 if style else 6.5)
                drawing.add("path", d=mark, css=f"dot {css}" + ("" if sure else " open"))
                beside = end + 8 if row.texts else max(x + 12, high + 6) if known else x + 12
                drawing.text(beside, place + 4.5, text, f"value {css}" + ("" if style else " first"))
    return drawing


def sparkline(
    values: Sequence[float], *, title: str, first: float = 1.0, last: float | None = None
) -> Markup:
    """Draw a small chart of one quantity over the epochs, with its range."""
    width, height, pad = 260.0, 92.0, 8.0
    drawing = Drawing(width, height, title, "chart spark")
    points = [(i, v) for i, v in enumerate(values) if math.isfinite(v)]
    if not points:
        return drawing.markup()
    low, high = min(v for _, v in points), max(v for _, v in points)
    span = (high - low) or 1.0
    steps = max(len(values) - 1, 1)
    where = [
        (pad + (width - 2 * pad) * i / steps, pad + (height - 26 - pad) * (high - v) / span)
        for i, v in points
    ]
    drawing.line(pad, height - 18, width - pad, height - 18, "grid")
    drawing.add("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in where), css="line m0")
    drawing.add("path", d=marker("circle", *where[-1], 3.5), css="dot m0")
    drawing.text(pad, height - 4, f"{first:g}", "tick")
    drawing.text(width - pad, height - 4, f"{first + steps if last is None else last:g}", "tick end")
    return drawing.markup()


def _spread(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move places apart to at least `gap`, keeping their order and staying between `low` and `high`.

    There must be room for all places. Places that touch are moved as one block, centred on their mean.
    """
    order = sorted(range(len(places)), key=lambda i: (places[i], i))
    blocks: list[tuple[float, int]] = []  # the first place of each block, and its number of places
    for i in order:
        start, count = min(max(places[i], low), high), 1
        while blocks and start < blocks[-1][0] + gap * blocks[-1][1]:
            before, many = blocks.pop()
            wanted = (before * many + (start - gap * many) * count) / (many + count)
            count += many
            start = min(max(wanted, low), high - gap * (count - 1))
        blocks.append((start, count))
    moved = [start + gap * k for start, count in blocks for k in range(count)]
    return [place for _, place in sorted(zip(order, moved, strict=True))]


def _wrap(text: str, limit: int) -> list[str]:
    """A text in at most two lines of at most `limit` characters, broken between words."""
    lines = textwrap.wrap(text, limit) or [""]
    return [lines[0], clip(" ".join(lines[1:]), limit)] if len(lines) > 1 else lines


def clip(text: str, limit: int) -> str:
    """Shorten a text to `limit` characters, with an ellipsis where something is missing."""
    return text if len(text) <= limit else text[: limit - 1].rstrip(" ,") + "…"


def round_ticks(low: float, high: float) -> list[float]:
    """Round values that enclose the range, four to seven of them."""
    span = max(high - low, 1e-4)
    power = 10.0 ** math.floor(math.log10(span))
    step = next(power * f for f in (0.2, 0.25, 0.5, 1.0, 2.0) if span / (power * f) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [i * step for i in range(first, max(last, first + 1) + 1)]

"""Charts of methods: lines over k, dots by depth, differences to a baseline, small histories."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from labeltree.report.svg import SHAPES, STYLES, Drawing, legend_mark, marker, text_width

__all__ = [
    "DifferenceRow",
    "DotRow",
    "Line",
    "clip",
    "difference_chart",
    "dot_chart",
    "for_screens",
    "line_chart",
    "method_mark",
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
    """A row of a dot chart: a label, a smaller one, one value a method, perhaps the ends of its interval."""

    label: str
    detail: str
    values: Sequence[float]
    bounds: Sequence[tuple[float, float]] = ()


def method_mark(style: int) -> Markup:
    """The marker of a method for a legend; ``style`` is its place among the methods."""
    return legend_mark(SHAPES[style % len(SHAPES)], css=f"dot m{style % STYLES}")


def for_screens(draw: Callable[[bool], Markup]) -> Markup:
    """A chart as it is drawn for wide screens and for a telephone's; the style sheet shows one of them.

    Args:
        draw: called with whether the screen is narrow.
    """
    return Markup('<div class="on-wide">{}</div><div class="on-narrow">{}</div>').format(
        draw(False), draw(True)
    )


def line_chart(
    lines: Sequence[Line], *, title: str, x_label: str, y_label: str, narrow: bool = False
) -> Markup:
    """Draw shares over k, on a logarithmic axis because the first results matter most.

    A narrow one names its lines below.
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
    """Draw a row a depth and in it a dot a method, on an axis of shares that ends at 100 %.

    A narrow one has the labels above the dots.
    """
    lane, left, right, top, bottom = (
        (20.0, 16.0, 76.0, 4.0, 30.0) if narrow else (17.0, 262.0, 76.0, 12.0, 34.0)
    )
    above = 42.0 if narrow else 0.0
    gap = above + max(lane * len(methods), 34.0) + (10 if narrow else 22)
    width, height = 400.0 if narrow else 860.0, top + gap * len(rows) + bottom
    drawing = Drawing(width, height, title)
    shown = [value for row in rows for value in (*row.values, *(low for low, _ in row.bounds))]
    known = [value for value in shown if math.isfinite(value)]
    low = max(0.0, math.floor(10 * (min(known, default=0.0) - 0.03)) / 10)
    step = 0.2 if low < 0.5 else 0.1 if low < 0.8 else 0.05

    def x_of(value: float) -> float:
        return left + (width - left - right) * (value - low) / (1 - low)

    for i in range(round((1 - low) / step) + 1):
        value = max(1 - i * step, low)
        drawing.line(x_of(value), top, x_of(value), height - bottom, "grid")
        drawing.text(x_of(value), height - bottom + 20, f"{100 * value:.0f}%", "tick mid")
    for i, row in enumerate(rows):
        y = top + gap * (i + 0.5) + above / 2
        label_y = y - gap / 2 - above / 2 + 20 if narrow else y - 4
        drawing.text(0, label_y, row.label, "rowname")
        drawing.text(0, label_y + 18, clip(row.detail, 58), "detail")
        if i:
            line_y = top + gap * i
            drawing.line(0, line_y, width - right, line_y, "grid")
        if not any(map(math.isfinite, row.values)):
            drawing.text(left + (width - left - right) / 2, y + 4.5, "– not defined here", "detail mid")
        for style, value in enumerate(row.values):
            if not math.isfinite(value):
                continue
            place = y + lane * (style - (len(row.values) - 1) / 2)
            drawing.raw(Markup("<g><title>{}</title>").format(methods[style]))
            ends = row.bounds[style] if style < len(row.bounds) else (math.nan, math.nan)
            if math.isfinite(ends[0]) and math.isfinite(ends[1]):
                drawing.line(x_of(ends[0]), place, x_of(ends[1]), place, f"line m{style % STYLES} whisker")
            shape = SHAPES[style % len(SHAPES)]
            size = 6.5 if style == 0 else 5.2
            drawing.add("path", d=marker(shape, x_of(value), place, size), css=f"dot m{style % STYLES}")
            css = f"value m{style % STYLES}" + (" first" if style == 0 else "")
            reach = max(12.0, x_of(ends[1]) - x_of(value) + 6) if math.isfinite(ends[1]) else 12.0
            drawing.text(x_of(value) + reach, place + 4.5, f"{100 * value:.1f}%", css)
            drawing.raw(Markup("</g>"))
    return drawing.markup()


def sparkline(
    values: Sequence[float], *, title: str, first: float = 1.0, last: float | None = None
) -> Markup:
    """Draw one quantity over the epochs, small, with its range."""
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
    """Move places apart to at least ``gap``, keeping their order and staying between ``low`` and ``high``.

    There must be room for them. Places that are pushed together move as one block, about their own middle.
    """
    order = sorted(range(len(places)), key=lambda i: (places[i], i))
    blocks: list[tuple[float, int]] = []  # the first place of each block, and how many it has
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


def clip(text: str, limit: int) -> str:
    """Shorten a text to ``limit`` characters, with an ellipsis where something is missing."""
    return text if len(text) <= limit else text[: limit - 1].rstrip(" ,") + "…"


@dataclass(frozen=True)
class DifferenceRow:
    """A metric: its name and for each method how much better it is, between what ends, and whether surely.

    Attributes:
        label: of the metric.
        detail: its name in the field.
        values: difference of each method, above 0 = better.
        bounds: ends of its interval.
        sure: whether the difference is told from none.
        texts: as they are written.
    """

    label: str
    detail: str
    values: Sequence[float]
    bounds: Sequence[tuple[float, float]]
    sure: Sequence[bool]
    texts: Sequence[str]


def difference_chart(
    rows: Sequence[DifferenceRow],
    methods: Sequence[str],
    *,
    baseline: str,
    title: str,
    first_style: int = 1,
    narrow: bool = False,
) -> Markup:
    """Draw what is sure as a filled mark and what is not as an open one, around the baseline's line.

    Args:
        rows: a metric each.
        methods: that are compared with the baseline.
        baseline: its name.
        title: for people who do not see the chart.
        first_style: style of the first method; the baseline has the one before.
        narrow: whether the labels stand above the marks, for a telephone.
    """
    lane, left, right, top, bottom = (
        (20.0, 18.0, 56.0, 30.0, 32.0) if narrow else (18.0, 250.0, 96.0, 30.0, 36.0)
    )
    above = 42.0 if narrow else 0.0
    gap = above + max(lane * len(methods), 30.0) + (8 if narrow else 18)
    width, height = 400.0 if narrow else 860.0, top + gap * len(rows) + bottom
    drawing = Drawing(width, height, title)
    ends = [v for row in rows for v in (*row.values, *(e for b in row.bounds for e in b)) if math.isfinite(v)]
    reach = max((abs(v) for v in ends), default=0.0) or 0.01
    step = next(s for s in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if reach / s <= 4.5)
    reach = step * math.ceil(reach / step)

    def x_of(value: float) -> float:
        return left + (width - left - right) * (value + reach) / (2 * reach)

    for i in range(-round(reach / step), round(reach / step) + 1):
        drawing.line(x_of(i * step), top, x_of(i * step), height - bottom, "axis" if i == 0 else "grid")
        mark = f"{100 * i * step:+g}".replace("-", "−") if i else "0"
        drawing.text(x_of(i * step), height - bottom + 20, mark, "tick mid")
    drawing.text(x_of(0) - 8, 18, f"← {clip(baseline, 12 if narrow else 24)} is better", "label end")
    drawing.text(x_of(0) + 8, 18, "the other is better →", "label")
    for i, row in enumerate(rows):
        y = top + gap * (i + 0.5) + above / 2
        label_y = top + gap * i + 20 if narrow else y - 2
        drawing.text(0, label_y, clip(row.label, 44 if narrow else 34), "rowname")
        drawing.text(0, label_y + 17, clip(row.detail, 58 if narrow else 42), "detail")
        if i:
            drawing.line(0, top + gap * i, width - right, top + gap * i, "grid")
        for j, value in enumerate(row.values):
            if not math.isfinite(value):
                continue
            style = first_style + j
            place = y + lane * (j - (len(row.values) - 1) / 2)
            says = "sure" if row.sure[j] else "not sure"
            drawing.raw(Markup("<g><title>{}: {} ({})</title>").format(methods[j], row.texts[j], says))
            low, high = row.bounds[j]
            if math.isfinite(low) and math.isfinite(high):
                drawing.line(x_of(low), place, x_of(high), place, f"line m{style % STYLES} whisker")
            shape = SHAPES[style % len(SHAPES)]
            css = f"dot m{style % STYLES}" + ("" if row.sure[j] else " open")
            drawing.add("path", d=marker(shape, x_of(value), place, 5.6), css=css)
            drawing.text(width - right + 8, place + 4.5, row.texts[j], f"value m{style % STYLES}")
            drawing.raw(Markup("</g>"))
    return drawing.markup()

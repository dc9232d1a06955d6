"""Differences to the baseline with their intervals: a row a metric, better to the right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from labeltree.report.charts import METHOD_SHAPES, clip
from labeltree.report.svg import Drawing, marker

__all__ = ["DifferenceRow", "difference_chart"]


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
                drawing.line(x_of(low), place, x_of(high), place, f"line m{style % 6} whisker")
            shape = METHOD_SHAPES[style % len(METHOD_SHAPES)]
            css = f"dot m{style % 6}" + ("" if row.sure[j] else " open")
            drawing.add("path", d=marker(shape, x_of(value), place, 5.6), css=css)
            drawing.text(width - right + 8, place + 4.5, row.texts[j], f"value m{style % 6}")
            drawing.raw(Markup("</g>"))
    return drawing.markup()

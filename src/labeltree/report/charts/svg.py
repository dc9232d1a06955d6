"""Drawings as inline SVG, and the palette, light and dark, from which pages take their colours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from markupsafe import Markup, escape

__all__ = ["COLOURS", "SHAPES", "STYLES", "Drawing", "legend_mark", "marker", "text_width"]

SHAPES = ("circle", "square", "triangle", "diamond", "cross", "ring")
"""What `marker` draws."""

COLOURS = {
    "paper": ("#fbfbf9", "#14171c"),
    "card": ("#ffffff", "#1b1f26"),
    "ink": ("#1b1f27", "#e8eaed"),
    "soft": ("#4b535f", "#bfc5ce"),
    "muted": ("#5f6772", "#9aa3af"),
    "line": ("#e3e4e6", "#2d333c"),
    "faint": ("#f1f1ee", "#20252d"),
    "good": ("#0b6e6e", "#5fd0d0"),
    "far": ("#a8341f", "#f0836d"),
    "mark": ("#eaf1fd", "#1f2f4d"),
    "shade": ("rgb(0 0 0 / .16)", "rgb(0 0 0 / .6)"),
    "m0": ("#0062a3", "#6bbcf5"),
    "m1": ("#b34700", "#ff935c"),
    "m2": ("#5b6370", "#a9b2be"),
    "m3": ("#8f3f70", "#e79cc6"),
    "m4": ("#00734f", "#3fcb9f"),
    "m5": ("#7d5a00", "#eeb63a"),
    "m6": ("#5b4bb0", "#a79cf0"),
    "m7": ("#7a4a2b", "#d09a78"),
}
"""Colours of pages and charts, in light and in dark mode; `m0` and so on are those of methods."""

STYLES = 8
"""Number of method colours; shapes repeat after another number, so that 24 methods are distinct."""


class Drawing:
    """An SVG drawing that grows by one element a call; every text and attribute is escaped.

    Args:
        width: Of the drawing in its own units; it scales with the page.
        height: Likewise.
        title: What it shows, for screen readers.
        css: Class of the drawing.
    """

    def __init__(self, width: float, height: float, title: str, css: str = "chart") -> None:
        self._parts = [
            Markup('<svg class="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(
                css, _short(width), _short(height), title
            )
        ]

    def add(self, tag: str, text: str | None = None, **attributes: float | str | None) -> Drawing:
        """Add an element; underscores in attribute names become hyphens, `css` becomes `class`."""
        self._parts.append(_element(tag, text, attributes))
        return self

    def text(self, x: float, y: float, text: str, css: str, **attributes: float | str | None) -> Drawing:
        """Add a text."""
        return self.add("text", text, x=x, y=y, css=css, **attributes)

    def line(self, x1: float, y1: float, x2: float, y2: float, css: str) -> Drawing:
        """Add a line."""
        return self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, css=css)

    @contextmanager
    def group(self, title: str, **attributes: float | str | None) -> Iterator[None]:
        """Put what is added inside the `with` block into a group whose tooltip is `title`."""
        self._parts.append(Markup("<g{}><title>{}</title>").format(_attributes(attributes), title))
        yield
        self._parts.append(Markup("</g>"))

    def markup(self) -> Markup:
        """The finished drawing."""
        return Markup("").join([*self._parts, Markup("</svg>")])


def text_width(text: str, size: float) -> float:
    """An upper estimate of the width of a semibold text of this size; fonts differ between machines."""
    wide, thin = "mwMW%@—", "ijltfrI.,:;'| "
    return size * sum(0.9 if letter in wide else 0.45 if letter in thin else 0.69 for letter in text)


def marker(shape: str, x: float, y: float, r: float) -> str:
    """Path data of a marker of radius about `r`; all shapes have about the same area."""
    if shape == "square":
        return _polygon(x, y, 0.88 * r, [(-1, -1), (1, -1), (1, 1), (-1, 1)])
    if shape == "triangle":
        return _polygon(x, y, 1.25 * r, [(0, -1), (1, 0.75), (-1, 0.75)])
    if shape == "diamond":
        return _polygon(x, y, 1.25 * r, [(0, -1), (1, 0), (0, 1), (-1, 0)])
    if shape == "cross":
        t = 0.34
        corners = [(-t, -1), (t, -1), (t, -t), (1, -t), (1, t), (t, t)]
        return _polygon(x, y, 1.25 * r, [*corners, *((-a, -b) for a, b in corners)])
    if shape == "ring":
        return _disc(x, y, 1.1 * r, 1) + _disc(x, y, 0.55 * r, 0)
    return _disc(x, y, r, 1)


def _polygon(x: float, y: float, size: float, corners: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_short(x + size * a)} {_short(y + size * b)}" for a, b in corners) + "z"


def _disc(x: float, y: float, r: float, direction: int) -> str:
    """A circle as two arcs; drawn the other way round inside another it makes a hole."""
    half = f"a{_short(r)} {_short(r)} 0 1 {direction}"
    return f"M{_short(x - r)} {_short(y)}{half} {_short(2 * r)} 0{half} {_short(-2 * r)} 0z"


def legend_mark(shape: str, *, colour: str | None = None, css: str | None = None) -> Markup:
    """Draw a marker for a legend, in a colour or by a class of the style sheet."""
    path = _element("path", None, {"d": marker(shape, 6, 6, 5), "fill": colour, "css": css})
    return Markup('<span class="swatch"><svg viewBox="0 0 12 12" aria-hidden="true">{}</svg></span>').format(
        path
    )


def _element(tag: str, text: str | None, attributes: Mapping[str, float | str | None]) -> Markup:
    opening = Markup(f"<{tag}") + _attributes(attributes)
    if text is None:
        return opening + Markup("/>")
    return opening + Markup(">") + escape(text) + Markup(f"</{tag}>")


def _attributes(attributes: Mapping[str, float | str | None]) -> Markup:
    written = Markup("")
    for name, value in attributes.items():
        if value is not None:
            key = "class" if name == "css" else name.rstrip("_").replace("_", "-")
            shown = value if isinstance(value, str) else _short(value)
            written += Markup(' {}="{}"').format(key, shown)
    return written


def _short(value: float) -> str:
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text

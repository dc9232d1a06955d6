"""Templates of the pages, the style of a chart that is a file, and what a page allows itself."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from labeltree.report.svg import COLOURS, STYLES
from labeltree.report.wording import percent

__all__ = ["policy", "read_script", "svg_file", "template"]


def template(name: str, **filters: Callable[..., Any]) -> Template:
    """A template of a page; everything that is filled in is escaped, and nothing may be missing.

    Args:
        name: of its file.
        filters: that it uses besides ``percent``.
    """
    environment = Environment(
        loader=PackageLoader("labeltree.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"colours": COLOURS, "styles": STYLES}
    environment.filters |= {"percent": percent, **filters}
    return environment.get_template(name)


def read_script() -> Markup:
    """The script of the page, as it stands between its tags."""
    return Markup((files("labeltree.report") / "templates" / "report.js").read_text("utf-8"))


def policy(script: str = "") -> str:
    """The Content-Security-Policy of a page: no network, and no script but this one, known by its hash."""
    allowed = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    if not script:
        return allowed
    known = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return f"{allowed}; script-src 'sha256-{known}'"


def svg_file(chart: Markup) -> str:
    """A chart as an SVG file of its own, which follows light and dark where it is shown."""
    rules = template("chart.css").render()
    used = {name: pair for name, pair in COLOURS.items() if f"var(--{name})" in rules}
    light, dark = (";".join(f"--{name}:{pair[k]}" for name, pair in used.items()) for k in (0, 1))
    dark = f"@media(prefers-color-scheme:dark){{svg{{{dark}}}}}"
    style = f"svg{{--sans:system-ui,sans-serif;{light}}}\n{dark}\n{rules}"
    head, rest = str(chart).split(">", 1)
    head = head.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')
    return f"{head}><style>{style}</style>{rest}\n"

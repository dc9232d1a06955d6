"""Pages and charts as files: templates, styles, and the content security policy of a page."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from importlib.resources import files
from types import CodeType
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket, BytecodeCache
from markupsafe import Markup

from labeltree.report.charts.svg import COLOURS, STYLES
from labeltree.report.wording import percent

__all__ = ["read_script", "render_page", "svg_file"]


def render_page(
    kind: str,
    title: str,
    *,
    script: str = "",
    filters: Mapping[str, Callable[..., Any]] | None = None,
    **content: Any,
) -> str:
    """A page as one HTML file that works offline; all content is escaped.

    Args:
        kind: `report`, `comparison`, `study` or `wall`; its template has this name.
        title: Of the page.
        script: Of the page, the only one that is allowed to run.
        filters: Further filters of the template.
        content: The variables of the template; none may be missing.
    """
    page = _templates(filters or {}).get_template(f"{kind}.html")
    return page.render(kind=kind, title=title, script=script, policy=_policy(script), **content) + "\n"


def read_script() -> Markup:
    """The script of report and comparison."""
    return Markup((files("labeltree.report") / "templates" / "report.js").read_text("utf-8"))


def svg_file(chart: Markup) -> str:
    """A chart as a separate SVG file, which follows light and dark mode where it is shown."""
    rules = _templates({}).get_template("chart.css").render()
    used = {name: pair for name, pair in COLOURS.items() if f"var(--{name})" in rules}
    light, dark = (";".join(f"--{name}:{pair[k]}" for name, pair in used.items()) for k in (0, 1))
    dark = f"@media(prefers-color-scheme:dark){{svg{{{dark}}}}}"
    head, rest = str(chart).split(">", 1)
    width, height = head.split('viewBox="0 0 ')[1].split('"')[0].split()
    own = f"svg.chart{{width:{width}px;height:{height}px}}"  # in place of the width of a page
    style = f"svg{{--sans:system-ui,sans-serif;{light}}}\n{dark}\n{rules}\n{own}"
    head = head.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')
    return f"{head}><style>{style}</style>{rest}\n"


class _Compiled(BytecodeCache):
    """Templates are compiled once in a process: this takes longer than to fill one in."""

    def __init__(self) -> None:
        self._code: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._code.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        assert bucket.code is not None
        self._code[bucket.key, bucket.checksum] = bucket.code


_COMPILED = _Compiled()


def _direction(larger_is_better: bool | None) -> Markup:
    """An arrow and a word for the better direction of a metric; nothing if it has none."""
    if larger_is_better is None:
        return Markup("")
    return Markup("↑<span> more</span>" if larger_is_better else "↓<span> less</span>")


def _templates(filters: Mapping[str, Callable[..., Any]]) -> Environment:
    environment = Environment(
        loader=PackageLoader("labeltree.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=_COMPILED,
    )
    environment.globals |= {"colours": COLOURS, "styles": STYLES}
    environment.filters |= {"percent": percent, "direction": _direction, **filters}
    return environment


def _policy(script: str) -> str:
    """The Content-Security-Policy of a page: no network, and no script except this one, by its hash."""
    allowed = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    if not script:
        return allowed
    known = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return f"{allowed}; script-src 'sha256-{known}'"

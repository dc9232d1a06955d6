"""The sidebar, rendered once and adapted to each page: to render it for each takes a third of a build."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment.adapters.toctree import global_toctree_for_doc

__all__ = ["setup"]

_ENTRY = re.compile(
    r'<li class="(toctree-l\d[^"]*)"><a class="reference internal" href="([^"#]+)">([^<]*)</a>(<input )?'
)
_TREE = "furo_navigation_tree"


def setup(app: Sphinx) -> None:
    """Give the theme the sidebar of the front page, and adapt to the page what the theme makes of it."""
    rendered: list[str] = []

    def front(**options: Any) -> str:
        if not rendered:
            tree = global_toctree_for_doc(app.env, "index", app.builder, tags=app.tags, **options)
            rendered.append(app.builder.render_partial(tree)["fragment"])  # type: ignore[attr-defined]
        return rendered[0]

    def before(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
        context["toctree"] = front

    def after(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
        context[_TREE] = _on_page(context[_TREE], page, _current(app, page))

    app.connect("html-page-context", before, priority=100)
    app.connect("html-page-context", after, priority=900)


def _current(app: Sphinx, page: str) -> set[str]:
    """The page and the pages above it."""
    above = {child: parent for parent, children in app.env.toctree_includes.items() for child in children}
    found = set()
    while page in above and page not in found:
        found.add(page)
        page = above[page]
    return found


def _on_page(html: str, page: str, current: set[str]) -> str:
    """The sidebar of the front page with the links and marks of another page."""
    up = "../" * page.count("/")

    def entry(found: re.Match[str]) -> str:
        kind, target, title, box = found.groups()
        name = target.removesuffix(".html")
        marks = " current current-page" if name == page else " current" if name in current else ""
        link = "#" if name == page else up + target
        anchor = (
            f'<a class="{"current " if name == page else ""}reference internal" href="{link}">{title}</a>'
        )
        checked = "" if box is None else '<input checked="" ' if marks else box
        return f'<li class="{kind}{marks}">{anchor}{checked}'

    return _ENTRY.sub(entry, html)

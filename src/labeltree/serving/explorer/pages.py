"""The explorer's page and its style, which shares colours and basics with the reports."""

from __future__ import annotations

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from labeltree.report.charts.svg import COLOURS, STYLES

__all__ = ["page_html", "page_style"]


def page_html(*, needs_token: bool) -> str:
    """The page without any data, which its script asks for."""
    return _templates().get_template("explore.html").render(needs_token=needs_token)


def page_style() -> str:
    """The style sheet."""
    return _templates().get_template("explore.css").render(colours=COLOURS, styles=STYLES)


def _templates() -> Environment:
    loader = ChoiceLoader(
        [
            PackageLoader("labeltree.serving.explorer", "page"),
            PackageLoader("labeltree.report"),
        ]
    )
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)

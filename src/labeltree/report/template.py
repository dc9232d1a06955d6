"""Templates of the pages, and what a page allows itself: its own style, its own script, pictures as data."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from labeltree.report.wording import percent

__all__ = ["policy", "read_script", "template"]


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
    environment.filters |= {"percent": percent, **filters}
    return environment.get_template(name)


def read_script() -> Markup:
    """The script of the page, as it stands between its tags."""
    return Markup((files("labeltree.report") / "templates" / "report.js").read_text("utf-8"))


def policy(script: str) -> str:
    """The Content-Security-Policy of a page: no network, and no script but this one, known by its hash."""
    known = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{known}'"

"""What screen readers need and the theme leaves out: levels of headings, signatures that are no lists."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

__all__ = ["setup"]

# A list of definitions within a signature, which has no terms.
_ARGUMENTS = re.compile(r"\n\n<dl>\n(<dd>.*?)</dl>\n\n", re.DOTALL)
_NO_HEADER = re.compile(r'<th class="head">(?:<p></p>)?</th>')


def setup(app: Sphinx) -> None:
    """Mend every page once its parts are rendered."""
    app.connect("html-page-context", _mend, priority=950)


def _mend(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    for part in ("body", "furo_navigation_tree"):
        if part in context:
            context[part] = context[part].replace('role="heading">', 'role="heading" aria-level="2">')
    if "body" in context:
        body = _ARGUMENTS.sub(_as_spans, context["body"])
        context["body"] = _NO_HEADER.sub('<td class="head"></td>', body)


def _as_spans(arguments: re.Match[str]) -> str:
    inner = arguments[1].replace("<dd>", "<span>").replace("</dd>", "</span>")
    return f'<span class="sig-arguments">{inner}</span>'

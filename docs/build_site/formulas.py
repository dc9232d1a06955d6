"""Formulas in LaTeX become MathML, which browsers draw without a script or a network."""

from __future__ import annotations

import re

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

__all__ = ["setup"]

# "log p" needs a space where "exp(x)" needs none.
_APPLIED = re.compile(r"(<mo>&ApplyFunction;</mo>)(?!\s*(?:<mrow>\s*)?<mo[^>]*>[(\[{])")


def setup(app: Sphinx) -> None:
    """Register the renderer that `html_math_renderer` names."""
    app.add_html_math_renderer("mathml", inline_renderers=(_show, None), block_renderers=(_show, None))


def _show(translator: HTML5Translator, formula: nodes.math | nodes.math_block) -> None:
    block = isinstance(formula, nodes.math_block)
    drawn = tex2mathml(formula.astext(), as_block=block)
    drawn = _APPLIED.sub(r'\1<mspace width="0.17em" />', drawn)
    translator.body.append(f'<div class="math">{drawn}</div>\n' if block else drawn)
    raise nodes.SkipNode

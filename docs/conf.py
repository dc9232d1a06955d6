"""Settings of Sphinx for the site; `make docs` builds it."""

import re
import sys
from functools import cache
from importlib.metadata import version as version_of
from pathlib import Path

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.domains.python import ObjectEntry
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

sys.path.insert(0, str(Path(__file__).parent / "build_site"))

project = "labeltree"
author = "The labeltree developers"
copyright = author
version = release = version_of("labeltree")
language = "en"

extensions = ["myst_parser", "sphinx_copybutton", "accessible", "dark_pictures", "formulas", "sidebar"]
source_suffix = {".md": "markdown"}
root_doc = "index"
highlight_language = "text"
smartquotes = False  # option names have two hyphens
nitpicky = False  # types of other libraries are named, and not linked
python_maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"

myst_enable_extensions = ["colon_fence", "fieldlist", "attrs_inline"]
myst_fence_as_directive = ["math"]  # as on the repository's page
html_math_renderer = "mathml"
myst_heading_anchors = 6  # anchors as on the repository's page
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

_COLOURED = ("color-brand-primary", "color-brand-content", "color-api-name", "color-api-pre-name")
html_theme = "furo"
templates_path = ["templates"]
html_favicon = "images/icon.svg"
html_title = "labeltree"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["search.js", "keyboard.js"]
html_copy_source = False
html_use_index = False
html_domain_indices = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": dict.fromkeys(_COLOURED, "#1d5d6b"),
    "dark_css_variables": dict.fromkeys(_COLOURED, "#7fc4d3"),
}


@cache
def _by_short_name(env: BuildEnvironment) -> dict[str, list[ObjectEntry]]:
    found: dict[str, list[ObjectEntry]] = {}
    for name, entry in env.domains.python_domain.objects.items():
        if entry.objtype in ("class", "data", "exception", "function"):
            found.setdefault(name.rpartition(".")[2], []).append(entry)
    return found


def link_short_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: nodes.Element
) -> nodes.Element | None:
    """Link a name in a signature, such as ``Taxonomy``, to the one public object of that name."""
    if node.get("refdomain") != "py":
        return None
    short = node["reftarget"].rpartition(".")[2]
    found = _by_short_name(env).get(short, [])
    if len(found) != 1:
        return None
    return make_refnode(app.builder, node["refdoc"], found[0].docname, found[0].node_id, shown, short)


def mark_cells(app: Sphinx, page: nodes.document) -> None:
    """Mark the cells of tables: prose needs a readable width, and numbers stay on one line."""
    for cell in page.findall(nodes.entry):
        text = cell.astext()
        if re.fullmatch(r"[-+−–\d.,±≈×% ]+", text):
            cell["classes"].append("number")
        elif len(text) > 40:
            cell["classes"].append("prose" if len(text) > 160 else "sentence")


def setup(app: Sphinx) -> None:
    """Connect what the pages need."""
    app.connect("doctree-read", mark_cells)
    app.connect("missing-reference", link_short_name)
    app.add_lexer("csv", TextLexer)

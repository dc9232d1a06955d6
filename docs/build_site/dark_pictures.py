"""Beside a picture `NAME.png` with a sibling `NAME-dark.png`, the sibling is shown where the page is dark."""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

__all__ = ["dark_sibling", "setup"]


def setup(app: Sphinx) -> None:
    """Add dark pictures before Sphinx collects a page's pictures."""
    app.connect("doctree-read", _add_dark, priority=400)


def dark_sibling(path: Path) -> Path:
    """Where the dark picture lies that belongs to a picture."""
    return path.with_stem(f"{path.stem}-dark")


def _add_dark(app: Sphinx, page: nodes.document) -> None:
    folder = Path(app.env.doc2path(app.env.docname)).parent
    for picture in list(page.findall(nodes.image)):
        dark = dark_sibling(Path(picture["uri"]))
        if (folder / dark).is_file():
            copy = picture.deepcopy()
            copy["uri"] = dark.as_posix()
            copy["classes"].append("when-dark")
            picture["classes"].append("when-light")
            picture.parent.insert(picture.parent.index(picture) + 1, copy)

"""The parts of a study's page, before they become Markdown or HTML."""

from __future__ import annotations

from dataclasses import dataclass, field

from labeltree.studies.summary import Entry

__all__ = ["Block", "Cell", "Figure", "Heading", "Notes", "Table", "Text", "cell_of"]


@dataclass(frozen=True)
class Heading:
    """A heading; depth 1 is the page's."""

    text: str
    depth: int = 2


@dataclass(frozen=True)
class Text:
    """A paragraph, in which `…` is code."""

    text: str


@dataclass(frozen=True)
class Notes:
    """What somebody wrote about the study, in Markdown."""

    markdown: str


@dataclass(frozen=True)
class Cell:
    """A cell of a table; ``mark`` stands after the text."""

    text: str
    bold: bool = False
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """A table whose first column is text; the others are numbers unless ``words``."""

    header: list[str]
    rows: list[list[Cell]] = field(default_factory=list)
    words: bool = False


@dataclass(frozen=True)
class Figure:
    """A drawing: the name of its file without suffix, and the SVG."""

    name: str
    title: str
    svg: str


Block = Heading | Text | Notes | Table | Figure


def cell_of(entry: Entry | None) -> Cell:
    """The cell of a table for what was found; a dash for nothing."""
    if entry is None:
        return Cell("–")
    spread = f" ± {entry.sd:.4f}" if entry.sd is not None else ""
    mark = "≈" if entry.close else "(one seed)" if not spread else ""
    return Cell(f"{entry.mean:.4f}{spread}", entry.best, mark)

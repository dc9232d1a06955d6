"""Documents of headings, texts, tables and figures (study pages), as Markdown or as one HTML file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markupsafe import Markup, escape

from labeltree.report.pages.template import render_page

__all__ = ["Block", "Cell", "Figure", "Fold", "Heading", "Notes", "Table", "Text", "to_html", "to_markdown"]


@dataclass(frozen=True)
class Heading:
    """A heading; depth 1 is the title of the page."""

    text: str
    depth: int = 2


@dataclass(frozen=True)
class Text:
    """A paragraph, in which `…` is code."""

    text: str


@dataclass(frozen=True)
class Notes:
    """Text by the study's authors, in Markdown."""

    markdown: str


@dataclass(frozen=True)
class Cell:
    """A cell of a table; `mark` follows the text."""

    text: str
    bold: bool = False
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """A table whose first column is text; the others are numbers unless `words`."""

    header: list[str]
    rows: list[list[Cell]] = field(default_factory=list)
    words: bool = False


@dataclass(frozen=True)
class Figure:
    """A chart as wide as a telephone, and the name of its file; wide pages have two in a row."""

    name: str
    title: str
    svg: Markup


@dataclass(frozen=True)
class Fold:
    """What is folded away below its title until a reader opens it; no headings or figures."""

    title: str
    blocks: Sequence[Text | Table]


Block = Heading | Text | Notes | Table | Figure | Fold


def to_markdown(blocks: Sequence[Block], figures: str = "figures") -> str:
    """The document as Markdown; figures are files in the folder `figures`."""
    text = ""
    for before, block in zip([None, *blocks], blocks, strict=False):
        beside = isinstance(before, Figure) and isinstance(block, Figure)
        text += "" if before is None else "\n" if beside else "\n\n"
        text += _markdown_block(block, figures)
    return text + "\n"


def _markdown_block(block: Block, figures: str) -> str:
    match block:
        case Heading(text, depth):
            return f"{'#' * depth} {text}"
        case Text(text):
            return text
        case Notes(markdown):
            return markdown.strip()
        case Figure(name, title):
            return f"![{title}]({figures}/{name}.svg)"
        case Fold(title, inner):
            shown = "\n\n".join(_markdown_block(one, figures) for one in inner)
            return f"<details>\n<summary>{escape(title)}</summary>\n\n{shown}\n\n</details>"
        case Table(header, rows, words):
            rule = "|---" + ("|---" if words else "|---:") * (len(header) - 1) + "|"
            return "\n".join([_row(header), rule, *(_row(map(_cell, row)) for row in rows)])


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _cell(cell: Cell) -> str:
    text = f"**{cell.text}**" if cell.bold else cell.text
    return f"{text} {cell.mark}".strip()


def to_html(blocks: Sequence[Block]) -> str:
    """The document as an HTML page that contains its figures; the first block is its heading."""
    heading, *rest = blocks
    if not isinstance(heading, Heading):
        raise TypeError(f"a page begins with its heading; got {heading}")
    return render_page("study", heading.text, filters={"inline": inline, "prose": prose}, blocks=rest)


def prose(markdown: str) -> Markup:
    """Markdown as HTML; HTML within it is escaped, and pictures are not loaded."""
    return Markup(_markdown().render(markdown))


def inline(text: str) -> Markup:
    """Code, bold, emphasis and links of a single paragraph as HTML."""
    return Markup(_markdown().renderInline(text))


_TABLE = {
    "table_open": '<div class="scroll" tabindex="0"><table class="words">\n',
    "table_close": "</table></div>\n",
    "th_open": '<th scope="col">',
    "td_open": "<td>",
}


@cache
def _markdown() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    markdown.core.ruler.push("links_within", _keep_links_within)
    for part, html in _TABLE.items():
        markdown.add_render_rule(part, lambda *_, html=html: html)
    return markdown


def _keep_links_within(state: StateCore) -> None:
    """Replace links to other hosts by their text, since a page has no external references."""
    for block in state.tokens:
        kept: list[Token] = []
        elsewhere = False
        for token in block.children or []:
            if token.type == "link_open":
                place = str(token.attrs["href"])
                elsewhere = ":" in place or place.startswith("//")
            if not (elsewhere and token.type in ("link_open", "link_close")):
                kept.append(token)
        if block.children is not None:
            block.children = kept

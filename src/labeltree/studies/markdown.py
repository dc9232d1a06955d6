"""A study's page as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from labeltree.studies.blocks import Block, Cell, Figure, Heading, Notes, Table, Text

__all__ = ["to_markdown"]


def to_markdown(blocks: Sequence[Block], figures: str = "figures") -> str:
    """The page; figures are referred to as files of the folder ``figures``."""
    return "\n\n".join(_block(block, figures) for block in blocks) + "\n"


def _block(block: Block, figures: str) -> str:
    match block:
        case Heading(text, depth):
            return f"{'#' * depth} {text}"
        case Text(text):
            return text
        case Notes(markdown):
            return markdown.strip()
        case Figure(name, title, _):
            return f"![{title}]({figures}/{name}.svg)"
        case Table(header, rows, words):
            rule = "|---" + ("|---" if words else "|---:") * (len(header) - 1) + "|"
            return "\n".join([_row(header), rule, *(_row(map(_cell, row)) for row in rows)])


def _row(cells: Sequence[str] | map[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _cell(cell: Cell) -> str:
    text = f"**{cell.text}**" if cell.bold else cell.text
    return f"{text} {cell.mark}".strip()

"""A study's page as one HTML file that needs nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markupsafe import Markup, escape

from labeltree.studies.blocks import Block, Cell, Figure, Heading, Notes, Table, Text

__all__ = ["to_html"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2230; --paper: #fff; --faint: #5b6475; --rule: #d9dde5;
  --best: #e7f0fb }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ef; --paper: #14171d; --faint: #9aa3b2; --rule: #333a46; --best: #1d2f47 }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  margin: 2rem auto; max-width: 76rem; padding: 0 1rem }
h1, h2, h3 { line-height: 1.25 }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--rule); text-align: right; white-space: nowrap }
th:first-child, td:first-child, .words th, .words td { text-align: left }
.words td { white-space: normal }
td.best { font-weight: 600; background: var(--best) }
td.close { color: inherit } td.other { color: var(--faint) }
pre.notes { white-space: pre-wrap; font: inherit; border-left: 3px solid var(--rule); padding-left: 1rem }
figure { margin: 1rem 0 } figure svg { width: 100%; max-width: 56rem; height: auto }
"""


def to_html(blocks: Sequence[Block]) -> str:
    """The page, with its figures inside."""
    title = next((block.text for block in blocks if isinstance(block, Heading)), "Study")
    body = Markup("\n").join(_block(block) for block in blocks)
    return (
        Markup(
            '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width">\n<title>{}</title>\n<style>{}</style>\n'
        ).format(title, Markup(_STYLE))
        + body
        + Markup("\n</html>\n")
    )


def _block(block: Block) -> Markup:
    match block:
        case Heading(text, depth):
            return Markup("<h{}>{}</h{}>").format(depth, text, depth)
        case Text(text):
            return Markup("<p>{}</p>").format(_code(text))
        case Notes(markdown):
            return Markup('<pre class="notes">{}</pre>').format(markdown.strip())
        case Figure(_, title, svg):
            return Markup('<figure aria-label="{}">{}</figure>').format(title, Markup(svg))
        case Table(header, rows, words):
            head = Markup("").join(Markup('<th scope="col">{}</th>').format(name) for name in header)
            body = Markup("\n").join(Markup("<tr>{}</tr>").format(_cells(row)) for row in rows)
            return Markup(
                '<div class="scroll"><table{}>\n<thead><tr>{}</tr></thead>\n<tbody>\n{}\n</tbody>'
                "</table></div>"
            ).format(Markup(' class="words"' if words else ""), head, body)


def _cells(row: Sequence[Cell]) -> Markup:
    parts = []
    for place, cell in enumerate(row):
        css = "best" if cell.bold else "close" if cell.mark == "≈" or place == 0 else "other"
        parts.append(Markup('<td class="{}">{}</td>').format(css, f"{cell.text} {cell.mark}".strip()))
    return Markup("").join(parts)


def _code(text: str) -> Markup:
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))

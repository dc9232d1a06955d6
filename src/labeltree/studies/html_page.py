"""A study's page as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from labeltree.studies.blocks import Block, Cell, Figure, Heading, Notes, Table, Text
from labeltree.studies.prose import inline, prose

__all__ = ["to_html"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2230; --paper: #fff; --faint: #5b6475; --rule: #d9dde5;
  --best: #e7f0fb; --link: #0062a3; --shade: rgb(0 0 0 / .16) }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ef; --paper: #14171d; --faint: #9aa3b2; --rule: #333a46; --best: #1d2f47;
    --link: #6bbcf5; --shade: rgb(0 0 0 / .6) }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  margin: 2rem auto; max-width: 76rem; padding: 0 1rem }
h1, h2, h3 { line-height: 1.25 }
.scroll { overflow-x: auto; background:
  linear-gradient(270deg, var(--paper) 12px, transparent) 100% 0 / 36px 100% no-repeat local,
  linear-gradient(270deg, var(--shade), transparent) 100% 0 / 14px 100% no-repeat scroll }
table { border-collapse: separate; border-spacing: 0; font-size: 13px; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--rule); text-align: right; white-space: nowrap }
th:first-child, td:first-child, .words th, .words td { text-align: left }
tbody th { font-weight: 400 }
.scroll th:first-child { position: sticky; left: 0; background: var(--paper); white-space: normal;
  min-width: 7rem }
.words td { white-space: normal; min-width: 4rem }
td.best { font-weight: 600; background: var(--best) }
td.close { color: inherit } td.other { color: var(--faint) }
p, li { max-width: 78ch } code { font-size: .92em; overflow-wrap: anywhere } a { color: var(--link) }
.notes { border-left: 3px solid var(--rule); padding-left: 1rem } .notes li { margin-bottom: .5rem }
pre { overflow-x: auto }
figure { margin: 1rem 0 } figure svg { width: 100%; max-width: 56rem; height: auto }
"""


def to_html(blocks: Sequence[Block]) -> str:
    """The page, with its figures inside."""
    title = next((block.text for block in blocks if isinstance(block, Heading)), "Study")
    body = Markup("\n").join(_block(block) for block in blocks)
    return (
        Markup(
            '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            "<title>{}</title>\n<style>{}</style>\n"
        ).format(title, Markup(_STYLE))
        + body
        + Markup("\n</html>\n")
    )


def _block(block: Block) -> Markup:
    match block:
        case Heading(text, depth):
            return Markup("<h{}>{}</h{}>").format(depth, text, depth)
        case Text(text):
            return Markup("<p>{}</p>").format(inline(text))
        case Notes(markdown):
            return Markup('<div class="notes">{}</div>').format(prose(markdown))
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
        text = f"{cell.text} {cell.mark}".strip()
        if place == 0:
            parts.append(Markup('<th scope="row">{}</th>').format(text))
            continue
        css = "best" if cell.bold else "close" if cell.mark == "≈" else "other"
        parts.append(Markup('<td class="{}">{}</td>').format(css, text))
    return Markup("").join(parts)

"""Values as HTML for notebooks: tables and sentences whose texts are escaped, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

__all__ = ["Screen", "html_sentences", "html_table", "image_tag"]

_CELL = "text-align:left;padding:2px 12px 2px 0;vertical-align:middle"
_NUMBER = _CELL.replace("left", "right", 1) + ";white-space:nowrap;font-variant-numeric:tabular-nums"


class Screen(str):
    """A text of several lines, which a notebook shows as they are, not as a string with `\\n`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self).rstrip("\n")


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()) -> Markup:
    """A table, which scrolls sideways where it is too wide; cells are escaped unless they are `Markup`.

    Args:
        head: Names of the columns; a table without any has no line of them.
        rows: Cells, as many as there are columns.
        numbers: Positions of the columns that stand at the right.
    """
    right = frozenset(numbers)
    styles = [_NUMBER if place in right else _CELL for place in range(len(head))]

    def line(tag: str, cells: Sequence[str]) -> Markup:
        shown = (
            Markup('<{0} style="{1}">{2}</{0}>').format(Markup(tag), style, cell)
            for style, cell in zip(styles, cells, strict=True)
        )
        return Markup("<tr>{}</tr>").format(Markup("").join(shown))

    body = Markup("").join(line("td", row) for row in rows)
    named = Markup("<thead>{}</thead>").format(line("th", head)) if any(head) else ""
    return Markup('<div style="overflow-x:auto"><table>{}<tbody>{}</tbody></table></div>').format(named, body)


def html_sentences(sentences: Iterable[str | None]) -> Markup:
    """Each sentence as a paragraph; empty ones are left out."""
    return Markup("").join(Markup("<p>{}</p>").format(escape(each)) for each in sentences if each)


def image_tag(address: str) -> Markup:
    """A small picture, of a data URI."""
    return Markup('<img src="{}" alt="" style="max-height:64px;max-width:96px">').format(address)

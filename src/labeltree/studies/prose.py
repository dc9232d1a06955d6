"""The Markdown of a study's findings as HTML: headings, paragraphs, lists, tables, bold, code and links."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from markupsafe import Markup, escape

__all__ = ["inline", "prose"]

_ITEM = re.compile(r"^( *)(?:[-*]|(\d+)\.) +(.*)")
_HEADING = re.compile(r"^(#+) +(.*)")
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]*)\)")


def prose(markdown: str) -> Markup:
    """What people write in findings; anything else stays as it was written, escaped."""
    lines = markdown.strip().splitlines()
    found = []
    while lines:
        line = lines.pop(0)
        heading, item = _HEADING.match(line), _ITEM.match(line)
        if heading:
            depth = min(len(heading[1]), 6)
            found.append(Markup("<h{}>{}</h{}>").format(depth, inline(heading[2]), depth))
        elif item:
            found.append(_list(item, lines))
        elif line.startswith("|"):
            found.append(_table([line, *_taken(lines, lambda text: text.startswith("|"))]))
        elif line.startswith("```"):
            code = list(_taken(lines, lambda text: not text.startswith("```")))
            del lines[:1]
            found.append(Markup("<pre><code>{}</code></pre>").format("\n".join(code)))
        elif line.strip():
            more = _taken(lines, lambda text: bool(text.strip()) and not _begins(text))
            found.append(Markup("<p>{}</p>").format(inline(" ".join([line, *more]))))
    return Markup("\n").join(found)


def inline(text: str) -> Markup:
    """Code, bold, emphasis and links within a line; a link to elsewhere is its words alone."""
    codes: list[str] = []

    def put_by(match: re.Match[str]) -> str:
        codes.append(match[1])
        return f"\0{len(codes) - 1}\0"

    shown = re.sub(r"`([^`]*)`", put_by, str(escape(" ".join(text.replace("\0", "").split()))))
    shown = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", shown)
    shown = re.sub(r"(?<![\w*])\*(\w[^*]*)\*(?!\w)", r"<em>\1</em>", shown)
    shown = _LINK.sub(_link, shown)
    return Markup(re.sub(r"\0(\d+)\0", lambda match: f"<code>{codes[int(match[1])]}</code>", shown))


def _link(match: re.Match[str]) -> str:
    name, place = match[1], match[2]
    return name if ":" in place or place.startswith("//") else f'<a href="{place}">{name}</a>'


def _list(first: re.Match[str], lines: list[str]) -> Markup:
    """A list from its first item on; an indented list within an item is one of its own."""
    indent, ordered = len(first[1]), first[2] is not None
    items, words, inner = [], [first[3]], Markup("")
    while lines:
        item = _ITEM.match(lines[0])
        if item and len(item[1]) > indent:
            lines.pop(0)
            inner += _list(item, lines)
        elif item and len(item[1]) == indent and (item[2] is not None) == ordered:
            lines.pop(0)
            items.append(Markup("<li>{}{}</li>").format(inline(" ".join(words)), inner))
            words, inner = [item[3]], Markup("")
        elif lines[0].strip() and (lines[0].startswith(" ") or not _begins(lines[0])) and not item:
            words.append(lines.pop(0))
        elif not lines[0].strip() and len(lines) > 1 and _continues(lines[1], indent):
            lines.pop(0)
        else:
            break
    items.append(Markup("<li>{}{}</li>").format(inline(" ".join(words)), inner))
    start = Markup(' start="{}"').format(first[2]) if ordered and first[2] != "1" else Markup("")
    tag = Markup("ol") if ordered else Markup("ul")
    return Markup("<{}{}>{}</{}>").format(tag, start, Markup("").join(items), tag)


def _continues(line: str, indent: int) -> bool:
    """Whether the line after an empty one still belongs to a list: another item of it, or indented text."""
    item = _ITEM.match(line)
    return len(item[1]) >= indent if item else line.startswith(" " * (indent + 2))


def _table(rows: list[str]) -> Markup:
    cells = [[inline(cell) for cell in row.strip().strip("|").split("|")] for row in rows]
    head, body = (
        cells[0],
        [row for row in cells[1:] if not all(re.fullmatch(r":?-+:?", cell) for cell in row)],
    )
    shown = Markup("").join(
        Markup("<tr>{}</tr>").format(Markup("").join(Markup("<td>{}</td>").format(cell) for cell in row))
        for row in body
    )
    top = Markup("").join(Markup('<th scope="col">{}</th>').format(cell) for cell in head)
    return Markup(
        '<div class="scroll"><table class="words"><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>'
    ).format(top, shown)


def _begins(line: str) -> bool:
    """Whether a line begins something other than a paragraph."""
    return bool(_HEADING.match(line) or _ITEM.match(line)) or line.startswith(("|", "```"))


def _taken(lines: list[str], while_: Callable[[str], bool]) -> Iterator[str]:
    while lines and while_(lines[0]):
        yield lines.pop(0)

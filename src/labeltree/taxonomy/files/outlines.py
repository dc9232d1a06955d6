"""Outlines: lines below others by their indentation, with bullets, or drawn as `tree` draws folders."""

import re
from typing import NamedTuple

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.entries import Entries
from labeltree.taxonomy.files.opened_file import OpenedFile

__all__ = ["entries_from_outline", "has_outline"]

_DRAWN = re.compile(r"[\s\u00a0│├└─┬|`+-]*[├└─`|+][─-]*[\s\u00a0]+|[\s\u00a0│|]+")
_IS_DRAWN = re.compile(r"^[\s\u00a0│|]*(?:[├└]|[|`+]--)", re.MULTILINE)
_BULLET = re.compile(r"(?:[-*+•◦–]|\d+[.)])\s+")
_TAB = 8
_STEP = 2  # one blank before a name may be a slip


class _Line(NamedTuple):
    number: int
    indent: int
    name: str


def has_outline(file: OpenedFile) -> bool:
    """Whether lines are indented so that each is below the last one with a smaller indentation."""
    lines = _lines(file)
    indents = sorted({line.indent for line in lines})
    if len(indents) < 2 or indents[1] - indents[0] < _STEP:
        return False
    return _parents(lines) is not None


def entries_from_outline(file: OpenedFile) -> Entries:
    """Read an outline; a single outermost line is the root.

    Raises:
        TaxonomyError: If a line is indented less than the line above it, to a place where no line before it
            begins.
    """
    lines = _lines(file)
    parents = _parents(lines)
    if parents is None:
        raise TaxonomyError("lines are not indented in steps: one begins where no line above it does")
    names = [line.name for line in lines]
    if parents.count(-1) > 1 and file.root_name is not None:
        names = [file.root_name, *names]
        parents = [-1, *(parent + 1 for parent in parents)]
    children = [node for node, parent in enumerate(parents) if parent >= 0]
    file.note("each line is below the last one that is indented less")
    return Entries(names, children, [parents[node] for node in children])


def _lines(file: OpenedFile) -> list[_Line]:
    """The lines that are not blank, with their indentation and without bullets if nearly all have one."""
    numbered = [
        (number, line.rstrip().expandtabs(_TAB))
        for number, line in enumerate(file.text.split("\n"), start=1)
        if line.strip()
    ]
    first = next((at for at, (_, line) in enumerate(numbered) if not line.startswith("#")), 0)
    numbered = numbered[first:]
    drawn = bool(_IS_DRAWN.search(file.start))
    lines = []
    for number, line in numbered:
        match = _DRAWN.match(line) if drawn else None
        name = line[match.end() :] if match is not None else line.lstrip()
        lines.append(_Line(number, len(line) - len(name), name.strip()))
    lines = [line for line in lines if line.name]
    bullets = [_BULLET.match(line.name) for line in lines]
    if not drawn and lines and all(bullets):
        lines = [
            line._replace(name=line.name[m.end() :]) for line, m in zip(lines, bullets, strict=True) if m
        ]
    return lines


def _parents(lines: list[_Line]) -> list[int] | None:
    """The place of the line above each, -1 for outermost ones; None if the indentation is not in steps."""
    parents: list[int] = []
    open_lines: list[tuple[int, int]] = []
    for place, line in enumerate(lines):
        while open_lines and open_lines[-1][0] > line.indent:
            dropped = open_lines.pop()[0]
            if (open_lines[-1][0] if open_lines else -1) < line.indent < dropped:
                return None
        if open_lines and open_lines[-1][0] == line.indent:
            open_lines.pop()
        if not open_lines and parents and line.indent > lines[0].indent:
            return None
        parents.append(open_lines[-1][1] if open_lines else -1)
        open_lines.append((line.indent, place))
    return parents

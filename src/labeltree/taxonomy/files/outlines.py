"""Outlines: lines below others by their indentation, with bullets, or drawn as `tree` draws folders."""

import itertools
import math
import re
from typing import NamedTuple

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.entries import Entries
from labeltree.taxonomy.files.opened_file import OpenedFile

__all__ = ["entries_from_outline", "has_outline"]

_DRAWN = re.compile(r"[\s\u00a0│|]*(?:[├└][─-]*[\s\u00a0]*|[|`+\\]-+[\s\u00a0]*)|[\s\u00a0│|]+")
_SUMMARY = re.compile(r"\d+ director(?:y|ies)(?:, \d+ files?)?")
_IS_DRAWN = re.compile(r"^[\s\u00a0│|]*(?:[├└]|[|`+\\]--+[\s\u00a0])", re.MULTILINE)
_BULLET = re.compile(r"(?:[-*+•◦–]|\d+[.)])\s+(?:\[[ xX]\]\s+)?")
_RUN = re.compile(r"([*+>-])\1*")
_HEADING = re.compile(r"(#{1,6})\s+(\S.*?)\s*#*")
_MARKED = re.compile(r"(\*\*|__|\*|_|`)(\S.*\S|\S)\1|\[([^\]]+)\]\([^)]*\)")
_LONGEST = 80  # characters of a line of an outline in Markdown, on average
_TAB = 8
_MANY = 0.2  # of the lines are indented in an outline, or more
_STEP = 2  # one blank before a name may be a slip


class _Line(NamedTuple):
    number: int
    indent: int
    name: str


def has_outline(file: OpenedFile) -> bool:
    """Whether lines are indented so that each is below the last one with a smaller indentation."""
    lines = _lines(file)
    if file.suffix == ".md" and sum(len(line.name) for line in lines) > _LONGEST * len(lines):
        return False
    indents = sorted({line.indent for line in lines})
    if len(indents) < 2 or indents[1] - indents[0] < _STEP:
        return False
    return _parents(lines)[1] is None or sum(line.indent > indents[0] for line in lines) > _MANY * len(lines)


def entries_from_outline(file: OpenedFile) -> Entries:
    """Read an outline; a single outermost line is the root.

    Raises:
        TaxonomyError: If a line is indented less than the line above it, to a place where no line before it
            begins.
    """
    lines = _lines(file)
    parents, uneven = _parents(lines)
    if uneven is not None:
        raise TaxonomyError(
            f"line {uneven} begins where no line above it does, so that it is not certain what it is below; "
            "indent lines in steps, or say --form paths if indentation means nothing"
        )
    names = [line.name for line in lines]
    if parents.count(-1) > 1 and file.root_name is not None:
        names = [file.root_name, *names]
        parents = [-1, *(parent + 1 for parent in parents)]
    children = [node for node, parent in enumerate(parents) if parent >= 0]
    under = " or a shorter heading" if _headings(file) else ""
    file.note(f"each line is below the last one that is indented less{under}")
    return Entries(names, children, [parents[node] for node in children])


def _lines(file: OpenedFile) -> list[_Line]:
    """The lines that are not blank, with their indentation and without bullets if nearly all have one."""
    numbered = [
        (number, line.rstrip().expandtabs(_TAB))
        for number, line in enumerate(file.text.split("\n"), start=1)
        if line.strip()
    ]
    if _headings(file):
        return _lines_below_headings(numbered)
    first = next((at for at, (_, line) in enumerate(numbered) if not line.startswith("#")), 0)
    numbered = numbered[first:]
    drawn = bool(_IS_DRAWN.search(file.start))
    lines = []
    for number, line in numbered:
        match = _DRAWN.match(line) if drawn else None
        name = line[match.end() :] if match is not None else line.lstrip()
        lines.append(_Line(number, len(line) - len(name), name.strip()))
    lines = [line for line in lines if line.name and not (drawn and _SUMMARY.fullmatch(line.name))]
    if drawn and lines and lines[0].name == "." and file.root_name is not None:
        lines[0] = lines[0]._replace(name=file.root_name)
    if not drawn and (steps := _runs(lines)) is not None:
        return [
            _Line(line.number, _STEP * step, _RUN.sub("", line.name, count=1).strip())
            for line, step in zip(lines, steps, strict=True)
        ]
    bullets = [_BULLET.match(line.name) for line in lines]
    if not drawn and lines and all(bullets):
        lines = [
            line._replace(name=_plain(line.name[m.end() :]))
            for line, m in zip(lines, bullets, strict=True)
            if m
        ]
    return lines


def _runs(lines: list[_Line]) -> list[int] | None:
    """How many marks each line begins with, `** Birds` below `* Animals`; None if they say no depth."""
    matches = [_RUN.match(line.name) for line in lines]
    marks = {match[1] for match in matches if match is not None}
    steps = [len(match[0]) if match is not None else 0 for match in matches]
    if len(marks) != 1 or max(steps) < 2 or any(line.indent for line in lines):
        return None
    named = all(line.name[step:].strip() for line, step in zip(lines, steps, strict=True))
    each = math.gcd(*steps)  # -- Birds below Animals, and ---- Owls below these
    steps = [step // each for step in steps]
    rises = [after - before for before, after in itertools.pairwise(steps)]
    return steps if named and steps[0] == min(steps) and max(rises, default=0) == 1 else None


def _plain(name: str) -> str:
    """A name without the marks of bold text and links."""
    match = _MARKED.fullmatch(name)
    return name if match is None else match[2] or match[3]


def _headings(file: OpenedFile) -> bool:
    """Whether the lines are headings of several depths, and bullets."""
    lines = [line for _, line in file.lines]
    headings = [match for line in lines if (match := _HEADING.fullmatch(line))]
    marked = sum(bool(_BULLET.match(line)) for line in lines) + len(headings)
    return len({len(match[1]) for match in headings}) > 1 and marked == len(lines)


def _lines_below_headings(numbered: list[tuple[int, str]]) -> list[_Line]:
    lines, depth = list[_Line](), 0
    for number, line in numbered:
        if (heading := _HEADING.fullmatch(line)) is not None:
            depth = _STEP * len(heading[1])
            lines.append(_Line(number, depth, _plain(heading[2])))
        else:
            name = line.lstrip()
            indent = depth + _STEP + len(line) - len(name)
            lines.append(_Line(number, indent, _plain(_BULLET.sub("", name, count=1))))
    return lines


def _parents(lines: list[_Line]) -> tuple[list[int], int | None]:
    """The place of the line above each, -1 for outermost ones, and the number of the first uneven line."""
    parents: list[int] = []
    open_lines: list[tuple[int, int]] = []
    for place, line in enumerate(lines):
        dropped = line.indent
        while open_lines and open_lines[-1][0] > line.indent:
            dropped = open_lines.pop()[0]
        step_up = bool(open_lines) and open_lines[-1][0] < line.indent < dropped
        outermost = not open_lines and bool(parents) and line.indent != lines[0].indent
        if step_up or outermost:
            return parents, line.number
        if open_lines and open_lines[-1][0] == line.indent:
            open_lines.pop()
        parents.append(open_lines[-1][1] if open_lines else -1)
        open_lines.append((line.indent, place))
    return parents, None

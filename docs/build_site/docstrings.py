"""Docstrings as Markdown: their text, and the sections of arguments, results, errors and examples."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

__all__ = ["entries", "first_sentence", "markdown", "sections"]

_TITLES = {
    "Args": "Arguments",
    "Attributes": "Attributes",
    "Returns": "Returns",
    "Yields": "Yields",
    "Raises": "Raises",
    "Example": "Example",
}


def sections(docstring: str | None) -> list[tuple[str, str]]:
    """Split a docstring into pairs of section and text; text outside any section has the section ``""``."""
    found: list[tuple[str, list[str]]] = [("", [])]
    for line in inspect.cleandoc(docstring or "").splitlines():
        if line.removesuffix(":") in _TITLES and line.endswith(":"):
            found.append((line[:-1], []))
            continue
        if found[-1][0] and line and not line.startswith(" "):
            found.append(("", []))
        found[-1][1].append(line)
    return [
        (name, inspect.cleandoc("\n".join(["", *lines])).strip("\n")) for name, lines in found if any(lines)
    ]


def entries(text: str) -> dict[str, str]:
    """The entries ``name: description`` of a section; what is indented below a line belongs to it."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        named = re.match(r"(\S.*?): (.*)$", line) or re.match(r"(\S.*):()$", line)
        if named and not line.startswith(" "):
            found[named[1]] = [named[2]]
        elif found:
            found[next(reversed(found))].append(line.removeprefix("    "))
        else:
            found[line.strip()] = [""]
    return {name: "\n".join(lines).strip() for name, lines in found.items()}


def first_sentence(docstring: str | None) -> str:
    """The first sentence of a docstring, on one line."""
    first = " ".join(inspect.cleandoc(docstring or "").partition("\n\n")[0].split())
    return re.split(r"(?<=[^.\s])\.(?=\s[A-Z`])", first, maxsplit=1)[0].rstrip(".:")


def markdown(docstring: str | None, linked: Callable[[str], str]) -> str:
    """A docstring as Markdown.

    Args:
        docstring: as it stands in the code.
        linked: turns the names between backquotes of a text into links.
    """
    parts: list[str] = []
    for name, text in sections(docstring):
        if not name:
            parts.append(linked(_plain(text)))
            continue
        parts.append(f"**{_TITLES[name]}**")
        if name == "Example":
            parts.append(f"```pycon\n{text}\n```" if text.startswith(">>>") else linked(text))
        elif name in ("Returns", "Yields"):
            parts.append(linked(_plain(text)))
        else:
            parts.append(
                "\n".join(
                    f"- {_names(entry)}: " + linked(_plain(said)).replace("\n", "\n  ")
                    for entry, said in entries(text).items()
                )
            )
    return "\n\n".join(parts)


def _names(entry: str) -> str:
    return ", ".join(f"`{name.strip('`')}`" for name in entry.split(", "))


def _plain(text: str) -> str:
    """Text whose angle brackets are not taken for HTML, outside of code."""
    pieces = re.split(r"(`+[^`]*`+)", text)
    return "".join(
        piece if index % 2 else re.sub(r"<(?=[a-zA-Z/!])", r"\\<", piece)
        for index, piece in enumerate(pieces)
    )

"""The tutorials: their blocks, the run of them, and a notebook from each.

A tutorial is a page of Markdown with three kinds of blocks that do something:

- ```` ```console ```` has commands, each after ``$ `` and followed by what it prints;
- ```` ```python ```` is code; all blocks of a page share their names; a block ```` ```text ```` right
  after it is what it prints;
- ```` ```yaml ```` or ```` ```csv ```` whose first line is ``# NAME`` is a file to be written.

In what is printed, ``…`` stands for anything or nothing.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import io
import json
import re
import runpy
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["TUTORIALS", "Block", "agrees", "blocks", "notebook", "run", "write_notebooks"]

TUTORIALS = Path(__file__).parents[1] / "tutorials"
_EXAMPLES = Path(__file__).parents[1] / "examples"
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_MADE_BEFORE = "the run was complete: nothing was trained anew\n"
_FILE = re.compile(r"# ([\w./-]+)\n(.*)", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A piece of a page: ``kind`` is ``prose``, ``python``, ``file``, ``command`` or ``output``."""

    kind: str
    text: str
    name: str = ""
    """of a file: its name."""


def blocks(page: str) -> Iterator[Block]:
    """The pieces of a page in order; an output follows what printed it."""
    end = 0
    for fence in _FENCE.finditer(page):
        language, text = fence[1], fence[2]
        named = _FILE.fullmatch(text) if language in ("yaml", "csv") else None
        after_code = language == "text" and not page[end : fence.start()].strip()
        if language not in ("console", "python") and named is None and not after_code:
            continue
        if page[end : fence.start()].strip():
            yield Block("prose", page[end : fence.start()].strip() + "\n")
        end = fence.end()
        if language == "python":
            yield Block("python", text)
        elif language == "console":
            yield from _commands(text)
        elif named is not None:
            yield Block("file", named[2], named[1])
        else:
            yield Block("output", text)
    if page[end:].strip():
        yield Block("prose", page[end:].strip() + "\n")


def _commands(text: str) -> Iterator[Block]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        joined = part.replace("\\\n", "\0")
        command, _, output = joined.partition("\n")
        yield Block("command", command.replace("\0", "\\\n"))
        if output.strip():
            yield Block("output", output.replace("\0", "\\\n"))


def _run_command(command: str) -> None:
    from labeltree.cli.main import main

    words = shlex.split(command.replace("\\\n", " "), comments=True)
    if words[0] == "labeltree":
        if code := main(words[1:]):
            raise RuntimeError(f"'{command}' ended with {code}")
    elif words[0] == "python":
        before, sys.argv = sys.argv, [str(_EXAMPLES / words[1]), *words[2:]]
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        finally:
            sys.argv = before
    else:
        raise ValueError(f"tutorials run 'labeltree' and 'python', not '{words[0]}'")


def run(page: str, seen: Callable[[Block, str, str], None]) -> None:
    """Run a page in the current folder; ``seen(block, printed, shown)`` follows each command and code.

    ``printed`` is what it printed, ``shown`` what the page says that it prints.
    """
    names: dict[str, Any] = {"__name__": "tutorial"}
    pieces = [block for block in blocks(page) if block.kind != "prose"]
    for block, after in zip(pieces, [*pieces[1:], Block("prose", "")], strict=True):
        if block.kind == "file":
            Path(block.name).write_text(block.text, "utf-8")
        if block.kind not in ("command", "python"):
            continue
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            if block.kind == "command":
                _run_command(block.text)
            else:
                exec(compile(block.text, "<tutorial>", "exec"), names)
        seen(block, printed.getvalue(), after.text if after.kind == "output" else "")


def agrees(shown: str, printed: str) -> bool:
    """Whether what was printed has the shape that a page shows; ``…`` stands for anything or nothing.

    Numbers (a dash is one that is not defined), nodes, files, splits, spaces and the names of classifiers are
    not compared: trained on another processor, a model has other last digits, and so, in places, other
    neighbours and answers. Nor are the sentences on what training added and on the classifier that answers,
    or what `train` says of a run that the page before has made.
    """
    from labeltree.decisions.choose_classifier import CLASSIFIER_WORDS

    classifiers = rf"(?<=  )(?:{'|'.join(CLASSIFIER_WORDS)})(?=\s)|{'|'.join(CLASSIFIER_WORDS.values())}"

    def shape(text: str) -> str:
        text = re.sub(r"^\s*(?:Answers come from|Training added) .*\n?", "", text, flags=re.MULTILINE)
        text = re.sub(rf"{classifiers}|\S*[/✓↑]\S*|\bno answer\b(?: \(\?\))?", "@", text)
        text = re.sub(r"(?<=  )–(?!\S)|[+−-]?\d+(?:[.,]\d+)*(?:e-\d+)?", "#", text)
        text = text.replace("p < #", "p = #").replace("false alarms", "false alarm")
        text = re.sub(r"# @|\b(?:train|val|test)\b(?= +@)", "@", text)
        return " ".join(re.sub(r"-{3,}|[+−]\*?(?= )", "-", text).split())

    pattern = re.sub(r"([\[?*])", r"[\1]", shape(shown)).replace("… ", "*").replace("…", "*")
    return fnmatch.fnmatchcase(shape(printed.removeprefix(_MADE_BEFORE)), pattern)


def notebook(page: str, name: str) -> dict[str, Any]:
    """A page as a notebook of format 4.5: the same code, commands after ``!``, files by ``%%writefile``.

    Outputs are those of the page, which the tests compare with what a run prints.
    """
    cells: list[dict[str, Any]] = []

    def lines(text: str) -> list[str]:
        return text.rstrip("\n").splitlines(keepends=True)

    def add(kind: str, text: str) -> None:
        number = hashlib.sha256(f"{name}/{len(cells)}".encode()).hexdigest()[:12]
        cell: dict[str, Any] = {"cell_type": kind, "id": number, "metadata": {}}
        if kind == "code":
            count = 1 + sum(before["cell_type"] == "code" for before in cells)
            cell |= {"execution_count": count, "outputs": []}
        cells.append(cell | {"source": lines(text)})

    for block in blocks(page):
        if block.kind == "prose":  # pictures and other pages are not beside the notebook
            text = re.sub(r"^!\[[^\]]*\]\([^)]*\)\n+(?:\*[^*]+\*\n)?", "", block.text, flags=re.MULTILINE)
            add("markdown", re.sub(r"\[([^\]]+)\]\((?![a-z]+:)[^)]*\)", r"\1", text))
        elif block.kind == "python":
            add("code", block.text)
        elif block.kind == "file":
            add("code", f"%%writefile {block.name}\n{block.text}")
        elif block.kind == "command":
            add("code", f"!{block.text}")
        else:
            printed = {"output_type": "stream", "name": "stdout", "text": lines(block.text)}
            cells[-1]["outputs"].append(printed)
    return {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def write_notebooks(folder: Path) -> list[Path]:
    """Write the notebooks of all tutorials into a folder; returns their files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for source in sorted(TUTORIALS.glob("[0-9]*.md")):
        content = json.dumps(notebook(source.read_text("utf-8"), source.stem), indent=1, ensure_ascii=False)
        written.append(folder / f"{source.stem}.ipynb")
        written[-1].write_text(content + "\n", "utf-8")
    return written

"""Completion of commands and their options in the shell, which calls the program for it (argcomplete)."""

from __future__ import annotations

import argparse
import os
from typing import Any, NoReturn

__all__ = ["complete"]

_ASKED = "_ARGCOMPLETE"
"""The environment variable by which the shell asks; its number is that of the words before the arguments."""


def complete() -> NoReturn:
    """Write what may follow the line in the shell, and end the process.

    A command makes its own parser; here, to parse is to complete, so that only the command on the line is
    loaded.
    """
    try:
        import argcomplete
    except ImportError:
        os._exit(1)
    from labeltree.plugins import named_parts

    line = os.environ.get("COMP_LINE", "")[: int(os.environ.get("COMP_POINT", "0"))]
    _, _, _, before, _ = argcomplete.lexers.split_line(line)  # the words that are complete
    words, commands = before[int(os.environ[_ASKED]) :], named_parts("commands")

    def answer(parser: argparse.ArgumentParser, *_: Any, **__: Any) -> NoReturn:
        argcomplete.autocomplete(parser)
        os._exit(1)

    if words and words[0] in commands:
        os.environ[_ASKED] = str(int(os.environ[_ASKED]) + 1)  # the command belongs to the words before
        argparse.ArgumentParser.parse_args = answer  # type: ignore[assignment, method-assign]
        argparse.ArgumentParser.parse_intermixed_args = answer  # type: ignore[assignment, method-assign]
        commands[words[0]].load().run(words[1:])
        os._exit(1)
    parser = argparse.ArgumentParser("labeltree", add_help=False)
    parser.add_argument("command", choices=list(commands))
    parser.add_argument("--debug", action="store_true")
    parser.add_argument("--version", action="store_true")
    parser.add_argument("--help", action="store_true")
    answer(parser)

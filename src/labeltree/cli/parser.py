"""Parsers of commands, made from the options that `labeltree.options` states."""

from __future__ import annotations

import argparse
from dataclasses import MISSING
from pathlib import Path
from typing import Any, TypeVar

from labeltree.options.schema import Kind, Options, kinds_of, with_flags

__all__ = ["add_action", "add_options", "given", "made", "make_parser"]

Schema = TypeVar("Schema", bound=Options)


def make_parser(
    command: str, *schemas: type, description: str, usage: str | None = None, epilog: str | None = None
) -> argparse.ArgumentParser:
    """The parser of a command.

    Args:
        command: its name.
        schemas: its options, in the order of the help.
        description: what it does.
        usage: how it is called, after ``labeltree``; None = as the options say.
        epilog: text after the options. Description and epilog keep their lines if they have several.
    """
    raw = "\n" in description + (epilog or "")
    parser = argparse.ArgumentParser(
        prog=f"labeltree {command}",
        usage=None if usage is None else f"labeltree {command} {usage}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter if raw else argparse.HelpFormatter,
    )
    add_options(parser, *schemas)
    return parser


def add_options(parser: argparse.ArgumentParser, *schemas: type) -> None:
    """Add the options of schemas to a parser."""
    every = [kind for schema in schemas for kind in kinds_of(schema)]
    kinds = {kind.name: kind for kind in every if kind.option.flag is not None}
    flags = {name: kind.flag for name, kind in kinds.items()}
    groups: dict[str, Any] = {}
    for kind in kinds.values():
        option = kind.option
        place: Any = parser
        if option.either is not None:
            place = groups.setdefault(option.either, None) or parser.add_mutually_exclusive_group()
            groups[option.either] = place
        elif option.group is not None:
            place = groups.get(option.group) or parser.add_argument_group(option.group)
            groups[option.group] = place
        words = _words(kind)
        words["help"] = with_flags(option.help, flags) + _default_text(kind)
        words["help"] = words["help"].replace("%", "%%")
        if option.positional:
            place.add_argument(kind.name, **words)
        else:
            place.add_argument(*filter(None, (option.short, kind.flag)), dest=kind.name, **words)


def add_action(actions: Any, name: str, *schemas: type, help: str, description: str) -> None:
    """Add an action of a command, with its options, to what `add_subparsers` returns."""
    add_options(actions.add_parser(name, help=help, description=description), *schemas)


def _words(kind: Kind) -> dict[str, Any]:
    """What argparse is told of an option, but its help."""
    option, required = kind.option, kind.default is MISSING
    words: dict[str, Any] = {} if required else {"default": kind.default}
    if kind.types == (bool,):
        return {"action": "store_true"}
    if kind.choices:
        words["choices"] = kind.choices
    elif option.read is None:
        item = (kind.several,) if kind.several is not None else kind.types
        words |= {"type": item[0]} if item in ((int,), (float,), (Path,)) else {}
    several = kind.several is not None and option.read is None
    if option.metavar is not None:
        words["metavar"] = option.metavar
    if isinstance(option.metavar, tuple):
        words["nargs"] = len(option.metavar)
    elif option.repeat:
        words |= {"action": "append", "default": None}
    elif several:
        words["nargs"] = "+" if not option.positional or required else "*"
    elif option.positional and not required:
        words["nargs"] = "?"
    if required and not option.positional:
        words["required"] = True
    return words


def _default_text(kind: Kind) -> str:
    """What the help says of the default, unless the text of the option does."""
    default = kind.default
    if "default" in kind.option.help or isinstance(default, bool) or kind.choices:
        return ""
    if isinstance(default, int | float):
        default = f"{default:,}" if isinstance(default, int) else f"{default:g}"
    return f" (default {default})" if isinstance(default, str) and default else ""


def given(schema: type, words: argparse.Namespace) -> dict[str, Any]:
    """The options of a schema that the words of a command say; those of its functions alone are left out."""
    chosen = {}
    for kind in kinds_of(schema):
        value = getattr(words, kind.name, None)
        if kind.option.read is not None and isinstance(value, str):
            value = kind.option.read(value)
        if kind.option.flag is not None and not (value is None and kind.option.repeat):
            chosen[kind.name] = value
    return chosen


def made(schema: type[Schema], words: argparse.Namespace, **further: Any) -> Schema:
    """The options of a command as an object; further ones are those that its words do not say."""
    return schema(**{**given(schema, words), **further})

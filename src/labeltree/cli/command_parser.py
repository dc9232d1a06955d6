"""Parsers of commands, made from the options that `labeltree.options` states."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

from labeltree.errors import typed
from labeltree.options.schema import Option, OptionField, Options, list_options, with_flags
from labeltree.options.shared import Quiet

__all__ = ["AsJson", "Display", "Full", "add_action", "add_options", "make_parser", "read_options"]

Schema = TypeVar("Schema", bound=Options)
_ANY = "SETTING"  # stands for the name of a setting in the flag of a group


@dataclass(frozen=True)
class Display:
    """What a command shows while it works."""

    quiet: Quiet = False


@dataclass(frozen=True)
class Full:
    """How much a command prints of what came out."""

    full: Annotated[bool, Option("print everything, not only what matters first")] = False


@dataclass(frozen=True)
class AsJson:
    """In which form a command prints what came out."""

    json: Annotated[bool, Option("print one JSON document instead of text")] = False


class _Parser(argparse.ArgumentParser):
    """A parser that knows groups of settings: of `--table.sheet NAME` it reads the pair `sheet=NAME`."""

    def error(self, message: str) -> NoReturn:
        """As the base does; where a path stands in place of an action, what to type."""
        wrong = re.search(r"argument ACTION: invalid choice: '([^']+)'", message)
        if wrong is not None and Path(wrong[1]).exists():
            message = (
                f"'{wrong[1]}' is a path, and an action stands there (--help); 'labeltree taxonomy check "
                f"{typed(wrong[1])}' says what the labels of your own data are"
            )
        super().error(message)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As the base does, of words in which settings are pairs."""
        return super().parse_known_args(self._pair_settings(args), namespace)

    def parse_known_intermixed_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Likewise."""
        return super().parse_known_intermixed_args(self._pair_settings(args), namespace)

    def _pair_settings(self, words: Sequence[str] | None) -> list[str]:
        flags = [flag for action in self._actions for flag in action.option_strings if flag.endswith(_ANY)]
        rest = list(sys.argv[1:] if words is None else words)[::-1]
        pairs: list[str] = []
        while rest:
            name, equals, value = (word := rest.pop()).partition("=")
            flag = next((flag for flag in flags if name.startswith(flag.removesuffix(_ANY))), None)
            setting = "" if flag is None else name.removeprefix(flag.removesuffix(_ANY)).replace("-", "_")
            if flag is None or setting == _ANY or not (equals or rest):
                pairs.append(word)
            else:
                pairs += [flag, f"{setting}={value if equals else rest.pop()}"]
        return pairs


def make_parser(
    command: str, *schemas: type, description: str, usage: str | None = None, epilog: str | None = None
) -> argparse.ArgumentParser:
    """The parser of a command.

    Args:
        command: Its name.
        schemas: Its options, in the order of the help.
        description: What it does.
        usage: How it is called, after `labeltree`; None = as the options say.
        epilog: Text after the options. Description and epilog keep their lines if they have several.
    """
    raw = "\n" in description + (epilog or "")
    parser = _Parser(
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
    every = [field for schema in schemas for field in list_options(schema)]
    fields = {field.name: field for field in every if field.option.flag is not None}
    flags = {name: field.flag for name, field in fields.items()}
    groups: dict[str | None, Any] = {None: parser}
    for field in fields.values():
        option = field.option
        name = option.either or option.group
        if name not in groups:
            groups[name] = (
                parser.add_mutually_exclusive_group() if option.either else parser.add_argument_group(name)
            )
        place, words = groups[name], _words(field)
        words["help"] = (with_flags(option.help, flags) + _default_text(field)).replace("%", "%%")
        if option.positional:
            place.add_argument(field.name, **words)
        else:
            place.add_argument(*filter(None, (option.short, field.flag)), dest=field.name, **words)


def add_action(actions: Any, name: str, *schemas: type, help: str, description: str) -> None:
    """Add an action of a command, with its options, to what `add_subparsers` returns."""
    add_options(actions.add_parser(name, help=help, description=description), *schemas)


def _words(field: OptionField) -> dict[str, Any]:
    """What argparse is told of an option, but its help."""
    option, required = field.option, field.default is MISSING
    words: dict[str, Any] = {} if required else {"default": field.default}
    if field.is_group:
        return {"action": "append", "metavar": option.metavar}
    if field.types == (bool,):
        return {"action": "store_true"}
    if field.choices:
        words["choices"] = field.choices
    elif option.read is None:
        item = (field.several,) if field.several is not None else field.types
        words |= {"type": item[0]} if item in ((int,), (float,), (Path,)) else {}
    several = field.several is not None and option.read is None
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


def _default_text(field: OptionField) -> str:
    """What the help says of the default, unless the text of the option does."""
    default = field.default
    if "default" in field.option.help or isinstance(default, bool) or field.choices:
        return ""
    if isinstance(default, int | float):
        default = f"{default:,}" if isinstance(default, int) else f"{default:g}"
    return f" (default {default})" if isinstance(default, str) and default else ""


def read_options(schema: type[Schema], words: argparse.Namespace, **further: Any) -> Schema:
    """The options of a command as an object; further ones are those that its words do not say."""
    chosen: dict[str, Any] = {}
    for field in list_options(schema):
        value = getattr(words, field.name, None)
        if field.is_group and value is not None:
            value = dict(pair.partition("=")[::2] for pair in value)
        if field.option.read is not None and isinstance(value, str):
            value = field.option.read(value)
        if field.option.flag is not None and not (value is None and field.option.repeat):
            chosen[field.name] = value
    return schema(**{**chosen, **further})

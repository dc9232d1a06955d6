"""A page for every command of ``labeltree``, made from its parser."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from unittest import mock

from labeltree.cli.main import command_summaries
from labeltree.plugins import named_parts
from labeltree.training.parser_text import COMMON

__all__ = ["command_pages", "parser_of"]


class _Found(BaseException):
    """Carries a parser out of the command that was asked for its help."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


def parser_of(command: str) -> argparse.ArgumentParser:
    """The parser that a command makes for its arguments."""

    def carry(self: argparse.ArgumentParser, *_: object) -> str:
        raise _Found(self)

    run = named_parts("commands")[command].load().run
    try:
        with mock.patch.object(argparse.ArgumentParser, "format_help", carry):
            run(["--help-all" if command == "train" else "--help"])
    except _Found as found:
        return found.parser
    raise RuntimeError(f"'labeltree {command} --help' has not asked a parser for its help")


def command_pages() -> dict[str, str]:
    """All pages, by their names."""
    commands = command_summaries()
    lines = [f"- [{name}](labeltree-{name}.md): {summary}" for name, summary in commands.items()]
    pages = {"reference/commands/index": "\n".join(lines)}
    for name in commands:
        parts = [f"# labeltree {name}", *_page(name, parser_of(name))]
        pages[f"reference/commands/labeltree-{name}"] = "\n\n".join(parts) + "\n"
    return pages


def _page(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    program = f"labeltree {name}"
    if name == "train":
        yield from _parser(program, parser, {f"--{setting}" for setting in COMMON})
        yield "These settings are needed most often; [all others](../recipe.md) are flags, too."
        return
    yield from _parser(program, parser)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner, sub in action.choices.items():
                yield f"## {name} {inner}"
                yield from _parser(f"{program} {inner}", sub)


def _parser(program: str, parser: argparse.ArgumentParser, only: set[str] | None = None) -> Iterator[str]:
    yield _markdown(parser.description or "")
    usage = parser.format_usage().removeprefix("usage: ").strip()
    yield f"```text\n{usage}\n```"
    yield f"```{{program}} {program}\n```"
    for group in parser._action_groups:
        actions = [
            action
            for action in group._group_actions
            if action.help != argparse.SUPPRESS
            and not isinstance(action, argparse._SubParsersAction | argparse._HelpAction)
            and (only is None or only & set(action.option_strings))
        ]
        if group.title and actions and group.title not in ("options", "positional arguments"):
            yield f"**{group.title[:1].upper()}{group.title[1:]}**"
            if group.description:
                yield _markdown(group.description)
        for action in actions:
            yield _option(parser, action)
    if parser.epilog:
        yield f"```text\n{parser.epilog.strip()}\n```"


def _option(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    formatter = parser._get_formatter()
    value = formatter._format_args(action, formatter._get_default_metavar_for_optional(action))
    if not action.option_strings:
        name = formatter._format_args(action, formatter._get_default_metavar_for_positional(action))
        flags = name.strip("[]").split(" [")[0]
    else:
        flags = ", ".join(
            f"{flag} {value}".strip() if action.nargs != 0 else flag for flag in action.option_strings
        )
    said = formatter._expand_help(action) if action.help else ""
    default = action.default
    given = default not in (None, False, argparse.SUPPRESS, [], "") and "default" not in said
    if given:
        said += f" (default: {default})"
    return f"````{{option}} {flags}\n{_markdown(said)}\n````"


def _markdown(text: str) -> str:
    """Plain text of a parser as Markdown: what could be taken for marks is escaped, options are code."""
    text = " ".join(text.split())
    text = re.sub(r"([*_<\[\]`])", r"\\\1", text)
    return re.sub(r"(?<![\w-])(--[\w-]+)", r"`\1`", text)

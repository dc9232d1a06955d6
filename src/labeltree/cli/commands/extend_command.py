"""`labeltree extend`: new classes for a trained run without training, and classes that are retired."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from labeltree.cli.command_parser import make_parser, read_options
from labeltree.errors import typed
from labeltree.options.model_options import ExtendOptions
from labeltree.options.schema import Option


@dataclass(frozen=True)
class _Undo:
    undo: Annotated[bool, Option("remove the newest extension")] = False


SUMMARY = "add classes to a trained run from a few samples, without training"
ELSEWHERE = "a copy of the run can lie in another folder"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Extend a run as the arguments say, or list its extensions, and print what they did."""
    parser = make_parser(
        "extend",
        ExtendOptions,
        _Undo,
        description="Let a trained run answer with classes that it has not seen, from a few labelled samples "
        "of each or by name, and without training, or no longer with some. The run's own files stay as they "
        "are; --undo restores its answers. Without options: list what was added.",
    )
    words = parser.parse_args(arguments)
    if words.undo and (words.data is not None or words.retire or words.names):
        parser.error("--undo goes with nothing else")
    options = read_options(ExtendOptions, words)

    from labeltree.api import extend
    from labeltree.inference.extend import extension_text, extensions_of, undo_extension

    if words.undo:
        removed = undo_extension(words.run)
        print(f"removed: extension {removed.number}; '{options.run}' answers as before it")
        return
    if options.data is None and not options.retire and not options.names:
        known = extensions_of(words.run)
        print("\n".join(map(extension_text, known)) if known else f"'{options.run}' has no extension")
        return
    print(extension_text(extend(options)))
    run = typed(words.run)
    print(f"'labeltree predict {run}' answers with it; 'labeltree extend {run} --undo' takes it back")

"""`labeltree forget`: a solved run without some of its samples, and every trace of them deleted."""

from __future__ import annotations

from dataclasses import replace

from labeltree.cli.command_parser import Display, make_parser, read_options
from labeltree.options.model_options import ForgetOptions

SUMMARY = "let a run forget samples: its head, its files, the cache and indexes"
ELSEWHERE = "a copy of the run can lie in another folder"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Forget what the arguments name, and print what was done and where it may still be."""
    parser = make_parser(
        "forget",
        ForgetOptions,
        Display,
        description="Let a run with objective tree-ridge forget samples. Its head is afterwards as if they "
        "had never been there, at the same settings; they are deleted from its files, from the cache and "
        "from indexes. Places that may still hold them are named.",
    )
    words = parser.parse_args(arguments)
    options = read_options(ForgetOptions, words)

    from labeltree.api import forget
    from labeltree.progress import progress_line

    with progress_line(not words.quiet, only_terminal=True) as progress:
        forgotten = forget(replace(options, progress=progress))
    print(forgotten)

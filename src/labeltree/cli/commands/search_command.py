"""`labeltree search`: the samples of an index that are most like an image, a text, a sample or a node."""

from __future__ import annotations

import sys
import textwrap

from labeltree.cli.command_parser import make_parser, read_options
from labeltree.cli.print_parts import end_incomplete
from labeltree.options.search import HOW_FAR_OFF, SearchOptions

SUMMARY = "find the samples of an index that are most like an image, a text, a sample or a node"
_NAMES = ("query", "queries", "entry", "entries")
ELSEWHERE = "--out FILE names another file"
"""What to do if the place that it writes to is full or read-only."""

_DESCRIPTION = textwrap.fill(
    "Find the samples of an index that are most like images, texts, samples of the index, or nodes (the mean "
    "of what is labelled there). Images and texts are embedded by the run that the index was made from. "
    f"'off' says how far a result's label is from the query's: {HOW_FAR_OFF}. A query without a label gets "
    "the one that its ten nearest samples of the index suggest.",
    88,
)
_EPILOG = """examples:
  labeltree search runs/photos query.jpg
  labeltree search runs/photos query.jpg --within animal/mammal --out wall.html
  labeltree search runs/photos --node animal/mammal --diverse 3
  labeltree search runs/photos queries/ --out found.csv"""


def run(arguments: list[str]) -> None:
    """Search, and print or write what was found."""
    parser = make_parser(
        "search",
        SearchOptions,
        usage="INDEX [IMAGE|FOLDER|TABLE ...] [options]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    options = read_options(SearchOptions, parser.parse_intermixed_args(arguments))

    from labeltree.processes import import_quickly

    with import_quickly():
        from labeltree.api import search

    searched = search(options)
    if options.out is None:
        sys.stdout.write(searched.text(options.format))
    else:
        print(f"written to {options.out}", file=sys.stderr)
        if options.format == "html" and searched.pictures_gone:
            print(f"note: {searched.pictures_gone}", file=sys.stderr)
    if unread := searched.unread:
        example = "" if options.out is None else f", such as '{unread[0].query}' ({unread[0].problem})"
        end_incomplete(_NAMES, len(unread), len(searched.answers), options.out, example)

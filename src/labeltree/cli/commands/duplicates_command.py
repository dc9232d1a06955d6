"""`labeltree duplicates`: near duplicates in an index, across splits, labels and groups."""

from __future__ import annotations

import sys

from labeltree.cli.command_parser import make_parser, read_options
from labeltree.options.search import DuplicatesOptions

SUMMARY = "find near duplicates in an index, across splits, labels and groups"
ELSEWHERE = "--out FILE names another file"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Find near duplicates, and print or write them."""
    parser = make_parser(
        "duplicates",
        DuplicatesOptions,
        description="Find near duplicates: pairs of an index that are closer than a threshold, and the sets "
        "that they make. Pairs between training and test come first, then pairs with labels that exclude "
        "each other.",
    )
    options = read_options(DuplicatesOptions, parser.parse_args(arguments))

    from labeltree.api import duplicates
    from labeltree.curation.duplicates_text import unlisted

    done = duplicates(options)
    if options.out is None:
        sys.stdout.write(done.text(options.format))
        for sentence in unlisted(done.duplicates) if options.format != "table" else ():
            print(sentence, file=sys.stderr)
        return
    print(done.text().split("\n\n")[0].rstrip(), file=sys.stderr)
    print(f"written to {options.out}", file=sys.stderr)

"""`labeltree explore`: an index on a page in the browser."""

from __future__ import annotations

import sys
from dataclasses import replace

from labeltree.cli.command_parser import make_parser, read_options
from labeltree.options.serving import ExploreOptions

SUMMARY = "search, look at and correct an index on a page in the browser"
ELSEWHERE = "--corrections FILE names another file"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Serve the page of the index that the arguments name until Ctrl-C or SIGTERM."""
    parser = make_parser(
        "explore",
        ExploreOptions,
        description="Show an index on a page in the browser: search by image, text, node or sample; the tree "
        "with its counts; a map of all samples; pages of nodes; a queue in which suspects are reviewed. Only "
        "this machine reaches it unless --host says otherwise.",
        epilog="example: labeltree explore runs/photos --suspects runs/photos/suspects.csv",
    )
    options = read_options(ExploreOptions, parser.parse_args(arguments))

    from labeltree.api import explore
    from labeltree.index.addresses import shown_place
    from labeltree.serving.server import is_loopback, read_token

    token = read_token(options)  # what is wrong with it is said first; a pipe can be read once

    def warn(sentence: str) -> None:
        print(f"labeltree: {sentence}", file=sys.stderr, flush=True)

    if not is_loopback(options.host):
        warn(
            "the token and all pictures and texts go over the network unencrypted; put a proxy with TLS in "
            "front of it before others reach it"
        )

    def say(address: str) -> None:
        print(f"exploring {shown_place(options.index)} at {address}; Ctrl-C ends it", flush=True)

    explore(replace(options, token=token, token_file=None, token_env=None, say=say, warn=warn))

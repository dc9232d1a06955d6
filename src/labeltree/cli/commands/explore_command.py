"""``labeltree explore``: an index on a page in the browser."""

from __future__ import annotations

import argparse
import sys

from labeltree.cli.commands.serve_command import add_limits, read_token, settings_of

SUMMARY = "search, look at and correct an index on a page in the browser"
ELSEWHERE = "--corrections FILE names another file"
"""What to do if the place that it writes to is full or read-only."""

_LIMITS = ("--timeout", "--max-upload", "--max-pixels", "--max-decoding", "--max-text")


def run(arguments: list[str]) -> None:
    """Serve the page of the index that the arguments name until Ctrl-C or SIGTERM."""
    options = _parser().parse_args(arguments)
    token = read_token(options.token_file, options.token_env)

    from labeltree.index.addresses import shown_place
    from labeltree.serving.explorer.open_explorer import explore
    from labeltree.serving.server import is_loopback

    def warn(sentence: str) -> None:
        print(f"labeltree: {sentence}", file=sys.stderr, flush=True)

    if not is_loopback(options.host):
        warn(
            "the token and all pictures and texts go over the network unencrypted; put a proxy with TLS in "
            "front of it before others reach it"
        )

    def say(address: str) -> None:
        print(f"exploring {shown_place(options.index)} at {address}; Ctrl-C ends it", flush=True)

    explore(
        options.index,
        images=options.images,
        suspects=options.suspects,
        corrections=options.corrections,
        host=options.host,
        port=options.port,
        names=options.name,
        settings=settings_of(options),
        devices=options.device,
        threads=options.threads,
        token=token,
        access_log=options.access_log,
        say=say,
        warn=warn,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="labeltree explore",
        description="Show an index on a page in the browser: search by image, text, node or sample; "
        "the tree with its counts; a "
        "map of all samples; pages of nodes; a queue in which suspects are reviewed. Only this machine "
        "reaches it unless --host says otherwise.",
        epilog="example: labeltree explore runs/photos --suspects runs/photos/suspects.csv",
    )
    parser.add_argument("index", help="the index, or a run that has one (labeltree index RUN)")
    parser.add_argument(
        "--images",
        nargs="+",
        default=[],
        metavar="FOLDER",
        help="folders whose pictures may be shown (default: those of the data of the index's run)",
    )
    parser.add_argument("--suspects", metavar="FILE", help="the table of 'labeltree suspects' to review")
    parser.add_argument(
        "--corrections",
        metavar="FILE",
        help="where decisions are written (default: reviewed.csv beside FILE)",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="default 8000; 0: any that is free")
    parser.add_argument(
        "--name", nargs="+", default=[], help="names by which browsers may reach it besides localhost"
    )
    parser.add_argument("--device", nargs="+", default=[], help="of the model: cpu, or cuda:0 …")
    parser.add_argument("--threads", type=int, help="of the model on a CPU")
    add_limits(parser, _LIMITS)
    return parser

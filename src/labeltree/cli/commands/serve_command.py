"""`labeltree serve`: a trained run as an HTTP service."""

from __future__ import annotations

import sys
from dataclasses import replace

from labeltree.cli.command_parser import make_parser, read_options
from labeltree.options.serving import ServeOptions

SUMMARY = "answer over HTTP, with a trained run"
ELSEWHERE = "a copy of the run can lie in another folder"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Serve the run that the arguments name until Ctrl-C or SIGTERM."""
    parser = make_parser(
        "serve",
        ServeOptions,
        description="Answer over HTTP: POST /predict and /embed take images (a form with files, one image as "
        "the body, or JSON) or texts (JSON); GET /taxonomy, /health; /docs is a page to try it. Requests "
        "at the same time are computed together. Ctrl-C or SIGTERM ends it after the requests in progress.",
    )
    options = read_options(ServeOptions, parser.parse_args(arguments))

    from labeltree.api import serve
    from labeltree.serving.server import is_loopback, read_token

    token = read_token(options)
    if not is_loopback(options.host):
        print(
            f"labeltree: {_exposure(token)}; put a proxy with TLS in front of it before others reach it",
            file=sys.stderr,
        )

    def say(address: str) -> None:
        print(f"serving {options.run} at {address} (page: {address}/docs); Ctrl-C ends it", flush=True)

    serve(replace(options, token=token, token_file=None, token_env=None, say=say))


def _exposure(token: str | None) -> str:
    if token is None:
        return (
            "there is no authentication: whoever reaches this address can use the service (--token-file "
            "asks for a token)"
        )
    return "the token and all images and texts go over the network unencrypted"

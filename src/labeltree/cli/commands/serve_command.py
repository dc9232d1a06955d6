"""``labeltree serve``: a trained run as an HTTP service."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labeltree.serving import ServiceSettings

SUMMARY = "answer over HTTP, with a trained run"
ELSEWHERE = "a copy of the run can lie in another folder"
"""What to do if the place that it writes to is full or read-only."""

_LIMITS: tuple[tuple[str, int | float, str, str], ...] = (
    ("--max-batch", 32, "N", "samples that the network reads at once"),
    ("--max-wait", 5.0, "MS", "milliseconds that an idle network waits for more"),
    ("--max-waiting", 256, "N", "samples that may wait; further requests get 503"),
    ("--timeout", 30.0, "S", "seconds for a request"),
    ("--max-upload", 32.0, "MB", "size of a request"),
    (
        "--max-pixels",
        50.0,
        "MILLIONS",
        "pixels of an image, before it is resized (of a JPEG, once it is reduced)",
    ),
    ("--max-decoding", 3.0, "GB", "memory for decoding images, of all requests together"),
    ("--max-samples", 64, "N", "images or texts of a request"),
    ("--max-text", 20_000, "N", "characters of a text"),
)

_NAMES = frozenset(name[2:].replace("-", "_") for name, *_ in _LIMITS)


def run(arguments: list[str]) -> None:
    """Serve the run that the arguments name until Ctrl-C or SIGTERM."""
    options = _parser().parse_args(arguments)
    token = read_token(options.token_file, options.token_env)

    from labeltree.serving.server import is_loopback, serve

    settings = settings_of(options)
    if not is_loopback(options.host):
        print(
            f"labeltree: {_exposure(token)}; put a proxy with TLS in front of it before others reach it",
            file=sys.stderr,
        )

    def say(address: str) -> None:
        print(f"serving {options.run} at {address} (page: {address}/docs); Ctrl-C ends it", flush=True)

    serve(
        options.run,
        host=options.host,
        port=options.port,
        settings=settings,
        devices=options.device,
        threads=options.threads,
        token=token,
        access_log=options.access_log,
        names=options.name,
        say=say,
    )


def settings_of(options: argparse.Namespace) -> ServiceSettings:
    """The limits that options name; those that a command does not have keep their defaults."""
    from labeltree.serving import ServiceSettings

    scales = {"max_upload": 1e6, "max_pixels": 1e6, "max_decoding": 1e9}
    given = {
        name: round(value * scales[name]) if name in scales else value
        for name, value in vars(options).items()
        if name in _NAMES
    }
    if "max_samples" in given:
        given["max_samples"] = min(given["max_samples"], options.max_waiting)
    return ServiceSettings(**given)


def add_limits(parser: argparse.ArgumentParser, names: Collection[str] = ()) -> None:
    """Add the options of limits, or some of them, and those of the token."""
    limits = parser.add_argument_group("limits" if names else "batches and limits")
    for name, default, unit, meaning in _LIMITS:
        if not names or name in names:
            text = f"{meaning} (default {default:g})"
            limits.add_argument(name, type=type(default), default=default, metavar=unit, help=text)
    token = parser.add_mutually_exclusive_group()
    token.add_argument("--token-file", metavar="FILE", help="clients must send the token in this file")
    token.add_argument("--token-env", metavar="NAME", help="the same, in this environment variable")
    parser.add_argument("--access-log", action="store_true", help="print a line for every request")


def _exposure(token: str | None) -> str:
    if token is None:
        return (
            "there is no authentication: whoever reaches this address can use the service (--token-file "
            "asks for a token)"
        )
    return "the token and all images and texts go over the network unencrypted"


def read_token(file: str | None, variable: str | None) -> str | None:
    """The token in a file or an environment variable; None if neither is named."""
    if file is None and variable is None:
        return None
    place = f"the file '{file}'" if file is not None else f"the environment variable {variable}"
    try:
        secret = Path(file).read_text("utf-8") if file is not None else os.environ.get(variable or "", "")
    except UnicodeDecodeError:
        secret = ""
    token = secret.strip()
    if len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(
            f"{place} holds no token: at least 16 printable ASCII characters without spaces, such as "
            "'openssl rand -hex 32' prints"
        )
    return token


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="labeltree serve",
        description="Answer over HTTP: POST /predict and /embed take images (a form with files, one image as "
        "the body, or JSON) or texts (JSON); GET /taxonomy, /health; /docs is a page to try it. Requests "
        "at the same time are computed together. Ctrl-C or SIGTERM ends it after the requests in progress.",
    )
    parser.add_argument("run", help="the run folder, or that of an exported model")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1: this machine only)"
    )
    parser.add_argument("--port", type=int, default=8000, help="default 8000; 0: any that is free")
    parser.add_argument(
        "--name", nargs="+", default=[], help="names by which clients may reach it besides localhost"
    )
    parser.add_argument(
        "--device",
        nargs="+",
        default=[],
        help="cpu, or cuda:0 cuda:1 … (default: a GPU if there is one)",
    )
    parser.add_argument("--threads", type=int, help="of the network on a CPU (default: all cores but one)")
    add_limits(parser)
    return parser

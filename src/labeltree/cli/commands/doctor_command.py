"""`labeltree doctor`: what is installed, and what it computes with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

from labeltree.cli.command_parser import make_parser
from labeltree.options.schema import Option

SUMMARY = "print versions, extras, GPU, threads and caches, for bug reports"


@dataclass(frozen=True)
class _Display:
    json: Annotated[bool, Option("print it as JSON")] = False


def run(arguments: list[str]) -> None:
    """Print what is installed, with the line that installs an extra that is missing."""
    parser = make_parser(
        "doctor",
        _Display,
        description="Say which versions are installed, which extras are missing and how they are installed, "
        "which GPU and how many threads there are, what the caches hold, and which environment variables "
        "are set. Asks no network. Put its output into a report of a mistake.",
    )
    words = parser.parse_args(arguments)

    from labeltree.installation import examine_installation

    installation = examine_installation()
    if words.json:
        print(json.dumps(installation.to_dict(), indent=2, ensure_ascii=False))
    else:
        print(installation.text(), end="")

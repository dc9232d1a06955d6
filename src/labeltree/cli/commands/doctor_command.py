"""`labeltree doctor`: what is installed, and what it computes with."""

from __future__ import annotations

from labeltree.cli.command_parser import AsJson, make_parser
from labeltree.cli.print_parts import print_json

SUMMARY = "print versions, extras, GPU, threads and caches, for bug reports"


def run(arguments: list[str]) -> None:
    """Print what is installed, with the line that installs an extra that is missing."""
    parser = make_parser(
        "doctor",
        AsJson,
        description="Say which versions are installed, which extras are missing and how they are installed, "
        "which GPU and how many threads there are, what the caches hold, and which environment variables "
        "are set. Asks no network. Put its output into a report of a mistake.",
    )
    words = parser.parse_args(arguments)

    from labeltree.installation import examine_installation

    installation = examine_installation()
    if words.json:
        print_json(installation.to_dict())
    else:
        print(installation.text(), end="")

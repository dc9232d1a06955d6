"""`labeltree merge`: several solved runs as one model, from their sums, without a sample."""

from __future__ import annotations

from labeltree.cli.command_parser import make_parser, read_options
from labeltree.options.model_options import MergeOptions

SUMMARY = "make one model of several runs without moving a sample"


def run(arguments: list[str]) -> None:
    """Merge the runs that the arguments name, and print what it took."""
    parser = make_parser(
        "merge",
        MergeOptions,
        description="Make one model of several runs with objective tree-ridge, such as those of several "
        "sites, from the sums that they keep. Its head equals one that was solved from all their samples.",
    )
    options = read_options(MergeOptions, parser.parse_args(arguments))

    from labeltree.api import merge

    print(merge(options))

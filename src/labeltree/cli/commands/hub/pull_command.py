"""`labeltree pull`: a model of the Hugging Face hub as a folder."""

from __future__ import annotations

from labeltree.cli.command_parser import make_parser, read_options
from labeltree.options.hub_options import PullOptions

SUMMARY = "fetch an exported model from the Hugging Face hub"
ELSEWHERE = "--out FOLDER names another folder"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Fetch the model that the arguments name."""
    parser = make_parser(
        "pull",
        PullOptions,
        description="Fetch a model that 'labeltree push' has sent to the Hugging Face hub, as a folder that "
        "predict, embed, info and serve open. Only tensors, JSON and text are fetched; each file is checked "
        "by its digest, and none is run.",
    )
    options = read_options(PullOptions, parser.parse_args(arguments))

    from labeltree.api import pull
    from labeltree.inference.info_text import file_sizes

    out = pull(options)
    print(f"{out}: {file_sizes(out)[0]}")

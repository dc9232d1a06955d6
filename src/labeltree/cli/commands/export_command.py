"""`labeltree export`: a trained run as one folder that others can use, with labeltree and without."""

from __future__ import annotations

from labeltree.cli.command_parser import make_parser, read_options
from labeltree.options.model_options import ExportOptions

SUMMARY = "write a trained run as a folder for others: ONNX, weights, labels, a model card"
ELSEWHERE = "--out FOLDER names another folder"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Write the exported model requested by the arguments."""
    parser = make_parser(
        "export",
        ExportOptions,
        description="Write a trained run as one folder: ONNX with a script that answers without labeltree, "
        "weights that labeltree reads, and a model card. Nothing in it names a training sample, its group or "
        "a place on this disk.",
    )
    options = read_options(ExportOptions, parser.parse_args(arguments))

    from labeltree.api import export
    from labeltree.inference.info_text import file_sizes

    out = export(options)
    print(f"{out}: {file_sizes(out)[0]}")

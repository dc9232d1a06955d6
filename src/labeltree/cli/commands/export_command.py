"""``labeltree export``: a trained run as one folder that others can use, with labeltree and without."""

from __future__ import annotations

import argparse

from labeltree.cli.run_options import add_classifier, add_version

SUMMARY = "write a trained run as a folder for others: ONNX, weights, labels, a model card"
ELSEWHERE = "--out FOLDER names another folder"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Write the exported model requested by the arguments."""
    parser = argparse.ArgumentParser(
        prog="labeltree export",
        description="Write a trained run as one folder: ONNX with a script that answers without labeltree, "
        "weights that labeltree reads, and a model card. Nothing in it names a training sample, its group or "
        "a place on this disk.",
    )
    parser.add_argument("run", help="the run folder")
    parser.add_argument(
        "--out", required=True, help="the folder to write; it appears as a whole or not at all"
    )
    parser.add_argument(
        "--format",
        nargs="+",
        choices=["onnx", "safetensors", "torch"],  # FORMATS, without importing torch for the help
        default=["onnx", "safetensors"],
        help="onnx: the graph, labels.json, preprocess.json and predict.py; safetensors: the weights, for "
        "labeltree; torch: model.pt2, for torch.export.load (default: onnx safetensors)",
    )
    parser.add_argument("--name", help="name of the model on its card (default: that of the folder)")
    parser.add_argument(
        "--with-reference",
        action="store_true",
        help="also export the embeddings of validation and some training samples, without names: with them "
        "the model can be calibrated again without its data",
    )
    parser.add_argument("--replace", action="store_true", help="replace an exported model in the folder")
    add_classifier(parser)
    add_version(parser)
    options = parser.parse_args(arguments)

    from labeltree.inference.info_text import file_sizes
    from labeltree.inference.model import Model

    model = Model(
        options.run,
        classifier=options.classifier,
        taxonomy=options.taxonomy,
        mapping=options.mapping,
        device="cpu",
    )
    out = model.export(
        options.out,
        options.format,
        name=options.name,
        with_reference=options.with_reference,
        replace=options.replace,
    )
    print(f"{out}: {file_sizes(out)[0]}")

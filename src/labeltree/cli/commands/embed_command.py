"""``labeltree embed``: write the embeddings of a trained run as a table that any program can read."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from labeltree.cli.run_options import add_bulk, add_verify, folder_help, run_in_bulk

SUMMARY = "write the embeddings of a trained run, of its own data or of others"
ELSEWHERE = "--out FILE names another file"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Write the embeddings table requested by the arguments."""
    parser = argparse.ArgumentParser(
        prog="labeltree embed",
        description="Write features and embeddings of a trained run's samples, or of others, to one table "
        "with columns embeddings, features, nodes, split, instances and paths. The taxonomy of the nodes is "
        "written beside it, as OUT.taxonomy.json. " + folder_help("embeddings"),
    )
    parser.add_argument("run", help="the run folder")
    parser.add_argument("--data", help="embed these instead: a data set, a folder or a table")
    parser.add_argument(
        "--data-path",
        help="with --data NAME: the folder of that data set; by default the run's, if it is one of the same "
        "files, or else that in the cache",
    )
    labels = parser.add_mutually_exclusive_group()
    labels.add_argument("--unlabelled", action="store_true", help="with --data: ignore its labels")
    labels.add_argument(
        "--own-labels",
        action="store_true",
        help="with --data: keep the labels that the data have, of another taxonomy than the run's",
    )
    parser.add_argument(
        "--modality",
        choices=["both", "image", "text"],
        default="both",
        help="of a run on images and texts: embed what a sample has (default), or one of them alone; samples "
        "without it are left out",
    )
    parser.add_argument(
        "--out",
        help=".npz or .parquet, or FOLDER/; default: in the run folder, under embeddings/",
    )
    parser.add_argument("--features", action="store_true", help="with FOLDER/: write features, too")
    parser.add_argument(
        "--dtype",
        choices=["float32", "float16"],
        default="float32",
        help="with FOLDER/: of the numbers in the files (default float32)",
    )
    add_bulk(parser)
    add_verify(parser)
    options = parser.parse_args(arguments)
    if options.data_path is not None and options.data is None:
        parser.error("--data-path says where the data set of --data lies; name one")
    if options.verify and options.data is not None:
        parser.error("--verify is about the run's own samples; leave out --data, or --verify")
    for given, name in ((options.unlabelled, "--unlabelled"), (options.own_labels, "--own-labels")):
        if given and options.data is None:
            parser.error(f"{name} is about the samples of --data; name them")
    if run_in_bulk(
        parser,
        options,
        {
            "what": "embed",
            "labelled": not options.unlabelled,
            "features": options.features,
            "dtype": options.dtype,
        },
        {
            "--own-labels": options.own_labels,
            "--data-path": options.data_path,
            "--verify": options.verify,
            "--modality": options.modality != "both",
        },
        {"--features": options.features, "--dtype": options.dtype != "float32"},
    ):
        return

    from labeltree.processes import import_quickly

    with import_quickly():
        from labeltree.inference.load_run import load_run
        from labeltree.inference.named_samples import open_other
        from labeltree.inference.run_embeddings import embed_source, with_modality
        from labeltree.runs import RunFolder

    trained = load_run(options.run, own_data=options.data is None, verify=options.verify)
    if options.data is None:
        source, name = trained.source, "trained"
    else:
        source = open_other(
            trained,
            options.data,
            data_path=options.data_path,
            unlabelled=options.unlabelled,
            own_labels=options.own_labels,
        )
        name = f"of-{Path(options.data).resolve().stem}"
    if options.modality != "both":
        source, name = with_modality(source, options.modality), f"{name}-{options.modality}"
    out = Path(options.out) if options.out else RunFolder(options.run).embeddings(name)
    with RunFolder(options.run).locked() if options.out is None else nullcontext():
        table = embed_source(
            trained.network, source, answers=not options.own_labels, modality=options.modality
        )
        replace(table, encoder_digest=trained.weights_digest).save(out, source.taxonomy)
        source.taxonomy.save(out.with_suffix(".taxonomy.json"))
    print(f"{len(table)} samples, {table.embeddings.shape[1]}-d embeddings ({table.geometry}): {out}")

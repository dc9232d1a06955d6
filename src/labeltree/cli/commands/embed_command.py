"""`labeltree embed`: write the embeddings of a trained run as a table that any program can read."""

from __future__ import annotations

from dataclasses import replace

from labeltree.cli.command_parser import make_parser, read_options
from labeltree.cli.print_parts import folder_help, parts_progress, print_parts
from labeltree.options.answer_options import EmbedOptions

SUMMARY = "write the embeddings of a trained run, for its data or other samples"
ELSEWHERE = "--out FILE names another file"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Write the embeddings table requested by the arguments."""
    parser = make_parser(
        "embed",
        EmbedOptions,
        description="Write features and embeddings of a trained run's samples, or of others, to one table "
        "with columns embeddings, features, nodes, split, instances and paths. The taxonomy of the nodes is "
        "written beside it, as OUT.taxonomy.json. " + folder_help("embeddings"),
    )
    options = read_options(EmbedOptions, parser.parse_args(arguments))

    from labeltree.processes import import_quickly

    with import_quickly():
        from labeltree.api import embed
        from labeltree.inference.bulk import BulkDone

    with parts_progress(options.data, options.out) as progress:
        done = embed(replace(options, progress=progress))
    if isinstance(done, BulkDone):
        print_parts(done)
        return
    table = done.table
    print(f"{len(table)} samples, {table.embeddings.shape[1]}-d embeddings ({table.geometry}): {done.file}")

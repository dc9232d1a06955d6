"""``labeltree extend``: new classes for a trained run without training, and classes that are retired."""

from __future__ import annotations

import argparse

from labeltree.errors import typed

SUMMARY = "add classes to a trained run from a few samples, without training"
ELSEWHERE = "a copy of the run can lie in another folder"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Extend a run as the arguments say, or list its extensions, and print what they did."""
    parser = argparse.ArgumentParser(
        prog="labeltree extend",
        description="Let a trained run answer with classes that it has not seen, from a few labelled samples "
        "of each and without training, or no longer with some. The run's own files stay as they are; --undo "
        "restores its answers. Without options: list what was added.",
    )
    parser.add_argument("run", help="the run folder")
    parser.add_argument(
        "--data",
        help="labelled samples: a folder of nested folders, a table or a data set; samples of known classes "
        "are learned from, too",
    )
    parser.add_argument("--data-path", help="with --data NAME: the folder of that data set")
    parser.add_argument(
        "--place",
        choices=["path", "nearest"],
        default="path",
        help="new classes go where the path of their label leads (default), or under the node where their "
        "samples fall",
    )
    parser.add_argument("--under", metavar="NODE", help="the node below which the labels of --data begin")
    parser.add_argument(
        "--retire",
        metavar="NODE",
        nargs="+",
        default=[],
        help="classes that no longer answer: this node, or all below it",
    )
    parser.add_argument(
        "--classifier",
        choices=["auto", "probe", "prototypes"],
        default="auto",
        help="what answers: a linear classifier learned again on all classes, or the nearest class mean; "
        "auto: the better one on held-out samples (default)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of which samples are held out")
    parser.add_argument("--undo", action="store_true", help="remove the newest extension")
    options = parser.parse_args(arguments)
    if options.undo and (options.data is not None or options.retire):
        parser.error("--undo goes with nothing else")
    if options.data is None and (options.data_path or options.under or options.place != "path"):
        parser.error("--data-path, --place and --under are about the samples of --data; name some")

    from labeltree.inference.extend import extend_run, extension_text, extensions_of, undo_extension

    if options.undo:
        removed = undo_extension(options.run)
        print(f"removed: extension {removed.number}; '{options.run}' answers as before it")
        return
    if options.data is None and not options.retire:
        known = extensions_of(options.run)
        print("\n".join(map(extension_text, known)) if known else f"'{options.run}' has no extension")
        return
    extension = extend_run(
        options.run,
        options.data,
        data_path=options.data_path,
        place=options.place,
        under=options.under,
        retire=options.retire,
        classifier=options.classifier,
        seed=options.seed,
    )
    print(extension_text(extension))
    run = typed(options.run)
    print(f"'labeltree predict {run}' answers with it; 'labeltree extend {run} --undo' takes it back")

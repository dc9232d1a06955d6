"""Options that several commands on runs share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["add_bulk", "add_classifier", "add_verify", "folder_help", "run_in_bulk"]

_BULK = ("devices", "part_size", "workers")


def folder_help(rows: str) -> str:
    """What a command's help says of writing a folder of parts."""
    return (
        f"With --out FOLDER/ (or shards as DATA) the {rows} of any number of samples go to Parquet files in "
        "that folder; the same command continues where it stopped."
    )


def add_bulk(parser: argparse.ArgumentParser) -> None:
    """Add the options of writing a folder of parts."""
    parser.add_argument(
        "--devices",
        type=int,
        metavar="N",
        help="with FOLDER/: processes, each with its own GPU if there are any (default 1)",
    )
    parser.add_argument(
        "--part-size", type=int, metavar="N", help="with FOLDER/: samples in a file (default 10,000)"
    )
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="with FOLDER/: threads that decode, in each process (default one per core, at most 16)",
    )


def run_in_bulk(
    parser: argparse.ArgumentParser,
    options: argparse.Namespace,
    job: Mapping[str, Any],
    unfit: Mapping[str, object],
    alone: Mapping[str, object],
) -> bool:
    """Do the work of a command that writes a folder of parts, and print what was done.

    Args:
        parser: the parser of the command.
        options: its options, with ``run``, ``data``, ``out`` and those of `add_bulk`.
        job: what else the job says; see `BulkJob`.
        unfit: further options that do not go with a folder of parts, by name; true if given.
        alone: further options that go with nothing else, by name; true if given.

    Returns:
        Whether the command writes a folder of parts; otherwise nothing has been done.
    """
    given = {name: value for name in _BULK if (value := getattr(options, name)) is not None}
    if options.out is not None:
        from labeltree.inference.bulk.job import writes_folder

    if options.out is None or not writes_folder(options.data, options.out):
        names = [f"--{name.replace('_', '-')}" for name in given] + [name for name in alone if alone[name]]
        if names:
            parser.error(f"{names[0]} goes with a folder of parts: --data DATA --out FOLDER/")
        return False
    if options.data is None:
        parser.error(f"--out {options.out}: a folder of parts is written of other data; name them by --data")
    for name, value in unfit.items():
        if value:
            parser.error(f"{name} does not go with a folder of parts; name a file as --out, or leave it out")

    from labeltree.inference.bulk import BulkJob, run_bulk
    from labeltree.progress import progress_line

    devices = given.pop("devices", 1)
    with progress_line(counted="samples") as progress:
        done = run_bulk(
            BulkJob(run=options.run, data=options.data, out=options.out, **job, **given),
            devices=devices,
            progress=progress,
        )
    print(done.sentence())
    if done.warning is not None:
        print(done.warning, file=sys.stderr)
    if done.unreadable:
        raise SystemExit(1)
    return True


def add_classifier(parser: argparse.ArgumentParser) -> None:
    """Add ``--classifier`` to a command; None means the classifier chosen before."""
    parser.add_argument(
        "--classifier",
        choices=(
            "auto",
            "feature-means",
            "prototypes",
            "lda",
            "probe",
            "own",
        ),  # CLASSIFIERS, without importing torch for the help
        help="what answers from now on: class means of features or of embeddings (prototypes), discriminants "
        "(lda), a linear probe, the run's own classifier, or the best of them on validation samples, auto "
        "(default: as decided before, else as the recipe says, else auto)",
    )


def add_version(parser: argparse.ArgumentParser) -> None:
    """Add ``--taxonomy`` and ``--mapping`` to a command that answers on another version of the taxonomy."""
    parser.add_argument("--taxonomy", metavar="FILE", help="answer on this version of the taxonomy")
    parser.add_argument(
        "--mapping",
        metavar="FILE",
        help="with --taxonomy: what became of the run's classes, by 'labeltree taxonomy map'",
    )


def add_verify(parser: argparse.ArgumentParser, when: str = "") -> None:
    """Add ``--verify`` to a command that reads a run's own samples; `when` says in which case it does."""
    parser.add_argument(
        "--verify",
        action="store_true",
        help=f"{when}read all files of the run's samples again, even those whose size and "
        "modification time have not changed",
    )

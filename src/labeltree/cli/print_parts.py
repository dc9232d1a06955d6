"""What commands say and print that can write a folder of parts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from labeltree.inference.bulk import BulkDone
    from labeltree.progress import Progress

__all__ = ["folder_help", "parts_progress", "print_parts"]


def folder_help(rows: str) -> str:
    """What a command's help says of writing a folder of parts."""
    return (
        f"With --out FOLDER/ (or shards as DATA) the {rows} of any number of samples go to Parquet files in "
        "that folder; the same command continues where it stopped."
    )


@contextmanager
def parts_progress(data: str | Path | None, out: str | Path | None) -> Iterator[Progress | None]:
    """A line that counts samples, if a folder of parts is written."""
    from labeltree.inference.bulk.job import writes_folder
    from labeltree.progress import progress_line

    with progress_line(out is not None and writes_folder(data, out), counted="samples") as progress:
        yield progress


def print_parts(done: BulkDone) -> None:
    """Print what was written; ends the program with 1 if a sample could not be read."""
    print(done.sentence())
    if done.warning is not None:
        print(done.warning, file=sys.stderr)
    if done.unreadable:
        raise SystemExit(1)

"""What several commands print: one JSON document, and what is said of a folder of parts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from labeltree.inference.bulk import BulkDone
    from labeltree.progress import Progress

__all__ = ["folder_help", "parts_progress", "print_json", "print_parts"]


def print_json(content: Any) -> None:
    """Print one JSON document; numbers that are not defined become null."""
    from labeltree.runs.run_folder import plain_json

    print(json.dumps(plain_json(content), indent=2, ensure_ascii=False, allow_nan=False))


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

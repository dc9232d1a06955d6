"""What several commands print: one JSON document, and what is said of a folder of parts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from pathlib import Path

    from labeltree.inference.bulk import BulkDone
    from labeltree.progress import Progress

__all__ = ["end_incomplete", "folder_help", "parts_progress", "print_json", "print_parts"]


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
    """Print what was written; ends the program with 1 if a sample could not be read, 2 if none could."""
    print(done.sentence())
    if done.warning is not None:
        print(done.warning, file=sys.stderr)
    if done.unreadable:
        raise SystemExit(2 if done.complete and done.unreadable == done.samples else 1)


def end_incomplete(
    names: tuple[str, str, str, str], lost: int, count: int, out: str | Path | None, example: str = ""
) -> NoReturn:
    """Say how many samples or queries have no answer, and end the program: with 2 if none has one.

    Args:
        names: What they are called, one and several, and what says why, one and several.
        lost: How many have no answer.
        count: How many there are.
        out: The file in which these stand; None = they are printed.
        example: One of those without an answer.
    """
    everything, left = lost == count, count - lost
    many = "the" if count == 1 else f"any of {count:,}" if everything else f"{lost:,} of {count:,}"
    where = "" if out is None else f" in '{out}'"
    why = f"its {names[2]}{where} says why" if lost == 1 else f"their {names[3]}{where} say why"
    others = "" if everything else ", the others are answered" if left > 1 else ", the other is answered"
    print(
        f"labeltree: no answer for {many} {names[count > 1]}{example}; {why}{others}",
        file=sys.stderr,
    )
    raise SystemExit(2 if everything else 1)

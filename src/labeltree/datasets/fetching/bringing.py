"""What every fetch has around it: a folder for downloads, a fresh one for the result, and two sentences."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labeltree.atomic import new_folder_in
from labeltree.errors import DataError
from labeltree.lock import lock_folder

__all__ = ["bringing", "work_folder"]


def work_folder(folder: Path) -> Path:
    """Where what is downloaded for a data set's folder waits until all of it is there."""
    return folder / ".download"


@contextmanager
def bringing(
    folder: Path, what: str, otherwise: str = "run the command again to continue"
) -> Iterator[tuple[Path, Path]]:
    """Yield `work_folder`, which stays for the next attempt if this one fails, and an empty folder beside it.

    After the block, what is left in either is deleted.

    Args:
        folder: Of the data set; it is made.
        what: Is to be brought, for errors.
        otherwise: What to do if it cannot be had.

    Raises:
        DataError: If the block raises one, or the folder cannot be written to; with what to do.
        FolderInUseError: If another process brings something there.
    """
    work = work_folder(folder)
    try:
        with lock_folder(folder):
            work.mkdir(parents=True, exist_ok=True)
            with new_folder_in(folder) as fresh:
                yield work, fresh
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise DataError(
            f"cannot write to '{folder}' ({error.strerror or error}); choose another folder with "
            "LABELTREE_DATA"
        ) from error
    except DataError as error:
        raise DataError(f"could not get {what} ({error}); {otherwise}") from error

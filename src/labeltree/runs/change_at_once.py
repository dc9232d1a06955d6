"""A change of several files of a run as one: all of them or none, whenever the process ends."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from labeltree.atomic import new_folder_in, writing
from labeltree.lock import lock_folder

__all__ = ["CHANGE", "change_at_once", "finish_change"]

CHANGE = "change"
"""Folder of the run with the new files of a change that is decided and not yet finished."""


def change_at_once(folder: Path, write: Callable[[Path], object], gone: Collection[Path]) -> None:
    """Replace some files of a run and remove others.

    Until the new files are complete, nothing has changed; from then on, whoever opens the run finishes the
    change first.

    Args:
        folder: Of the run, locked.
        write: Writes the new files into a folder, under the names that they have in the run.
        gone: Files and folders that are removed.
    """
    with writing(folder), new_folder_in(folder) as fresh:
        write(fresh)
        for file in _files(fresh):
            with file.open("rb") as written:
                os.fsync(written.fileno())
        fresh.rename(folder / CHANGE)
    finish_change(folder, gone)


def finish_change(folder: Path, gone: Collection[Path]) -> None:
    """Finish a change that a killed process has decided; nothing is done if there is none.

    Args:
        folder: Of the run.
        gone: As in `change_at_once`.

    Raises:
        FolderInUseError: If another process writes there, such as the one that makes the change.
    """
    new = folder / CHANGE
    if not new.is_dir():
        return
    with lock_folder(folder), writing(folder):
        for path in gone:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        for file in _files(new):
            os.replace(file, folder / file.relative_to(new))
        shutil.rmtree(new, ignore_errors=True)


def _files(folder: Path) -> Iterator[Path]:
    yield from sorted(path for path in folder.iterdir() if path.is_file())

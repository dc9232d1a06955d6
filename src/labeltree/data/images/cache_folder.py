"""Folders in the cache that hold decoded images: whole or not at all, and only where there is room."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from labeltree.atomic import new_folder_in
from labeltree.cache import data_home

__all__ = ["has_room", "is_read_again", "new_folder", "read_again"]

_read_again: ContextVar[bool] = ContextVar("read_again", default=False)


@contextmanager
def read_again(wanted: bool = True) -> Iterator[None]:
    """Ignore the cache within the block: files are read again, and what was cached of them and is wrong is
    replaced.
    """
    before = _read_again.set(wanted)
    try:
        yield
    finally:
        _read_again.reset(before)


def is_read_again() -> bool:
    """Whether the cache is to be ignored; see `read_again`."""
    return _read_again.get()


def has_room(needed: int) -> bool:
    """Whether so many bytes fit into half of the disk space that is free at the cache folder."""
    place = data_home()
    while not place.exists():
        place = place.parent
    return needed <= shutil.disk_usage(place).free // 2


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that takes the place of ``folder`` when the block ends without an error.

    Where another process is faster, its folder stays: it holds the same.
    """
    before = _identity(folder)
    with new_folder_in(folder.parent) as fresh:
        yield fresh
        if before is not None and _identity(folder) == before:
            with new_folder_in(folder.parent) as old:
                folder.rename(old / folder.name)
        try:
            fresh.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise


def _identity(folder: Path) -> tuple[int, int] | None:
    """Inode and time of change of a folder, which tell it from its successor; None where there is none."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns

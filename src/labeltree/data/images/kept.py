"""Folders in the cache that hold decoded images: whole or not at all, and only where there is room."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labeltree.cache import data_home

__all__ = ["has_room", "new_folder"]


def has_room(needed: int) -> bool:
    """Whether so many bytes are at most half of what is free where the cache is."""
    place = data_home()
    while not place.exists():
        place = place.parent
    return needed <= shutil.disk_usage(place).free // 2


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that takes the place of ``folder`` when the block ends without an error.

    Where another process is faster, its folder stays: it holds the same.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    try:
        yield fresh
        shutil.rmtree(folder, ignore_errors=True)
        try:
            fresh.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)

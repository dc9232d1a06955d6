"""The cache folder: data sets and weights that `labeltree data get NAME` brings, decoded images, features."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from labeltree.atomic import new_folder_in
from labeltree.errors import DataError

__all__ = [
    "cache_is_ignored",
    "data_home",
    "has_room",
    "ignore_cache",
    "need_weights",
    "new_folder",
    "weights_folder",
]


def data_home() -> Path:
    """The cache folder: ``LABELTREE_DATA``, or else the platform's cache for labeltree. It need not exist."""
    chosen = os.environ.get("LABELTREE_DATA")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("labeltree", appauthor=False)


def weights_folder(name: str) -> Path:
    """Where the packaged weights of the encoder ``name`` lie once they were fetched. It need not exist."""
    return data_home() / name / "weights"


def need_weights(name: str) -> Path:
    """`weights_folder`, which must be there.

    Raises:
        DataError: if it is not, with the command that fetches the weights.
    """
    folder = weights_folder(name)
    if not folder.is_dir():
        raise DataError(
            f"the weights of encoder '{name}' are not in '{folder}'; 'labeltree data get {name}' fetches them"
        )
    return folder


_ignored: ContextVar[bool] = ContextVar("ignore_cache", default=False)


@contextmanager
def ignore_cache(wanted: bool = True) -> Iterator[None]:
    """Read files again within the block, instead of trusting what the cache holds of them.

    Where the cache turns out to be wrong, it is replaced.

    Args:
        wanted: False = trust the cache after all.
    """
    before = _ignored.set(wanted)
    try:
        yield
    finally:
        _ignored.reset(before)


def cache_is_ignored() -> bool:
    """Whether the code runs within a block of `ignore_cache`."""
    return _ignored.get()


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

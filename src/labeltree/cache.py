"""The cache folder: data sets and weights from `labeltree data get NAME`, decoded images, features."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from labeltree.atomic import new_folder_in, wait_for_lock
from labeltree.errors import DataError

__all__ = [
    "MADE",
    "CacheEntry",
    "cache_entries",
    "cache_is_ignored",
    "clear_cache",
    "data_home",
    "free_bytes",
    "has_room",
    "ignore_cache",
    "need_weights",
    "new_folder",
    "one_at_a_time",
    "weights_folder",
]


def data_home() -> Path:
    """The cache folder: `LABELTREE_DATA`, or else the platform's cache for labeltree. It need not exist."""
    chosen = os.environ.get("LABELTREE_DATA")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("labeltree", appauthor=False)


MADE = ("features", "images", "copies")
"""The folders of the cache that labeltree makes, and makes anew where they are missing."""


@dataclass(frozen=True)
class CacheEntry:
    """A folder of the cache.

    Attributes:
        name: Its name: one of `MADE`, or the download that it holds.
        bytes: What its files take on the disk.
        files: Their number.
        days: Days since the last of them was written.
    """

    name: str
    bytes: int
    files: int
    days: float


def cache_entries() -> list[CacheEntry]:
    """The folders of the cache, those that labeltree makes first; links are not followed."""
    home = data_home()
    names = sorted(place.name for place in home.iterdir() if place.is_dir()) if home.is_dir() else []
    entries = []
    for name in sorted(names, key=lambda name: (name not in MADE, name)):
        files = [
            place.lstat() for place in (home / name).rglob("*") if place.is_file() and not place.is_symlink()
        ]
        latest = max((file.st_mtime for file in files), default=time.time())
        size = sum(getattr(file, "st_blocks", -(-file.st_size // 512)) * 512 for file in files)
        entries.append(CacheEntry(name, size, len(files), (time.time() - latest) / 86400))
    return entries


def clear_cache(names: Sequence[str] = MADE) -> int:
    """Delete what labeltree makes anew where it is missing; running programs keep what they have opened.

    Args:
        names: Folders among `MADE`.

    Returns:
        The bytes that are free now.

    Raises:
        ValueError: If a name is another one: downloads are deleted by hand.
    """
    wrong = sorted(set(names) - set(MADE))
    if wrong:
        raise ValueError(f"'{wrong[0]}' is not cleared; {', '.join(MADE)} are, and downloads by hand")
    freed = sum(entry.bytes for entry in cache_entries() if entry.name in names)
    for name in names:
        shutil.rmtree(data_home() / name, ignore_errors=True)
    return freed


def weights_folder(name: str) -> Path:
    """The folder for the downloaded weights of the encoder `name`. It need not exist."""
    return data_home() / name / "weights"


def need_weights(name: str) -> Path:
    """The existing `weights_folder` of an encoder.

    Raises:
        DataError: If it does not exist; the message has the command that downloads the weights.
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
    """Read files again within the block instead of trusting the cache.

    Cache entries that turn out to be wrong are replaced.

    Args:
        wanted: Whether to ignore the cache.
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
    """Whether `needed` bytes fit into half of the free disk space at the cache folder."""
    return needed <= free_bytes(data_home()) // 2


def free_bytes(place: Path) -> int:
    """Free bytes of the disk that a file or folder is on, or will be on once it is made."""
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Within the block, no other process makes the same folder of the cache; on some network mounts it may.

    Whoever has waited should first look whether the folder has been made.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    place = folder.parent / f".{folder.name}.lock"
    while True:
        handle = os.open(place, os.O_RDWR | os.O_CREAT, 0o666)
        wait_for_lock(handle)
        if _identity(place) == _identity(handle):
            break
        os.close(handle)  # who had it has removed the file, and another process may lock a new one
    try:
        yield
    finally:
        with suppress(OSError):
            place.unlink()
        os.close(handle)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that takes the place of `folder` when the block ends without an error.

    If another process creates it first, that folder is kept: it has the same content.
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


def _identity(place: Path | int) -> tuple[int, int] | None:
    """Inode and change time of a folder or a file, which identify it; None if there is none."""
    try:
        status = os.stat(place)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns

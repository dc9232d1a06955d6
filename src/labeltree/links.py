"""No link out of a folder that labeltree writes is followed, and no pipe is read."""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

from labeltree.errors import DataError

__all__ = ["SPECIAL", "check_regular", "refuse_link", "refuse_links"]

SPECIAL = "it is not a file but a pipe, socket or device"


def refuse_links(folder: str | Path, names: Collection[str] | None = None) -> None:
    """Refuse a folder, of a run, an index or the like, in which a file is not its own.

    The folder itself may be a link. Nothing is opened.

    Args:
        folder: a folder; nothing is done if there is none.
        names: Entries of the folder to look at, with all below them; None = all.

    Raises:
        DataError: If there is a symbolic link, a pipe, socket or device, or a hard link to a file outside; it
            names the first.
    """
    shared: dict[tuple[int, int], tuple[Path, int]] = {}
    seen = Counter[tuple[int, int]]()
    for path, about in _entries(Path(folder), names):
        _refuse(path, about)
        if stat.S_ISREG(about.st_mode) and about.st_nlink > 1:
            seen[about.st_dev, about.st_ino] += 1
            shared.setdefault((about.st_dev, about.st_ino), (path, about.st_nlink))
    for place, (path, links) in shared.items():
        if seen[place] < links:
            raise DataError(_refusal(path, f"a hard link to a file outside '{folder}'"))


def refuse_link(path: str | Path) -> None:
    """Refuse one file as `refuse_links` does; nothing is done if there is none."""
    try:
        about = os.lstat(path)
    except OSError:
        return
    _refuse(Path(path), about)
    if stat.S_ISREG(about.st_mode) and about.st_nlink > 1:
        raise DataError(_refusal(Path(path), "a hard link to another file"))


def check_regular(path: str | Path) -> None:
    """Raise an `OSError` for a pipe, socket or device, or a link to one: reading it may never end."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # said by whoever opens it
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, SPECIAL, str(path))


def _entries(folder: Path, names: Collection[str] | None) -> Iterator[tuple[Path, os.stat_result]]:
    try:
        with os.scandir(folder) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if names is not None and entry.name not in names:
            continue
        try:
            about = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # a temporary file of another process
            continue
        yield Path(entry.path), about
        if stat.S_ISDIR(about.st_mode):
            yield from _entries(Path(entry.path), None)


def _refuse(path: Path, about: os.stat_result) -> None:
    if stat.S_ISLNK(about.st_mode):
        raise DataError(_refusal(path, "a symbolic link"))
    if not stat.S_ISREG(about.st_mode) and not stat.S_ISDIR(about.st_mode):
        raise DataError(_refusal(path, "a pipe, socket or device"))


def _refusal(path: Path, kind: str) -> str:
    return (
        f"'{path}' is {kind}, which is not followed in a folder that labeltree writes; put a copy there, or "
        "remove it"
    )

"""A lock on a folder for one writer at a time; it names its holder and ends with the process."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shlex
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from labeltree.atomic import take_lock, writing
from labeltree.errors import FolderInUseError
from labeltree.links import refuse_link

__all__ = ["LOCK", "lock_folder", "writer_of"]

LOCK = ".lock"
"""Name of the lock file, which is locked while a process writes in the folder, and deleted at the end."""

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_LONGEST = 200  # characters of a command
_ATTEMPTS, _PAUSE_S = 3, 0.05  # a process that only checks holds the lock for a moment

_held: dict[str, int] = {}


@contextmanager
def lock_folder(folder: str | Path) -> Iterator[None]:
    """Lock a folder for writing until the block or the process ends; the folder is created if missing.

    The system releases the lock of a process that dies, even by SIGKILL. The lock is reentrant within a
    thread. Readers need no lock, since files are written atomically. On a file system without locks (some
    network mounts) there is a warning, and nothing is locked.

    Raises:
        FolderInUseError: If another process holds the lock; the message says which one, where and since when.
        WriteError: If the folder cannot be written to.
        DataError: If the lock file is a link.
    """
    place = Path(os.path.realpath(folder))
    key, me = str(place), threading.get_ident()
    if _held.get(key) == me:
        yield
        return
    with writing(folder):
        made = _make(place)
        handle = _take(place, str(folder))
    _held[key] = me
    try:
        yield
    finally:
        del _held[key]
        _free(place, handle)
        for empty in made:
            with contextlib.suppress(OSError):
                empty.rmdir()


def writer_of(folder: str | Path) -> str | None:
    """Description of the process that is writing in a folder; None if there is none."""
    try:
        handle = os.open(Path(folder) / LOCK, os.O_RDWR | _NO_LINK)
    except OSError:
        return None
    try:
        return _words(handle) if take_lock(handle) is False else None
    finally:
        os.close(handle)


def _take(place: Path, name: str) -> int | None:
    path = place / LOCK
    for attempt in range(_ATTEMPTS):
        refuse_link(path)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o666)
        taken = take_lock(handle)
        if taken is None:
            os.close(handle)
            path.unlink(missing_ok=True)
            if os.name == "posix":
                warnings.warn(
                    f"the file system of '{name}' has no locks; make sure that no other process writes there",
                    stacklevel=4,
                )
            return None
        if taken and _is_at(handle, path):  # otherwise its last holder has just deleted it
            with contextlib.suppress(OSError):  # the description of the holder is not essential
                os.ftruncate(handle, 0)
                os.write(handle, json.dumps(_myself()).encode())
            return handle
        holder = None if taken else _words(handle)
        os.close(handle)
        if attempt + 1 < _ATTEMPTS:
            time.sleep(_PAUSE_S)
    raise FolderInUseError(
        f"'{name}' is in use: {holder or 'another process'} is writing there; "
        "wait until it has ended, or stop it"
    )


def _free(place: Path, handle: int | None) -> None:
    if handle is None:
        return
    try:
        if _is_at(handle, place / LOCK):  # the folder may have been moved, or deleted
            (place / LOCK).unlink()
    except OSError:
        return
    finally:
        os.close(handle)


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except OSError:
        return False


def _make(place: Path) -> list[Path]:
    """Create a folder; returns the created folders, innermost first."""
    made = []
    for folder in (place, *place.parents):
        if folder.exists():
            break
        made.append(folder)
    place.mkdir(parents=True, exist_ok=True)
    return made


def _myself() -> dict[str, str | int]:
    words = [Path(sys.argv[0]).name, *sys.argv[1:]] if sys.argv else []
    command = shlex.join(words)
    return {
        "process": os.getpid(),
        "host": platform.node(),
        "command": command if len(command) <= _LONGEST else command[: _LONGEST - 1] + "…",
        "since": datetime.now().astimezone().isoformat(" ", "seconds"),
    }


def _words(handle: int) -> str:
    """The holder named in the lock file."""
    try:
        holder = json.loads(os.pread(handle, 4096, 0))
        started = f"'{holder['command']}', since {holder['since']}"
        return f"process {holder['process']} on '{holder['host']}' ({started})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"

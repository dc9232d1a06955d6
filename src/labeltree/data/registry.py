"""The registry of named data sets: what ``--data NAME`` and ``labeltree data get NAME`` can be."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from labeltree.data.downloads import Progress
from labeltree.data.source import Source
from labeltree.errors import DataError

__all__ = ["DatasetEntry", "fetch", "get_dataset", "list_datasets", "register_dataset"]

Opener = Callable[..., Source]
Fetcher = Callable[..., Path]

_entries: dict[str, DatasetEntry] = {}


@dataclass(frozen=True)
class DatasetEntry:
    """A named data set.

    Attributes:
        name: As on the command line.
        summary: One line for people.
        licence: Of the data.
        size: What a download comes to, for people.
        open: ``open(*, image_size=None, channels=None) -> Source``.
        fetch: ``fetch(*, progress=None, force=False) -> Path``, or None where the user brings the files.
    """

    name: str
    summary: str
    licence: str
    size: str
    open: Opener
    fetch: Fetcher | None


def register_dataset(
    name: str, *, summary: str, licence: str, size: str = "", fetch: Fetcher | None = None
) -> Callable[[Opener], Opener]:
    """Register the decorated function as the one that opens a data set.

    Raises:
        ValueError: If the name is taken by another function.
    """

    def register(opener: Opener) -> Opener:
        known = _entries.get(name)
        if known is not None and (known.open.__module__, known.open.__qualname__) != (
            opener.__module__,
            opener.__qualname__,
        ):
            raise ValueError(f"data set '{name}' is already registered by {known.open.__module__}")
        _entries[name] = DatasetEntry(name, summary, licence, size, opener, fetch)
        return opener

    return register


def list_datasets(pattern: str = "*") -> list[str]:
    """Names of the data sets that match a pattern with ``*`` and ``?``, sorted."""
    return sorted(fnmatch.filter(_entries, pattern))


def get_dataset(name: str) -> DatasetEntry:
    """The entry of a data set.

    Raises:
        DataError: If there is none, with the nearest names.
    """
    if name in _entries:
        return _entries[name]
    near = difflib.get_close_matches(name, _entries, 3) or list_datasets()
    raise DataError(f"there is no data set '{name}'; did you mean {' or '.join(near)}?")


def fetch(name: str, *, progress: Progress | None = None, force: bool = False) -> Path:
    """Bring a data set into the cache folder, if it is not there.

    Args:
        name: Of the data set.
        progress: Is told what happens: ``progress(message, done, total)``, in bytes; ``total`` 0 where
            unknown.
        force: Fetch it again even if it is there.

    Returns:
        Its folder.

    Raises:
        DataError: If it cannot be had, with what to do instead.
    """
    entry = get_dataset(name)
    if entry.fetch is None:
        raise DataError(f"data set '{name}' cannot be downloaded by labeltree; {entry.summary}")
    folder = entry.fetch(progress=progress, force=force)
    if progress is not None:
        progress(f"licence of {name}: {entry.licence}", 0, 0)
    return folder

"""The registry of named data sets: what ``--data NAME`` and ``labeltree data get NAME`` can be."""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from labeltree.cache import data_home
from labeltree.data.images.files import OnError
from labeltree.data.progress import Progress
from labeltree.data.source import Source
from labeltree.errors import DataError, LabeltreeError
from labeltree.plugins import load_plugins

__all__ = [
    "DatasetEntry",
    "Needed",
    "Published",
    "fetch",
    "get_dataset",
    "list_datasets",
    "register_dataset",
    "register_download",
]

Opener = Callable[..., Source]
Fetcher = Callable[..., Path]

_entries: dict[str, DatasetEntry] = {}


@dataclass(frozen=True)
class Needed:
    """A file or folder that a data set needs.

    Attributes:
        paths: Relative to the data set's folder, with ``*`` and ``?``; one of several is enough.
        what: It is, and which official archive it comes from, for people.
    """

    paths: str | tuple[str, ...]
    what: str

    @property
    def choices(self) -> tuple[str, ...]:
        """The paths of which one is enough."""
        return (self.paths,) if isinstance(self.paths, str) else self.paths


@dataclass(frozen=True)
class Published:
    """What the authors of a data set say that it holds.

    Attributes:
        splits: Samples of each split; a split that they do not give is left out.
        classes: Nodes of each depth, coarse to fine; None where they do not say. Empty where they do not
            say how many depths there are.
        source: Where the figures are from.
    """

    splits: Mapping[str, int]
    classes: tuple[int | None, ...]
    source: str


@dataclass(frozen=True)
class DatasetEntry:
    """A named data set.

    Attributes:
        name: As on the command line.
        summary: One line for people.
        licence: Of the data.
        size: What a download comes to, for people.
        opener: Function that opens it; `open` calls it with those of its arguments that it names.
        fetch: ``fetch(*, progress=None, force=False) -> Path``, or None where the user brings the files.
        files: What must be in the folder.
        published: What should be in the data set.
        home: The name of the folder in the cache, where several data sets share one.
    """

    name: str
    summary: str
    licence: str
    size: str
    opener: Opener
    fetch: Fetcher | None
    files: tuple[Needed, ...] = ()
    published: Published | None = None
    home: str = ""
    is_data: bool = True
    """False for what others use and nothing can be trained on: see `register_download`."""

    @property
    def folder(self) -> Path:
        """Where the data set lies unless the user says otherwise: in the cache, under its name."""
        return data_home() / (self.home or self.name)

    def open(
        self,
        *,
        path: Path | None = None,
        image_size: int | None = None,
        channels: int | None = None,
        on_error: OnError = "raise",
        cache: bool | None = None,
        progress: Progress | None = None,
    ) -> Source:
        """Open the data set.

        Args:
            path: Its folder; None = that in the cache.
            image_size: As for `open_source`, and so are the others.
            channels: 1 or 3.
            on_error: ``raise`` or ``skip`` unreadable images.
            cache: Keep decoded images.
            progress: Is told how decoding proceeds.

        Raises:
            DataError: If it is not there or unreadable.
        """
        given = {
            "path": self.folder if path is None else path,
            "image_size": image_size,
            "channels": channels,
            "on_error": on_error,
            "cache": cache,
            "progress": progress,
        }
        asked = inspect.signature(self.opener).parameters
        theirs = not self.opener.__module__.startswith("labeltree.")
        where = f"the reader of data set '{self.name}' ({self.opener.__module__})"
        try:
            source = self.opener(**{key: value for key, value in given.items() if key in asked})
        except (LabeltreeError, OSError):
            raise
        except Exception as error:
            if not theirs:
                raise
            raise DataError(f"{where} failed: {type(error).__name__}: {error}") from error
        if theirs and not isinstance(source, Source):
            raise DataError(f"{where} returned {type(source).__name__}; it must return a Source")
        return source


def register_dataset(
    name: str,
    *,
    summary: str,
    licence: str,
    size: str = "",
    fetch: Fetcher | None = None,
    files: tuple[Needed, ...] = (),
    published: Published | None = None,
    home: str = "",
) -> Callable[[Opener], Opener]:
    """Register the decorated function as the one that opens a data set; for the rest see `DatasetEntry`.

    Raises:
        ValueError: If the name is taken by another function.
    """

    def register(opener: Opener) -> Opener:
        if not opener.__module__.startswith("labeltree."):
            importlib.import_module("labeltree.datasets")  # so that nobody takes the name of one of its own
        known = _entries.get(name)
        if known is not None and (known.opener.__module__, known.opener.__qualname__) != (
            opener.__module__,
            opener.__qualname__,
        ):
            raise ValueError(f"data set '{name}' is already registered by {known.opener.__module__}")
        _entries[name] = DatasetEntry(
            name, summary, licence, size, opener, fetch, tuple(files), published, home
        )
        return opener

    return register


def register_download(name: str, *, what: str, summary: str, licence: str, size: str, fetch: Fetcher) -> None:
    """Register what ``labeltree data get`` brings although it is no data set: weights, word lists.

    Args:
        name: To get it by.
        what: It is and what reads it, for those who take it for data: ``an encoder's weights; …``.
        summary: As for `register_dataset`, and so are the others.
        licence: Of the files.
        size: Of the download.
        fetch: Brings it.
    """

    def refuse(**_: object) -> Source:
        raise DataError(f"'{name}' is no data set but {what}")

    register_dataset(name, summary=summary, licence=licence, size=size, fetch=fetch)(refuse)
    _entries[name] = dataclasses.replace(_entries[name], is_data=False)


def _register_all() -> None:
    """Register labeltree's own data sets (by name: they are built on this package), then those of others."""
    importlib.import_module("labeltree.datasets")
    load_plugins("datasets")


def list_datasets(pattern: str = "*") -> list[str]:
    """Names of the data sets that match a pattern with ``*`` and ``?``, sorted.

    Other packages add theirs through the entry point group ``labeltree.datasets``.
    """
    _register_all()
    return sorted(fnmatch.filter(_entries, pattern))


def get_dataset(name: str) -> DatasetEntry:
    """The entry of a data set.

    Raises:
        DataError: If there is none, with the nearest names.
    """
    _register_all()
    if name in _entries:
        return _entries[name]
    near = difflib.get_close_matches(name, _entries, 3)
    hint = f"did you mean {' or '.join(near)}?" if near else "'labeltree data list' names them"
    raise DataError(f"there is no data set '{name}'; {hint}")


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
        if not entry.files:
            raise DataError(f"data set '{name}' cannot be downloaded by labeltree; {entry.summary}")
        wanted = "; ".join(dict.fromkeys(needed.what for needed in entry.files))
        raise DataError(
            f"data set '{name}' cannot be downloaded by labeltree; get it from its authors and unpack it "
            f"into '{entry.folder}', or anywhere and name that folder as data_path. It needs {wanted}"
        )
    folder = entry.fetch(progress=progress, force=force)
    if progress is not None:
        progress(f"licence of {name}: {entry.licence}", 0, 0)
    return folder

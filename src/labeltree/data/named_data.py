"""Named data sets: register, list, download and check them; for image files see `listed_images`."""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from labeltree.cache import data_home
from labeltree.data.images.image_files import ImageSettings
from labeltree.data.source import Source
from labeltree.errors import DataError, LabeltreeError
from labeltree.plugins import load_own, load_plugins
from labeltree.progress import Progress
from labeltree.split_names import CALIB, SPLITS

__all__ = [
    "DatasetEntry",
    "Inventory",
    "Needed",
    "Published",
    "check_layout",
    "fetch",
    "get_dataset",
    "list_datasets",
    "register_dataset",
    "register_download",
    "require_files",
]

Opener = Callable[..., Source]
Fetcher = Callable[..., Path]

_entries: dict[str, DatasetEntry] = {}


@dataclass(frozen=True)
class Needed:
    """A file or folder that a data set needs.

    Attributes:
        paths: Alternative paths relative to the data set's folder, with `*` and `?`; one must exist.
        what: Description for messages: the content and its official archive.
    """

    paths: str | tuple[str, ...]
    what: str

    @property
    def choices(self) -> tuple[str, ...]:
        """The alternative paths, of which one must exist."""
        return (self.paths,) if isinstance(self.paths, str) else self.paths


@dataclass(frozen=True)
class Published:
    """The size of a data set according to its authors.

    Attributes:
        splits: Number of samples in each split that the authors mention.
        classes: Number of nodes at each depth, coarse to fine; None where not published. Empty if not
            even the number of depths is published.
        source: Source of the figures.
    """

    splits: Mapping[str, int]
    classes: tuple[int | None, ...]
    source: str


@dataclass(frozen=True)
class DatasetEntry:
    """A named data set.

    Attributes:
        name: Name on the command line.
        summary: One-line description.
        licence: Licence of the data.
        size: Size of the download, as text.
        opener: Function that opens the data set; `open` passes only the arguments that it names.
        fetch: `fetch(*, progress=None, force=False) -> Path`, or None if the user has to supply the files.
        files: Files that must be in the folder.
        published: Size of the data set according to its authors.
        home: Name of the folder in the cache, if several data sets share it.
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
    clone: str = ""
    """Address of the git repository that is the data set, if it is one; `fetch` tells how to clone it."""
    is_data: bool = True
    """False for downloads that cannot be trained on; see `register_download`."""

    @property
    def folder(self) -> Path:
        """The default folder of the data set: in the cache, under its name."""
        return data_home() / (self.home or self.name)

    def open(self, *, path: Path | None = None, **images: Unpack[ImageSettings]) -> Source:
        """Open the data set.

        Args:
            path: Folder of the data set; None = in the cache.
            **images: How images are read; see `ImageSettings`.

        Raises:
            DataError: If the data set is missing or unreadable.
        """
        given: dict[str, Any] = {"path": self.folder if path is None else path, **images}
        asked = inspect.signature(self.opener).parameters
        takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in asked.values())
        theirs = not self.opener.__module__.startswith("labeltree.")
        where = f"the reader of data set '{self.name}' ({self.opener.__module__})"
        try:
            source = self.opener(**{key: value for key, value in given.items() if takes_all or key in asked})
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
    clone: str = "",
) -> Callable[[Opener], Opener]:
    """Register the decorated function as the opener of a data set; for the arguments see `DatasetEntry`.

    Raises:
        ValueError: If the name is taken by another function.
    """

    def register(opener: Opener) -> Opener:
        if not opener.__module__.startswith("labeltree."):
            load_own("datasets")  # nobody takes their names
        known = _entries.get(name)
        if known is not None and (known.opener.__module__, known.opener.__qualname__) != (
            opener.__module__,
            opener.__qualname__,
        ):
            raise ValueError(f"data set '{name}' is already registered by {known.opener.__module__}")
        _entries[name] = DatasetEntry(
            name, summary, licence, size, opener, fetch, tuple(files), published, home, clone
        )
        return opener

    return register


def register_download(name: str, *, what: str, summary: str, licence: str, size: str, fetch: Fetcher) -> None:
    """Register a download other than a data set, such as weights or word vectors, for `labeltree data get`.

    Args:
        name: Name on the command line.
        what: Description of the files and their use, for the error when they are opened as data: `an
            encoder's weights; …`.
        summary: One-line description.
        licence: Licence of the files.
        size: Size of the download, as text.
        fetch: Function that downloads the files.
    """

    def refuse(**_: object) -> Source:
        raise DataError(f"'{name}' is not a data set but {what}")

    register_dataset(name, summary=summary, licence=licence, size=size, fetch=fetch)(refuse)
    _entries[name] = dataclasses.replace(_entries[name], is_data=False)


def _register_all() -> None:
    """Register labeltree's own data sets, then those of other packages."""
    load_own("datasets")
    load_plugins("datasets")


def list_datasets(pattern: str = "*") -> list[str]:
    """Names of the data sets that match a pattern with `*` and `?`, sorted.

    Other packages add theirs through the entry point group `labeltree.datasets`.
    """
    _register_all()
    return sorted(fnmatch.filter(_entries, pattern))


def get_dataset(name: str) -> DatasetEntry:
    """The entry of a data set.

    Raises:
        DataError: If there is none; the message lists the nearest names.
    """
    _register_all()
    if name in _entries:
        return _entries[name]
    near = difflib.get_close_matches(name, _entries, 3)
    hint = f"did you mean {' or '.join(near)}?" if near else "'labeltree data list' names them"
    raise DataError(f"there is no data set '{name}'; {hint}")


def fetch(
    name: str, *, progress: Progress | None = None, force: bool = False, seconds: float | None = None
) -> Path:
    """Download a data set into the cache folder, unless it is there already.

    Args:
        name: Name of the data set.
        progress: Callback `progress(message, done, total)`, in bytes; `total` is 0 if unknown.
        force: Download it again even if it is there.
        seconds: How long to wait for an answer of the network, of downloads that can limit it; None = as long
            as they do.

    Returns:
        The folder of the data set.

    Raises:
        DataError: If the download fails; the message says what to do instead.
    """
    entry = get_dataset(name)
    if entry.fetch is None:
        if not entry.files:
            raise DataError(f"data set '{name}' cannot be downloaded by labeltree; {entry.summary}")
        if entry.clone:
            raise DataError(
                f"data set '{name}' ({entry.size}, licence {entry.licence}) is a git repository; clone it to "
                f"where it is found: git clone --depth 1 {entry.clone} '{entry.folder}', or anywhere, and "
                "name that folder by --data_path"
            )
        wanted = "; ".join(dict.fromkeys(needed.what for needed in entry.files))
        raise DataError(
            f"data set '{name}' cannot be downloaded by labeltree; get it from its authors and unpack it "
            f"into '{entry.folder}', or anywhere and name that folder as data_path. It needs {wanted}"
        )
    limits = {} if seconds is None else {"seconds": seconds}
    folder = entry.fetch(progress=progress, force=force, **limits)
    if progress is not None:
        progress(f"licence of {name}: {entry.licence}", 0, 0)
    return folder


@dataclass(frozen=True)
class Inventory:
    """The part of a data set that is present in a folder.

    Attributes:
        problems: A sentence for each missing part or deviation from the publication; empty = complete.
        samples: Number of samples in each split, in order; under `all` if there are no splits. Empty if the
            data set cannot be opened.
        labels: Number of distinct labels at each depth, coarse to fine.
        unlabelled: Number of samples without a label.
    """

    problems: tuple[str, ...]
    samples: dict[str, int]
    labels: tuple[int, ...]
    unlabelled: int = 0


def _missing_files(entry: DatasetEntry, path: Path) -> list[str]:
    """A sentence for every required file or folder that is missing below `path`."""
    if entry.files and not path.is_dir():
        wanted = dict.fromkeys(needed.what for needed in entry.files)
        return [f"there is no folder '{path}'. It should hold {'; '.join(wanted)}"]
    return [_sentence(needed, path) for needed in entry.files if not _is_there(needed, path)]


def require_files(entry: DatasetEntry, path: Path) -> None:
    """Check that all files of a data set are present.

    Raises:
        DataError: If a file is missing; the message says which, where it was expected, and how to get it.
    """
    missing = _missing_files(entry, path)
    if not missing:
        return
    how = (
        f"'labeltree data get {entry.name}' {'says how to get it' if entry.clone else 'fetches the data set'}"
        if entry.fetch is not None or entry.clone
        else "unpack its official archives there, or name the folder where they are with data_path"
    )
    raise DataError(f"data set '{entry.name}': {'; '.join(missing)}. {how[0].upper()}{how[1:]}")


def check_layout(entry: DatasetEntry, path: Path, *, progress: Progress | None = None) -> Inventory:
    """Compare the contents of a data set's folder with the figures published by its authors.

    Nothing is written, and incomplete data raise no error. Unreadable images are reported, not counted.
    """
    missing = _missing_files(entry, path)
    if missing:
        return Inventory(tuple(missing), {}, ())
    try:
        source = entry.open(path=path, image_size=8, on_error="raise", cache=False, progress=progress)
        problems: list[str] = []
    except LabeltreeError as error:
        problems = [str(error)]
        try:
            source = entry.open(path=path, image_size=8, on_error="skip", cache=False, progress=progress)
        except LabeltreeError:
            return Inventory(tuple(problems), {}, ())
    samples, labels = _samples(source), _labels(source)
    problems += _differences(entry, samples, labels)
    return Inventory(tuple(problems), samples, labels, int((source.nodes < 0).sum()))


def _sentence(needed: Needed, path: Path) -> str:
    return f"there is no {' or '.join(repr(str(path / p)) for p in needed.choices)} ({needed.what})"


def _is_there(needed: Needed, path: Path) -> bool:
    return any(next(_matches(path, pattern), None) is not None for pattern in needed.choices)


def _matches(path: Path, pattern: str) -> Iterator[Path]:
    if "*" in pattern or "?" in pattern:
        return path.glob(pattern) if path.is_dir() else iter(())
    return iter([path / pattern] if (path / pattern).exists() else [])


def _samples(source: Source) -> dict[str, int]:
    if source.split is None:
        return {"all": len(source)}
    counts = {split: int((source.split == split).sum()) for split in (*SPLITS, CALIB)}
    counts["in no split"] = len(source) - sum(counts.values())
    return {split: count for split, count in counts.items() if count}


def _labels(source: Source) -> tuple[int, ...]:
    """Distinct nodes at each depth among the paths of the samples' labels."""
    nodes = np.unique(source.nodes[source.nodes >= 0].numpy())
    above = source.taxonomy.ancestors.numpy()[nodes, 1:]
    counts = [int((np.unique(column) >= 0).sum()) for column in above.T]
    while counts and not counts[-1]:
        counts.pop()
    return tuple(counts)


def _differences(entry: DatasetEntry, samples: dict[str, int], labels: tuple[int, ...]) -> list[str]:
    published = entry.published
    if published is None:
        return []
    problems = [
        f"{samples.get(split, 0):,} samples in '{split}' where {count:,} are published ({published.source})"
        for split, count in published.splits.items()
        if samples.get(split, 0) != count
    ]
    if published.classes and len(published.classes) != len(labels):
        problems.append(f"labels have {len(labels)} depths where {len(published.classes)} are expected")
    problems += [
        f"{classes:,} classes at depth {depth} where {count:,} are published ({published.source})"
        for depth, (classes, count) in enumerate(zip(labels, published.classes, strict=False), 1)
        if count is not None and classes != count
    ]
    return problems

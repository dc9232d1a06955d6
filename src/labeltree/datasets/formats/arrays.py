"""Data sets of arrays of images: read once, then cached in one mapped file of uint8 pixels."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from labeltree.cache import cache_is_ignored, data_home, has_room, new_folder
from labeltree.data.images.stores import ArrayStore, ChainedStore, MappedStore
from labeltree.data.source import ImageStore
from labeltree.errors import DataError
from labeltree.progress import Progress, silent

__all__ = ["Batch", "OpenedArrays", "images_and_labels", "open_arrays"]

Array = np.ndarray[Any, Any]

_VERSION = 1
_IMAGES, _LABELS = "images.bin", "labels.npy"


class Batch(NamedTuple):
    """Some images of a file.

    Attributes:
        images: `(n, c, h, w)` uint8.
        labels: `(n, k)` int64, whatever columns the reader needs.
    """

    images: Array
    labels: Array


class OpenedArrays(NamedTuple):
    """All images, and all rows of labels `(n, k)` int64."""

    store: ImageStore
    labels: Array


def images_and_labels(
    batch: Mapping[str, Any], where: str, columns: Sequence[str], shape: tuple[int, int, int]
) -> tuple[Array, Array]:
    """The images `(n, c, h, w)` and the labels `(n, k)` of a batch as CIFAR and its relatives keep it.

    Args:
        batch: The batch: `data`, a row of bytes an image, and the columns of the labels.
        where: File that it is from, for errors.
        columns: Columns of the labels.
        shape: `(c, h, w)` of an image.

    Raises:
        DataError: If it is something else.
    """
    for key in ("data", *columns):
        if key not in batch:
            raise DataError(f"'{where}' has no '{key}'; is it a batch of another data set?")
    images = np.asarray(batch["data"])
    try:
        labels = np.column_stack([np.asarray(batch[key], np.int64) for key in columns])
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"'{where}': {' or '.join(columns)} are not whole numbers, one an image") from error
    expected = (len(labels), math.prod(shape))
    if images.dtype != np.uint8 or images.shape != expected:
        raise DataError(f"'{where}': data are {images.dtype} {images.shape}; they must be uint8 {expected}")
    return images.reshape(-1, *shape), labels


def open_arrays(
    what: str,
    files: Sequence[Path],
    read: Callable[[Path], Iterable[Batch]],
    *,
    cache: bool | None = None,
    progress: Progress | None = None,
) -> OpenedArrays:
    """Read files of arrays, one after the other.

    The pixels go to a file in the cache folder, under a key made of the files' names, sizes and times of
    change; so do the labels. Later openings read neither again. A file appears there whole or not at all.

    Args:
        what: Name of the data set; it is part of the key.
        files: The files, in the order of the samples.
        read: Function that yields the batches of one file, all of one image shape.
        cache: Keep them in the cache folder; None = if there is room for twice the files' size. Otherwise
            they stay in memory.
        progress: Callback that reports the number of files read.

    Raises:
        DataError: If a file cannot be read, or the cache folder cannot be written to.
    """
    folder = data_home() / "images" / _key(what, files)
    if cache is not False and not cache_is_ignored() and (kept := _read_cached(folder)) is not None:
        return kept
    keep = has_room(2 * sum(file.stat().st_size for file in files)) if cache is None else cache
    batches = _batches(what, files, read, progress or silent)
    if not keep:
        parts = list(batches)
        stores = [ArrayStore(batch.images) for batch in parts]
        labels = np.concatenate([batch.labels for batch in parts])
        return OpenedArrays(stores[0] if len(stores) == 1 else ChainedStore(stores), labels)
    try:
        _keep(batches, folder)
    except OSError as error:
        raise DataError(
            f"cannot write what was read to '{folder.parent}' ({error.strerror or error}); choose another "
            "cache folder with LABELTREE_DATA"
        ) from error
    kept = _read_cached(folder)
    if kept is None:
        raise DataError(f"what was kept in '{folder}' has vanished or changed; run the command again")
    return kept


def _batches(
    what: str, files: Sequence[Path], read: Callable[[Path], Iterable[Batch]], progress: Progress
) -> Iterator[Batch]:
    """All batches; a system error while reading a file becomes an error about that file."""
    for number, file in enumerate(files):
        progress(f"reading {what}", number, len(files))
        try:
            yield from read(file)
        except OSError as error:
            raise DataError(f"'{file}' cannot be read: {error.strerror or error}") from error
    progress(f"reading {what}", len(files), len(files))


def _key(what: str, files: Sequence[Path]) -> str:
    digest = hashlib.sha256(f"{_VERSION} {what}\n".encode())
    for file in files:
        status = os.stat(file)
        digest.update(os.fsencode(file.resolve()) + f"\0{status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:32]


def _keep(batches: Iterable[Batch], folder: Path) -> None:
    with new_folder(folder) as fresh:
        labels, shapes = [], set()
        with (fresh / _IMAGES).open("wb") as out:
            for batch in batches:
                shapes.add(batch.images.shape[1:])
                out.write(np.ascontiguousarray(batch.images, np.uint8).data)
                labels.append(batch.labels)
        if len(shapes) != 1:
            raise DataError(f"images of different shapes cannot be joined: {sorted(shapes)}")
        np.save(fresh / _LABELS, np.concatenate(labels).astype(np.int64))
        np.save(fresh / "shape.npy", np.array(shapes.pop()))


def _read_cached(folder: Path) -> OpenedArrays | None:
    """Images and labels that an earlier opening cached; None if they are missing or incomplete."""
    try:
        labels = np.load(folder / _LABELS, allow_pickle=False)
        shape = (len(labels), *np.load(folder / "shape.npy", allow_pickle=False).tolist())
        if (folder / _IMAGES).stat().st_size != int(np.prod(shape)):
            return None
        return OpenedArrays(MappedStore(folder / _IMAGES, shape), labels)
    except (OSError, ValueError, EOFError):
        return None

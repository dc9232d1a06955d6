"""Data sets of image files: register a reader that lists files and labels; open the listed images."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from labeltree.data.images.encoded import ImageParts
from labeltree.data.images.image_files import LEFT_OUT, ImageSettings, open_images, unreadable
from labeltree.data.named_data import register_dataset
from labeltree.data.source import Source, printable
from labeltree.errors import DataError
from labeltree.lazy import torch
from labeltree.taxonomy import Taxonomy

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "ListedImages",
    "archive_root",
    "first_existing",
    "in_archive",
    "label_taxonomy",
    "open_listed",
    "register_reader",
]


@dataclass(frozen=True)
class ListedImages:
    """Image files and their labels, listed without opening an image; for the attributes see `open_listed`."""

    root: Path
    files: Sequence[str]
    nodes: Tensor
    taxonomy: Taxonomy
    split: Sequence[str] | np.ndarray[Any, Any] | None = None
    groups: Tensor | None = None
    boxes: np.ndarray[Any, Any] | None = None
    instances: Tensor | None = None
    """Sample ids, if the samples are part of a larger data set; None = their positions."""


def open_listed(
    name: str,
    root: Path,
    files: Sequence[str] | ImageParts,
    nodes: Tensor,
    taxonomy: Taxonomy,
    *,
    split: np.ndarray[Any, Any] | Sequence[str] | None = None,
    groups: Tensor | None = None,
    group_names: np.ndarray[Any, Any] | None = None,
    attributes: Mapping[str, np.ndarray[Any, Any]] | None = None,
    instances: Tensor | None = None,
    aspect_taxonomies: tuple[Taxonomy, ...] = (),
    aspects: Tensor | None = None,
    ratings: Tensor | None = None,
    label_sets: Tensor | None = None,
    texts: Sequence[str] | None = None,
    boxes: np.ndarray[Any, Any] | None = None,
    **images: Unpack[ImageSettings],
) -> Source:
    """Open image files whose labels and splits are known.

    A file shared by several samples is decoded and stored once, unless each has its own box or text.

    Args:
        name: Name of the data set.
        root: Folder of relative paths.
        files: Files of the n samples, relative or absolute; or parts of files.
        nodes: Labels `(n,)`.
        taxonomy: Taxonomy of the labels.
        split: `train`, `val`, `test` or empty, for each sample.
        groups: Groups `(n,)`; see `Source`.
        group_names: Names of the groups `(n,)`; see `Source`.
        attributes: Further columns `(n,)` by name; see `Source`.
        instances: Stable ids `(n,)`; None = positions in `files`.
        aspect_taxonomies: One taxonomy per aspect.
        aspects: Labels of the aspects `(n, A)`; see `Source`.
        ratings: Ordinal ratings `(n, R)`; see `Source`.
        label_sets: All labels `(n, k)` of samples with several; see `Source`.
        texts: One text per sample.
        boxes: Crop box of each image `(n, 4)`: left, top, width, height in pixels; a row of NaN is the
            whole image.
        **images: How images are read; see `ImageSettings`.

    Raises:
        DataError: If nothing is listed, or images cannot be read.
    """
    if not len(files):
        raise DataError(f"data set '{name}' lists no images")
    n, rows = len(files), torch.arange(len(files))
    paths: list[str] | None = None
    names: Sequence[str]
    if isinstance(files, ImageParts):
        names = files.names
        opened = open_images(files, names, boxes=boxes, **images)
    else:
        if texts is None and boxes is None:
            place = {file: row for row, file in enumerate(dict.fromkeys(files))}
            rows, files = torch.tensor([place[file] for file in files]), list(place)
        names, paths = _below(root, files), [os.path.join(root, file) for file in files]
        opened = open_images(paths, list(files), boxes=boxes, **images)
    everything = Source(
        name=name,
        taxonomy=taxonomy,
        nodes=nodes,
        instances=torch.arange(n) if instances is None else instances,
        store=opened.store,
        rows=rows,
        groups=groups,
        group_names=group_names,
        attributes=dict(attributes or {}),
        split=None if split is None else np.asarray(split, dtype=str),
        files=paths,
        names=names,
        digests=opened.digests,
        aspect_taxonomies=aspect_taxonomies,
        aspects=aspects,
        ratings=ratings,
        label_sets=label_sets,
        texts=texts,
        notes=(opened.reduced,) if opened.reduced else (),
        look=opened.look,
    )
    if not opened.failures:
        return everything
    readable = torch.from_numpy(opened.readable())
    said = f"{unreadable(names, opened.failures)}{LEFT_OUT}"
    listed = names if paths is None else paths
    lost = [row for row in range(n) if int(rows[row]) in opened.failures]
    unread = {
        int(everything.instances[row]): (printable(listed[place]), opened.failures[place])
        for row, place in zip(lost, rows[lost].tolist(), strict=True)
    }
    everything = dataclasses.replace(
        everything,
        notes=(*everything.notes, said),
        unread=unread,
        unread_units=everything.units_by_id(lost),
    )
    return everything.subset(torch.isin(rows, readable).nonzero()[:, 0])


def _below(root: Path, files: Sequence[str]) -> list[str]:
    """Make the paths of files inside the folder relative to it."""
    start = os.path.join(os.path.abspath(root), "")
    return [file.removeprefix(start) for file in files]


def register_reader(name: str, read: Callable[[Path], ListedImages], **entry: Any) -> None:
    """Register a data set of image files supplied by the user.

    Args:
        name: Name of the data set.
        read: Function that lists the images in the data set's folder.
        **entry: Arguments of `register_dataset`.
    """

    def opener(*, path: Path, **images: Unpack[ImageSettings]) -> Source:
        listing = read(path)
        _check_inside(name, listing)
        columns = {f.name: getattr(listing, f.name) for f in dataclasses.fields(listing)}
        return open_listed(name, **columns, **images)

    # The registry then refuses another data set of this name, but accepts the same module twice.
    opener.__module__, opener.__qualname__ = getattr(read, "func", read).__module__, f"open {name}"
    register_dataset(name, **entry)(opener)


def _check_inside(name: str, listing: ListedImages) -> None:
    """Refuse a listing with a file outside the data set's folder."""
    for file in listing.files:
        if ".." in file or file.startswith("/"):
            place = os.path.normpath(file)
            if os.path.isabs(place) or place.split(os.sep)[0] == os.pardir:
                raise DataError(
                    f"data set '{name}' lists the image '{printable(file)}', which lies outside "
                    f"'{listing.root}'; unpack its official files again"
                )


def label_taxonomy(paths: Sequence[Sequence[str]], root_name: str = "root") -> tuple[Taxonomy, Tensor]:
    """The taxonomy of the samples' labels, children sorted by name, and the node of each sample.

    Args:
        paths: Label of each sample as a path of names, coarse to fine.
        root_name: Name of the root.
    """
    taxonomy = Taxonomy.from_paths(sorted({tuple(path) for path in paths}), root_name)
    return taxonomy, taxonomy.encode(paths)


def in_archive(folder: str, *paths: str) -> tuple[str, ...]:
    """Paths of files in the data set's folder, or in the folder created there by its archive."""
    return (*paths, *(f"{folder}/{path}" for path in paths))


def archive_root(path: Path, folder: str) -> Path:
    """The folder created by an archive below `path`; `path` itself if there is none."""
    return path / folder if (path / folder).is_dir() else path


def first_existing(path: Path, places: Sequence[str]) -> Path:
    """The first existing one of several paths below `path`; the first path if none exists."""
    return next((path / place for place in places if (path / place).exists()), path / places[0])

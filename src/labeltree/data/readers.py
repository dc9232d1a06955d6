"""Named data sets of image files: a reader lists the files, and opening them is the same for all."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from labeltree.data.images.files import OnError
from labeltree.data.progress import Progress
from labeltree.data.registry import Needed, Published, register_dataset
from labeltree.data.source import Source, printable
from labeltree.data.sources.listed import open_listed
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

__all__ = ["ListedImages", "first_of", "labelled", "register_reader", "unpacked", "within"]


@dataclass(frozen=True)
class ListedImages:
    """What a reader found out without opening an image; see `open_listed` for the attributes."""

    root: Path
    files: Sequence[str]
    nodes: Tensor
    taxonomy: Taxonomy
    split: Sequence[str] | np.ndarray[Any, Any] | None = None
    groups: Tensor | None = None
    boxes: np.ndarray[Any, Any] | None = None
    instances: Tensor | None = None
    """Ids of the samples, where they are part of a larger data set; None = their positions."""


def register_reader(
    name: str,
    read: Callable[[Path], ListedImages],
    *,
    summary: str,
    licence: str,
    size: str = "",
    files: tuple[Needed, ...] = (),
    published: Published | None = None,
    home: str = "",
) -> None:
    """Register a data set of image files that the user brings.

    Args:
        name: Of the data set.
        read: Lists the images of the data set's folder.
        summary: See `DatasetEntry`, and so are the others.
        licence: Of the data.
        size: Of the download.
        files: What must be in the folder.
        published: What should be in the data set.
        home: Folder in the cache, where several data sets share one.
    """

    def opener(
        *,
        path: Path,
        image_size: int | None = None,
        channels: int | None = None,
        on_error: OnError = "raise",
        cache: bool | None = None,
        progress: Progress | None = None,
    ) -> Source:
        found = read(path)
        _check_inside(name, found)
        source = open_listed(
            name,
            found.root,
            found.files,
            found.nodes,
            found.taxonomy,
            split=found.split,
            groups=found.groups,
            boxes=found.boxes,
            image_size=image_size,
            channels=channels,
            on_error=on_error,
            cache=cache,
            progress=progress,
        )
        if found.instances is None:
            return source
        return dataclasses.replace(source, instances=found.instances[source.instances])

    # So that the registry refuses a second data set of this name, but not the same module twice.
    opener.__module__, opener.__qualname__ = getattr(read, "func", read).__module__, f"open {name}"
    register_dataset(
        name,
        summary=summary,
        licence=licence,
        size=size,
        files=files,
        published=published,
        home=home,
    )(opener)


def _check_inside(name: str, found: ListedImages) -> None:
    """No listing names a file outside its data set."""
    for file in found.files:
        if ".." in file or file.startswith("/"):
            place = os.path.normpath(file)
            if os.path.isabs(place) or place.split(os.sep)[0] == os.pardir:
                raise DataError(
                    f"data set '{name}' lists the image '{printable(file)}', which lies outside "
                    f"'{found.root}'; unpack its official files again"
                )


def labelled(paths: Sequence[Sequence[str]], root_name: str = "root") -> tuple[Taxonomy, Tensor]:
    """The taxonomy of the samples' labels, children sorted by name, and the node of each sample.

    Args:
        paths: Of the label of each sample, coarse to fine.
        root_name: Of the root above them.
    """
    taxonomy = Taxonomy.from_paths(sorted({tuple(path) for path in paths}), root_name)
    return taxonomy, taxonomy.encode(paths)


def within(folder: str, *paths: str) -> tuple[str, ...]:
    """Where a file may lie: below the data set's folder, or below the folder that its archive makes there."""
    return (*paths, *(f"{folder}/{path}" for path in paths))


def unpacked(path: Path, folder: str) -> Path:
    """The folder that an archive makes below ``path``, or ``path`` itself where it is that folder."""
    return path / folder if (path / folder).is_dir() else path


def first_of(path: Path, places: Sequence[str]) -> Path:
    """The first of several places below ``path`` where there is something, or else the first."""
    return next((path / place for place in places if (path / place).exists()), path / places[0])

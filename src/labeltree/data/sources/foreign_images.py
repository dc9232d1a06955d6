"""Images of other libraries' data sets: unreadable ones are found first, and pixels are kept in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from labeltree.data.images.decode import is_gray, pixels_of, reasons
from labeltree.data.images.files import OnError, report_failures
from labeltree.data.progress import Progress
from labeltree.data.source import ImageStore
from labeltree.data.sources.foreign import ForeignItems, as_image
from labeltree.data.stores import ArrayStore
from labeltree.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

__all__ = ["DatasetStore", "ForeignImages", "open_foreign_images"]

_MEMORY_BYTES = 4 << 30
_PROBES = 100


class ForeignImages:
    """The images of all parts, one after the other."""

    def __init__(self, parts: Sequence[ForeignItems], column: Any, titles: Sequence[str]) -> None:
        self._parts, self._column, self._titles = list(parts), column, list(titles)
        self._starts = np.cumsum([0, *map(len, parts)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def _place(self, row: int) -> tuple[int, int]:
        part = int(np.searchsorted(self._starts, row, "right")) - 1
        return part, row - int(self._starts[part])

    def name(self, row: int) -> str:
        """What a message calls the image."""
        part, item = self._place(row)
        return f"item {item} of {self._titles[part]}"

    def open(self, row: int) -> PilImage:
        """The image.

        Raises:
            DataError: If the data set cannot give it.
        """
        part, item = self._place(row)
        with reasons():
            return as_image(self._parts[part].value(item, self._column))


class DatasetStore:
    """Images that are taken from a data set when they are asked for."""

    def __init__(self, images: ForeignImages, shape: tuple[int, int, int]) -> None:
        self._images = images
        self.image_shape = shape

    def __len__(self) -> int:
        return len(self._images)

    def load(self, rows: Tensor) -> Tensor:
        """Images of the rows."""
        pixels = np.empty((len(rows), *self.image_shape), np.uint8)
        for place, row in enumerate(rows.tolist()):
            pixels[place] = pixels_of(self._images.open(row), self.image_shape[1], self.image_shape[0])
        return torch.from_numpy(pixels)


def open_foreign_images(
    images: ForeignImages,
    size: int | None,
    channels: int | None,
    on_error: OnError,
    cache: bool | None,
    progress: Progress,
) -> tuple[ImageStore, np.ndarray[Any, Any]]:
    """A store of all images, and the rows of those that can be read; each is read once, and some twice, to
    see what size they have.

    Args:
        images: The images.
        size: Side in pixels; None = what all have, if they are square and equal, else 32.
        channels: 1 or 3; None = 1 if all are gray, else 3.
        on_error: ``raise`` or ``skip`` unreadable images.
        cache: Keep the pixels in memory; None = if they take less than 4 GiB.
        progress: Is told how reading proceeds.

    Raises:
        DataError: If images cannot be read.
    """
    n = len(images)
    if size is None or channels is None:
        probed_size, probed_channels = _probe(images)
        size, channels = size or probed_size, channels or probed_channels
    shape = (channels, size, size)
    keep = n * int(np.prod(shape)) <= _MEMORY_BYTES if cache is None else cache
    pixels = np.zeros((n if keep else 0, *shape), np.uint8)
    failures: dict[int, str] = {}
    for row in range(n):
        try:
            image = pixels_of(images.open(row), size, channels)
            if keep:
                pixels[row] = image
        except DataError as error:
            failures[row] = str(error)
        if row % 256 == 0 or row + 1 == n:
            progress("reading images", row + 1, n)
    report_failures([images.name(row) if row in failures else "" for row in range(n)], failures, on_error)
    store: ImageStore = ArrayStore(pixels) if keep else DatasetStore(images, shape)
    return store, np.setdiff1d(np.arange(n), list(failures))


def _probe(images: ForeignImages) -> tuple[int, int]:
    """A size and a number of channels that suit the images, by some of them, evenly spread."""
    sizes, gray = set(), True
    for row in np.unique(np.linspace(0, len(images) - 1, min(len(images), _PROBES)).round().astype(int)):
        try:
            image = images.open(int(row))
        except DataError:
            continue
        sizes.add(image.size)
        gray = gray and is_gray(image)
    width, height = next(iter(sizes), (0, 0))
    size = width if len(sizes) == 1 and width == height <= 256 else 32
    return size, 1 if gray and sizes else 3

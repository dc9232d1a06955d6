"""Images of other libraries' data sets: find unreadable ones, keep pixels in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from labeltree.data.images.decode import ImageHead, image_errors, is_gray, open_image, pixels_of
from labeltree.data.images.image_files import OnError, report_failures, usual_input
from labeltree.data.images.look import look_at
from labeltree.data.images.stores import ArrayStore
from labeltree.data.source import ImageStore
from labeltree.errors import DataError
from labeltree.preprocessing import ChooseInput, ImageLook, Preprocessing
from labeltree.progress import Progress, silent

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

__all__ = ["DatasetImages", "DatasetStore", "open_dataset_images"]

_MEMORY_BYTES = 4 << 30
_PROBES = 100
_USUAL_SIZE = 224  # of an encoder that reads images of unequal sides


def _open_image(value: Any) -> PilImage:
    """Convert an item of a data set to a Pillow image: an image, its bytes, its path, or an array of pixels.

    Raises:
        DataError: If the item is not an image.
    """
    from PIL import Image

    if isinstance(value, Image.Image):
        return value
    if isinstance(value, Mapping) and (value.get("bytes") or value.get("path")):
        return open_image(value.get("bytes") or Path(value["path"]))
    if isinstance(value, torch.Tensor):
        value = value.numpy()
        if value.ndim == 3 and value.shape[0] in (1, 3):
            value = value.transpose(1, 2, 0)
    if isinstance(value, np.ndarray):
        return _image_of_pixels(value)
    raise DataError(f"it is a {type(value).__name__}, not an image")


def _image_of_pixels(pixels: np.ndarray[Any, Any]) -> PilImage:
    """A Pillow image from pixels `(h, w)` or `(h, w, c)`, uint8 or floats in [0, 1]."""
    from PIL import Image

    if pixels.dtype.kind == "f":
        if not (pixels.min(initial=0) >= 0 and pixels.max(initial=0) <= 1):
            raise DataError("its pixels are floats outside [0, 1]; open the data set without a transform")
        pixels = (pixels * 255).round().astype(np.uint8)
    if (
        pixels.dtype != np.uint8
        or pixels.ndim not in (2, 3)
        or (pixels.ndim == 3 and pixels.shape[2] not in (1, 3))
    ):
        raise DataError(f"it is an array {pixels.dtype} {pixels.shape}, expected uint8 (h, w) or (h, w, 3)")
    return Image.fromarray(pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels)


class DatasetImages:
    """The images of all parts of a data set, one after the other.

    Args:
        parts: For each part, its name in messages, its number of images, and a function that returns an image
            by index.
    """

    def __init__(self, parts: Sequence[tuple[str, int, Callable[[int], Any]]]) -> None:
        self._titles = [title for title, _, _ in parts]
        self._starts = np.cumsum([0, *(count for _, count, _ in parts)])
        self._value_of = [value for _, _, value in parts]

    def __len__(self) -> int:
        return int(self._starts[-1])

    def _place(self, row: int) -> tuple[int, int]:
        part = int(np.searchsorted(self._starts, row, "right")) - 1
        return part, row - int(self._starts[part])

    def name(self, row: int) -> str:
        """The name of the image in messages."""
        part, item = self._place(row)
        return f"item {item} of {self._titles[part]}"

    def open(self, row: int) -> PilImage:
        """Return the image.

        Raises:
            DataError: If the data set does not return it.
        """
        part, item = self._place(row)
        with image_errors():
            return _open_image(self._value_of[part](item))


class DatasetStore:
    """Images that are read from a data set on demand."""

    def __init__(
        self,
        images: DatasetImages,
        shape: tuple[int, int, int],
        preprocessing: Preprocessing | None = None,
    ) -> None:
        self._images = images
        self.image_shape = shape
        self.preprocessing = preprocessing

    def __len__(self) -> int:
        return len(self._images)

    def load(self, rows: Tensor) -> Tensor:
        """Images of the rows."""
        pixels = np.empty((len(rows), *self.image_shape), np.uint8)
        for place, row in enumerate(rows.tolist()):
            channels, size, _ = self.image_shape
            pixels[place] = pixels_of(self._images.open(row), size, channels, self.preprocessing)
        return torch.from_numpy(pixels)


def open_dataset_images(
    images: DatasetImages,
    *,
    image_size: int | None = None,
    channels: int | None = None,
    on_error: OnError = "raise",
    cache: bool | None = None,
    check: bool = True,
    preprocessing: Preprocessing | None = None,
    choose: ChooseInput | None = None,
    progress: Progress | None = None,
) -> tuple[ImageStore, np.ndarray[Any, Any]]:
    """A store of all images, and the rows of those that can be read.

    Each image is read once; some are also read beforehand to determine the size.

    Args:
        images: The images.
        image_size: Side of the images; see `ImageSettings` for this and the other settings.
        channels: 1 or 3.
        on_error: `raise`, `skip` or `list`.
        cache: Keep the pixels in memory; None = if they take less than 4 GiB.
        check: Ignored: all images are read.
        preprocessing: How the square is cut out.
        choose: Chooses what is not given.
        progress: Callback that reports progress.

    Raises:
        DataError: If images cannot be read.
    """
    n = len(images)
    if image_size is None or channels is None:
        look = _probe(images)
        probed = (choose or usual_input)(look)
        if image_size is None:
            preprocessing = preprocessing or probed.preprocessing
        image_size = image_size or probed.size or _USUAL_SIZE
        channels = channels or probed.channels or look.channels
    size = image_size
    shape = (channels, size, size)
    keep = n * int(np.prod(shape)) <= _MEMORY_BYTES if cache is None else cache
    pixels = np.zeros((n if keep else 0, *shape), np.uint8)
    failures: dict[int, str] = {}
    report = progress or silent
    for row in range(n):
        try:
            image = pixels_of(images.open(row), size, channels, preprocessing)
            if keep:
                pixels[row] = image
        except DataError as error:
            failures[row] = str(error)
        if row % 256 == 0 or row + 1 == n:
            report("reading images", row + 1, n)
    report_failures([images.name(row) if row in failures else "" for row in range(n)], failures, on_error)
    store: ImageStore = (
        ArrayStore(pixels, preprocessing) if keep else DatasetStore(images, shape, preprocessing)
    )
    return store, np.setdiff1d(np.arange(n), list(failures))


def _probe(images: DatasetImages) -> ImageLook:
    """What 100 evenly spaced images are like."""
    heads = []
    for row in np.unique(np.linspace(0, len(images) - 1, min(len(images), _PROBES)).round().astype(int)):
        try:
            image = images.open(int(row))
        except DataError:
            continue
        heads.append(ImageHead(*image.size, is_gray(image)))
    return look_at(heads)

"""Stores of images: in memory, in a mapped file, or encoded ones that are decoded on demand."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from labeltree.data.images.decode import decode, pixels_of
from labeltree.data.images.encoded import EncodedImages, encoded
from labeltree.data.source import ImageStore
from labeltree.errors import DataError
from labeltree.lazy import torch
from labeltree.preprocessing import Preprocessing

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "ArrayStore",
    "ChainedStore",
    "FileStore",
    "MappedStore",
    "ReshapedStore",
    "SomeImages",
    "box_of",
    "in_threads",
    "reshaped",
]

Array = np.ndarray[Any, Any]
Item = TypeVar("Item")
_log = logging.getLogger("labeltree.data")


def _tensor(array: Array) -> Tensor:
    """A batch as a tensor; images without a channel axis get one."""
    images = torch.from_numpy(array)
    return images[:, None] if images.ndim == 3 else images


class ArrayStore:
    """Images in memory.

    Args:
        images: uint8, `(n, h, w)` or `(n, c, h, w)`.
        preprocessing: How they were cut out of files; see `decode`.
    """

    def __init__(self, images: Array | Tensor, preprocessing: Preprocessing | None = None) -> None:
        array = images.numpy() if isinstance(images, torch.Tensor) else images
        if array.dtype != np.uint8 or array.ndim not in (3, 4):
            raise DataError(
                f"images are {array.dtype} {array.shape}; they must be uint8 (n, h, w) or (n, c, h, w)"
            )
        self._images = array
        self.preprocessing = preprocessing

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """`(c, h, w)`."""
        shape = self._images.shape[1:]
        return (1, *shape) if len(shape) == 2 else shape

    def __len__(self) -> int:
        return len(self._images)

    def load(self, rows: Tensor) -> Tensor:
        """Images of the rows."""
        return _tensor(self._images[rows.numpy()])


class MappedStore(ArrayStore):
    """Images in a file of raw bytes: read when touched, shared by all processes, never copied into a pickle.

    Args:
        path: The file.
        shape: `(n, h, w)` or `(n, c, h, w)`.
        offset: Bytes before the first image.
        preprocessing: How the images were cut out of files; see `decode`.
    """

    def __init__(
        self,
        path: str | Path,
        shape: tuple[int, ...],
        offset: int = 0,
        preprocessing: Preprocessing | None = None,
    ) -> None:
        self._where = (str(path), tuple(shape), offset, preprocessing)
        self._open()

    def _open(self) -> None:
        path, shape, offset, preprocessing = self._where
        if 0 in shape:
            super().__init__(np.zeros(shape, np.uint8), preprocessing)
            return
        super().__init__(np.memmap(path, np.uint8, "r", offset, shape), preprocessing)

    def __getstate__(self) -> tuple[str, tuple[int, ...], int, Preprocessing | None]:
        return self._where

    def __setstate__(self, state: tuple[str, tuple[int, ...], int, Preprocessing | None]) -> None:
        self._where = state
        self._open()


class ChainedStore:
    """Several stores of images of one shape, one after the other."""

    def __init__(self, stores: Sequence[ImageStore]) -> None:
        shapes = {store.image_shape for store in stores}
        if len(shapes) != 1:
            raise DataError(f"images of different shapes cannot be joined: {sorted(shapes)}")
        self._stores = list(stores)
        self.image_shape: tuple[int, int, int] = shapes.pop()

    def __len__(self) -> int:
        return sum(map(len, self._stores))

    def load(self, rows: Tensor) -> Tensor:
        """Images of the rows."""
        images = torch.empty(len(rows), *self.image_shape, dtype=torch.uint8)
        start = 0
        for store in self._stores:
            here = ((rows >= start) & (rows < start + len(store))).nonzero()[:, 0]
            if len(here):
                images[here] = store.load(rows[here] - start)
            start += len(store)
        return images


class SomeImages:
    """Images of some of n rows: the others have none, and are black where they are loaded.

    Args:
        inner: The images that there are.
        places: Place of each row's image in `inner`, `(n,)` int64; -1 where a row has none.

    Attributes:
        there: Whether a row has an image, `(n,)` bool.
    """

    def __init__(self, inner: ImageStore, places: Tensor) -> None:
        self._inner = inner
        self._places = places
        self.there = places >= 0
        self.image_shape = inner.image_shape
        self.preprocessing: Preprocessing | None = getattr(inner, "preprocessing", None)

    def __len__(self) -> int:
        return len(self._places)

    @property
    def unreadable(self) -> set[int]:
        """Rows whose image turned out to be unreadable."""
        lost = getattr(self._inner, "unreadable", None) or ()
        places = torch.tensor(sorted(lost), dtype=torch.int64)
        return set(torch.isin(self._places, places).nonzero()[:, 0].tolist())

    def load(self, rows: Tensor) -> Tensor:
        """Images of the rows."""
        images = torch.zeros(len(rows), *self.image_shape, dtype=torch.uint8)
        here = self.there[rows].nonzero()[:, 0]
        if len(here):
            images[here] = self._inner.load(self._places[rows[here]])
        return images


class ReshapedStore:
    """The images of another store with another size or number of channels.

    Args:
        inner: The store.
        size: Side in pixels; None = unchanged.
        channels: 1 or 3; None = unchanged.
        preprocessing: How the square is cut out of each; None = it is the whole image.
    """

    def __init__(
        self,
        inner: ImageStore,
        size: int | None = None,
        channels: int | None = None,
        preprocessing: Preprocessing | None = None,
    ) -> None:
        self.original = inner
        self.preprocessing = preprocessing
        c, h, w = inner.image_shape
        self.image_shape: tuple[int, int, int] = (channels or c, size or h, size or w)

    def __len__(self) -> int:
        return len(self.original)

    def load(self, rows: Tensor) -> Tensor:
        """Images of the rows."""
        from labeltree.data.views import ViewGenerator

        channels, size, _ = self.image_shape
        if self.preprocessing is not None:
            images = [_image(one) for one in self.original.load(rows).numpy()]
            cut = [pixels_of(image, size, channels, self.preprocessing) for image in images]
            return torch.from_numpy(np.stack(cut)) if cut else torch.empty(0, *self.image_shape).byte()
        plain = ViewGenerator("identity", size=size, channels=channels)
        return (plain(self.original.load(rows), rows) * 255).round_().to(torch.uint8)


def _image(pixels: Array) -> Any:
    """Pixels `(c, h, w)` as an image of Pillow."""
    from PIL import Image

    return Image.fromarray(pixels[0] if len(pixels) == 1 else np.moveaxis(pixels, 0, -1))


def reshaped(
    store: ImageStore,
    image_size: int | None = None,
    channels: int | None = None,
    preprocessing: Preprocessing | None = None,
    **_: object,
) -> ImageStore:
    """The images of a store in another shape, or the store itself if they have it already.

    Args:
        store: The images.
        image_size: Side in pixels; None = unchanged.
        channels: 1 or 3; None = unchanged.
        preprocessing: How the square is cut out of each; None = it is the whole image.
        **_: Other `ImageSettings`, which are ignored.
    """
    c, h, w = store.image_shape
    if preprocessing is None and (image_size or h, image_size or w, channels or c) == (h, w, c):
        return store
    return ReshapedStore(store, image_size, channels, preprocessing)


class FileStore:
    """Encoded images that are decoded on demand.

    Args:
        images: Paths of the files, or other encoded images.
        size: Side in pixels.
        channels: 1 or 3.
        boxes: Crop boxes `(n, 4)`; see `open_images`.
        stamps: Expected stamps `(n, k)`; see `EncodedImages`. None = images may change.
        digests: Digests `(n, 16)`; see `open_images`. None = unknown.
        preprocessing: How the square is cut out of each image; see `decode`.
        unchecked: What happens to unreadable images, if it was not checked before whether there are any:
            `raise` an error; or `replace` them by black ones, with a warning. They are then in
            `unreadable`, and whoever uses them must leave them out or take other samples. None = all were
            readable.

    Attributes:
        unreadable: The rows that turned out to be unreadable in this process.
    """

    def __init__(
        self,
        images: Sequence[str] | EncodedImages,
        size: int,
        channels: int,
        boxes: np.ndarray[Any, Any] | None = None,
        stamps: np.ndarray[Any, Any] | None = None,
        digests: np.ndarray[Any, Any] | None = None,
        *,
        preprocessing: Preprocessing | None = None,
        unchecked: Literal["raise", "replace"] | None = None,
    ) -> None:
        self._images = encoded(images)
        self._boxes = boxes
        # As a tensor, its memory is shared by loader processes.
        self._stamps = None if stamps is None else torch.from_numpy(stamps)
        self.unchecked = unchecked
        self.unreadable: set[int] = set()
        self._digests = digests
        self.image_shape: tuple[int, int, int] = (channels, size, size)
        self.preprocessing = preprocessing

    def __len__(self) -> int:
        return len(self._images)

    def load(self, rows: Tensor) -> Tensor:
        """Images of the rows.

        Raises:
            DataError: If an image has changed, vanished or become unreadable.
        """
        images = np.empty((len(rows), *self.image_shape), np.uint8)
        # Loader processes are many already; a thread each is enough.
        several = torch.utils.data.get_worker_info() is None and len(rows) > 1
        for place, pixels in enumerate((in_threads if several else map)(self._decode, rows.tolist())):
            images[place] = pixels
        return torch.from_numpy(images)

    def __getstate__(self) -> dict[str, Any]:
        # Loader processes need no digests.
        return self.__dict__ | {"_digests": None}

    def _decode(self, row: int) -> np.ndarray[Any, Any]:
        try:
            return self._decode_row(row)
        except DataError as error:
            if self.unchecked != "replace":
                raise
            if row not in self.unreadable:
                _log.warning("%s. Another sample takes its place", error)
            self.unreadable.add(row)
            return np.zeros(self.image_shape, np.uint8)

    def _decode_row(self, row: int) -> np.ndarray[Any, Any]:
        channels, size, _ = self.image_shape
        try:
            pixels = decode(
                self._images.read(row),
                size,
                channels,
                box_of(self._boxes, row),
                preprocessing=self.preprocessing,
            )
        except DataError as error:
            now = "" if self.unchecked else " any more"
            raise DataError(f"the image '{self._images.where(row)}' cannot be read{now}: {error}") from error
        if self._stamps is not None and not np.array_equal(
            self._images.stamp(row), self._stamps[row].numpy()
        ):
            raise DataError(
                f"the image '{self._images.where(row)}' has changed since the data were opened; put it back "
                "as it was, or start anew"
            )
        return pixels


def box_of(boxes: np.ndarray[Any, Any] | None, row: int) -> Sequence[float] | None:
    """The box of an image; None if it has none."""
    return None if boxes is None or np.isnan(boxes[row]).any() else boxes[row].tolist()


def in_threads(function: Any, items: Iterable[Item]) -> Iterator[Any]:
    """Map a function over items in threads: results in order, a bounded number of items in flight."""
    workers = min(32, os.cpu_count() or 1)
    with ThreadPoolExecutor(workers) as pool:
        waiting = []
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= 8 * workers:
                yield waiting.pop(0).result()
        for future in waiting:
            yield future.result()

"""Images in memory or in a mapped file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.data.source import ImageStore
from labeltree.errors import DataError

__all__ = ["ArrayStore", "ChainedStore", "MappedStore", "ReshapedStore", "reshaped"]

Array = np.ndarray[Any, Any]


def _tensor(array: Array) -> Tensor:
    """A batch as a tensor; images without a channel axis get one."""
    images = torch.from_numpy(array)
    return images[:, None] if images.ndim == 3 else images


class ArrayStore:
    """Images in memory: uint8, ``(n, h, w)`` or ``(n, c, h, w)``."""

    def __init__(self, images: Array | Tensor) -> None:
        array = images.numpy() if isinstance(images, Tensor) else images
        if array.dtype != np.uint8 or array.ndim not in (3, 4):
            raise DataError(
                f"images are {array.dtype} {array.shape}; they must be uint8 (n, h, w) or (n, c, h, w)"
            )
        self._images = array

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """``(c, h, w)``."""
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
        shape: ``(n, h, w)`` or ``(n, c, h, w)``.
        offset: Bytes before the first image.
    """

    def __init__(self, path: str | Path, shape: tuple[int, ...], offset: int = 0) -> None:
        self._where = (str(path), tuple(shape), offset)
        self._open()

    def _open(self) -> None:
        path, shape, offset = self._where
        if 0 in shape:
            super().__init__(np.zeros(shape, np.uint8))
            return
        super().__init__(np.memmap(path, np.uint8, "r", offset, shape))

    def __getstate__(self) -> tuple[str, tuple[int, ...], int]:
        return self._where

    def __setstate__(self, state: tuple[str, tuple[int, ...], int]) -> None:
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


class ReshapedStore:
    """Another store's images in another size or with another number of channels.

    Args:
        inner: The store.
        size: Side in pixels; None = as they are.
        channels: 1 or 3; None = as they are.
    """

    def __init__(self, inner: ImageStore, size: int | None = None, channels: int | None = None) -> None:
        self.original = inner
        c, h, w = inner.image_shape
        self.image_shape: tuple[int, int, int] = (channels or c, size or h, size or w)

    def __len__(self) -> int:
        return len(self.original)

    def load(self, rows: Tensor) -> Tensor:
        """Images of the rows."""
        from labeltree.data.views import ViewGenerator

        channels, size, _ = self.image_shape
        plain = ViewGenerator("identity", size=size, channels=channels)
        return (plain(self.original.load(rows), rows) * 255).round_().to(torch.uint8)


def reshaped(store: ImageStore, size: int | None, channels: int | None) -> ImageStore:
    """The store itself if its images have this shape already, else its images in this shape."""
    c, h, w = store.image_shape
    if (size or h, size or w, channels or c) == (h, w, c):
        return store
    return ReshapedStore(store, size, channels)

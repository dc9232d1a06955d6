"""Small pictures of samples: only of files inside the folders of the data, decoded and written anew."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from labeltree.data.images.decode import check_file
from labeltree.errors import DataError
from labeltree.serving.engine import measure_upload, read_upload
from labeltree.serving.service_settings import ServiceSettings
from labeltree.serving.wait_for_memory import MemoryLimit

__all__ = ["SIZES", "Pictures"]

SIZES = (64, 160, 480)
"""Sides of the pictures, in pixels."""
_KEPT = 128_000_000  # bytes of encoded pictures that are kept
_LARGEST_FILE = 512_000_000

Array = np.ndarray[Any, Any]


class Pictures:
    """Pictures of samples by row, as their centred square: what a model reads of them.

    A file is decoded only if it lies inside one of the folders once all links are followed: an index may come
    from anybody, and may name any file of this machine. What is sent is drawn anew from the pixels, so that
    nothing of a file that is no image gets out.

    Args:
        paths: `(n,)` files of the samples; empty where there is none. Relative ones are looked up in the
            working folder and in the folders.
        folders: That files may lie in.
        settings: Limits of pixels and memory.
        draw: Pixels `(c, h, w)` uint8 of a row without a file in the folders; None if there are none.
    """

    def __init__(
        self,
        paths: Sequence[str] | Array | None,
        folders: Sequence[str | Path],
        settings: ServiceSettings,
        draw: Callable[[int], Array] | None = None,
    ) -> None:
        self._paths = paths
        self._folders = [Path(os.path.realpath(folder)) for folder in folders]
        self._settings = settings
        self._draw = draw
        self._memory = MemoryLimit(settings.max_decoding)
        self._kept: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    @property
    def any(self) -> bool:
        """Whether samples have pictures."""
        return self._draw is not None or (self._paths is not None and any(map(bool, self._paths)))

    def file_of(self, row: int) -> Path:
        """The file of a sample, inside one of the folders.

        Raises:
            DataError: If it has none, or it lies elsewhere.
        """
        named = "" if self._paths is None else str(self._paths[row])
        if not named or "\0" in named:
            raise DataError("the sample has no image file")
        places = [Path(os.path.realpath(base / named)) for base in (Path.cwd(), *self._folders)]
        inside = [path for path in places if any(path.is_relative_to(folder) for folder in self._folders)]
        if not inside:
            raise DataError("the file lies outside the folders of the data; name its folder by --images")
        return next((path for path in inside if path.is_file()), inside[0])

    def get(self, row: int, size: int) -> bytes:
        """A picture as JPEG, or PNG where it is at most 64 pixels wide.

        Raises:
            DataError: With the reason if there is none.
        """
        if size not in SIZES:
            raise DataError(f"size is {size}; expected one of {', '.join(map(str, SIZES))}")
        with self._lock:
            picture = self._kept.get((row, size))
            if picture is not None:
                self._kept.move_to_end((row, size))
                return picture
        picture = _encode(self._pixels(row, size), size)
        with self._lock:
            if (row, size) not in self._kept:
                self._kept[row, size] = picture
                self._bytes += len(picture)
            while self._bytes > _KEPT:
                self._bytes -= len(self._kept.popitem(last=False)[1])
        return picture

    def _pixels(self, row: int, size: int) -> Array:
        try:
            path = self.file_of(row)
            if self._draw is not None and not path.is_file():  # a name within a data set
                return self._draw(row)
        except DataError:
            named = "" if self._paths is None else str(self._paths[row]).partition("\0")[0]
            if self._draw is None or (named and Path(named).is_file()):  # it is no name within a data set
                raise
            return self._draw(row)
        try:
            if check_file(path) > _LARGEST_FILE:
                raise DataError(f"the file has more than {_LARGEST_FILE:,} bytes")
            content = path.read_bytes()
        except OSError as error:
            raise DataError((error.strerror or str(error)).lower()) from None
        needed = measure_upload(content, size, self._settings.max_pixels)
        if needed > self._memory.most:
            raise DataError("decoding it takes more memory than is allowed (--max-decoding)")
        with self._memory.taking(needed):
            return read_upload(content, size, 3, self._settings.max_pixels)


def _encode(pixels: Array, size: int) -> bytes:
    from PIL import Image

    drawn = Image.fromarray(
        pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0))
    )
    if max(drawn.size) < size and max(drawn.size) <= 64:
        drawn = drawn.resize([side * (size // max(drawn.size)) or side for side in drawn.size], 3)
    drawn.thumbnail((size, size))
    buffer = BytesIO()
    if size <= 64:
        drawn.save(buffer, "PNG")
    else:
        drawn.convert("RGB").save(buffer, "JPEG", quality=86)
    return buffer.getvalue()

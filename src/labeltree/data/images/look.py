"""What the images of a data set are like, by a look at some of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from labeltree.data.images.decode import ImageHead, decode
from labeltree.data.images.encoded import EncodedImages
from labeltree.errors import DataError
from labeltree.preprocessing import ImageLook

__all__ = ["look_at"]

_DECODED = 32
_SIDE = 96
_FLAT = 2  # levels of 255 by which neighbouring pixels of one colour may differ
_DRAWN = 0.6


def look_at(heads: Sequence[ImageHead], images: EncodedImages | None = None) -> ImageLook:
    """What images are like.

    Args:
        heads: Headers of some of the images.
        images: The images, to see whether they are drawn; None = that is not asked.
    """
    if not heads:
        return ImageLook(32, 32, None, False)
    width, height = (
        int(np.median(sides)) for sides in zip(*((h.width, h.height) for h in heads), strict=True)
    )
    sizes = {(head.width, head.height) for head in heads}
    side = width if len(sizes) == 1 and width == height else None
    return ImageLook(
        width, height, side, all(head.gray for head in heads), images is not None and _are_drawn(images)
    )


def _are_drawn(images: EncodedImages) -> bool:
    """Whether in most of up to 32 images more than 60 % of the pixels are like both their neighbours."""
    flat = []
    for row in np.unique(np.linspace(0, len(images) - 1, min(len(images), _DECODED)).round().astype(int)):
        try:
            pixels = decode(images.read(int(row)), _SIDE, 3).astype(np.int16)
        except DataError:
            continue
        across = np.abs(np.diff(pixels, axis=2)).max(0)[1:] <= _FLAT
        down = np.abs(np.diff(pixels, axis=1)).max(0)[:, 1:] <= _FLAT
        flat.append(float((across & down).mean()))
    return bool(flat) and float(np.median(flat)) > _DRAWN

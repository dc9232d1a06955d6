"""What Pillow does not read, or not rightly, among TIFF files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeltree.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage
    from PIL.TiffImagePlugin import ImageFileDirectory_v2

__all__ = ["check_tiff", "is_white_zero", "why_not_tiff"]

_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_BITS, _PHOTOMETRIC, _CHANNELS, _PLANAR, _FORMAT = 258, 262, 277, 284, 339
_KINDS = {1: "whole numbers", 2: "signed whole numbers", 3: "real numbers"}


def why_not_tiff(path: Path) -> str | None:
    """Why a TIFF file cannot be identified, with what to do; None if it is no TIFF file."""
    from PIL import TiffImagePlugin

    with path.open("rb") as file:
        head = file.read(8)
        if head[:4] not in _MAGIC:
            return None
        if head[2:3] == b"+" or head[3:4] == b"+":
            head += file.read(8)
        try:
            tags = TiffImagePlugin.ImageFileDirectory_v2(head)
            file.seek(tags.next)
            tags.load(file)
        except Exception:  # a broken file, as the caller's sentence says
            return None
    return (
        f"it is a TIFF of {tags.get(_CHANNELS, 1)} channel(s) of {_bits(tags)}-bit "
        f"{_KINDS.get(_first(tags.get(_FORMAT, 1)), 'numbers')}, which cannot be read; save it as gray or "
        "RGB of 8 or 16 bits, or as gray of 32-bit real numbers"
    )


def check_tiff(image: PilImage) -> None:
    """Make sure that Pillow reads the pixels of an identified image rightly.

    Raises:
        DataError: If it is a TIFF whose 16-bit channels lie apart, which Pillow garbles.
    """
    tags = getattr(image, "tag_v2", None)
    if tags is not None and tags.get(_PLANAR, 1) == 2 and _bits(tags) > 8:
        raise DataError(
            f"it is a TIFF whose {_bits(tags)}-bit channels lie apart (planar configuration 2), which cannot "
            "be read; save it with interleaved channels, or with 8 bits"
        )


def is_white_zero(image: PilImage) -> bool:
    """Whether 0 is white in a TIFF of more than 8 bits; with 8, Pillow has turned it already."""
    tags = getattr(image, "tag_v2", None)
    return tags is not None and tags.get(_PHOTOMETRIC) == 0 and _bits(tags) > 8


def _bits(tags: ImageFileDirectory_v2) -> int:
    return _first(tags.get(_BITS, 1))


def _first(value: Any) -> int:
    """Of a tag that has a value for each channel, or one."""
    return int(value[0] if isinstance(value, tuple) else value)

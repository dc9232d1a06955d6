"""The images that an encoder reads: their size, and how they are resized and cut out of the data's images."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from labeltree.checks import check_choice

__all__ = ["ChooseInput", "ImageInput", "ImageLook", "Interpolation", "Preprocessing", "filter_name"]

Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos", "box", "hamming"]


def filter_name(name: object) -> Interpolation:
    """The filter that a library calls `name`; bicubic where labeltree has no such filter."""
    return next((known for known in get_args(Interpolation) if known == name), "bicubic")


@dataclass(frozen=True)
class Preprocessing:
    """How the square that an encoder reads is cut out of an image.

    Attributes:
        crop: Side of the square as a share of the shorter side of the image, in (0, 1]: `crop_pct` of
            timm. The shorter side is resized to `floor(size / crop)` pixels, and the centre is cut out.
        squash: Resize both sides to that length instead, whatever their ratio.
        interpolation: Pillow's name of the filter, always with antialiasing.
    """

    crop: float = 1.0
    squash: bool = False
    interpolation: Interpolation = "bicubic"

    def __post_init__(self) -> None:
        if not 0 < self.crop <= 1:
            raise ValueError(f"crop is {self.crop}; it must be above 0 and at most 1")
        check_choice("interpolation", self.interpolation, Interpolation)

    def __str__(self) -> str:
        sides = "both sides" if self.squash else "the shorter side"
        cut = f", the centre cut out ({self.crop:.3g} of it)" if self.crop < 1 else ""
        return f"{sides} resized ({self.interpolation}){cut}"

    def resized(self, width: int, height: int, size: int) -> tuple[int, int]:
        """Width and height in pixels to which an image is resized before the centre is cut out.

        Example:
            >>> from labeltree.preprocessing import Preprocessing
            >>> Preprocessing(crop=0.875).resized(640, 480, 224)
            (341, 256)
        """
        shorter = math.floor(size / self.crop + 1e-6)
        if self.squash:
            return shorter, shorter
        if width <= height:
            return shorter, int(shorter * height / width)
        return int(shorter * width / height), shorter

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for `from_dict`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Preprocessing:
        """Restore what `to_dict` gave.

        Raises:
            ValueError: If a value is missing or wrong.
        """
        try:
            return cls(float(values["crop"]), bool(values["squash"]), values["interpolation"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"the preprocessing of images is damaged: {error}") from error


@dataclass(frozen=True)
class ImageInput:
    """The images that the weights of an encoder were made for.

    Attributes:
        channels: 1 or 3; None if that is not known.
        size: Height and width in pixels; None if they differ, or are not known.
        preprocessing: How the square is cut out; None = the largest centred one, resized bicubically.
    """

    channels: int | None
    size: int | None
    preprocessing: Preprocessing | None = None


@dataclass(frozen=True)
class ImageLook:
    """What the headers of up to 1,000 evenly spaced images say, and the pixels of a few.

    Attributes:
        width: Median width in pixels.
        height: Median height in pixels.
        side: Side in pixels, if all are square and equal; else None.
        gray: Whether all are gray.
        drawn: Whether most look drawn: large areas of one colour.
    """

    width: int
    height: int
    side: int | None
    gray: bool
    drawn: bool = False

    @property
    def shorter(self) -> int:
        """The shorter of the median sides, in pixels."""
        return min(self.width, self.height)

    @property
    def channels(self) -> int:
        """1 if all are gray, else 3."""
        return 1 if self.gray else 3


ChooseInput = Callable[[ImageLook], ImageInput]
"""Chooses the images that an encoder reads by what the images of the data set are like."""

"""How an image is resized and cut for an encoder: a part of the encoder, as its weights were trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

__all__ = ["ImageInput", "Interpolation", "Preprocessing"]

Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos", "box", "hamming"]


@dataclass(frozen=True)
class Preprocessing:
    """How the square that an encoder reads is cut out of an image.

    Attributes:
        crop: side of the square as a share of the shorter side of the image, in (0, 1]: ``crop_pct`` of
            timm. The shorter side is resized to ``floor(size / crop)`` pixels, and the centre is cut out.
        squash: resize both sides to ``size`` instead, whatever their ratio; ``crop`` then must be 1.
        interpolation: Pillow's name of the filter, always with antialiasing.
    """

    crop: float = 1.0
    squash: bool = False
    interpolation: Interpolation = "bicubic"

    def __post_init__(self) -> None:
        if not 0 < self.crop <= 1 or (self.squash and self.crop != 1):
            raise ValueError(f"crop is {self.crop}; it must be in (0, 1], and 1 where images are squashed")
        if self.interpolation not in get_args(Interpolation):
            raise ValueError(
                f"interpolation is {self.interpolation!r}; it must be one of "
                f"{', '.join(get_args(Interpolation))}"
            )

    def resized(self, width: int, height: int, size: int) -> tuple[int, int]:
        """Width and height in pixels to which an image is resized before the centre is cut out.

        Example:
            >>> from labeltree.preprocessing import Preprocessing
            >>> Preprocessing(crop=0.875).resized(640, 480, 224)
            (341, 256)
        """
        if self.squash:
            return size, size
        shorter = math.floor(size / self.crop + 1e-6)
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
            ValueError: if a value is missing or wrong.
        """
        try:
            return cls(float(values["crop"]), bool(values["squash"]), values["interpolation"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"the preprocessing of images is damaged: {error}") from error


@dataclass(frozen=True)
class ImageInput:
    """The images that the weights of an encoder were made for.

    Attributes:
        channels: 1 or 3.
        size: height and width in pixels; None if they differ.
        preprocessing: how the square is cut out; None = the largest centred one, resized bicubically.
    """

    channels: int
    size: int | None
    preprocessing: Preprocessing | None = None

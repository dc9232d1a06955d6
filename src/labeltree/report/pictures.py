"""Images inside the page itself, as data."""

from __future__ import annotations

import base64
from io import BytesIO

import torch
from torch import Tensor

__all__ = ["picture"]


def picture(image: Tensor, largest: int = 160) -> str:
    """Encode a ``(c, h, w)`` uint8 image as a data URI, no side of it longer than ``largest``."""
    if image.ndim != 3 or image.dtype != torch.uint8 or image.shape[0] not in (1, 3):
        raise ValueError(
            f"an image must be uint8 of shape (1 or 3, h, w), got {image.dtype} of shape {tuple(image.shape)}"
        )
    from PIL import Image

    pixels = image.cpu().permute(1, 2, 0).numpy()
    drawn = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    drawn.thumbnail((largest, largest))
    small = max(drawn.size) <= 64
    buffer = BytesIO()
    if small:
        drawn.save(buffer, "PNG", optimize=True)
    else:
        drawn.save(buffer, "JPEG", quality=86)
    kind = "png" if small else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"

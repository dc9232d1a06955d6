"""Samples to show: fetched by instance, with images embedded in the page."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any

import torch
from torch import Tensor

__all__ = ["fetch", "picture"]


def fetch(
    rows: Sequence[int], instances: Tensor | None, samples: Callable[[Tensor], Any], what: str
) -> dict[int, Any]:
    """The samples of rows of a table, in one call.

    Args:
        rows: of the table.
        instances: of all rows of the table; None where a row's instance is its number.
        samples: from ``(m,)`` instances to the samples.
        what: what to call them.

    Raises:
        ValueError: if their number is wrong.
    """
    if not rows:
        return {}
    wanted = torch.tensor(rows)
    shown = samples(wanted if instances is None else instances[wanted])
    if len(shown) != len(rows):
        raise ValueError(f"{what} gave {len(shown)} {what} for {len(rows)} instances; expected as many")
    return dict(zip(rows, shown, strict=True))


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

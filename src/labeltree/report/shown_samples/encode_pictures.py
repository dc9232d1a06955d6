"""Samples to show: fetched by instance, with images embedded in the page."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import torch
from torch import Tensor

from labeltree.runs import EmbeddingTable

__all__ = ["ShownSamples", "fetch", "picture", "shorten"]

_LONGEST = 160  # characters of a text


@dataclass(frozen=True)
class ShownSamples:
    """The samples of a table as a page can show them.

    Attributes:
        table: Gives labels, names and instances.
        images: From `(m,)` instances to `(m, c, h, w)` uint8 images; None for no pictures.
        texts: From `(m,)` instances to their texts; None for none.
        visible: `(n,)` bool, the rows whose images and texts can be had; None = all.
    """

    table: EmbeddingTable
    images: Callable[[Tensor], Tensor] | None = None
    texts: Callable[[Tensor], list[str]] | None = None
    visible: Tensor | None = None

    def draw(self, rows: Iterable[int], largest: int = 160) -> tuple[dict[int, str], dict[int, str]]:
        """Pictures as data URIs, and the beginnings of texts, of the rows of which they can be had."""
        there = [row for row in sorted(set(rows)) if self.visible is None or bool(self.visible[row])]
        instances = self.table.instances
        images = {} if self.images is None else fetch(there, instances, self.images, "images")
        texts = {} if self.texts is None else fetch(there, instances, self.texts, "texts")
        pictures = {row: picture(image, largest) for row, image in images.items()}
        return pictures, {row: shorten(text) for row, text in texts.items()}


def shorten(text: str) -> str:
    """The beginning of a text, up to a word's end."""
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST].rsplit(' ', 1)[0]} …"


def fetch(
    rows: Sequence[int], instances: Tensor | None, samples: Callable[[Tensor], Any], what: str
) -> dict[int, Any]:
    """The samples of rows of a table, in one call.

    Args:
        rows: Of the table.
        instances: Of all rows of the table; None where a row's instance is its number.
        samples: From `(m,)` instances to the samples.
        what: What to call them.

    Raises:
        ValueError: If their number is wrong.
    """
    if not rows:
        return {}
    wanted = torch.tensor(rows)
    shown = samples(wanted if instances is None else instances[wanted])
    if len(shown) != len(rows):
        raise ValueError(f"{what} gave {len(shown)} {what} for {len(rows)} instances; expected as many")
    return dict(zip(rows, shown, strict=True))


def picture(image: Tensor, largest: int = 160) -> str:
    """Encode a `(c, h, w)` uint8 image as a data URI, no side of it longer than `largest`."""
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

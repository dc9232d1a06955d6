"""A picture of samples in rows and columns, to look at a data set before trusting it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from labeltree.data.source import Source
from labeltree.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

__all__ = ["contact_sheet"]

_GAP, _TEXT = 4, 12


def contact_sheet(
    source: Source,
    cells: Sequence[Sequence[int | None]],
    *,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> PilImage:
    """Put images of a source side by side, each in its own size.

    Args:
        source: With images.
        cells: Sample of each cell, row by row; None leaves it empty.
        rows: A name for each row, written to its left.
        columns: A name for each column, written upwards above it.

    Raises:
        DataError: If the source has no images, there are no cells, or names and cells do not match.

    Example:
        >>> import numpy as np
        >>> from labeltree.data import ArrayStore
        >>> from labeltree.taxonomy import Taxonomy
        >>> images = ArrayStore(np.zeros((2, 3, 8, 8), np.uint8))
        >>> zero = torch.tensor([0, 1])
        >>> source = Source("two", Taxonomy.from_paths(["a", "b"]), zero + 1, zero, images, zero)
        >>> contact_sheet(source, [[0, 1], [1, None]]).size
        (28, 28)
    """
    from PIL import Image, ImageDraw, ImageFont

    width = max(map(len, cells), default=0)
    for what, names, count in (("rows", rows, len(cells)), ("columns", columns, width)):
        if width == 0 or (names and len(names) != count):
            raise DataError(f"a contact sheet of {count} {what} cannot have {len(names)} names of {what}")
    _, h, w = source.image_shape
    font = ImageFont.load_default(_TEXT)
    left, top = (
        max((int(font.getlength(name)) + 2 * _GAP for name in names), default=0) for names in (rows, columns)
    )
    size = (left + _GAP + width * (w + _GAP), top + _GAP + len(cells) * (h + _GAP))
    sheet = Image.new("RGB", size, "white")
    writer = ImageDraw.Draw(sheet)
    for number, name in enumerate(rows):
        y = top + _GAP + number * (h + _GAP) + h // 2
        writer.text((left - _GAP, y), name, "black", font, anchor="rm")
    for number, name in enumerate(columns):
        strip = Image.new("RGB", (top, w), "white")
        ImageDraw.Draw(strip).text((_GAP, w // 2), name, "black", font, anchor="lm")
        sheet.paste(strip.rotate(90, expand=True), (left + _GAP + number * (w + _GAP), 0))
    for y, row in enumerate(cells):
        for x, sample in enumerate(row):
            if sample is not None:
                image = source.load(torch.tensor([sample]))[0].permute(1, 2, 0)
                pixels = image.expand(h, w, 3).contiguous().numpy()
                place = (left + _GAP + x * (w + _GAP), top + _GAP + y * (h + _GAP))
                sheet.paste(Image.fromarray(pixels), place)
    return sheet

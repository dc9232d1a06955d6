"""The picture of the emoji's data card: python studies/emoji/style_sheet.py docs/images/emoji.png"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from labeltree.atomic import atomic_write
from labeltree.data.opening_sources import open_source
from labeltree.data.source import Source
from labeltree.errors import DataError
from labeltree.studies.named_data.emoji_icons import STYLES

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

_GAP, _TEXT = 4, 12
# One or two of each group.
SHOWN = (
    "grinning squinting face",
    "ghost",
    "clapping hands",
    "person running",
    "fox",
    "tulip",
    "lollipop",
    "bicycle",
    "trophy",
    "joker",
    "key",
    "recycling symbol",
)
# Drawings under a licence that wants the same of whatever contains them are not shown.
_SHOWN_LICENCES = ("Apache-2.0", "MIT", "CC-BY-4.0")


def style_sheet(labels: Sequence[str] = SHOWN, image_size: int = 40) -> PilImage:
    """Emoji as rows, drawing styles as columns.

    Args:
        labels: Of the emoji.
        image_size: Side of each image in pixels.

    Raises:
        DataError: If the emoji are not in the cache, or a label is not one of theirs.
    """
    source = open_source("emoji", image_size=image_size)
    styles = [style.name for style in STYLES if style.licence in _SHOWN_LICENCES]
    place = {}
    for sample, path in enumerate(source.paths(range(len(source)))):
        style, _, emoji = path.partition("/")
        place[style, emoji.partition(" ")[2]] = sample
    known = {label for _, label in place}
    for label in labels:
        if label not in known:
            raise DataError(f"there is no emoji '{label}'; labels are those of Unicode's CLDR")
    cells = [[place.get((style, label)) for style in styles] for label in labels]
    return contact_sheet(source, cells, rows=labels, columns=styles)


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


if __name__ == "__main__":
    with atomic_write(Path(sys.argv[1])) as temporary:
        # A palette makes the file smaller; nobody sees the difference at this size.
        style_sheet().quantize(256).save(temporary, optimize=True)

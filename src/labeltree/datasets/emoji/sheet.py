"""The picture of the data card: ``python -m labeltree.datasets.emoji.sheet FILE.png``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labeltree.atomic import atomic_write
from labeltree.data.images.contact_sheet import contact_sheet
from labeltree.data.opening import open_source
from labeltree.datasets.emoji.packages import STYLES
from labeltree.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

__all__ = ["SHOWN", "style_sheet"]

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


if __name__ == "__main__":
    with atomic_write(Path(sys.argv[1])) as temporary:
        # A palette makes the file smaller; nobody sees the difference at this size.
        style_sheet().quantize(256).save(temporary, optimize=True)

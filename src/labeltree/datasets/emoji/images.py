"""The images as they lie in the cache: one file of pixels, and an index that says what they are."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labeltree.atomic import atomic_write
from labeltree.data.progress import Progress
from labeltree.datasets.emoji.packages import STYLES
from labeltree.datasets.emoji.plan import Plan
from labeltree.datasets.emoji.render import SIZE
from labeltree.datasets.emoji.tree import Emoji
from labeltree.datasets.fetching.downloads import sha256
from labeltree.errors import DataError

__all__ = ["INDEX", "PIXELS", "EmojiImages", "draw", "read_images"]

INDEX, PIXELS = "index.json", "images.bin"
_FORMAT = 1
_IMAGE_BYTES = 3 * SIZE * SIZE
_MOST_FAILED = 0.01  # of a style


@dataclass(frozen=True)
class EmojiImages:
    """What is in the cache.

    Attributes:
        path: The file of pixels, ``(n, 3, 64, 64)`` uint8 without a head.
        emoji: In Unicode's order.
        styles: Style of each image.
        numbers: Position of each image's emoji.
        failed: Positions of images that could not be drawn, and why; their pixels are white.
        sha256: Of the file of pixels.
    """

    path: Path
    emoji: list[Emoji]
    styles: list[str]
    numbers: list[int]
    failed: dict[int, str]
    sha256: str

    def __len__(self) -> int:
        return len(self.styles)

    def name(self, position: int) -> str:
        """Style, code points and label of an image, as ``noto/1f98a fox``."""
        one = self.emoji[self.numbers[position]]
        return f"{self.styles[position]}/{one.code} {one.label}"


def read_images(folder: Path, *, digest: bool = False) -> EmojiImages:
    """Read the index of a folder and see that the pixels fit it.

    Args:
        folder: Where they are.
        digest: Read all pixels too, and compare their digest.

    Raises:
        DataError: If something is missing or damaged.
    """
    index = folder / INDEX
    try:
        document: dict[str, Any] = json.loads(index.read_text("utf-8"))
        if document["format"] != _FORMAT:
            raise DataError(f"'{index}' is of another version of labeltree")
        images = EmojiImages(
            path=folder / PIXELS,
            emoji=[Emoji(**entry) for entry in document["emoji"]],
            styles=[STYLES[style].name for style, _ in document["samples"]],
            numbers=[number for _, number in document["samples"]],
            failed={position: str(reason) for position, reason in document["failed"]},
            sha256=document["sha256"],
        )
    except FileNotFoundError as error:
        raise DataError(f"the file '{index}' is missing") from error
    except (OSError, KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"'{index}' is damaged: {error!r}") from error
    expected = len(images) * _IMAGE_BYTES
    size = images.path.stat().st_size if images.path.is_file() else -1
    if size != expected:
        problem = "is missing" if size < 0 else f"has {size} bytes where {expected} were expected"
        raise DataError(f"the file '{images.path}' {problem}")
    if digest and sha256(images.path) != images.sha256:
        raise DataError(f"the file '{images.path}' is damaged: its digest is not {images.sha256[:12]}…")
    return images


def draw(plan: Plan, folder: Path, progress: Progress) -> EmojiImages:
    """Draw all images of a plan into a folder. The index is replaced last.

    An image that cannot be drawn, or on which there is nothing, counts as failed.

    Raises:
        DataError: If more than 1 % of a style fails: then it is not that style. Nothing is replaced.
    """
    white = b"\xff" * _IMAGE_BYTES
    failed: dict[int, str] = {}
    hasher = hashlib.sha256()
    with atomic_write(folder / PIXELS) as temporary:
        with temporary.open("wb") as file:
            for position, drawing in enumerate(plan.drawings):
                progress("drawing emoji", position, len(plan.drawings))
                try:
                    data = plan.pixels(drawing).tobytes()
                except DataError as error:
                    data, failed[position] = white, str(error)
                if data == white:
                    failed.setdefault(position, "there is nothing on it")
                hasher.update(data)
                file.write(data)
        progress("drawing emoji", len(plan.drawings), len(plan.drawings))
        _refuse_many(plan, failed)
    numbers = {style.name: number for number, style in enumerate(STYLES)}
    document = {
        "format": _FORMAT,
        "sha256": hasher.hexdigest(),
        "failed": sorted(failed.items()),
        "emoji": [asdict(one) for one in plan.emoji],
        "samples": [[numbers[drawing.style], drawing.emoji] for drawing in plan.drawings],
    }
    with atomic_write(folder / INDEX) as temporary:
        temporary.write_text(json.dumps(document), "utf-8")
    return read_images(folder)


def _refuse_many(plan: Plan, failed: dict[int, str]) -> None:
    drawn = Counter(drawing.style for drawing in plan.drawings)
    lost = Counter(plan.drawings[position].style for position in failed)
    for style, count in lost.items():
        if count > _MOST_FAILED * drawn[style]:
            first = next(p for p in failed if plan.drawings[p].style == style)
            raise DataError(
                f"{count} of {drawn[style]} emoji of '{style}' could not be drawn, first "
                f"'{plan.drawings[first].icon}': {failed[first]}"
            )

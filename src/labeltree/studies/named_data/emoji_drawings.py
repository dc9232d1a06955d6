"""The drawings: downloaded from npm, rendered once into the cache folder, and read from there."""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labeltree.atomic import atomic_write, write_text
from labeltree.cache import data_home
from labeltree.datasets.fetching.atomic_download import downloading, sha256
from labeltree.datasets.fetching.packages import download_tarballs, read_members
from labeltree.errors import DataError
from labeltree.progress import Progress, silent
from labeltree.studies.named_data.emoji_icons import (
    ICON_MEMBERS,
    NAMES_MEMBERS,
    NAMES_PACKAGE,
    PACKAGES,
    STYLES,
    Emoji,
    IconSet,
    code_of,
    find_icons,
    known_names,
    own_names,
    read_emoji,
)

__all__ = [
    "HOME",
    "INDEX",
    "PIXELS",
    "SIZE",
    "Drawing",
    "EmojiImages",
    "Plan",
    "draw",
    "fetch_emoji",
    "make_plan",
    "pixels_of_raster",
    "pixels_of_svg",
    "read_images",
]

SIZE = 64
"""Side of the images in pixels."""

Array = np.ndarray[Any, Any]
_RASTER_MEMBER = "assets/*.webp"
INDEX, PIXELS = "index.json", "images.bin"
_FORMAT = 1
_IMAGE_BYTES = 3 * SIZE * SIZE
_MOST_FAILED = 0.01  # share of a style's drawings
HOME = "emoji"
# Digest of the plan for the pinned packages: another plan would number the images differently.
PLAN = "2bd14fa7e3c38f63d60aaba15c21deb2b8bb7e918aeeed7bde57afd505c5cdc1"


def _check_renderer() -> None:
    """Check that SVG can be rendered.

    Raises:
        DataError: If not; the message has the command that installs the renderer.
    """
    try:
        import resvg_py  # noqa: F401
    except ImportError as error:
        raise DataError(
            "rendering emoji needs the Python package resvg-py: pip install 'labeltree[emoji]'"
        ) from error


def pixels_of_svg(svg: str) -> Array:
    """Render an SVG document, `(3, 64, 64)` uint8.

    Raises:
        DataError: If it cannot be rendered, with the reason.
    """
    import resvg_py

    # resvg needs the size beside the document: a drawing that is not square keeps its proportions.
    try:
        png = resvg_py.svg_to_bytes(svg_string=_square(svg), width=SIZE, height=SIZE, skip_system_fonts=True)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the renderer is not an Exception
        raise DataError(str(error).strip() or type(error).__name__) from error
    return pixels_of_raster(png)


def _square(svg: str) -> str:
    return svg.replace("<svg ", f'<svg width="{SIZE}" height="{SIZE}" ', 1)


def pixels_of_raster(data: bytes) -> Array:
    """Decode an image file and lay it on white, `(3, 64, 64)` uint8; its proportions are kept.

    Raises:
        DataError: If it cannot be decoded, with the reason.
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as opened:
            if max(opened.size) > 4096:
                raise DataError(f"it has {opened.width} x {opened.height} pixels")
            image = opened.convert("RGBA")
    except DataError:
        raise
    except Exception as error:  # Pillow passes on any error of its decoders
        raise DataError(str(error) or type(error).__name__) from error
    side = max(image.size)
    canvas = Image.new("RGBA", (side, side), "white")
    canvas.alpha_composite(image, ((side - image.width) // 2, (side - image.height) // 2))
    flat = canvas.convert("RGB")
    if side != SIZE:
        flat = flat.resize(
            (SIZE, SIZE), Image.Resampling.BOX if side % SIZE == 0 else Image.Resampling.LANCZOS
        )
    return np.ascontiguousarray(np.asarray(flat).transpose(2, 0, 1))


@dataclass(frozen=True)
class Drawing:
    """One image.

    Attributes:
        style: Name of the style.
        emoji: Position in the plan's list.
        icon: Name of the icon in the style's package.
    """

    style: str
    emoji: int
    icon: str


@dataclass(frozen=True)
class Plan:
    """All images to draw; the position of a drawing is its instance id in all emoji data sets.

    Attributes:
        emoji: All emoji, in Unicode's order.
        drawings: All drawings, by style, then by emoji.
    """

    emoji: list[Emoji]
    drawings: list[Drawing]
    _icons: Mapping[str, IconSet]
    _rasters: Mapping[str, Mapping[str, bytes]]

    @property
    def digest(self) -> str:
        """Digest of the drawings, their order and their icons, but not of the pixels."""
        listed = [
            [[one.code, one.label, one.group, one.subgroup] for one in self.emoji],
            [[drawing.style, drawing.emoji, drawing.icon] for drawing in self.drawings],
        ]
        return hashlib.sha256(json.dumps(listed).encode()).hexdigest()

    def pixels(self, drawing: Drawing) -> Array:
        """The image, `(3, 64, 64)` uint8.

        Raises:
            DataError: If it cannot be drawn.
        """
        if drawing.style in self._rasters:
            return pixels_of_raster(self._rasters[drawing.style][drawing.icon])
        return pixels_of_svg(self._icons[drawing.style].svg(drawing.icon))


def make_plan(tarballs: Mapping[str, Path]) -> Plan:
    """Read the packages and list all drawings.

    Args:
        tarballs: File of each package of `PACKAGES`.

    Raises:
        DataError: If a package is damaged or has changed.
    """
    about = dict(read_members(tarballs[NAMES_PACKAGE[0]], *NAMES_MEMBERS))
    emoji = read_emoji(about)
    icons = {
        style.name: IconSet(style.name, dict(read_members(tarballs[style.package], *ICON_MEMBERS)))
        for style in STYLES
        if not style.raster
    }
    rasters = {
        style.name: dict(read_members(tarballs[style.package], _RASTER_MEMBER))
        for style in STYLES
        if style.raster
    }
    known = known_names(emoji, about, icons.values())
    codes = {one.label: one.code for one in emoji}
    drawings = []
    for style in STYLES:
        if style.raster:
            drawing_of = {code_of(Path(member).stem): member for member in rasters[style.name]}
        else:
            own = own_names(style.name)
            drawing_of = find_icons(
                icons[style.name],
                known,
                {codes[label]: icon for label, icon in own.items() if label in codes},
            )
        drawings += [
            Drawing(style.name, number, drawing_of[one.code])
            for number, one in enumerate(emoji)
            if one.code in drawing_of
        ]
    return Plan(emoji, drawings, icons, rasters)


@dataclass(frozen=True)
class EmojiImages:
    """The emoji images in the cache.

    Attributes:
        path: File of pixels, `(n, 3, 64, 64)` uint8 without a header.
        emoji: All emoji, in Unicode's order.
        styles: Style of each image.
        numbers: Index of each image's emoji.
        failed: Positions of images that could not be drawn → reason; their pixels are white.
        sha256: SHA-256 of the file of pixels.
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
        """Style, code points and label of an image, such as `noto/1f98a fox`."""
        one = self.emoji[self.numbers[position]]
        return f"{self.styles[position]}/{one.code} {one.label}"


def read_images(folder: Path, *, digest: bool = False) -> EmojiImages:
    """Read the index of a folder and check that the pixels fit it.

    Args:
        folder: Folder of the index and the pixels.
        digest: Whether to read all pixels and compare their digest.

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

    An image that cannot be drawn, or is blank, counts as failed.

    Raises:
        DataError: If more than 1 % of a style's images fail; nothing is replaced then.
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
    write_text(folder / INDEX, json.dumps(document))
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


def fetch_emoji(*, progress: Progress | None = None, force: bool = False) -> Path:
    """Download the emoji into the cache folder: download the packages, draw every emoji in every style.

    After an interruption, complete downloads are reused.

    Raises:
        DataError: If npm or the renderer is missing, or a package cannot be downloaded or read;
            the message says what to do.
    """
    report = progress or silent
    folder = data_home() / HOME
    if not force:
        try:
            read_images(folder, digest=True)
            return folder
        except DataError:
            pass
    _check_renderer()
    with downloading(folder, "the emoji") as (work, _):
        tarballs = download_tarballs(PACKAGES, work, report)
        report("reading npm packages", 0, 0)
        plan = make_plan(tarballs)
        if plan.digest != PLAN:
            raise DataError(f"the packages hold other emoji than expected (digest {plan.digest[:12]}…)")
        _tell_failed(draw(plan, folder, report), report)
    return folder


def _tell_failed(images: EmojiImages, report: Progress) -> None:
    if images.failed:
        named = [f"{images.name(position)} ({reason})" for position, reason in images.failed.items()]
        report(f"{len(named)} emoji could not be drawn and are left out: {', '.join(named)}", 0, 0)

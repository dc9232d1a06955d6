"""What there is to draw: every emoji in every style that has it, in a fixed order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labeltree.datasets.emoji.icons import ICON_MEMBERS, IconSet
from labeltree.datasets.emoji.names import find_icons, known_names
from labeltree.datasets.emoji.own_names import own_names
from labeltree.datasets.emoji.packages import NAMES_PACKAGE, STYLES
from labeltree.datasets.emoji.render import Array, pixels_of_raster, pixels_of_svg
from labeltree.datasets.emoji.tree import NAMES_MEMBERS, Emoji, code_of, read_emoji
from labeltree.datasets.fetching.npm import read_members

__all__ = ["Drawing", "Plan", "make_plan"]

_RASTER_MEMBER = "assets/*.webp"


@dataclass(frozen=True)
class Drawing:
    """One image.

    Attributes:
        style: Name of the style.
        emoji: Position in the plan's list.
        icon: Its name in the style's package.
    """

    style: str
    emoji: int
    icon: str


@dataclass(frozen=True)
class Plan:
    """All images: the position of a drawing is its instance id in every data set made of them.

    Attributes:
        emoji: In Unicode's order.
        drawings: By style, then by emoji.
    """

    emoji: list[Emoji]
    drawings: list[Drawing]
    _icons: Mapping[str, IconSet]
    _rasters: Mapping[str, Mapping[str, bytes]]

    @property
    def digest(self) -> str:
        """Of what is drawn, in which order, from which icons; not of pixels."""
        listed = [
            [[one.code, one.label, one.group, one.subgroup] for one in self.emoji],
            [[drawing.style, drawing.emoji, drawing.icon] for drawing in self.drawings],
        ]
        return hashlib.sha256(json.dumps(listed).encode()).hexdigest()

    def pixels(self, drawing: Drawing) -> Array:
        """The image, ``(3, 64, 64)`` uint8.

        Raises:
            DataError: If it cannot be drawn.
        """
        if drawing.style in self._rasters:
            return pixels_of_raster(self._rasters[drawing.style][drawing.icon])
        return pixels_of_svg(self._icons[drawing.style].svg(drawing.icon))


def make_plan(tarballs: Mapping[str, Path]) -> Plan:
    """Read the packages.

    Args:
        tarballs: File of each package of `PACKAGES`.

    Raises:
        DataError: If one is damaged or not what it was.
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
            found = {code_of(Path(member).stem): member for member in rasters[style.name]}
        else:
            own = own_names(style.name)
            found = find_icons(
                icons[style.name],
                known,
                {codes[label]: icon for label, icon in own.items() if label in codes},
            )
        drawings += [
            Drawing(style.name, number, found[one.code])
            for number, one in enumerate(emoji)
            if one.code in found
        ]
    return Plan(emoji, drawings, icons, rasters)

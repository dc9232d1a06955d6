"""Where the drawings come from: a package, its licence and its family for each style."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from labeltree.datasets.fetching.downloads import Expected

__all__ = ["NAMES_PACKAGE", "PACKAGES", "STYLES", "Style", "family_of"]


@dataclass(frozen=True)
class Style:
    """A way of drawing all emoji.

    Attributes:
        name: Of the style.
        package: On npm.
        version: Of the package.
        family: Styles of one family show the same drawings, coloured or shaded in different ways.
        licence: Of the drawings.
        author: Of the drawings.
        expected: Of the package's tarball.
        raster: Whether the drawings are pixels; else SVG.
    """

    name: str
    package: str
    version: str
    family: str
    licence: str
    author: str
    expected: Expected
    raster: bool = False


NAMES_PACKAGE = ("emojibase-data", "17.0.0")
_NAMES = Expected(6_711_091, "d01d0e2ca4e22cb402679532155342c71e2e871f25c32223c013b8b166ebdf5a")


def _icons(name: str, version: str, family: str, licence: str, author: str, size: int, sha256: str) -> Style:
    return Style(name, f"@iconify-json/{name}", version, family, licence, author, Expected(size, sha256))


# fmt: off
STYLES: tuple[Style, ...] = (
    _icons("noto", "1.2.9", "noto", "Apache-2.0", "Google", 3_102_958,
           "3e918d88fc945c0bb3d468dbace6f88caef67f01c9f0e7bcae0915a042e8f1ad"),
    _icons("noto-v1", "1.2.5", "noto-v1", "Apache-2.0", "Google", 1_587_591,
           "2bf62c26c2c2884aa99e90aec942cdaee17a5921f05690694f4978ad4b017c37"),
    _icons("fxemoji", "1.2.2", "fxemoji", "Apache-2.0", "Mozilla", 1_034_876,
           "f3e72b3c59d05e1db03b7e308d55c0d05bd7ba3f625a90da1b79313c12858eef"),
    _icons("emojione-v1", "1.2.3", "emojione-v1", "CC-BY-SA-4.0", "EmojiOne", 3_704_153,
           "6641d59d48a42823fdc2b84e7427e9f302944eb98d2c7d94d6e67c139e7b37b3"),
    _icons("emojione", "1.2.3", "emojione", "CC-BY-4.0", "EmojiOne", 687_690,
           "26a14f44284407e8bcde91799388dca2bfd91dbcd55a97f425524a1c5b73610e"),
    _icons("emojione-monotone", "1.2.1", "emojione", "CC-BY-4.0", "EmojiOne", 1_094_642,
           "40b90004bafb406b59266155ef9b7e1dd67bf2947fc8db8d07388776f4d0d04e"),
    _icons("fluent-emoji", "1.2.7", "fluent", "MIT", "Microsoft", 14_323_330,
           "8044210dbf11e016d4de85f15d01a243423bd832457e7e2491df1b751c0e272b"),
    _icons("fluent-emoji-flat", "1.2.6", "fluent", "MIT", "Microsoft", 1_172_438,
           "7d064769dee690815f823bc5bcc511d957198caf9f5edd8dd9c1aa48a6aeb175"),
    _icons("fluent-emoji-high-contrast", "1.2.6", "fluent", "MIT", "Microsoft", 1_054_969,
           "0b92d48c90d2200bd499e3cdd09a127ca6a8c8ddefd34c35eb5a1e4994012ae0"),
    Style("fluent-emoji-3d", "@lobehub/fluent-emoji-3d", "1.1.0", "fluent", "MIT", "Microsoft",
          Expected(15_792_027, "c1bb7eee7de090205a232518a9ab4adb3df458bfbe8a1f78232991194c8b2e58"), True),
    _icons("twemoji", "1.2.5", "twemoji", "CC-BY-4.0", "Twitter and contributors", 1_555_888,
           "19046dff7d8707ce96212ec86468b36ac5f8e60409629dd13f809265c6d0ebb7"),
    _icons("openmoji", "1.2.29", "openmoji", "CC-BY-SA-4.0", "OpenMoji", 1_264_633,
           "03181e2c156cab35cf4a62f1f7886bd971d59212e75ac3f189d5a4cae3930fc5"),
)
# fmt: on

PACKAGES: Mapping[tuple[str, str], Expected] = {NAMES_PACKAGE: _NAMES} | {
    (style.package, style.version): style.expected for style in STYLES
}


def family_of(style: str) -> str:
    """The family of a style by its name.

    Example:
        >>> family_of("fluent-emoji-flat")
        'fluent'
    """
    return next(known.family for known in STYLES if known.name == style)

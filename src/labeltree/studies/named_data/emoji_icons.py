"""Emoji, drawing styles, and the icon of each emoji in a style."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labeltree.datasets.fetching.atomic_download import Expected
from labeltree.datasets.formats.resources import resource_json, resource_text
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

__all__ = [
    "ICON_MEMBERS",
    "NAMES_MEMBERS",
    "NAMES_PACKAGE",
    "PACKAGES",
    "STYLES",
    "Emoji",
    "IconSet",
    "Style",
    "code_of",
    "emoji_taxonomy",
    "family_of",
    "find_icons",
    "known_names",
    "letters",
    "own_names",
    "read_emoji",
]

_DATA, _GROUPS, _MESSAGES = "en/data.json", "meta/groups.json", "en/messages.json"
NAMES_MEMBERS = (_DATA, _GROUPS, _MESSAGES, "meta/unicode-names.json", "en/shortcodes/*.json")
_LEFT_OUT = ("component", "flags")


@dataclass(frozen=True)
class Emoji:
    """One emoji.

    Attributes:
        code: Code points in lower-case hexadecimal, `1f3c3-200d-2640`, without variation selectors.
        label: Short name in Unicode's CLDR.
        group: Group, such as `smileys & emotion`.
        subgroup: Subgroup, such as `face smiling`.
    """

    code: str
    label: str
    group: str
    subgroup: str


def code_of(hexcode: str) -> str:
    """Normalise code points, so that packages can be compared.

    Example:
        >>> code_of("2764-FE0F-200D-1F525")
        '2764-200d-1f525'
    """
    return "-".join(point for point in hexcode.lower().split("-") if point not in ("fe0f", "fe0e"))


def read_emoji(members: Mapping[str, bytes]) -> list[Emoji]:
    """The emoji of `emojibase-data` in Unicode's order, without components, flags and skin tones.

    Raises:
        DataError: If a file is missing or has changed.
    """
    try:
        data, groups, messages = (json.loads(members[name]) for name in (_DATA, _GROUPS, _MESSAGES))
        readable = {entry["key"]: entry["message"] for entry in messages["groups"]}
        emoji = []
        for entry in sorted(data, key=lambda entry: entry.get("order", 0)):
            if "group" not in entry:
                continue  # single letters of flags
            group, subgroup = _place(entry, groups)
            if group not in _LEFT_OUT:
                label = entry["label"]
                emoji.append(
                    Emoji(code_of(entry["hexcode"]), label, readable[group], subgroup.replace("-", " "))
                )
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"the list of emoji is not in the form that is known: {error!r}") from error
    return emoji


def _place(entry: Mapping[str, Any], groups: Mapping[str, Any]) -> tuple[str, str]:
    return groups["groups"][str(entry["group"])], groups["subgroups"][str(entry["subgroup"])]


def emoji_taxonomy(emoji: Sequence[Emoji]) -> Taxonomy:
    """Groups, subgroups, emoji below the root."""
    return Taxonomy.from_paths([(one.group, one.subgroup, one.label) for one in emoji], root_name="emoji")


@dataclass(frozen=True)
class Style:
    """A way of drawing all emoji.

    Attributes:
        name: Name of the style.
        package: Name of the npm package.
        version: Version of the package.
        family: Styles of one family show the same drawings, coloured or shaded in different ways.
        licence: Licence of the drawings.
        author: Author of the drawings.
        expected: Size and digest of the package's tarball.
        raster: Whether the drawings are pixel images; otherwise they are SVG.
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


def _style(size: int, sha256: str, **style: Any) -> Style:
    return Style(**style, expected=Expected(size, sha256))


STYLES: tuple[Style, ...] = tuple(
    _style(**style) for style in resource_json("emoji-styles.json", __package__)
)
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


ICON_MEMBERS = ("icons.json", "chars.json")


class IconSet:
    """Icons of one style.

    Args:
        name: Name of the style, for error messages.
        members: `icons.json`, and `chars.json`, which may be empty or missing.

    Raises:
        DataError: If the files have changed.
    """

    def __init__(self, name: str, members: Mapping[str, bytes]) -> None:
        try:
            document: dict[str, Any] = json.loads(members["icons.json"])
            self.chars: dict[str, str] = json.loads(members.get("chars.json") or b"{}")
            self._icons: dict[str, dict[str, Any]] = document["icons"]
            self._aliases: dict[str, dict[str, Any]] = document.get("aliases", {})
            self._size = (document.get("width", 16), document.get("height", 16))
            self._by_parent: dict[str, list[str]] = defaultdict(list)
            for alias, entry in self._aliases.items():
                # An alias that rotates or mirrors its parent is a different drawing.
                if set(entry) == {"parent"}:
                    self._by_parent[entry["parent"]].append(alias)
        except (KeyError, AttributeError, TypeError, json.JSONDecodeError, UnicodeDecodeError) as error:
            raise DataError(f"the icons of '{name}' are not in the form that is known: {error!r}") from error

    @property
    def names(self) -> set[str]:
        """All names of all icons."""
        return set(self._icons) | set(self._aliases)

    def aliases_of(self, name: str) -> list[str]:
        """Other names of an icon."""
        return self._by_parent.get(name, [])

    def svg(self, name: str) -> str:
        """An icon as a separate SVG document; single-colour icons are black."""
        turns, seen = [], set()
        while name in self._aliases:
            if name in seen:
                raise DataError(f"the alias '{name}' leads to itself")
            seen.add(name)
            turns.append(self._aliases[name])
            name = self._aliases[name]["parent"]
        if name not in self._icons:
            raise DataError(f"there is no icon '{name}'")
        icon = self._icons[name]
        width, height = icon.get("width", self._size[0]), icon.get("height", self._size[1])
        left, top = icon.get("left", 0), icon.get("top", 0)
        body = icon["body"]
        for turn in reversed(turns):
            if turn.get("hFlip"):
                body = f'<g transform="translate({2 * left + width} 0) scale(-1 1)">{body}</g>'
            if turn.get("vFlip") or turn.get("rotate"):
                raise DataError(f"the icon '{name}' is turned in a way that is not known: {turn}")
        return (
            '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
            f'viewBox="{left} {top} {width} {height}" color="black">{body}</svg>'
        )


# Ranks of names as evidence: the better one wins, equal ones of two emoji cancel out.
_LABEL, _OTHER_SETS, _ALIASES, _FORMAL, _SHORTCODES = range(5)


def letters(name: str) -> str:
    """Reduce a name to letters and digits, so that packages can be compared.

    Example:
        >>> letters("woman’s hat"), letters("womans-hat"), letters("piñata")
        ('womanshat', 'womanshat', 'pinata')
    """
    plain = unicodedata.normalize("NFKD", name.replace("&", " and ")).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]", "", plain.lower())


def known_names(
    emoji: Sequence[Emoji], members: Mapping[str, bytes], sets: Iterable[IconSet]
) -> dict[str, list[str]]:
    """Known names of each emoji, best first; no name is on two lists.

    Args:
        emoji: All emoji.
        members: Files of `emojibase-data`: Unicode's formal names, and the short codes of messengers.
        sets: Icon sets; the names of sets with code points are also used to match the other sets.
    """
    codes = {one.code for one in emoji}
    claims: dict[str, dict[str, int]] = defaultdict(dict)

    def claim(code: str, name: str, worth: int) -> None:
        name = letters(name)
        if name and code in codes and claims[name].get(code, worth) >= worth:
            claims[name][code] = worth

    for one in emoji:
        claim(one.code, one.label, _LABEL)
    for icons in sets:
        for hexcode, name in icons.chars.items():
            claim(code_of(hexcode), name, _OTHER_SETS)
            for alias in icons.aliases_of(name):
                claim(code_of(hexcode), alias, _ALIASES)
    for hexcode, name in json.loads(members["meta/unicode-names.json"]).items():
        claim(code_of(hexcode), name, _FORMAL)
    for member in sorted(members):
        if member.startswith("en/shortcodes/"):
            for hexcode, names in json.loads(members[member]).items():
                for name in [names] if isinstance(names, str) else names:
                    claim(code_of(hexcode), name, _SHORTCODES)
    known: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for name, worths in claims.items():
        best = min(worths.values())
        owners = [code for code, worth in worths.items() if worth == best]
        if len(owners) == 1:
            known[owners[0]].append((best, name))
    return {code: [name for _, name in sorted(names)] for code, names in known.items()}


def find_icons(
    icons: IconSet, known: Mapping[str, Sequence[str]], own: Mapping[str, str | None] | None = None
) -> dict[str, str]:
    """Find the icon of each emoji in a set: code → name of the icon.

    Args:
        icons: The icon set.
        known: Result of `known_names`.
        own: Exceptions for misleading names: code → icon, or None if the set has none.
    """
    if icons.chars:
        by_code = {code_of(hexcode): name for hexcode, name in icons.chars.items()}
        return {code: by_code[code] for code in known if code in by_code}
    own = own or {}
    icon_of = {code: name for code, name in own.items() if name is not None and name in icons.names}
    by_letters = {letters(name): name for name in sorted(icons.names - set(icon_of.values()))}
    for code, names in known.items():
        match = next((by_letters[name] for name in names if name in by_letters), None)
        if code not in own and match is not None:
            icon_of[code] = match
    return icon_of


_WINDOW_OF_A_SCREEN: Mapping[str, str | None] = {"window": None}


def own_names(style: str) -> Mapping[str, str | None]:
    """Exceptions of a style: label → icon; None = the icon of this name shows something else.

    The lines of `fxemoji.txt` are an icon and a label: Firefox OS uses Unicode's oldest names, shortened
    and sometimes misspelt. A listed icon is never assigned to another emoji.

    Example:
        >>> own_names("fxemoji")["OK hand"], own_names("emojione-v1"), own_names("noto")
        ('aok', {'window': None}, {})
    """
    if style == "emojione-v1":
        return _WINDOW_OF_A_SCREEN
    if style != "fxemoji":
        return {}
    text = resource_text("fxemoji.txt", __package__)
    pairs = (line.split("\t") for line in text.splitlines())
    return {**{label: icon for icon, label in pairs}, **_WINDOW_OF_A_SCREEN}

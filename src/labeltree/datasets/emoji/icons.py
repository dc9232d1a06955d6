"""A set of icons as the ``@iconify-json`` packages hold them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from labeltree.errors import DataError

__all__ = ["ICON_MEMBERS", "IconSet"]

ICON_MEMBERS = ("icons.json", "chars.json")


class IconSet:
    """Icons of one style.

    Args:
        name: Of the style, for errors.
        members: ``icons.json``, and ``chars.json``, which may be empty or missing.

    Raises:
        DataError: If they are not what they were.
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
                # An alias that turns or mirrors its parent is another drawing.
                if set(entry) == {"parent"}:
                    self._by_parent[entry["parent"]].append(alias)
        except (KeyError, AttributeError, TypeError, json.JSONDecodeError, UnicodeDecodeError) as error:
            raise DataError(f"the icons of '{name}' are not in the form that is known: {error!r}") from error

    @property
    def names(self) -> set[str]:
        """Of all icons, by all their names."""
        return set(self._icons) | set(self._aliases)

    def aliases_of(self, name: str) -> list[str]:
        """Other names of the same drawing."""
        return self._by_parent.get(name, [])

    def svg(self, name: str) -> str:
        """An icon as a document of its own, its colour (of icons with one colour) black."""
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

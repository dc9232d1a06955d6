"""The emoji themselves: what they are called and where Unicode puts them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

__all__ = ["NAMES_MEMBERS", "Emoji", "code_of", "emoji_taxonomy", "read_emoji"]

_DATA, _GROUPS, _MESSAGES = "en/data.json", "meta/groups.json", "en/messages.json"
NAMES_MEMBERS = (_DATA, _GROUPS, _MESSAGES, "meta/unicode-names.json", "en/shortcodes/*.json")
_LEFT_OUT = ("component", "flags")


@dataclass(frozen=True)
class Emoji:
    """One emoji.

    Attributes:
        code: Its code points in lower-case hexadecimal, ``1f3c3-200d-2640``, without variation selectors.
        label: Its short name in Unicode's CLDR.
        group: As ``smileys & emotion``.
        subgroup: As ``face smiling``.
    """

    code: str
    label: str
    group: str
    subgroup: str


def code_of(hexcode: str) -> str:
    """Code points in the one form in which packages can be compared.

    Example:
        >>> code_of("2764-FE0F-200D-1F525")
        '2764-200d-1f525'
    """
    return "-".join(point for point in hexcode.lower().split("-") if point not in ("fe0f", "fe0e"))


def read_emoji(members: Mapping[str, bytes]) -> list[Emoji]:
    """The emoji of ``emojibase-data`` in Unicode's order, without components, flags and skin tones.

    Raises:
        DataError: If a file is missing or not what it was.
    """
    try:
        data, groups, messages = (json.loads(members[name]) for name in (_DATA, _GROUPS, _MESSAGES))
        readable = {entry["key"]: entry["message"] for entry in messages["groups"]}
        found = []
        for entry in sorted(data, key=lambda entry: entry.get("order", 0)):
            if "group" not in entry:
                continue  # single letters of flags
            group, subgroup = _place(entry, groups)
            if group not in _LEFT_OUT:
                label = entry["label"]
                found.append(
                    Emoji(code_of(entry["hexcode"]), label, readable[group], subgroup.replace("-", " "))
                )
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"the list of emoji is not in the form that is known: {error!r}") from error
    return found


def _place(entry: Mapping[str, Any], groups: Mapping[str, Any]) -> tuple[str, str]:
    return groups["groups"][str(entry["group"])], groups["subgroups"][str(entry["subgroup"])]


def emoji_taxonomy(emoji: Sequence[Emoji]) -> Taxonomy:
    """Groups, subgroups, emoji below the root."""
    return Taxonomy.from_paths([(one.group, one.subgroup, one.label) for one in emoji], root_name="emoji")

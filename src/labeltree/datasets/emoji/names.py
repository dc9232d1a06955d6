"""Which emoji an icon shows: by its code points where the package has them, otherwise by its name."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from labeltree.datasets.emoji.icons import IconSet
from labeltree.datasets.emoji.tree import Emoji, code_of

__all__ = ["find_icons", "known_names", "letters"]

# What a name is worth: a better claim wins, equal claims of two emoji cancel out.
_LABEL, _OTHER_SETS, _ALIASES, _FORMAL, _SHORTCODES = range(5)


def letters(name: str) -> str:
    """A name by its letters and digits alone, as names of different packages can be compared.

    Example:
        >>> letters("woman’s hat"), letters("womans-hat"), letters("piñata")
        ('womanshat', 'womanshat', 'pinata')
    """
    plain = unicodedata.normalize("NFKD", name.replace("&", " and ")).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]", "", plain.lower())


def known_names(
    emoji: Sequence[Emoji], members: Mapping[str, bytes], sets: Iterable[IconSet]
) -> dict[str, list[str]]:
    """Names by which each emoji is known, best first; no name is on two lists.

    Args:
        emoji: All of them.
        members: Files of ``emojibase-data``: Unicode's formal names, and the short codes of messengers.
        sets: Icon sets; those that say which code points an icon has lend their names to the others.
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
    """The icon of each emoji that the set has: code → the icon's name.

    Args:
        icons: The set.
        known: What `known_names` gives.
        own: Where the set's names mislead: code → icon, None where it has none.
    """
    if icons.chars:
        by_code = {code_of(hexcode): name for hexcode, name in icons.chars.items()}
        return {code: by_code[code] for code in known if code in by_code}
    own = own or {}
    found = {code: name for code, name in own.items() if name is not None and name in icons.names}
    by_letters = {letters(name): name for name in sorted(icons.names - set(found.values()))}
    for code, names in known.items():
        match = next((by_letters[name] for name in names if name in by_letters), None)
        if code not in own and match is not None:
            found[code] = match
    return found

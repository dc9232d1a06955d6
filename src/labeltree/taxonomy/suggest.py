"""The names nearest to one that was not found, as the end of an error sentence."""

import difflib
from collections.abc import Iterable

from labeltree.taxonomy.naming import some

__all__ = ["near_names", "nearest_hint"]

MANY_NAMES = (
    20_000  # beyond, only names with the same first letter are compared: an error should not take seconds
)


def near_names(name: str, names: Iterable[str]) -> list[str]:
    """Up to three names that are spelt like this one, in any case, nearest first."""
    folded: dict[str, str] = {}
    for candidate in names:
        folded.setdefault(candidate.casefold(), candidate)
    wanted = name.strip().casefold()
    if len(folded) > MANY_NAMES:
        folded = {key: candidate for key, candidate in folded.items() if key[:1] == wanted[:1]}
    near = difflib.get_close_matches(wanted, folded, n=3, cutoff=0.6)
    return [folded[key] for key in near]


def nearest_hint(name: str, names: Iterable[str]) -> str:
    """`nearest: 'dog', 'dot'`; what names there are if none is near; empty if there are none."""
    names = list(dict.fromkeys(names))
    near = near_names(name, names)
    if near:
        return f"nearest: {', '.join(map(repr, near))}"
    return f"there are {some(names, 3)}" if names else ""

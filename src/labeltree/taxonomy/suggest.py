"""The names nearest to one that was not found, as the end of an error sentence."""

import difflib
from collections.abc import Iterable

from labeltree.taxonomy.naming import some

__all__ = ["nearest_names"]


def nearest_names(name: str, names: Iterable[str]) -> str:
    """`; nearest: 'dog', 'dot'`, or what names there are if none is near, or nothing if there are none."""
    folded: dict[str, str] = {}
    for candidate in names:
        folded.setdefault(candidate.casefold(), candidate)
    near = difflib.get_close_matches(name.strip().casefold(), folded, n=3, cutoff=0.6)
    if near:
        return f"; nearest: {', '.join(repr(folded[key]) for key in near)}"
    return f"; there are {some(folded.values(), 3)}" if folded else ""

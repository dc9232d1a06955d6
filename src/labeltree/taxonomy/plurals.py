"""From a plural to the nouns that it may be the plural of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["base_forms", "read_irregular"]

# What English adds to a noun, and what it takes away for it. Several may apply: "axes" are axe and ax.
_ENDINGS = (
    ("ies", "y"),
    ("ves", "f"),
    ("ves", "fe"),
    ("men", "man"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("sses", "ss"),
    ("xes", "x"),
    ("zes", "z"),
    ("ses", "s"),
    ("oes", "o"),
    ("s", ""),
)
_SINGULAR = ("ss", "us", "is")
"""Endings of words that are singular as they are."""


def base_forms(word: str, irregular: Mapping[str, list[str]] | None = None) -> list[str]:
    """The words that a plural may come from, most likely first; they need not exist.

    Only the last word of several is changed, but an irregular plural may be of them all.

    Args:
        word: In lower case, with ``_`` for a space.
        irregular: Plural → singulars.

    Example:
        >>> base_forms("golf_carts")
        ['golf_cart']
        >>> base_forms("geese", {"geese": ["goose"]})
        ['goose']
        >>> base_forms("glass")
        []
    """
    known = irregular or {}
    start, _, last = word.rpartition("_")
    before = f"{start}_" if start else ""
    found = [*known.get(word, []), *(before + base for base in known.get(last, []))]
    if not last.endswith(_SINGULAR):
        for ending, singular in _ENDINGS:
            if last.endswith(ending) and len(last) > len(ending) + 1:
                found.append(before + last.removesuffix(ending) + singular)
    return list(dict.fromkeys(found))


def read_irregular(path: Path) -> dict[str, list[str]]:
    """WordNet's list of irregular plurals, a plural and its singulars a line; empty if there is none."""
    if not path.is_file():
        return {}
    lines = (line.split() for line in path.read_text("utf-8", "replace").splitlines())
    return {fields[0]: fields[1:] for fields in lines if len(fields) > 1}

"""Names of nodes: what a name may be, and how a path of names is written as one string."""

import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

from labeltree.errors import TaxonomyError

__all__ = ["clean_name", "is_missing", "join_path", "some", "split_path", "tidy"]


def is_missing(value: object) -> bool:
    """Whether a table's cell holds nothing: None, NaN, pandas' NA or NaT. An empty string is not nothing."""
    if isinstance(value, str):
        return False
    if value is None:
        return True
    if type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def tidy(name: object) -> str:
    """The name without surrounding white space if it is a good one, else empty: `clean_name` says why."""
    text = name.strip() if isinstance(name, str) else ""
    return text if text.isprintable() else ""


def clean_name(name: object, where: str) -> str:
    """Return the name without surrounding white space; `where` opens the error if it is no name.

    Raises:
        TaxonomyError: if the name is empty, or not one line of text.
    """
    text = str(name).strip() if not is_missing(name) else ""
    if not text:
        raise TaxonomyError(f"{where} has an empty name; every node needs one")
    if not text.isprintable():
        _check_characters(text, where)
    return text


def _check_characters(text: str, where: str) -> None:
    for character in text:
        category = unicodedata.category(character)
        if category == "Cs":
            raise TaxonomyError(f"{where} has the name {text!r}, which is not valid Unicode text; rename it")
        if category in ("Cc", "Zl", "Zp") or character == "\ufeff":  # a byte-order mark is no part of a name
            raise TaxonomyError(
                f"{where} has the name {text!r} with the control character {character!r}; a name is one line"
            )


def join_path(names: Sequence[str]) -> str:
    r"""Write a path as one string, coarse to fine: `a/b/c`, with `/` in a name as `\/` and `\` as `\\`."""
    return "/".join(name.replace("\\", "\\\\").replace("/", "\\/") for name in names)


def split_path(text: str) -> tuple[str, ...]:
    r"""Undo `join_path`: `a/b/c` to its names; one leading `/` is ignored, and `/` alone is the root's ().

    A backslash that stands before neither `/` nor `\` is kept as it is.
    """
    text = text.strip().removeprefix("/")
    if not text:
        return ()
    if "\\" not in text:
        return tuple(text.split("/"))
    names, current, characters = [], "", iter(text)
    for character in characters:
        if character == "\\":
            following = next(characters, "")
            current += following if following in ("/", "\\") and following else "\\" + following
        elif character == "/":
            names.append(current)
            current = ""
        else:
            current += character
    return (*names, current)


def some(names: Iterable[str], limit: int = 5) -> str:
    """Quote the first few names for a sentence: `'a', 'b' and 3 more`."""
    names = list(names)
    shown = [repr(name) for name in names[:limit]]
    if len(names) > limit:
        return f"{', '.join(shown)} and {len(names) - limit} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]])) if shown else ""

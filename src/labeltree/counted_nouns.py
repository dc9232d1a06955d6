"""Counts with their nouns, and lists, as in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["plural", "say_count", "say_list"]


def say_count(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun: `1 class`, `2 classes`, `1,000 samples`.

    Args:
        count: The count.
        one: The noun of one.
        many: That of several; by default its `plural`.
    """
    return f"{count:,} {one if count == 1 else many or plural(one)}"


def plural(noun: str) -> str:
    """A noun with an `s`; the name of a column that ends in no letter or digit, such as `No.`, as it is."""
    return f"{noun}s" if noun[-1:].isalnum() else noun


def say_list(words: Sequence[str]) -> str:
    """Words as in a sentence: `1, 2 and 3`; empty without any."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))

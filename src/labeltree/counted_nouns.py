"""Counts with their nouns, and lists, as in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["say_count", "say_list"]


def say_count(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun: `1 class`, `2 classes`, `1,000 samples`.

    Args:
        count: The count.
        one: The noun of one.
        many: That of several; by default, with an `s`.
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def say_list(words: Sequence[str]) -> str:
    """Words as in a sentence: `1, 2 and 3`; empty without any."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))

"""Counts with their nouns."""

from __future__ import annotations

__all__ = ["say_count"]


def say_count(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun: `1 class`, `2 classes`, `1,000 samples`.

    Args:
        count: The count.
        one: The noun of one.
        many: That of several; by default, with an `s`.
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"

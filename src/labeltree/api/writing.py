"""Text that a function writes to a file."""

from __future__ import annotations

from pathlib import Path

from labeltree.atomic import atomic_write

__all__ = ["write_text"]


def write_text(file: str | Path, text: str) -> None:
    """Write a text file, as a whole or not at all."""
    with atomic_write(file) as temporary:
        temporary.write_text(text, "utf-8")

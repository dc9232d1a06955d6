"""The walk over tiles of pairs."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["TILE", "blocks", "tiles"]

TILE = 512  # a float32 tile of this side fits the second-level cache


def blocks(size: int, length: int) -> Iterator[slice]:
    """Consecutive slices of `length` that cover 0 … size − 1."""
    for start in range(0, size, length):
        yield slice(start, min(start + length, size))


def tiles(rows: int, cols: int, side: int | None) -> Iterator[tuple[slice, slice]]:
    """All tiles of a matrix, row block by row block; `side` None: the usual one."""
    side = side or TILE
    for row in blocks(rows, side):
        for col in blocks(cols, side):
            yield row, col

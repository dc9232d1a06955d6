"""The walk over tiles of pairs."""

from __future__ import annotations

from collections.abc import Iterator

from labeltree.pairs.relation import PairRelation

__all__ = ["TILE", "blocks", "relation_tiles", "tiles"]

TILE = 512  # a float32 tile of this side fits the second-level cache


def blocks(size: int, length: int) -> Iterator[slice]:
    """Consecutive slices of `length` that cover 0 … size − 1."""
    for start in range(0, size, length):
        yield slice(start, min(start + length, size))


def tiles(rows: int | slice, cols: int, side: int | None) -> Iterator[tuple[slice, slice]]:
    """All tiles of a matrix, or of some rows of it, row block by row block; `side` None: the usual one."""
    side = side or TILE
    within = rows if isinstance(rows, slice) else slice(0, rows)
    for row in blocks(within.stop - within.start, side):
        for col in blocks(cols, side):
            yield slice(within.start + row.start, within.start + row.stop), col


def relation_tiles(
    relation: PairRelation, shard: slice | None, side: int | None
) -> Iterator[tuple[slice, slice]]:
    """All tiles of a relation, or of the rows of a shard, see `tiles`."""
    return tiles(relation.num_queries if shard is None else shard, relation.num_keys, side)

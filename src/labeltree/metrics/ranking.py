"""Exact rankings of a database for many queries, a chunk of queries at a time.

Every retrieval metric reads the same rankings, so they are made once: a chunk of similarities is ranked,
handed to each metric that wants it, and dropped. Memory is that of one chunk, never queries × keys.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from labeltree.geometry import Geometry

__all__ = ["RankedChunk", "ranked_chunks"]

_CHUNK_ELEMENTS = 2**22
_LAST = np.iinfo(np.int64).max


class RankedChunk(NamedTuple):
    """The rankings of the queries `start` to `start + len(order)`."""

    start: int
    order: Tensor
    """(b, m) int64: rows of the database, best first."""


def ranked_chunks(
    queries: Tensor,
    keys: Tensor | None = None,
    *,
    geometry: Geometry,
    top: int | None = None,
    chunk_rows: int | None = None,
) -> Iterator[RankedChunk]:
    """Yield, chunk by chunk, the database rows of every query in order of falling similarity.

    Equal similarities are ranked in database order, so a ranking is a function of the similarities alone.
    Only the order of the scores counts: they may all be negative, as those of distances are. float32 scores
    are ranked as float32, float64 scores as float64.

    Args:
        queries: (n, d) embeddings.
        keys: (m, d) embeddings of the database; None ranks the queries against each other and leaves each
            query out of its own ranking, by its row and not by its similarity, so that exact duplicates of it
            stay in.
        geometry: its `pairwise_similarity` is the score.
        top: how many of the best to give; None for all.
        chunk_rows: queries in one chunk; None chooses them so that a chunk stays near 4 million similarities.

    Yields:
        `RankedChunk` with `order` of shape (b, min(top, m)), where m counts the database without the query
        itself.

    """
    leave_one_out = keys is None
    database = queries if keys is None else keys
    size = database.shape[0]
    wanted = max(size - leave_one_out, 0)
    if top is not None:
        wanted = min(wanted, top)
    rows = chunk_rows or max(32, _CHUNK_ELEMENTS // max(size, 1))
    for start in range(0, queries.shape[0], rows):
        chunk = queries[start : start + rows]
        if wanted == 0:
            yield RankedChunk(start, torch.empty(chunk.shape[0], 0, dtype=torch.int64, device=queries.device))
            continue
        similarity = geometry.pairwise_similarity(chunk, database)
        own = start if leave_one_out else None
        if similarity.dtype == torch.float32 and similarity.device.type == "cpu":
            order = _order_packed(similarity, own, wanted)
        else:
            order = _order_sorted(similarity, own)[:, :wanted]
        yield RankedChunk(start, order)


def _order_packed(similarity: Tensor, own: int | None, wanted: int) -> Tensor:
    """Rank float32 scores by sorting integers: the order-preserving bits of the score above the database row.

    One sort of 64-bit integers gives order and tie-breaking at once, several times faster than a stable
    argsort.
    """
    count, size = similarity.shape
    # 0 - s and not -s: it turns both zeros into +0, whose bits are equal as the ties demand.
    falling = (0.0 - similarity).numpy().view(np.int32)
    packed = np.empty((count, size), dtype=np.int64)
    high, low = (1, 0) if sys.byteorder == "little" else (0, 1)
    halves = packed.view(np.int32).reshape(count, size, 2)
    np.bitwise_xor(falling, (falling >> 31) & 0x7FFFFFFF, out=halves[:, :, high])
    halves[:, :, low] = np.arange(size, dtype=np.int32)
    if own is not None:
        packed[np.arange(count), own + np.arange(count)] = _LAST
    if wanted < size // 4:
        packed.partition(wanted - 1, axis=1)
        packed = np.ascontiguousarray(packed[:, :wanted])
    packed.sort(axis=1)
    best = packed.view(np.int32).reshape(count, -1, 2)[:, :wanted, low]
    return torch.from_numpy(best.astype(np.int64))


def _order_sorted(similarity: Tensor, own: int | None) -> Tensor:
    """Rank scores of any dtype on any device by a stable sort."""
    order = torch.sort(similarity, dim=1, descending=True, stable=True).indices
    if own is None:
        return order
    count, size = order.shape
    itself = own + torch.arange(count, device=order.device)
    return order[order != itself[:, None]].reshape(count, size - 1)

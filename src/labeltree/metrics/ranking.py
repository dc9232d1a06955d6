"""Exact rankings of a database for many queries, a chunk of queries at a time.

Every retrieval metric reads the same rankings, so they are made once: a chunk of similarities is ranked,
handed to each metric that wants it, and dropped. Memory is that of one chunk, never queries × keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.geometry import Geometry

__all__ = ["RankedChunk", "ranked_chunks"]

_CHUNK_ELEMENTS = 2**22
# one column in so many is sampled for the bound on the best
_SAMPLING = 16
# candidates per wanted result from which sorting whole rows is as good
_CROWD = 8
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
            few = _CROWD * wanted <= size
            order = (_order_top if few else _order_packed)(similarity, own, wanted)
        else:
            order = _order_sorted(similarity, own)[:, :wanted]
        yield RankedChunk(start, order)


def _order_top(similarity: Tensor, own: int | None, wanted: int) -> Tensor:
    """Rank the best few float32 scores: a bound from a sample of columns leaves little more to sort."""
    scores = similarity.numpy()
    count, size = scores.shape
    rows = np.arange(count)
    # random columns, for regular ones may fall in with the order of the classes; the result does not depend
    # on them, only its cost
    columns = np.random.default_rng(0).integers(size, size=-(-size // _SAMPLING))
    sample = np.take(scores, np.sort(columns), axis=1)
    # half as many again as the share of the sample, and some more: too few candidates are left very rarely
    place = len(columns) - min(len(columns), wanted * 3 // (2 * _SAMPLING) + 8)
    bound = np.partition(sample, place, axis=1)[:, place]
    candidate = scores >= bound[:, None]
    if own is not None:
        candidate[rows, own + rows] = False
    found = candidate.sum(axis=1)
    if found.min() < wanted or found.max() > _CROWD * wanted + size // _SAMPLING:
        return _order_packed(similarity, own, wanted)
    flat = np.flatnonzero(candidate)
    row = np.repeat(rows, found)
    column = flat - row * size
    packed = np.full((count, int(found.max())), _LAST)
    packed[row, np.arange(len(flat)) - (found.cumsum() - found)[row]] = _pack(
        scores.reshape(-1)[flat], column
    )
    packed.sort(axis=1)
    return torch.from_numpy(packed[:, :wanted] & 0xFFFFFFFF)


def _order_packed(similarity: Tensor, own: int | None, wanted: int) -> Tensor:
    """Rank float32 scores by sorting integers, which gives order and tie-breaking at once.

    This is several times faster than a stable argsort.
    """
    scores = similarity.numpy()
    count, size = scores.shape
    packed = _pack(scores, np.arange(size))
    if own is not None:
        packed[np.arange(count), own + np.arange(count)] = _LAST
    if wanted < size // 4:
        packed.partition(wanted - 1, axis=1)
        packed = np.ascontiguousarray(packed[:, :wanted])
    packed.sort(axis=1)
    return torch.from_numpy(packed[:, :wanted] & 0xFFFFFFFF)


def _pack(scores: NDArray[np.float32], columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Integers that sort by falling score, then by column: the score's bits, in order, above the column."""
    # 0 - s and not -s: it turns both zeros into +0, whose bits are equal as the ties demand
    bits = (np.float32(0.0) - scores).view(np.int32)
    ordered = np.bitwise_xor(bits, (bits >> 31) & 0x7FFFFFFF)
    packed: NDArray[np.int64] = (ordered.astype(np.int64) << 32) | columns
    return packed


def _order_sorted(similarity: Tensor, own: int | None) -> Tensor:
    """Rank scores of any dtype on any device by a stable sort."""
    order = torch.sort(similarity, dim=1, descending=True, stable=True).indices
    if own is None:
        return order
    count, size = order.shape
    itself = own + torch.arange(count, device=order.device)
    return order[order != itself[:, None]].reshape(count, size - 1)

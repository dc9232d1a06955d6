"""Exact rankings of a database for many queries, a chunk of queries at a time.

Memory is that of one chunk, never queries × keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.metrics.ordering import falling_order
from labeltree.metrics.similarities import Similarities
from labeltree.metrics.survivors import Survivors

__all__ = ["Progress", "RankedChunk", "chunk_slices", "ranked_chunks"]

Progress = Callable[[str, int, int], None]
"""``progress(message, done, total)``."""

_CHUNK_ELEMENTS = 2**22
_FEWEST_ROWS = 256
# one column in so many is sampled for the bound on the best
_SAMPLING = 16
_GROUP = 4
# candidates per wanted result from which sorting whole rows is as good
_CROWD = 8
# sides of a tile that stays in the cache
_TILE = 1024
# candidates of tiles that wait for the rest of their rows: some 400 MB
_WAITING = 2**25


class RankedChunk(NamedTuple):
    """The rankings of the queries `start` to `start + len(order)`."""

    start: int
    order: Tensor
    """(b, m) int64: rows of the database, best first."""


def ranked_chunks(
    queries: Tensor,
    keys: Tensor | None = None,
    own: Tensor | None = None,
    *,
    geometry: Geometry,
    top: int | None = None,
    chunk_rows: int | None = None,
    watch: Callable[[slice, NDArray[np.float32]], None] | None = None,
    progress: Progress | None = None,
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
        own: (n,) the row of `keys` that is each query itself and is left out of its ranking; None leaves out
            none, or with `keys` None each query's own row.
        geometry: its `pairwise_similarity` is the score.
        top: how many of the best to give; None for all.
        chunk_rows: queries in one chunk; None chooses them so that a chunk stays near 4 million similarities.
        watch: called before the rankings of float32 scores on the CPU with the chunk's queries and their
            similarities to the whole database, (b, m).
        progress: told after every chunk how many of all pairs are done.

    Yields:
        `RankedChunk` with `order` of shape (b, min(top, m)), where m counts the database without the query
        itself.

    """
    everyone = keys is None
    if keys is None:
        keys = queries
        own = torch.arange(len(queries), device=queries.device)
    wanted = max(len(keys) - (own is not None), 0)
    if top is not None:
        wanted = min(wanted, top)
    if wanted == 0:
        for rows in chunk_slices(len(queries), len(keys), chunk_rows):
            empty = torch.empty(len(queries[rows]), 0, dtype=torch.int64, device=queries.device)
            yield RankedChunk(rows.start, empty)
        return
    similarities = Similarities(queries, keys, geometry)
    report = progress or _silent
    if similarities.dtype != torch.float32 or queries.device.type != "cpu":
        for rows in chunk_slices(len(queries), len(keys), chunk_rows):
            order = _order_sorted(similarities.tile(rows), None if own is None else own[rows])
            yield RankedChunk(rows.start, order[:, :wanted])
            report("ranking", min(rows.stop, len(queries)), len(queries))
        return
    itself = None if own is None else own.numpy()
    if _CROWD * wanted <= len(keys):
        few = _BestFew(similarities, len(queries), wanted, itself, report)
        if chunk_rows is None and watch is None and similarities.tiled:
            chunks = few.by_tiles(both_ways=everyone and len(queries) * wanted <= 2 * _WAITING)
        else:
            chunks = few.by_rows(chunk_slices(len(queries), len(keys), chunk_rows), watch)
        for start, order_few in chunks:
            yield RankedChunk(start, torch.from_numpy(order_few))
        return
    for rows in chunk_slices(len(queries), len(keys), chunk_rows):
        scores = similarities.tile(rows).numpy()
        if watch is not None:
            watch(rows, scores)
        order_all = falling_order(scores, None if itself is None else itself[rows])
        yield RankedChunk(rows.start, torch.from_numpy(order_all[:, :wanted]))
        report("ranking", min(rows.stop, len(queries)), len(queries))


def chunk_slices(count: int, size: int, rows: int | None = None) -> list[slice]:
    """Rows 0 … `count` in chunks of `rows`, by default so many that a chunk has 4 million similarities."""
    rows = rows or max(_FEWEST_ROWS, _CHUNK_ELEMENTS // max(size, 1))
    return [slice(start, start + rows) for start in range(0, count, rows)]


class _BestFew:
    """Ranks the best few of float32 scores on the CPU."""

    def __init__(
        self,
        similarities: Similarities,
        count: int,
        wanted: int,
        own: NDArray[np.int64] | None,
        report: Progress,
    ) -> None:
        self.similarities, self.count, self.wanted = similarities, count, wanted
        self.own, self.report = own, report
        size = similarities.size
        # random columns, for regular ones may fall in with the order of the classes; the result does not
        # depend on them, only its cost
        self.columns = np.sort(np.random.default_rng(0).integers(size, size=-(-size // _SAMPLING)))
        # half as many again as the share of the sample, and some more: too few are left very rarely
        self.place = min(len(self.columns), wanted * 3 // (2 * _SAMPLING) + 8)

    def by_rows(
        self, chunks: list[slice], watch: Callable[[slice, NDArray[np.float32]], None] | None
    ) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Whole rows at a time."""
        for rows in chunks:
            scores = self.similarities.tile(rows).numpy()
            if watch is not None:
                watch(rows, scores)
            survivors = self._survivors(rows, [scores.take(self.columns, axis=1)])
            survivors.add(scores, 0)
            yield rows.start, self._finish(rows, survivors)
            self.report("ranking", min(rows.stop, self.count), self.count)

    def by_tiles(self, *, both_ways: bool) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Tiles that stay in the cache; `both_ways` reads each for its rows and for its columns."""
        blocks = [slice(start, start + _TILE) for start in range(0, self.count, _TILE)]
        others = [slice(start, start + _TILE) for start in range(0, self.similarities.size, _TILE)]
        waiting: dict[int, Survivors] = {}
        starts = range(0, len(self.columns), _TILE)
        sampled = [torch.from_numpy(self.columns[start : start + _TILE]) for start in starts]
        done, total = 0, len(blocks) * (len(blocks) + 1) // 2 if both_ways else len(blocks) * len(others)
        for i, rows in enumerate(blocks):
            for j, columns in enumerate(others):
                if both_ways and j < i:
                    continue
                for block in {i, j} if both_ways else {i}:
                    if block not in waiting:
                        samples = (self.similarities.tile(blocks[block], part).numpy() for part in sampled)
                        waiting[block] = self._survivors(blocks[block], samples)
                scores = self.similarities.tile(rows, columns).numpy()
                waiting[i].add(scores, columns.start)
                if both_ways and j > i:
                    waiting[j].add_transposed(scores, rows.start)
                done += 1
            yield rows.start, self._finish(rows, waiting.pop(i))
            self.report("ranking", done, total)

    def _survivors(self, rows: slice, samples: Iterable[NDArray[np.float32]]) -> Survivors:
        """What will hold the best of the `rows`, whose sampled scores come in parts (b, s)."""
        sample = np.concatenate([self._best_of_groups(part) for part in samples], axis=1)
        place = sample.shape[1] - min(self.place, sample.shape[1])
        sample.partition(place, axis=1)
        limit = len(sample) * (_CROWD * self.wanted + self.similarities.size // _SAMPLING)
        own = None if self.own is None else self.own[rows]
        return Survivors(sample[:, place].copy(), self.wanted, limit, own)

    def _best_of_groups(self, sample: NDArray[np.float32]) -> NDArray[np.float32]:
        """The best of every few columns: of the best of all, hardly two fall into one group."""
        groups = sample.shape[1] // _GROUP
        if len(self.columns) < _GROUP * 4 * self.place or not groups:
            return sample.copy()
        best: NDArray[np.float32] = (
            sample[:, : groups * _GROUP].reshape(len(sample), _GROUP, groups).max(axis=1)
        )
        return best

    def _finish(self, rows: slice, survivors: Survivors) -> NDArray[np.int64]:
        """(b, wanted) columns, best first; rows that the bound misled are sorted as a whole."""
        order, missed = survivors.order()
        again = rows.start + np.flatnonzero(missed)
        for part in chunk_slices(len(again), self.similarities.size):
            some = again[part]
            scores = self.similarities.tile(torch.from_numpy(some)).numpy()
            own = None if self.own is None else self.own[some]
            order[some - rows.start] = falling_order(scores, own)[:, : self.wanted]
        return order


def _order_sorted(similarity: Tensor, own: Tensor | None) -> Tensor:
    """Rank scores of any dtype on any device by a stable sort."""
    order = torch.sort(similarity, dim=1, descending=True, stable=True).indices
    if own is None:
        return order
    count, size = order.shape
    return order[order != own[:, None]].reshape(count, size - 1)


def _silent(message: str, done: int, total: int) -> None:
    """Report nothing."""

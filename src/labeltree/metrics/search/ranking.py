"""Exact rankings of a database for many queries, a chunk of queries at a time.

Memory is needed for one chunk only, never for queries × keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.geometry import Euclidean, Geometry, PoincareBall, Sphere
from labeltree.metrics.search.results_left_out import LeftOut
from labeltree.metrics.search.topk_candidates import TopkCandidates, falling_order
from labeltree.progress import Progress, silent

__all__ = ["RankedChunk", "Similarities", "chunk_slices", "ranked_chunks", "repeated_rows"]

_KNOWN = (Sphere, Euclidean, PoincareBall)
_COLUMNS = 2**10
_HASHED_ROWS = 2**10
# an arbitrary odd number: products with it, modulo 2^64, are a hash of rows
_MIX = 0x9E3779B97F4A7C15 - 2**64
_CHUNK_ELEMENTS = 2**22
_FEWEST_ROWS = 256
# one column in this many is sampled for the bound on the best
_SAMPLING = 16
_GROUP = 4
# candidates per wanted result from which sorting whole rows is as fast
_CROWD = 8
# sides of a tile that stays in the cache
_TILE = 1024
# candidates kept until their rows are complete: about 400 MB
_WAITING = 2**25


class Similarities:
    """The similarities of a geometry's `pairwise_similarity`, computed in tiles.

    On the sphere the points are normalised once and not for every tile. Identical items get the same
    similarity to every query: a matrix product may round them differently from column to column, and break
    the tie.

    Args:
        queries: (n, d) embeddings.
        keys: (m, d) embeddings of the database.
        geometry: Its `pairwise_similarity` is the score.

    Attributes:
        size: Number of items m.
        tiled: Whether a tile of some columns gives the same numbers as whole rows; the similarity is then
            also symmetric.
        dtype: Dtype of the similarities.

    """

    def __init__(self, queries: Tensor, keys: Tensor, geometry: Geometry) -> None:
        self.size = keys.shape[0]
        self._known = type(geometry) in _KNOWN
        self._repetitions = repeated_rows(keys) if self._known else None
        self.tiled = self._known and self._repetitions is None
        self._geometry = geometry
        self._queries, self._keys = queries, keys
        self._product = type(geometry) is Sphere
        self.dtype = torch.promote_types(torch.promote_types(queries.dtype, keys.dtype), torch.float32)
        if self._product:
            self._queries = geometry.project(queries.to(self.dtype))
            self._keys = self._queries if keys is queries else geometry.project(keys.to(self.dtype))
        self._space = self._keys.new_empty(0)

    def tile(self, rows: slice | Tensor, columns: slice | Tensor = slice(None)) -> Tensor:
        """(r, c) similarities of the queries `rows` and the items `columns`, valid until the next call."""
        queries, keys = self._queries[rows], self._keys[columns]
        if not self._known:
            return self._geometry.pairwise_similarity(queries, keys)
        # fresh memory for every tile would cost as much time as the product
        if self._space.numel() < len(queries) * len(keys):
            self._space = queries.new_empty(len(queries) * len(keys), dtype=self.dtype)
        tile = self._space[: len(queries) * len(keys)].view(len(queries), len(keys))
        if self._product:
            with torch.autocast(queries.device.type, enabled=False):
                torch.mm(queries, keys.T, out=tile)
        else:
            # a distance works rows by blocks of pairs, which wide rows would make too short for a product
            for start in range(0, len(keys), _COLUMNS):
                part = keys[start : start + _COLUMNS]
                tile[:, start : start + len(part)] = self._geometry.pairwise_similarity(queries, part)
        if self._repetitions is not None:
            repeated, first = self._repetitions
            tile[:, repeated] = tile[:, first]
        return tile


def repeated_rows(points: Tensor) -> tuple[Tensor, Tensor] | None:
    """Rows of `points` that equal an earlier row, and the first row equal to each; None if there are none."""
    bits = points.contiguous().view({8: torch.int64, 4: torch.int32, 2: torch.int16}[points.element_size()])
    odd = 2 * torch.arange(points.shape[1], device=points.device) + 1
    marks = torch.empty(len(points), dtype=torch.int64, device=points.device)
    for start in range(0, len(points), _HASHED_ROWS):
        marks[start : start + _HASHED_ROWS] = (bits[start : start + _HASHED_ROWS] * (odd * _MIX)).sum(dim=1)
    _, groups = torch.unique(marks, return_inverse=True)
    everyone = torch.arange(len(points), device=points.device)
    first = torch.full_like(everyone, len(points)).scatter_reduce(0, groups, everyone, "amin")[groups]
    candidates = (first != everyone).nonzero()[:, 0]
    repeated = candidates[(points[candidates] == points[first[candidates]]).all(dim=1)]
    return (repeated, first[repeated]) if len(repeated) else None


class RankedChunk(NamedTuple):
    """The rankings of the queries `start` to `start + len(order)`."""

    start: int
    order: Tensor
    """(b, m) int64: rows of the database, best first."""


def ranked_chunks(
    queries: Tensor,
    keys: Tensor | None = None,
    left_out: LeftOut | None = None,
    *,
    geometry: Geometry,
    top: int | None = None,
    chunk_rows: int | None = None,
    watch: Callable[[slice, NDArray[np.float32]], None] | None = None,
    progress: Progress | None = None,
) -> Iterator[RankedChunk]:
    """Yield, chunk by chunk, the database rows of every query in order of falling similarity.

    Equal similarities are ranked in database order, so a ranking is a function of the similarities alone.
    Only the order of the scores counts: they may all be negative, as for distances. float32 scores are ranked
    as float32, float64 scores as float64.

    Args:
        queries: (n, d) embeddings.
        keys: (m, d) embeddings of the database; None ranks the queries against each other and leaves each
            query out of its own ranking, by its row and not by its similarity, so that exact duplicates of it
            stay in.
        left_out: The rows of `keys` that are left out of each query's ranking; None leaves out none, or with
            `keys` None each query's own row.
        geometry: Its `pairwise_similarity` is the score.
        top: Number of best items to return; None for all.
        chunk_rows: Number of queries in a chunk; None: a chunk has about 4 million similarities.
        watch: Called before the rankings of float32 scores on the CPU with the chunk's queries and their
            similarities to the whole database, (b, m).
        progress: Called after every chunk with the number of finished pairs and of all pairs.

    Yields:
        `RankedChunk` with `order` of shape (b, min(top, m)), where m is the size of the database minus the
        smallest number of items that a query leaves out. For queries that leave out more, the entries after
        their last result are arbitrary rows of the database.

    """
    everyone = keys is None
    if keys is None:
        keys = queries
        if left_out is None:
            left_out = LeftOut.rows(np.arange(len(queries)), len(queries))
    wanted = len(keys) if left_out is None else len(keys) - left_out.fewest
    if top is not None:
        wanted = min(wanted, top)
    if wanted == 0:
        for rows in chunk_slices(len(queries), len(keys), chunk_rows):
            empty = torch.empty(len(queries[rows]), 0, dtype=torch.int64, device=queries.device)
            yield RankedChunk(rows.start, empty)
        return
    similarities = Similarities(queries, keys, geometry)
    report = progress or silent
    if similarities.dtype != torch.float32 or queries.device.type != "cpu":
        for rows in chunk_slices(len(queries), len(keys), chunk_rows):
            order = _order_sorted(similarities.tile(rows), _part(left_out, rows))
            yield RankedChunk(rows.start, order[:, :wanted])
            report("ranking", min(rows.stop, len(queries)), len(queries))
        return
    if _CROWD * wanted <= len(keys):
        few = _BestFew(similarities, len(queries), wanted, left_out, report)
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
        part = _part(left_out, rows)
        order_all = falling_order(scores, None if part is None else part.pairs())
        yield RankedChunk(rows.start, torch.from_numpy(order_all[:, :wanted]))
        report("ranking", min(rows.stop, len(queries)), len(queries))


def chunk_slices(count: int, size: int, rows: int | None = None) -> list[slice]:
    """Slices of rows 0 … `count` in chunks of `rows`; by default a chunk has 4 million similarities."""
    rows = rows or max(_FEWEST_ROWS, _CHUNK_ELEMENTS // max(size, 1))
    return [slice(start, start + rows) for start in range(0, count, rows)]


class _BestFew:
    """Ranks the best few of float32 scores on the CPU."""

    def __init__(
        self,
        similarities: Similarities,
        count: int,
        wanted: int,
        left_out: LeftOut | None,
        report: Progress,
    ) -> None:
        self.similarities, self.count, self.wanted = similarities, count, wanted
        self.left_out, self.report = left_out, report
        size = similarities.size
        # random columns, as regular ones may coincide with the order of the classes; the result does not
        # depend on them, only its cost
        self.columns = np.sort(np.random.default_rng(0).integers(size, size=-(-size // _SAMPLING)))
        # 1.5 times the share of the sample, and some more: too few candidates remain very rarely
        self.place = min(len(self.columns), wanted * 3 // (2 * _SAMPLING) + 8)

    def by_rows(
        self, chunks: list[slice], watch: Callable[[slice, NDArray[np.float32]], None] | None
    ) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Rank whole rows at a time."""
        for rows in chunks:
            scores = self.similarities.tile(rows).numpy()
            if watch is not None:
                watch(rows, scores)
            candidates = self._candidates(rows, [scores.take(self.columns, axis=1)])
            candidates.add(scores, 0)
            yield rows.start, self._finish(rows, candidates)
            self.report("ranking", min(rows.stop, self.count), self.count)

    def by_tiles(self, *, both_ways: bool) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Rank by tiles that fit in the cache; `both_ways` uses each tile for its rows and its columns."""
        blocks = [slice(start, start + _TILE) for start in range(0, self.count, _TILE)]
        others = [slice(start, start + _TILE) for start in range(0, self.similarities.size, _TILE)]
        waiting: dict[int, TopkCandidates] = {}
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
                        waiting[block] = self._candidates(blocks[block], samples)
                scores = self.similarities.tile(rows, columns).numpy()
                waiting[i].add(scores, columns.start)
                if both_ways and j > i:
                    waiting[j].add_transposed(scores, rows.start)
                done += 1
            yield rows.start, self._finish(rows, waiting.pop(i))
            self.report("ranking", done, total)

    def _candidates(self, rows: slice, samples: Iterable[NDArray[np.float32]]) -> TopkCandidates:
        """Empty candidates for the best of the `rows`, with bounds from sampled scores in parts (b, s)."""
        left_out = _part(self.left_out, rows)
        columns = self.columns if left_out is None or left_out.single else left_out.items[self.columns]
        parts, first = [], 0
        for scores in samples:
            if left_out is not None and not left_out.single:  # many of the best may be of the query's group
                own = columns[first : first + scores.shape[1]] == left_out.numbers[:, None]
                scores = np.where(own, np.float32(-np.inf), scores)
                first += scores.shape[1]
            parts.append(self._best_of_groups(scores))
        sample = np.concatenate(parts, axis=1)
        place = sample.shape[1] - min(self.place, sample.shape[1])
        sample.partition(place, axis=1)
        limit = len(sample) * (_CROWD * self.wanted + self.similarities.size // _SAMPLING)
        return TopkCandidates(sample[:, place].copy(), self.wanted, limit, left_out)

    def _best_of_groups(self, sample: NDArray[np.float32]) -> NDArray[np.float32]:
        """The best of every few columns: two of the overall best rarely fall into the same columns."""
        groups = sample.shape[1] // _GROUP
        if len(self.columns) < _GROUP * 4 * self.place or not groups:
            return sample.copy()
        best: NDArray[np.float32] = (
            sample[:, : groups * _GROUP].reshape(len(sample), _GROUP, groups).max(axis=1)
        )
        return best

    def _finish(self, rows: slice, candidates: TopkCandidates) -> NDArray[np.int64]:
        """(b, wanted) columns, best first; rows whose bound was wrong are sorted as a whole."""
        order, missed = candidates.order()
        again = rows.start + np.flatnonzero(missed)
        for part in chunk_slices(len(again), self.similarities.size):
            some = again[part]
            scores = self.similarities.tile(torch.from_numpy(some)).numpy()
            left_out = None if self.left_out is None else self.left_out.subset(some).pairs()
            order[some - rows.start] = falling_order(scores, left_out)[:, : self.wanted]
        return order


def _part(left_out: LeftOut | None, rows: slice) -> LeftOut | None:
    return None if left_out is None else left_out.subset(rows)


def _order_sorted(similarity: Tensor, left_out: LeftOut | None) -> Tensor:
    """Rank scores of any dtype on any device by a stable sort; left-out items come last, or not at all."""
    order = torch.sort(similarity, dim=1, descending=True, stable=True).indices
    if left_out is None:
        return order
    out = torch.zeros_like(order, dtype=torch.bool)
    queries, items = (torch.from_numpy(side).to(order.device) for side in left_out.pairs())
    out[queries, items] = True
    last = out.gather(1, order)
    if left_out.alike:
        return order[~last].reshape(len(order), order.shape[1] - left_out.fewest)
    return order.gather(1, torch.sort(last.to(torch.uint8), dim=1, stable=True).indices)

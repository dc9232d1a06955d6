"""How numbers of a search depend on the samples as results: blocks of the samples are left out in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, diags_array
from torch import Tensor

from labeltree.evaluation.statistics.interval_ends import Floats, divided
from labeltree.evaluation.statistics.search_jackknife import BlockEffects
from labeltree.metrics.search.ranking import RankedChunk
from labeltree.progress import Progress

__all__ = ["WithoutBlocks", "draw_blocks", "recall_without_blocks", "values_without_blocks"]

_BLOCKS = 50
_QUERIES = 256  # of which the values without a block are computed
_RANKED = 2**21  # results of queries without a block that are kept at a time
_RECALLED = 2**17  # queries of which recall without a block is computed
_FIRST_RESULTS = 64  # are looked at first; sixteen times as many where they do not decide


def draw_blocks(units: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The block `(n,)` of each sample: at most 50 random blocks of equally many units, from 0.

    They are the same for the same samples in any order, so that runs can be compared.

    Args:
        units: `(n,)` resampling unit of each sample, numbered from 0.
        ids: `(n,)` id of each sample.
    """
    count = int(units.max(initial=-1)) + 1
    first = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(first, units, ids)
    block = np.empty(count, dtype=np.int64)
    block[np.argsort(first, kind="stable")] = np.random.default_rng(0).permutation(count)
    return (block % min(_BLOCKS, max(count, 1)))[units]


@dataclass(frozen=True)
class WithoutBlocks:
    """Values of some queries of a search among the samples, without each block of samples.

    Attributes:
        blocks: `(n,)` block of each sample, −1 for a sample that is not searched.
        rows: `(c,)` positions of the queries among the samples.
        values: `(c, B)` float32, the value of each without block b of B; NaN for the queries of the block
            itself, for those of other searches, and where they do not count.
        searches: `(B,)` number of the search that each block is of: the folds of a cross-validation are
            searched one by one.
    """

    blocks: NDArray[np.int64]
    rows: NDArray[np.int64]
    values: NDArray[np.float32]
    searches: NDArray[np.int64]

    @classmethod
    def joined(cls, parts: Sequence[WithoutBlocks]) -> WithoutBlocks:
        """Those of the samples of all parts, each searched by itself."""
        ends = np.cumsum([0, *(part.values.shape[1] for part in parts)])
        starts = np.cumsum([0, *(len(part.blocks) for part in parts)])
        values = np.full((sum(len(part.rows) for part in parts), ends[-1]), np.nan, dtype=np.float32)
        done = 0
        for part, first, last in zip(parts, ends, ends[1:], strict=False):
            values[done : done + len(part.rows), first:last] = part.values
            done += len(part.rows)
        blocks = [
            np.where(p.blocks >= 0, p.blocks + first, -1) for p, first in zip(parts, ends, strict=False)
        ]
        return cls(
            np.concatenate(blocks),
            np.concatenate([part.rows + start for part, start in zip(parts, starts, strict=False)]),
            values,
            np.repeat(np.arange(len(parts)), np.diff(ends)),
        )

    def same_blocks(self, other: WithoutBlocks) -> bool:
        """Whether both are of the same blocks of the same samples."""
        pairs = (self.blocks, other.blocks), (self.searches, other.searches)
        return all(np.array_equal(mine, theirs) for mine, theirs in pairs)

    def at(self, index: NDArray[np.int64]) -> WithoutBlocks:
        """Those of the samples at `index` `(m,)`."""
        place = np.full(len(self.blocks), -1)
        place[index] = np.arange(len(index))
        kept = place[self.rows] >= 0
        return replace(self, blocks=self.blocks[index], rows=place[self.rows][kept], values=self.values[kept])

    def placed(self, rows: NDArray[np.int64], count: int) -> WithoutBlocks:
        """Those of `count` samples of which these are at `rows` `(n,)`."""
        blocks = np.full(count, -1)
        blocks[rows] = self.blocks
        return replace(self, blocks=blocks, rows=rows[self.rows])

    def left_out(self, weights: csr_array, values: Floats) -> Floats:
        """Means `(m, B)` of queries without each block; the searches that a block is not of stay as they are.

        Args:
            weights: `(m, n)` weights of the samples in each of m means; no entry where a sample does not
                count.
            values: `(n,)` value of each sample as a query.
        """
        total = _total(weights)
        mean = divided(np.asarray(weights @ np.nan_to_num(values))[:, None], total)
        left = np.repeat(mean, len(self.searches), axis=1)
        for part in self._split_searches(weights):
            usual = divided(np.asarray(part.weights @ np.nan_to_num(values))[:, None], part.total)
            moved = divided(part.total, total) * (part.means() - usual)
            left[:, part.blocks] += np.where(part.total > 0, moved, 0.0)
        return left

    def effects(self, weights: csr_array, values: Floats) -> BlockEffects:
        """By how much each block moves means of queries, as queries and as results.

        A sample's value tells how it fares as a query, and says nothing of what it adds to the values of
        others as a result. That is what these lose without its block as results.

        Args:
            weights: `(m, n)` weights of the samples in each of m means; no entry where a sample does not
                count.
            values: `(n,)` value of each sample as a query.
        """
        value, total, count = np.nan_to_num(values), _total(weights), len(self.searches)
        mean = divided(np.asarray(weights @ value)[:, None], total)
        mine = (self.blocks[:, None] == np.arange(count)).astype(float)
        of_blocks = weights @ mine
        queries = divided(weights @ (mine * value[:, None]) - mean * of_blocks, total)
        several = np.bincount(self.searches)
        results = np.zeros_like(queries)
        pairs = np.zeros((int(several.max()), *queries.T.shape))
        for part in self._split_searches(weights):
            blocks = len(part.blocks)
            if blocks < 3:  # what pairs of them do is not known
                results[:, part.blocks] = np.where(part.total > 0, np.nan, 0.0)
                continue
            share = (blocks - 1) / blocks * divided(part.total, total)
            # in all, these are as many blocks as there are, less one for each search
            share = share * np.sqrt(blocks / (blocks - 1) * (count - 1) / count)
            of_part, of_pairs = self._measure_results(part, value)
            results[:, part.blocks] = np.where(part.total > 0, share * of_part, 0.0)
            known = np.where(part.total > 0, share, 0.0).T * of_pairs
            pairs[:blocks, part.blocks] = known
        return BlockEffects(mean[:, 0], queries.T, results.T, pairs, (of_blocks > 0).T)

    def _measure_results(self, part: _Search, value: Floats) -> tuple[Floats, Floats]:
        """What means of one search lose without each block as results `(m, b)`, beside the others.

        And what of it `(b, b, m)` comes from the queries of the first block, beyond what this and the second
        block do to all others; as that is what is left of their effects, it is scaled up to them.
        """
        rows, blocks = self.rows[part.rows], len(part.blocks)
        left, some = part.left, part.queries
        known = ~np.isnan(left)
        block = np.searchsorted(part.blocks, self.blocks[rows])
        others = known.any(axis=1, keepdims=True) & (block[:, None] != np.arange(blocks))
        rest = divided(some @ (others * value[rows][:, None]), some @ others.astype(float))
        lost = rest - part.means()
        change, seen = np.where(known, value[rows][:, None] - left, 0.0), some @ known.astype(float)
        entries = some.tocoo()
        place = entries.row * blocks + block[entries.col], entries.col
        of_block = coo_array((entries.data, place), shape=(some.shape[0] * blocks, len(rows))).tocsr()
        shape = some.shape[0], blocks, blocks  # means, blocks of queries, blocks of results
        expected = (of_block @ known.astype(float)).reshape(shape) * divided(some @ change, seen)[:, None]
        beyond = divided((of_block @ change).reshape(shape) - expected, seen[:, None])
        usual = np.nan_to_num(beyond).sum(axis=2, keepdims=True) / (blocks - 1)
        pairs = np.where(~np.eye(blocks, dtype=bool), beyond - usual, 0.0)
        pairs *= np.sqrt((blocks - 1) ** 3 / (blocks * (blocks - 2) ** 2))
        return lost - lost.mean(axis=1, keepdims=True), pairs.transpose(1, 2, 0)

    def _split_searches(self, weights: csr_array) -> Iterator[_Search]:
        """The blocks and queries of each search, and the weights of its samples."""
        for search in np.unique(self.searches):
            of_search = self.searches == search
            mine = (self.blocks >= 0) & of_search[self.blocks]
            chosen = weights if mine.all() else (weights @ diags_array(mine.astype(float))).tocsr()
            blocks, rows = np.flatnonzero(of_search), np.flatnonzero(mine[self.rows])
            left = self.values[np.ix_(rows, blocks)].astype(float)
            yield _Search(blocks, rows, chosen, _total(chosen), chosen[:, self.rows[rows]], left)


class _Search(NamedTuple):
    """One of the searches of `WithoutBlocks`: blocks, queries, weights of its samples and their sum.

    `queries` are the weights `(m, c)` of its queries, and `left` their values `(c, b)` without each block.
    """

    blocks: NDArray[np.int64]
    rows: NDArray[np.int64]
    weights: csr_array
    total: Floats
    queries: csr_array
    left: Floats

    def means(self) -> Floats:
        """The means `(m, b)` of the queries without each block."""
        known = (~np.isnan(self.left)).astype(float)
        return divided(self.queries @ np.nan_to_num(self.left), self.queries @ known)


def _total(weights: csr_array) -> Floats:
    """The sums `(m, 1)` of the weights of means."""
    return np.asarray(weights.sum(axis=1), dtype=np.float64).reshape(-1, 1)


def values_without_blocks(
    measure: Callable[[Tensor, Tensor], Mapping[str, Tensor]],
    rank: Callable[[Tensor, int], Iterable[RankedChunk]],
    blocks: NDArray[np.int64],
    own: NDArray[np.int64],
    among: NDArray[np.int64],
    seed: int,
    progress: Progress | None = None,
) -> dict[str, WithoutBlocks]:
    """Every number of a search among the samples without each block of samples.

    The samples are ranked once: without a block the others stay in their order.

    Args:
        measure: Gives the numbers of queries `(q,)`, positions of samples, whose rankings are the samples
            `(q, w)`, best first, then −1: a value `(q,)` of each number, NaN where it does not count.
        rank: Gives the rankings of queries `(q,)` among all samples, so many queries at a time.
        blocks: `(n,)` block of each sample, see `draw_blocks`.
        own: `(n,)` samples of a query's number are no results of it.
        among: `(c,)` positions of the queries that all numbers count; the values are computed for 256 of
            them, drawn at random.
        seed: Random seed of that draw.
        progress: Called as `progress(message, done, total)`.
    """
    count = int(blocks.max(initial=-1)) + 1
    rows = np.sort(np.random.default_rng(seed).permutation(among)[:_QUERIES])
    left_out: dict[str, NDArray[np.float32]] = {}
    if count < 2:
        return {}
    at_once = max(1, min(count, _RANKED // len(blocks)))  # blocks
    for start, ranked in rank(torch.from_numpy(rows), max(1, _RANKED // (at_once * len(blocks)))):
        order = ranked.numpy()
        some = rows[start : start + len(order)]
        results, of_block = own[order] != own[some][:, None], blocks[order]
        for first in range(0, count, at_once):
            query, block = np.nonzero(blocks[some][:, None] != np.arange(first, min(first + at_once, count)))
            kept = results[query] & (of_block[query] != first + block[:, None])
            values = measure(torch.from_numpy(some[query]), torch.from_numpy(_compressed(order[query], kept)))
            for name, value in values.items():
                if name not in left_out:
                    left_out[name] = np.full((len(rows), count), np.nan, dtype=np.float32)
                left_out[name][start + query, first + block] = value.numpy()
        if progress is not None:
            progress("without blocks of results", start + len(order), len(rows))
    one = np.zeros(count, dtype=np.int64)
    return {name: WithoutBlocks(blocks, rows, values, one) for name, values in left_out.items()}


def recall_without_blocks(
    rank: Callable[[Tensor, int], Iterable[RankedChunk]],
    labels: Mapping[str, NDArray[np.int64]],
    ks: Sequence[int],
    blocks: NDArray[np.int64],
    own: NDArray[np.int64],
    seed: int,
) -> dict[str, WithoutBlocks]:
    """Recall@k of a search among the samples without each block of samples, of all queries.

    Without a block most queries keep their first right result, so that a few hundred queries do not tell what
    it adds to recall. The first results of every query do, and are soon ranked.

    Args:
        rank: Gives the first results of queries `(q,)` among all samples, so many of them.
        labels: `(n,)` labels of the samples, −1 for one that is neither query nor result, by what follows
            "recall@k" in the name of the number.
        ks: The k of recall@k.
        blocks: `(n,)` block of each sample, see `draw_blocks`.
        own: `(n,)` samples of a query's number, all of its block, are no results of it.
        seed: Random seed of the draw of 131,072 queries, if there are more.
    """
    count = int(blocks.max(initial=-1)) + 1
    if count < 2:
        return {}
    rows = np.sort(np.random.default_rng(seed).permutation(len(blocks))[:_RECALLED])
    ranks = {name: _right_without_blocks(label, blocks, own, rows) for name, label in labels.items()}
    waiting, results = np.arange(len(rows)), _FIRST_RESULTS
    while len(waiting):
        undecided = []
        for start, ranked in rank(torch.from_numpy(rows[waiting]), min(results, len(blocks))):
            of, order = waiting[start : start + len(ranked)], ranked.numpy()
            decided = np.ones(len(of), dtype=bool)
            not_own, of_block = own[order] != own[rows[of]][:, None], blocks[order]
            for name, label in labels.items():
                counted = not_own & (label[order] >= 0)
                right = counted & (label[order] == label[rows[of]][:, None])
                for block in range(count):
                    there = of_block != block
                    places = (counted & there).cumsum(axis=1)
                    first = (right & there).argmax(axis=1)[:, None]
                    hit = np.take_along_axis(right & there, first, axis=1)
                    place = np.where(hit, np.take_along_axis(places, first, axis=1), np.inf)[:, 0]
                    known = ~np.isnan(ranks[name][of, block])
                    ranks[name][of, block] = np.where(known, place, np.nan)
                    decided &= ~known | hit[:, 0] | (places[:, -1] >= max(ks))
            undecided.append(of[~decided])
        waiting = np.concatenate(undecided) if results < len(blocks) else waiting[:0]
        results *= 16
    one = np.zeros(count, dtype=np.int64)
    return {
        f"recall@{k}{name}": WithoutBlocks(
            blocks, rows, np.where(np.isnan(place), np.nan, place <= k).astype(np.float32), one
        )
        for name, place in ranks.items()
        for k in ks
    }


def _right_without_blocks(
    labels: NDArray[np.int64], blocks: NDArray[np.int64], own: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.float32]:
    """`(c, B)`: 0, and NaN where the query `rows` has no right result without block b, or is of it."""
    count = int(blocks.max()) + 1
    _, classes = np.unique(labels, return_inverse=True)
    of_block = np.zeros((classes.max() + 1, count), dtype=np.int64)
    np.add.at(of_block, (classes, blocks), 1)
    keys = own * len(of_block) + classes
    _, mine, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    left = of_block.sum(axis=1)[classes[rows]][:, None] - of_block[classes[rows]]
    left = left - sizes[mine[rows]][:, None]
    unknown = (left <= 0) | (labels[rows] < 0)[:, None] | (blocks[rows][:, None] == np.arange(count))
    return np.where(unknown, np.nan, 0).astype(np.float32)


def _compressed(rows: NDArray[np.int64], kept: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The entries of rows `(q, w)` that are kept, in order, with −1 after the last of a row."""
    counts = kept.sum(axis=1)
    compressed = np.full((len(rows), int(counts.max(initial=0))), -1)
    compressed[np.arange(compressed.shape[1]) < counts[:, None]] = rows[kept]
    return compressed

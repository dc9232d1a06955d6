"""A queue in chunks, with what is known of its relations label by label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor

from labeltree.geometry.precision import widen
from labeltree.pairs.relation import LabelRows, PairRelation
from labeltree.pairs.streaming.tiles import blocks

__all__ = ["Chunk", "Values", "queue_chunks"]

_AHEAD = 8  # chunks whose labels are compared at once
_SINGLE_PAIRS = 1 << 19  # pairs of single queries and keys whose relations are held at once
_PIECES = 16  # keys of one label that are as large a part of a chunk are a piece of their own
_NEARER = 1.5  # how much nearer keys of a label are to each other where they are a piece


@dataclass(frozen=True, eq=False)
class Values:
    """The vectors of a chunk: the sum of some is of their differences to a centre, and of as many centres.

    Attributes:
        pieces: consecutive parts of the chunk, at most twice `_PIECES` and one.
        apart: `(c, d)` h_j less the centre of its piece.
        centres: `(G, d)` of the G pieces, float64.
    """

    pieces: list[slice]
    apart: Tensor
    centres: Tensor

    @classmethod
    def of(cls, vectors: Tensor, chunk: Chunk) -> Values:
        """The vectors `(c, d)` of a chunk, cut where labels end if that brings them nearer to centres."""
        if len(chunk.pieces) == 1 or not _are_clusters(vectors, chunk.pieces):
            centre = vectors.mean(0, keepdim=True)
            return cls([slice(0, len(vectors))], vectors - centre, widen(centre))
        centres = torch.stack([vectors[piece].mean(0) for piece in chunk.pieces])
        apart = torch.empty_like(vectors)
        for piece, centre in zip(chunk.pieces, centres, strict=True):
            torch.sub(vectors[piece], centre, out=apart[piece])
        return cls(chunk.pieces, apart, widen(centres))

    def masses(self, weights: Tensor) -> Tensor:
        """Sums `(r, G)` of weights `(r, c)` over the pieces."""
        if len(self.pieces) == 1:
            return weights.sum(1, keepdim=True)
        return torch.stack([weights[:, piece].sum(1) for piece in self.pieces], dim=1)


def _are_clusters(vectors: Tensor, pieces: list[slice]) -> bool:
    """Whether two vectors of a piece are nearer to each other than two of different ones, by a sample."""
    ends = torch.tensor([(piece.start, piece.stop - 1) for piece in pieces], device=vectors.device)
    one, other = vectors[ends.T]
    within, across = one - other, one - other.roll(1, 0)
    return bool(_NEARER * within.norm() < across.norm())


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some stored keys, and for each of P sets of relations the groups of queries and keys that have one.

    Queries of one label are a group, and keys likewise.

    Attributes:
        keys: `(c,)` indices of the stored keys.
        pieces: consecutive parts of them; keys of a label that many have are one.
        member: `(P, g, k)` bool, whether the relation of two groups is in the set.
        of_query: `(b,)` the group of each query.
        of_key: `(c,)` the group of each key.
        some: `(P, g)` bool, queries that have a relation in the set to any of the keys.
        met: per set, whether there is such a query.
        mixed: per set, whether one of them has such a relation to some of the keys, but not to all.
    """

    keys: Tensor
    pieces: list[slice]
    member: Tensor
    of_query: Tensor
    of_key: Tensor
    some: Tensor = field(init=False)
    met: list[bool] = field(init=False)
    mixed: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        some = self.member.any(2)
        mixed = some & ~self.member.all(2)
        met, partly = torch.stack([some, mixed]).any(2).tolist()
        for name, value in (("some", some), ("met", met), ("mixed", partly)):
            object.__setattr__(self, name, value)

    def rows(self, part: int, block: slice) -> Tensor | None:
        """The queries of a block that meet a key in one of the sets, counted within the block; None: all."""
        some = self.some[part].index_select(0, self.of_query[block])
        return None if bool(some.all()) else some.nonzero()[:, 0]

    def barrier(self, part: int, block: slice, rows: Tensor | None, dtype: torch.dtype) -> Tensor:
        """0 where a query of `rows` and a key have a relation of the set, −∞ elsewhere; `(r, c)`."""
        groups = self.of_query[block]
        groups = groups if rows is None else groups[rows]
        table = torch.zeros_like(self.member[part], dtype=dtype)
        table.masked_fill_(~self.member[part], -torch.inf)
        return table.index_select(1, self.of_key).index_select(0, groups)

    def count(self, part: int, block: slice) -> Tensor:
        """How many of the keys each query of a block meets in one of the sets, `(r,)`."""
        keys = self.of_key.bincount(minlength=self.member.shape[2])
        return (self.member[part] * keys).sum(1)[self.of_query[block]]


def queue_chunks(relation: PairRelation, rows: slice, sets: Tensor, size: int) -> Iterator[Chunk]:
    """All stored keys in chunks of at most `size`, those of one label together.

    Keys of which more than the label counts, because a query is a view of the same sample or the key itself,
    come last; their groups are single queries and keys.

    Args:
        relation: of every query to every stored key, R codes.
        rows: the queries, counted from 0 in a chunk.
        sets: `(P, R)` bool, sets of relations; an excluded pair is in none.
        size: the most keys of a chunk.
    """
    by_label, by_pair = _split(relation, rows)
    sets = torch.cat([sets, sets.new_zeros(len(sets), 1)], dim=1)
    of_query = torch.arange(rows.stop - rows.start, device=by_pair.device)
    queries, query_group = _groups(relation.queries[rows], of_query)
    for ahead in blocks(len(by_label), _AHEAD * size):
        index = by_label[ahead]
        keys, key_group = _groups(relation.keys, index)
        member = sets[:, PairRelation(queries, keys, offset=None).codes()]
        cuts = _cuts(key_group, size // _PIECES)
        for part in blocks(len(index), size):
            here = key_group[part]
            few = slice(int(here[0]), int(here[-1]) + 1)
            ends = [part.start, *(cut for cut in cuts if part.start < cut < part.stop), part.stop]
            pieces = [slice(start - part.start, end - part.start) for start, end in pairwise(ends)]
            yield Chunk(index[part], pieces, member[:, :, few], query_group, here - few.start)
    few = max(_SINGLE_PAIRS // max(rows.stop - rows.start, 1), 1)
    for part in blocks(len(by_pair), min(size, few)):
        index = by_pair[part]
        member = sets[:, relation.codes(rows, index)]
        whole = [slice(0, len(index))]
        yield Chunk(index, whole, member, of_query, torch.arange(len(index), device=index.device))


def _cuts(labels: Tensor, many: int) -> list[int]:
    """Where, in sorted labels `(c,)`, one that `many` have begins or ends."""
    count = torch.unique_consecutive(labels, return_counts=True)[1]
    end, large = count.cumsum(0), count >= many
    return sorted({*(end - count)[large].tolist(), *end[large].tolist()})


def _split(relation: PairRelation, rows: slice) -> tuple[Tensor, Tensor]:
    """Keys whose label is all that counts to some queries, by label; and the others."""
    keys = relation.keys
    every = torch.arange(len(keys), device=keys.nodes.device)
    if type(relation).codes is not PairRelation.codes:
        return every[:0], every
    special = torch.zeros_like(every, dtype=torch.bool)
    ours, theirs = relation.queries[rows].instances, keys.instances
    if ours is not None and theirs is not None and len(ours):
        ours = ours.sort().values
        at = torch.searchsorted(ours, theirs).clamp_(max=len(ours) - 1)
        special |= ours[at] == theirs
    if relation.offset is not None:
        start, stop = (max(relation.offset + end, 0) for end in (rows.start, rows.stop))
        special[start:stop] = True
    plain = (~special).nonzero()[:, 0]
    return plain[keys.nodes[plain].argsort(stable=True)], special.nonzero()[:, 0]


def _groups(rows: LabelRows, index: Tensor) -> tuple[LabelRows, Tensor]:
    """One of the indexed rows for every distinct label, without instances, and which of them each row has."""
    labels, group = torch.unique(rows.nodes[index], return_inverse=True)
    first = rows[index.new_empty(len(labels)).scatter_(0, group, index)]
    return LabelRows(first.nodes, first.paths, None, first.depth), group

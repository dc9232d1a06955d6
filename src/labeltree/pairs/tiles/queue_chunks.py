"""A queue in chunks, with relations computed label by label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from labeltree.pairs.relation import LabelRows, PairRelation
from labeltree.pairs.tiles.grid import blocks

__all__ = ["Chunk", "queue_chunks"]

_AHEAD = 8  # chunks whose labels are compared at once
_GOLDEN = (5**0.5 - 1) / 2
_SINGLE_PAIRS = 1 << 19  # pairs of single queries and keys whose relations are held at once


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some stored keys, and for each of P sets of relations the groups of queries and keys that have one.

    Queries of one label are a group, and keys likewise.

    Attributes:
        keys: `(c,)` indices of the stored keys.
        member: `(P, g, k)` bool, whether the relation of two groups is in the set.
        of_query: `(b,)` the group of each query.
        of_key: `(c,)` the group of each key.
        some: `(P, g)` bool, queries that have a relation in the set to any of the keys.
        met: Per set, whether there is such a query.
        mixed: Per set, whether one of them has such a relation to some of the keys, but not to all.
    """

    keys: Tensor
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
    """All stored keys in chunks of at most `size`, those of one label in the same chunks as far as can be.

    Keys whose relation depends on more than the label, because a query is a view of the same sample or the
    key itself, come last; their groups are single queries and keys.

    Args:
        relation: Relation of every query to every stored key, R codes.
        rows: The queries, counted from 0 in a chunk.
        sets: `(P, R)` bool, sets of relations; an excluded pair is in none.
        size: Largest number of keys in a chunk.
    """
    by_label, by_pair = _split(relation, rows)
    sets = torch.cat([sets, sets.new_zeros(len(sets), 1)], dim=1)
    of_query = torch.arange(rows.stop - rows.start, device=by_pair.device)
    queries, query_group = _groups(relation.queries[rows], of_query)
    for ahead in blocks(len(by_label), _AHEAD * size):
        index = by_label[ahead]
        keys, key_group = _groups(relation.keys, index)
        member = sets[:, PairRelation(queries, keys, offset=None).codes()]
        for part in blocks(len(index), size):
            here = key_group[part]
            few = slice(int(here[0]), int(here[-1]) + 1)
            mixed = _interleave(len(here), here.device)
            yield Chunk(index[part][mixed], member[:, :, few], query_group, (here - few.start)[mixed])
    few = max(_SINGLE_PAIRS // max(rows.stop - rows.start, 1), 1)
    for part in blocks(len(by_pair), min(size, few)):
        index = by_pair[part]
        member = sets[:, relation.codes(rows, index)]
        yield Chunk(index, member, of_query, torch.arange(len(index), device=index.device))


def _interleave(count: int, device: torch.device) -> Tensor:
    """An order of `count` keys that puts neighbours far apart.

    Keys of one label in a row are nearly equal terms of a sum in a row, which all round the same way.
    """
    return (torch.arange(count, dtype=torch.float64) * _GOLDEN).frac().argsort().to(device)


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

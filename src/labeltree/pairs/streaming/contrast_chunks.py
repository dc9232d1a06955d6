"""A queue in chunks whose relations to the queries are known label by label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.pairs.relation import LabelRows, PairRelation
from labeltree.pairs.streaming.tiles import blocks

__all__ = ["Chunk", "queue_chunks"]

_AHEAD = 8  # chunks whose labels are compared at once


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some stored keys, with the codes of groups of queries (their labels) to groups of keys.

    Attributes:
        keys: `(c,)` indices of the stored keys.
        codes: `(g, k)` the relation of every group of queries to every group of keys.
        of_query: `(b,)` the group of each query.
        of_key: `(c,)` the group of each key.
    """

    keys: Tensor
    codes: Tensor
    of_query: Tensor
    of_key: Tensor

    def rows(self, allowed: Tensor, block: slice) -> Tensor | None:
        """The queries of a block that a table `(g, k)` allows any key, counted within it; None: all."""
        met = allowed.any(1).index_select(0, self.of_query[block])
        return None if bool(met.all()) else met.nonzero()[:, 0]

    def spread(self, table: Tensor, block: slice, rows: Tensor | None) -> Tensor:
        """A table `(g, k)` as one over the rows of a block and the keys, `(r, c)`."""
        groups = self.of_query[block]
        groups = groups if rows is None else groups[rows]
        return table.index_select(1, self.of_key).index_select(0, groups)


def queue_chunks(relation: PairRelation, size: int) -> Iterator[Chunk]:
    """All stored keys in chunks of at most `size`, those of one label together.

    Keys of which more than the label counts, because a query is a view of the same sample or the key itself,
    come last; their codes are those of the pairs.
    """
    of_query = torch.arange(relation.num_queries, device=relation.queries.nodes.device)
    by_label, by_pair = _split(relation)
    queries, query_group = _groups(relation.queries)
    for ahead in blocks(len(by_label), _AHEAD * size):
        index = by_label[ahead]
        keys, key_group = _groups(relation.keys[index])
        codes = PairRelation(queries, keys, offset=None).codes()
        for part in blocks(len(index), size):
            here = key_group[part]
            few = slice(int(here[0]), int(here[-1]) + 1)
            yield Chunk(index[part], codes[:, few], query_group, here - few.start)
    for part in blocks(len(by_pair), size):
        index = by_pair[part]
        codes = relation.codes(None, index)
        yield Chunk(index, codes, of_query, torch.arange(len(index), device=index.device))


def _split(relation: PairRelation) -> tuple[Tensor, Tensor]:
    """Keys whose label is all that counts, by label; and the others."""
    keys = relation.keys
    every = torch.arange(len(keys), device=keys.nodes.device)
    if type(relation).codes is not PairRelation.codes:
        return every[:0], every
    special = torch.zeros_like(every, dtype=torch.bool)
    ours, theirs = relation.queries.instances, keys.instances
    if ours is not None and theirs is not None and len(ours):
        ours = ours.sort().values
        at = torch.searchsorted(ours, theirs).clamp_(max=len(ours) - 1)
        special |= ours[at] == theirs
    if relation.offset is not None:
        special[relation.offset : relation.offset + relation.num_queries] = True
    plain = (~special).nonzero()[:, 0]
    return plain[keys.nodes[plain].argsort(stable=True)], special.nonzero()[:, 0]


def _groups(rows: LabelRows) -> tuple[LabelRows, Tensor]:
    """One row for every distinct label, without instances, and which of them each row has."""
    labels, group = torch.unique(rows.nodes, return_inverse=True)
    index = torch.arange(len(rows), device=group.device)
    first = rows[index.new_empty(len(labels)).scatter_(0, group, index)]
    return LabelRows(first.nodes, first.paths, None, first.depth), group

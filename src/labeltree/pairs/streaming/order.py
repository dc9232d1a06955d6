"""A batch in the order of its labels, in which most tiles of pairs have one relation."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from labeltree.pairs.gather import rows_of_all_ranks
from labeltree.pairs.relation import LabelRows, PairRelation
from labeltree.pairs.streaming.subtree_sums import SubtreeSums

__all__ = ["LabelOrder", "order_of"]

_MOST_VIEWS = 64


class LabelOrder:
    """The rows of a batch in the order of the tree: nodes are numbered in preorder, missing labels come last.

    Pairs of views of one sample are few, and listed.

    Args:
        relation: of a batch with itself.

    Attributes:
        order: `(n,)` the row of the batch at each place.
        rows: labels, in that order.
        relation: of the rows in that order.
        shard: places `(n_rank,)` of this rank's rows, ascending; None: all are.
        twins: `(2, P)` places i < k of views of one sample.
        twin_codes: `(2, P)` their codes as labels and as views.
    """

    def __init__(self, relation: PairRelation) -> None:
        labels = relation.queries
        key = labels.nodes.masked_fill(labels.nodes < 0, torch.iinfo(torch.int64).max)
        self.order = key.argsort(stable=True)
        self.rows = labels[self.order]
        self.relation = PairRelation(self.rows, self.rows, offset=0)
        self.shard: Tensor | None = None
        if relation.shard is not None:
            own = (self.order >= relation.shard.start) & (self.order < relation.shard.stop)
            self.shard = own.nonzero()[:, 0]
        self._shard = relation.shard
        self.twins = _twin_pairs(self.rows)
        of_pairs = self._twin_codes()
        self.twin_codes = torch.stack([of_pairs, relation.view_codes(of_pairs)])

    def _twin_codes(self) -> Tensor:
        """The codes of the twins as labels, which mostly are one and the same leaf."""
        first, second = self.rows[self.twins[0]], self.rows[self.twins[1]]
        if len(first) and first.are_leaves and bool((first.nodes == second.nodes).all()):
            return self.relation.leaf_codes(first)
        return self.relation.paired_codes(first, second)

    @staticmethod
    def fits(relation: PairRelation, few: int = 0) -> bool:
        """Whether a batch can be walked in this order: a batch with itself, by labels alone.

        Up to `few` rows, one tile, may all be views of one sample, and lie at several depths.
        """
        if type(relation) is not PairRelation or relation.queries is not relation.keys:
            return False
        if relation.offset != 0 or len(relation.queries) == 0:
            return False
        if len(relation.queries) <= few:
            return True
        depth = relation.queries.depth
        if depth is not None and relation.max_depth:  # refined codes: one for all only where all are as deep
            known = depth[relation.queries.nodes >= 0]
            if known.numel() and int(known.min()) != int(known.max()):
                return False
        return _most_views(relation.queries.instances) <= _MOST_VIEWS

    @cached_property
    def sums(self) -> SubtreeSums:
        """Sums over subtrees of the batch."""
        apart = torch.arange(self.relation.max_depth)
        if self.relation.refined:
            known = self.rows.nodes >= 0
            assert self.rows.depth is not None
            depth = int(self.rows.depth[known].max()) if bool(known.any()) else 1
            apart = self.relation.space.apart(apart, depth)
        return SubtreeSums(self.rows, self.twins, self.twin_codes, apart, self.relation.num_relations)

    def blocks(self, side: int) -> list[slice]:
        """Consecutive blocks of about `side` rows that end where the coarsest nodes do.

        A block is no longer than 9/8 of it, and no shorter than half of it but for the last. Then most tiles
        lie within one pair of coarse nodes.
        """
        n = len(self.rows)
        shared = torch.zeros(n + 1)  # how much of its path a row shares with the one before
        paths, nodes = self.rows.paths, self.rows.nodes
        same = ((paths[1:] == paths[:-1]) & (paths[1:] >= 0)).sum(1) + 2 * (nodes[1:] == nodes[:-1])
        shared[1:n] = torch.where(nodes[1:] < 0, 2.0 * (nodes[:-1] < 0), same).to(shared)
        cuts, most = [0], max(side, side * 9 // 8)
        while n - cuts[-1] > most:
            least = cuts[-1] + max(side // 2, 1)
            window = shared[least : cuts[-1] + most + 1]
            ends = (window == window.min()).nonzero()[:, 0] + least
            cuts.append(int(ends[(ends - cuts[-1] - side).abs().argmin()]))
        return [slice(begin, end) for begin, end in zip(cuts, [*cuts[1:], n], strict=True)]

    def from_ranks(self, own: Tensor | None) -> Tensor | None:
        """Statistics `(n, R)` of all rows, from those `(n_rank, R)` of this rank's rows; no gradient."""
        if own is None or self.shard is None or self._shard is None:
            return own
        rows = torch.empty_like(own)
        rows[self.order[self.shard] - self._shard.start] = own
        return rows_of_all_ranks(rows, self._shard, len(self.order))[self.order]

    def unsorted(self, x: Tensor) -> Tensor:
        """Rows `x (n, ...)` in the order of the batch."""
        return torch.empty_like(x).index_copy_(0, self.order, x)


def _most_views(instances: Tensor | None) -> int:
    """The largest number of rows of one instance."""
    if instances is None:
        return 1
    _, counts = torch.unique(instances, return_counts=True)
    return int(counts.max())


def _twin_pairs(rows: LabelRows) -> Tensor:
    """All pairs of rows of one instance, `(2, P)`, the earlier row first."""
    if rows.instances is None:
        return rows.nodes.new_empty((2, 0))
    ids, row = rows.instances.sort(stable=True)
    found = [torch.empty((2, 0), dtype=torch.int64, device=ids.device)]
    for step in range(1, len(ids)):
        same = (ids[step:] == ids[:-step]).nonzero()[:, 0]
        if not len(same):
            break
        found.append(torch.stack([row[same], row[same + step]]))
    return torch.cat(found, dim=1)


def order_of(relation: PairRelation) -> LabelOrder:
    """The order of a batch with itself, or with the rows of its shard; one for all walks over a relation."""
    key = ("order", relation.shard and (relation.shard.start, relation.shard.stop))
    if key not in relation.kept:
        relation.kept[key] = LabelOrder(relation)
    found: LabelOrder = relation.kept[key]
    return found

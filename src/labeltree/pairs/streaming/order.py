"""A batch in the order of its labels, in which most tiles of pairs have one relation."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.pairs.relation import LabelRows, PairRelation
from labeltree.pairs.streaming.subtree_sums import SubtreeSums
from labeltree.pairs.streaming.tile_codes import TileCodes

__all__ = ["LabelOrder", "label_codes", "label_sums", "runs", "twin_pairs"]

_MOST_VIEWS = 64
_FEW = 64 * 64  # pairs of labels up to which the general way to their codes is as fast


class LabelOrder:
    """The rows of a batch in the order of the tree, with the relations of tiles of it.

    Nodes are numbered in preorder, so that the rows of a subtree lie together once rows are sorted by label;
    rows without a label come last. Then a tile has one relation if its four corners have: sorted rows between
    two that share a path share it too, and where the rows on either side of a boundary differ, all beyond it
    do. Pairs of views of one sample are few and listed apart; the codes here are those of their labels.

    Args:
        relation: of a batch with itself.
        tile: rows and columns of a tile.

    Attributes:
        order: `(n,)` the row of the batch at each place.
        rows: labels, in that order.
        pure: `(B, B)` for each tile its one code, or −1; only I ≤ J counts.
        twins: `(2, P)` places i < k of views of one sample, tile by tile.
        twin_codes: `(2, P)` their codes as labels and as views.
    """

    def __init__(self, relation: PairRelation, tile: int) -> None:
        labels = relation.queries
        n = len(labels)
        missing = labels.nodes < 0
        key = labels.nodes.masked_fill(missing, torch.iinfo(torch.int64).max)
        self.order = key.argsort(stable=True)
        self.rows = labels[self.order]
        self.relation = relation
        self.tile = tile
        self.blocks = [slice(start, min(start + tile, n)) for start in range(0, n, tile)]
        first = [block.start for block in self.blocks]
        last = [block.stop - 1 for block in self.blocks]
        ends = self.rows[torch.tensor(first + last, device=labels.nodes.device)]
        corners = relation.label_codes(ends, ends).view(2, len(first), 2, len(first))
        lowest, highest = corners.amin((0, 2)), corners.amax((0, 2))
        self.pure: list[list[int]] = torch.where(lowest == highest, lowest, -1).tolist()
        self.twins = twin_pairs(self.rows.instances)
        blocks = len(self.blocks)
        at = (self.twins[0] // tile) * blocks + self.twins[1] // tile
        at, by_tile = at.sort(stable=True)
        self.twins = self.twins[:, by_tile]
        self._ends = torch.searchsorted(at, torch.arange(blocks * blocks + 1, device=at.device)).tolist()

        of_pairs = relation.paired_codes(self.rows[self.twins[0]], self.rows[self.twins[1]])
        self.twin_codes = torch.stack([of_pairs, relation.view_codes(of_pairs)])

    @staticmethod
    def fits(relation: PairRelation) -> bool:
        """Whether a batch can be walked in this order: a batch with itself, by labels alone."""
        if type(relation) is not PairRelation or relation.queries is not relation.keys:
            return False
        if relation.offset != 0 or len(relation.queries) == 0:
            return False
        depth = relation.queries.depth
        if depth is not None and relation.max_depth:  # refined codes: one for all only where all are as deep
            known = depth[relation.queries.nodes >= 0]
            if known.numel() and int(known.min()) != int(known.max()):
                return False
        return _most_views(relation.queries.instances) <= _MOST_VIEWS

    def twins_of(self, i: int, j: int) -> tuple[Tensor, Tensor] | None:
        """Places within tile (i, j), i ≤ j, of its pairs of views; None if there are none."""
        at = i * len(self.blocks) + j
        begin, end = self._ends[at], self._ends[at + 1]
        if begin == end:
            return None
        pairs = self.twins[:, begin:end]
        return pairs[0] - i * self.tile, pairs[1] - j * self.tile

    def mask(self, tile: Tensor, i: int, j: int, value: float) -> Tensor:
        """Set what is no pair of labels in a tile: a row with itself, and views of one sample."""
        if i == j:
            tile.fill_diagonal_(value)
        twins = self.twins_of(i, j)
        if twins is not None:
            tile[twins] = value
            if i == j:
                tile[twins[::-1]] = value
        return tile

    def codes(self, i: int, j: int) -> TileCodes:
        """The codes of a tile that has several."""
        u, v = self.rows[self.blocks[i]], self.rows[self.blocks[j]]
        (first_u, label_u), (first_v, label_v) = runs(u.nodes), runs(v.nodes)
        return TileCodes(
            label_codes(self.relation, u[first_u], v[first_v]), label_u, label_v, self.relation.num_relations
        )


def label_sums(order: LabelOrder) -> SubtreeSums:
    """Sums over subtrees of the batch."""
    relation = order.relation
    apart = torch.arange(relation.max_depth)
    if relation.refined:
        known = order.rows.nodes >= 0
        assert order.rows.depth is not None
        depth = int(order.rows.depth[known].max()) if bool(known.any()) else 1
        apart = relation.space.apart(apart, depth)
    return SubtreeSums(order.rows, order.twins, order.twin_codes, apart, relation.num_relations)


def label_codes(relation: PairRelation, u: LabelRows, v: LabelRows) -> Tensor:
    """As `PairRelation.label_codes`, of distinct labels in order; quicker where all of them are leaves."""
    few = len(u) * len(v) <= _FEW or relation.max_depth == 0 or relation.refined
    if few or int(v.nodes[-1]) >= 1 << 24 or not bool(_leaves(u) & _leaves(v)):
        return relation.label_codes(u, v)
    depth = torch.full((len(u), len(v)), float(relation.max_depth), device=u.nodes.device)
    for a, b in zip(u.paths.float().unbind(1), v.paths.float().unbind(1), strict=True):
        depth -= (a[:, None] - b).abs_().clamp_(max=1)  # float32 holds all numbers of nodes here
    codes = depth.long()
    equal = u.nodes[:, None] == v.nodes
    return torch.where(equal, relation.paired_codes(u, u)[:, None], codes)


def _leaves(rows: LabelRows) -> Tensor:
    return (rows.nodes >= 0).all() & (rows.paths[:, -1] >= 0).all()


def runs(nodes: Tensor) -> tuple[Tensor, Tensor]:
    """The first row of every run of one label, and the run of each row."""
    _, run = torch.unique_consecutive(nodes, return_inverse=True)
    new = torch.ones_like(run, dtype=torch.bool)
    new[1:] = run[1:] != run[:-1]
    return new.nonzero()[:, 0], run


def _most_views(instances: Tensor | None) -> int:
    """The largest number of rows of one instance."""
    if instances is None:
        return 1
    _, counts = torch.unique(instances, return_counts=True)
    return int(counts.max())


def twin_pairs(instances: Tensor | None) -> Tensor:
    """All pairs of rows of one instance, `(2, P)`, the earlier row first."""
    if instances is None:
        return torch.empty((2, 0), dtype=torch.int64)
    ids, row = instances.sort(stable=True)
    found = [torch.empty((2, 0), dtype=torch.int64, device=ids.device)]
    for step in range(1, len(ids)):
        same = (ids[step:] == ids[:-step]).nonzero()[:, 0]
        if not len(same):
            break
        found.append(torch.stack([row[same], row[same + step]]))
    return torch.cat(found, dim=1)

"""The relation codes of one tile: what depends on them is looked up, and summed, per pair of labels."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from labeltree.pairs.relation import LabelRows, PairRelation
from labeltree.pairs.streaming.corner_codes import CornerCodes
from labeltree.pairs.streaming.nested_codes import NestedCodes

__all__ = ["TileCodes", "column_minima", "tile_codes"]

# A walk up the tree costs a step a depth; below so many pairs of labels their codes are cheaper.
_DEEP, _FEW = 6, 128 * 128


class TileCodes(Protocol):
    """The codes of a tile `(b, c)` whose rows and columns are sorted by label."""

    size: int

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""

    @property
    def present(self) -> list[int]:
        """The codes that occur, and perhaps some that do not."""

    @property
    def transposed(self) -> TileCodes:
        """The codes of the tile with rows and columns exchanged."""

    def column_sums(self, values: Tensor) -> Tensor:
        """Sums `(R, c)` of each column of a tile `(b, c)` by code."""

    def spread_columns(self, table: Tensor) -> Tensor:
        """Each column's own entries `(b, c)` of a table `(R, c)`."""

    def spread(self, table: Tensor) -> Tensor:
        """The entries `(b, c)` of a table `(R,)` over the codes."""


def tile_codes(relation: PairRelation, u: LabelRows, v: LabelRows) -> TileCodes:
    """The codes of the tile of rows `u` and columns `v`, as labels; one and the same for both if they are."""
    apart = _apart(relation, u, v)
    if apart is None:
        return LabelPairCodes.of(relation, u, v)
    if u is not v and u.nodes[-1] <= v.nodes[0]:
        return CornerCodes.of(relation, u, v, apart)
    if u is not v and v.nodes[-1] <= u.nodes[0]:
        return CornerCodes.of(relation, v, u, apart).transposed
    if relation.max_depth > _DEEP and _distinct(u) * _distinct(v) <= _FEW:
        return LabelPairCodes.of_leaves(relation, u, v, apart)
    own_u = relation.leaf_codes(u)
    own_v = own_u if u is v else relation.leaf_codes(v)
    return NestedCodes(u.paths, v.paths, own_u, own_v, apart, relation.num_relations)


def _apart(relation: PairRelation, u: LabelRows, v: LabelRows) -> list[int] | None:
    """The code of pairs of leaves that are apart below each depth 0 … L − 1, or None: it takes more."""
    if "leaves" not in relation.kept:
        relation.kept["leaves"] = relation.queries.are_leaves and relation.keys.are_leaves
    if not (relation.kept["leaves"] or (u.are_leaves and (u is v or v.are_leaves))):
        return None
    if not relation.refined or u.depth is None or v.depth is None:
        return list(range(relation.max_depth))
    least, most = torch.cat([u.depth, v.depth]).aminmax()
    if int(least) != int(most):
        return None
    codes: list[int] = relation.space.apart(torch.arange(relation.max_depth), int(least)).tolist()
    return codes


def column_minima(codes: TileCodes, values: Tensor, most: float) -> Tensor:
    """Least entries `(R, c)` of each column of a tile by code, all within ±`most`; +∞ for no entry."""
    least = values.new_full((codes.size, values.shape[1]), torch.inf)
    number = codes.spread(torch.arange(codes.size, dtype=values.dtype, device=values.device))
    for code in codes.present:
        other = (number - code).abs_().clamp_(max=1).mul_(4 * most)
        here = other.add_(values).amin(0)
        least[code] = torch.where(here > 2 * most, torch.inf, here)
    return least


class LabelPairCodes:
    """As `TileCodes`, for any labels: one code per pair of labels.

    Args:
        of_labels: `(B, C)` int64 codes of the labels that occur.
        rows: `(b,)` the label of each row among them, never decreasing.
        cols: `(c,)` the label of each column.
        size: number R of codes.
    """

    def __init__(self, of_labels: Tensor, rows: Tensor, cols: Tensor, size: int) -> None:
        self.of_labels, self.rows, self.cols, self.size = of_labels, rows, cols, size
        self._by_column: Tensor | None = None

    @classmethod
    def of(cls, relation: PairRelation, u: LabelRows, v: LabelRows) -> LabelPairCodes:
        """The codes of the tile of rows `u` and columns `v`."""
        (first_u, label_u), (first_v, label_v) = _runs(u.nodes), _runs(v.nodes)
        of_labels = relation.label_codes(u[first_u], v[first_v])
        return cls(of_labels, label_u, label_v, relation.num_relations)

    @classmethod
    def of_leaves(
        cls, relation: PairRelation, u: LabelRows, v: LabelRows, apart: list[int]
    ) -> LabelPairCodes:
        """As `of`, where all labels are leaves, of `apart` the codes of those that are."""
        (first_u, label_u), (first_v, label_v) = _runs(u.nodes), _runs(v.nodes)
        u, v = u[first_u], v[first_v]
        depth = (u.paths[:, None] == v.paths).sum(2)
        codes = depth.new_tensor([*apart, 0])[depth]
        own = relation.leaf_codes(u)[:, None]
        of_labels = torch.where(depth == relation.max_depth, own, codes)
        return cls(of_labels, label_u, label_v, relation.num_relations)

    @property
    def nbytes(self) -> int:
        """As `TileCodes.nbytes`."""
        by_column = len(self.of_labels) * self.cols.nbytes
        return self.of_labels.nbytes + by_column + self.rows.nbytes + self.cols.nbytes

    @property
    def present(self) -> list[int]:
        """As `TileCodes.present`."""
        found: list[int] = torch.unique(self.of_labels).tolist()
        return found

    @property
    def transposed(self) -> LabelPairCodes:
        """As `TileCodes.transposed`."""
        return LabelPairCodes(self.of_labels.T.contiguous(), self.cols, self.rows, self.size)

    def column_sums(self, values: Tensor) -> Tensor:
        """As `TileCodes.column_sums`."""
        by_label = values.new_zeros((len(self.of_labels), values.shape[1])).index_add_(0, self.rows, values)
        found = values.new_zeros((values.shape[1], self.size))
        return found.scatter_add_(1, self._codes(), by_label.T).T

    def spread_columns(self, table: Tensor) -> Tensor:
        """As `TileCodes.spread_columns`."""
        entries = table.T.gather(1, self._codes())
        return entries.T.index_select(0, self.rows)

    def spread(self, table: Tensor) -> Tensor:
        """As `TileCodes.spread`."""
        entries = table.index_select(0, self.of_labels.flatten()).view_as(self.of_labels)
        by_column = entries.T.index_select(0, self.cols)  # rows are what is fast to select
        return by_column.T.contiguous().index_select(0, self.rows)

    def _codes(self) -> Tensor:
        """The codes `(c, B)` of each column with the labels of the rows."""
        if self._by_column is None:
            self._by_column = self.of_labels.T.index_select(0, self.cols)
        return self._by_column


def _distinct(rows: LabelRows) -> int:
    """Number of labels of sorted rows."""
    return 1 + int((rows.nodes[1:] != rows.nodes[:-1]).sum())


def _runs(nodes: Tensor) -> tuple[Tensor, Tensor]:
    """The first row of every run of one label, and the run of each row."""
    _, run = torch.unique_consecutive(nodes, return_inverse=True)
    new = torch.ones_like(run, dtype=torch.bool)
    new[1:] = run[1:] != run[:-1]
    return new.nonzero()[:, 0], run

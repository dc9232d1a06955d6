"""Contrast over tiles with a weight per pair, looked up by the kinds of its two rows: SupCon by ratings."""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from labeltree.pairs.relation import LabelRows, PairRelation, Rows
from labeltree.pairs.tiles.contrast import add_up, exponent_dtype
from labeltree.pairs.tiles.grid import Grid, Tile, scratch
from labeltree.pairs.tiles.walk import Cosines, Slope

__all__ = ["KindRelation", "WeightedContrast", "rows_by_kind"]


@runtime_checkable
class KindRelation(Protocol):
    """What a relation in the codes of a tree of depth 0 offers if it and the weights depend on kinds of rows.

    Views of one sample are `INSTANCE` and have the weight 1, whatever their kinds.
    """

    @property
    def kinds(self) -> Tensor:
        """The kind `(n,)` int64 of each row, from 0, every number up to the largest in use."""

    def weight(self, rows: Rows = None, cols: Rows = None) -> Tensor:
        """The weights of the pairs of rows, the `pair_weight` that goes with the relation."""

    def kind_weights(
        self, rows: slice | Tensor, cols: slice | Tensor, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor | None]:
        """Of kinds `(b,)` and `(c,)`: the weights `(b, c)`, above 0 where they are `SAME`, 0 where `APART`.

        And 1 where they are `UNKNOWN`, whose weight is 0, and else 0; or None, where none is.
        """


def rows_by_kind(relation: PairRelation, kinds: Tensor) -> PairRelation:
    """The batch with its kinds as labels."""
    labels = LabelRows(kinds, kinds.new_empty((len(kinds), 0)), relation.queries.instances, None)
    labelled = PairRelation(labels, labels, offset=0)
    labelled.shard = relation.shard
    return labelled


class WeightedContrast:
    """A `TileLoss`: log Σ_k exp(s_ik) and Σ_k w_ik·s_ik of every row.

    Attributes:
        weight: After the forward, `(n,)` Σ_k w_ik, in the order of the batch.
        positives: Likewise, the number of pairs with a weight above 0.

    Args:
        grid: The grid of `rows_by_kind`.
        relation: The relation of the kinds.
        dtype: Dtype of the embeddings.
        temperature: τ.
        unknown_competes: Whether pairs of unknown relation count in the denominator.
    """

    def __init__(
        self,
        grid: Grid,
        relation: KindRelation,
        dtype: torch.dtype,
        temperature: float,
        *,
        unknown_competes: bool,
    ) -> None:
        exponents = exponent_dtype(dtype, temperature, None)
        assert exponents is not None
        self._grid, self._relation, self._dtype, self._exponents = grid, relation, dtype, exponents
        self._temperature, self._base = temperature, math.log2(math.e) / temperature
        self._unknown_competes = unknown_competes
        own = len(grid.order) if grid.shard is None else len(grid.shard)
        device = grid.order.device
        self._sums, self._weight, self._weighted, self._positives = torch.zeros(
            4, own, dtype=torch.float64, device=device
        )

    def see(self, tile: Tile, cosines: Cosines) -> Tensor:
        """As `TileLoss.see`."""
        exponent, (weight, competing) = cosines(self._base), self._pairs(tile)
        if weight is not None:
            add_up(self._weighted, tile, torch.mul(weight, exponent, out=scratch("part", tile.shape, weight)))
            add_up(self._weight, tile, weight)
            add_up(self._positives, tile, torch.sign(weight, out=scratch("part", tile.shape, weight)))
        values = self._exponentials(tile, exponent, competing)
        add_up(self._sums, tile, values)
        return values

    def results(self) -> tuple[Tensor, ...]:
        """The log-sum-exps, 0 of rows that nothing competes with, and the weighted sums, `(n,)`."""
        own = torch.stack([self._sums, self._weight, self._weighted, self._positives], dim=1)
        self._denominators, weight, weighted, positives = self._grid.from_ranks(own).unbind(1)
        self.weight, self.positives = (self._grid.unsorted(x.to(self._dtype)) for x in (weight, positives))
        lse = torch.where(self._denominators > 0, self._denominators, 1.0).log()
        return lse.to(self._dtype), (weighted * math.log(2)).to(self._dtype)

    def slopes(self, *grads: Tensor | None) -> Slope:
        """As `TileLoss.slopes`."""
        grad_lse, grad_weighted = grads
        none, here = torch.zeros_like(self._denominators), self._denominators
        of_sums = none if grad_lse is None else torch.where(here > 0, grad_lse / here, 0.0)
        of_sums = of_sums.div(self._temperature).to(self._exponents)
        of_weighted = (
            (none if grad_weighted is None else grad_weighted).div(self._temperature).to(self._dtype)
        )

        def slope(tile: Tile, seen: Tensor | None, cosines: Cosines) -> Tensor:
            weight, competing = self._pairs(tile)
            if seen is None:
                seen = self._exponentials(tile, cosines(self._base), competing)
            slopes = seen.mul_(self._both(of_sums, tile)).to(self._dtype)
            return slopes if weight is None else slopes.addcmul_(weight, self._both(of_weighted, tile))

        return slope

    def _exponentials(self, tile: Tile, exponent: Tensor, competing: Tensor | None) -> Tensor:
        values = tile.clear(exponent.to(self._exponents).exp2_())
        return values if competing is None else values.mul_(competing)

    def _pairs(self, tile: Tile) -> tuple[Tensor | None, Tensor | None]:
        """The weights of a tile's pairs, None: all 0; and 1 where they compete, None: they all do."""
        kinds = self._grid.labels.nodes
        rows, cols = kinds[tile.row_labels.first], kinds[tile.col_labels.first]
        weight, unknown = self._relation.kind_weights(rows, cols, self._dtype)
        competing = None
        if unknown is not None and not self._unknown_competes:
            competing = tile.spread(1 - unknown, 1.0, "competing")
        if not tile.views.shape[1] and not weight.amax() > 0:
            return None, competing
        return tile.spread(weight, 1.0, "weights"), competing

    def _both(self, slope: Tensor, tile: Tile) -> Tensor:
        """x_i + x_k of a tile."""
        row, col = self._grid.own(slope)[tile.rows, None], slope[tile.cols]
        return torch.add(row, col, out=scratch("slopes", tile.shape, slope))

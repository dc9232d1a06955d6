"""The relation codes of one tile, kept per pair of labels, and sums over them."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["TileCodes"]


class TileCodes:
    """The codes of a tile whose rows and columns are sorted by label.

    A tile has fewer labels than rows: what depends on codes is looked up per pair of labels and spread, or
    summed per label and then by code.

    Args:
        of_labels: `(B, C)` int64 codes of the labels that occur.
        rows: `(b,)` the label of each row among them, never decreasing.
        cols: `(c,)` the label of each column.
        size: number R of codes.
    """

    def __init__(self, of_labels: Tensor, rows: Tensor, cols: Tensor, size: int) -> None:
        self.of_labels, self.rows, self.cols, self.size = of_labels, rows, cols, size
        self._of_rows: Tensor | None = None

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        of_rows = self.of_labels.shape[1] * self.rows.nbytes
        return self.of_labels.nbytes + of_rows + self.rows.nbytes + self.cols.nbytes

    def spread(self, table: Tensor) -> Tensor:
        """The entries `(b, c)` of a table over the codes."""
        entries = table.index_select(0, self.of_labels.flatten()).view_as(self.of_labels)
        by_column = entries.T.index_select(0, self.cols)  # rows are what is fast to select
        return by_column.T.contiguous().index_select(0, self.rows)

    def spread_rows(self, table: Tensor) -> Tensor:
        """Each row's own entries `(b, c)`, of a table `(b, R)`."""
        entries = table.gather(1, self._by_row())
        return entries.T.index_select(0, self.cols).T

    def both(self, table: Tensor) -> Tensor:
        """The sum `(b, b)` of what either row of a pair has in a table `(b, R)`; of a batch with itself."""
        one = self.spread_rows(table)
        return one + one.T

    def row_sums(self, tile: Tensor) -> Tensor:
        """Sums `(b, R)` of each row of a tile `(b, c)` by code."""
        by_label = tile.new_zeros((self.of_labels.shape[1], len(tile)))
        by_label.index_add_(0, self.cols, tile.T.contiguous())
        return tile.new_zeros((len(tile), self.size)).scatter_add_(1, self._by_row(), by_label.T)

    def row_minima(self, tile: Tensor, most: float) -> Tensor:
        """Least entries `(b, R)` of each row of a tile by code, all within ±`most`; +∞ for no entry."""
        least = tile.new_full((len(tile), self.size), torch.inf)
        codes = self.spread(torch.arange(self.size, dtype=tile.dtype, device=tile.device))
        for code in torch.unique(self.of_labels).tolist():
            other = (codes - code).abs_().clamp_(max=1).mul_(4 * most)
            here = other.add_(tile).amin(1)
            least[:, code] = torch.where(here > 2 * most, torch.inf, here)
        return least

    def _by_row(self) -> Tensor:
        """The codes `(b, C)` of each row with the labels of the columns."""
        if self._of_rows is None:
            self._of_rows = self.of_labels.index_select(0, self.rows)
        return self._of_rows

    @property
    def transposed(self) -> TileCodes:
        """The codes of the tile with rows and columns exchanged."""
        return TileCodes(self.of_labels.T.contiguous(), self.cols, self.rows, self.size)

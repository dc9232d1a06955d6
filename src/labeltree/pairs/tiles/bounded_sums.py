"""The bounded sum over tiles: pair losses of positives, bounded below by the bound of their term."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.pairs.tiles.grid import Grid, Tile
from labeltree.pairs.tiles.walk import Cosines, Slope

__all__ = ["BoundedSum", "least_own"]

_STEEP = 1e30  # makes the sign of a difference a 0 or a 1


def least_own(offset: Tensor, bound: Tensor, temperature: float | Tensor) -> Tensor:
    """The smallest pair loss `(n, T)` that counts itself, not replaced by the bound.

    That is the bound minus its rounding error: the pair that set the bound must tie with it, although its
    similarity is computed again and may differ in the last digit.
    """
    size = offset.abs() + bound.abs() + 1 / float(temperature)
    return bound - 4 * torch.finfo(offset.dtype).eps * size


class BoundedSum:
    """A `TileLoss`: B_it = Σ_k max(offset_it − s_ik, bound_t) over the members k of term t.

    Its gradient is that of the similarities alone; in offset_it it is `kept`, in bound_t `held`.

    Attributes:
        kept: After the forward, `(n, T)` number of pairs with their own loss, in the order of the batch.
        held: Likewise, number of pairs with the bound.

    Args:
        grid: The tiles.
        temperature: τ.
        members: `(T, R)` bool.
        offset: `(n, T)`, in the order of the batch; arbitrary for rows without members.
        bound: `(T,)`.
    """

    def __init__(
        self, grid: Grid, temperature: float, members: Tensor, offset: Tensor, bound: Tensor
    ) -> None:
        self._grid, self._temperature = grid, temperature
        offset, bound = offset.detach()[grid.order], bound.detach()
        offset = torch.where(offset.isfinite(), offset, 0.0)
        self._offset, self._least = (
            offset.T.contiguous(),
            least_own(offset, bound, temperature).T.contiguous(),
        )
        self._own_offset, self._own_least = (grid.own(x.T).T for x in (self._offset, self._least))
        self._bounds: list[float] = bound.tolist()
        self._members = members.to(offset.dtype)
        self._terms = [members[:, code].nonzero()[:, 0].tolist() for code in range(members.shape[1])]
        self._total, self._kept, self._number = (torch.zeros_like(self._own_offset) for _ in range(3))

    def see(self, tile: Tile, cosines: Cosines) -> Tensor | None:
        """See `TileLoss.see`."""
        if not self._counts(tile):
            return None
        s = cosines(1 / self._temperature)
        for term, mask in self._masks(tile):
            for side, offset, least, dim in self._sides(tile, self._own_offset, self._own_least):
                loss = offset[term].unsqueeze(dim) - s
                kept = _above(loss, least[term].unsqueeze(dim))
                loss.clamp_(min=self._bounds[term])
                number: Tensor | int = loss.shape[dim]
                if mask is not None:
                    number = mask.sum(dim)
                    loss.mul_(mask)
                    kept.mul_(mask)
                self._number[term, side] += number
                self._total[term, side] += loss.sum(dim)
                self._kept[term, side] += kept.sum(dim)
        return s

    def results(self) -> tuple[Tensor, ...]:
        """The sums `(n, T)`."""
        every = self._grid.from_ranks(torch.cat([self._total, self._kept, self._number]).T)
        total, kept, number = every.chunk(3, dim=1)
        self.kept, self.held = self._grid.unsorted(kept), self._grid.unsorted(number - kept)
        return (total,)

    def slopes(self, *grads: Tensor | None) -> Slope:
        """As `TileLoss.slopes`."""
        (grad_total,) = grads
        assert grad_total is not None
        every = grad_total.T.div(-self._temperature).contiguous()
        own = self._grid.own(every.T).T

        def slope(tile: Tile, seen: Tensor | None, cosines: Cosines) -> Tensor | None:
            if not self._counts(tile):
                return None
            s = cosines(1 / self._temperature) if seen is None else seen
            slopes = torch.zeros_like(s)
            for term, mask in self._masks(tile):
                of_rows = _above(
                    self._own_offset[term, tile.rows, None] - s, self._own_least[term, tile.rows, None]
                )
                of_cols = _above(self._offset[term, tile.cols] - s, self._least[term, tile.cols])
                both = of_rows.mul_(own[term, tile.rows, None]).addcmul_(of_cols, every[term, tile.cols])
                slopes.add_(both if mask is None else both.mul_(mask))
            return slopes

        return slope

    def _counts(self, tile: Tile) -> bool:
        """Whether a tile has members of any term."""
        return any(self._terms[code] for code in self._grid.present(tile))

    def _masks(self, tile: Tile) -> list[tuple[int, Tensor | None]]:
        """The terms with members in a tile, and the mask of member pairs; None: all pairs."""
        terms = sorted({term for code in self._grid.present(tile) for term in self._terms[code]})
        if tile.code >= 0:
            return [(term, None) for term in terms]
        return [(term, self._grid.spread(tile, self._members[term], f"mask {term}")) for term in terms]

    def _sides(
        self, tile: Tile, own_offset: Tensor, own_least: Tensor
    ) -> list[tuple[slice, Tensor, Tensor, int]]:
        """Each side that a tile counts for: its rows, their values, and the dimension to sum over."""
        sides = [(tile.rows, own_offset[:, tile.rows], own_least[:, tile.rows], 1)]
        if tile.both:
            sides.append((tile.cols, self._offset[:, tile.cols], self._least[:, tile.cols], 0))
        return sides


def _above(loss: Tensor, least: Tensor) -> Tensor:
    """1 where a pair loss is above the least, else 0, by arithmetic, as comparisons are slow."""
    return (loss - least).mul_(_STEEP).clamp_(0, 1)

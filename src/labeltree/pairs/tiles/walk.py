"""The walk over the tiles of a batch with itself, by cosine; a loss is given by its value and slope per tile.

Every tile of the upper triangle is computed once and serves both its sides; of a shard, its rows are compared
with all. The forward shows each tile to the loss. The backward asks for the slope of the loss in each cosine,
which is that of the pair both ways, s_ik = ∂L/∂c_ik + ∂L/∂c_ki, and multiplies: ∂L/∂u_i = Σ_k s_ik·u_k.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from labeltree.geometry.hand_written import single_backward
from labeltree.pairs.manual_gradient import manual_gradient, normalise_backward, unit_rows
from labeltree.pairs.tiles.grid import Grid, Tile, scratch

__all__ = ["Cosines", "Slope", "TileLoss", "walk"]


# the cosines (b, c) of a tile times a factor, which may be overwritten
Cosines = Callable[[float], Tensor]
# of a tile, what `TileLoss.see` returned if that was kept, which may be overwritten, and the cosines: the
# slope (b, c) of the loss in the cosines, both ways; None: 0
Slope = Callable[[Tile, Tensor | None, Cosines], Tensor | None]


class TileLoss(Protocol):
    """The interface of a loss over tiles; all its rows are in the order of the grid.

    A loss object belongs to one forward and its backward.
    """

    def see(self, tile: Tile, cosines: Cosines) -> Tensor | None:
        """Take in a tile; what is returned may be kept for the slope. None: the tile does not count."""

    def results(self) -> tuple[Tensor, ...]:
        """What the forward returns, `(n, ...)` of all rows; statistics of other ranks are gathered here."""

    def slopes(self, *grads: Tensor | None) -> Slope:
        """The slope in the cosines of each tile, from the gradients of what was `results`."""


def walk(z: Tensor, grid: Grid, loss: TileLoss, keep: int) -> tuple[Tensor, ...]:
    """The results of a loss over all pairs of a batch `z (n, d)`, in the order of the batch; differentiable.

    Args:
        z: The embeddings, in the order of the batch.
        grid: The tiles.
        loss: The loss.
        keep: Bytes of tiles that are kept for the backward rather than computed again.
    """
    if not (z.requires_grad and torch.is_grad_enabled()) or 10 * keep < 2 * len(z) ** 2:
        keep = 0  # keeping a small part of all tiles is not worth the memory
    results: tuple[Tensor, ...] = _Walk.apply(z, grid, loss, keep)
    return results


def _cosines(own: Tensor, u: Tensor, tile: Tile, *, fresh: bool) -> Cosines:
    def times(factor: float) -> Tensor:
        rows, cols = own[tile.rows] * factor, u[tile.cols].T
        return rows @ cols if fresh else torch.mm(rows, cols, out=scratch("cosines", tile.shape, rows))

    return times


class _Walk(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, grid: Grid, loss: TileLoss, keep: int) -> tuple[Tensor, ...]:
        u, _ = unit_rows(z, grid.order)
        own, kept = grid.own(u), {}
        for tile in grid.tiles():
            fresh = keep > 0
            seen = loss.see(tile, _cosines(own, u, tile, fresh=fresh))
            if fresh and seen is not None:
                keep -= seen.nbytes
                kept[tile.at] = seen
        ctx.grid, ctx.loss, ctx.kept = grid, loss, kept
        ctx.save_for_backward(z)
        ctx.set_materialize_grads(False)
        return tuple(grid.unsorted(x) for x in loss.results())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        if all(g is None for g in grads):
            return (None,) * 4
        (z,) = ctx.saved_tensors
        grid: Grid = ctx.grid
        with manual_gradient(z.device):
            slope_of: Slope = ctx.loss.slopes(*(None if g is None else g[grid.order] for g in grads))
            u, inverse = unit_rows(z, grid.order)
            own = grid.own(u)
            grad_own = torch.zeros_like(own)
            for tile in grid.tiles():
                slope = slope_of(tile, ctx.kept.pop(tile.at, None), _cosines(own, u, tile, fresh=False))
                if slope is None:
                    continue
                grad_own[tile.rows].addmm_(slope, u[tile.cols])
                if tile.both:
                    grad_own[tile.cols].addmm_(slope.T, u[tile.rows])
            grad_u = grad_own
            if grid.shard is not None:
                grad_u = torch.zeros_like(u)
                grad_u[grid.shard] = grad_own
            del own, grad_own
            normalise_backward(grad_u, u, inverse)
            del u
            grad_z = grid.unsorted(grad_u).to(z.dtype)
        return single_backward(grad_z, *grads, z), None, None, None

"""The walk over the tiles of a batch with itself, by cosine: a loss is what it sees in a tile, and its slope.

Every tile of the upper triangle is computed once and serves both its sides; of a shard, its rows are compared
with all. The forward shows each tile to the loss. The backward asks for the slope of the loss in each cosine,
which is that of the pair both ways, s_ik = ∂L/∂c_ik + ∂L/∂c_ki, and multiplies: ∂L/∂u_i = Σ_k s_ik·u_k.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from labeltree.pairs.manual_gradient import (
    manual_gradient,
    normalise_backward,
    single_backward,
    unit_rows,
)
from labeltree.pairs.tiles.grid import Grid, Tile, scratch

__all__ = ["TileLoss", "walk"]


class TileLoss(Protocol):
    """What a loss makes of tiles; all its rows are sorted as the grid's are.

    A loss object belongs to one forward and its backward.
    """

    def factor(self, tile: Tile) -> float | None:
        """What the tile's cosines are wanted times; None: the tile does not count."""

    def see(self, tile: Tile, cosines: Tensor) -> Tensor:
        """Take in a tile `(b, c)`, which may be overwritten; what is returned may be kept for `slope`."""

    def found(self) -> tuple[Tensor, ...]:
        """What the forward returns, `(n, ...)` of all rows; statistics of other ranks are gathered here."""

    def begin_backward(self, grads: Sequence[Tensor | None]) -> None:
        """Take in the gradients of what was `found`."""

    def slope(self, tile: Tile, seen: Tensor | None, cosines: Tensor | None) -> Tensor | None:
        """The slope `(b, c)` in the cosines, both ways; None: 0.

        Args:
            tile: the tile.
            seen: what `see` returned, if it was kept; may be overwritten.
            cosines: as in `see`, if it was not.
        """

    def add_rest(self, grad_u: Tensor, u: Tensor) -> None:
        """Add to `grad_u (n, d)` what does not come of tiles."""

    def input_grads(self) -> tuple[Tensor | None, ...]:
        """The gradients of the further inputs of `walk`, in the order of the batch, after all tiles."""


def walk(z: Tensor, grid: Grid, loss: TileLoss, keep: int, *inputs: Tensor) -> tuple[Tensor, ...]:
    """What a loss finds in the pairs of a batch `z (n, d)`, differentiable with respect to z and `inputs`.

    Args:
        z: the embeddings, in the order of the batch.
        grid: the tiles.
        loss: what sees them.
        keep: bytes of tiles that are kept for the backward rather than computed again.
        inputs: tensors that the loss depends on besides.
    """
    if not (z.requires_grad and torch.is_grad_enabled()) or 10 * keep < 2 * len(z) ** 2:
        keep = 0  # a small part of all tiles is not worth the memory
    found: tuple[Tensor, ...] = _Walk.apply(z, grid, loss, keep, *inputs)
    return found


def _cosines(own: Tensor, u: Tensor, tile: Tile, factor: float, *, fresh: bool) -> Tensor:
    rows, cols = own[tile.rows] * factor, u[tile.cols].T
    return rows @ cols if fresh else torch.mm(rows, cols, out=scratch("cosines", tile.shape, rows))


class _Walk(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, z: Tensor, grid: Grid, loss: TileLoss, keep: int, *inputs: Tensor
    ) -> tuple[Tensor, ...]:
        u, _ = unit_rows(z, grid.order)
        own, kept = grid.own(u), {}
        for tile in grid.tiles():
            factor = loss.factor(tile)
            if factor is None:
                continue
            fresh = keep > 0
            seen = loss.see(tile, _cosines(own, u, tile, factor, fresh=fresh))
            if fresh:
                keep -= seen.nbytes
                kept[tile.at] = seen
        ctx.grid, ctx.loss, ctx.kept = grid, loss, kept
        ctx.save_for_backward(z)
        ctx.set_materialize_grads(False)
        found = loss.found()
        return tuple(grid.unsorted(x) for x in found)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        if all(g is None for g in grads):
            return (None,) * len(ctx.needs_input_grad)
        (z,) = ctx.saved_tensors
        grid: Grid = ctx.grid
        loss: TileLoss = ctx.loss
        with manual_gradient(z.device):
            loss.begin_backward([None if g is None else g[grid.order] for g in grads])
            u, inverse = unit_rows(z, grid.order)
            own = grid.own(u)
            grad_own = torch.zeros_like(own)
            for tile in grid.tiles():
                factor = loss.factor(tile)
                if factor is None:
                    continue
                seen = ctx.kept.pop(tile.at, None)
                cosines = None if seen is not None else _cosines(own, u, tile, factor, fresh=False)
                slope = loss.slope(tile, seen, cosines)
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
            loss.add_rest(grad_u, u)
            normalise_backward(grad_u, u, inverse)
            del u
            grad_z = grid.unsorted(grad_u).to(z.dtype)
            wanted = (grad_z, None, None, None, *loss.input_grads())
        needed = zip(wanted, ctx.needs_input_grad, strict=True)
        return (*(single_backward(g) if g is not None and need else None for g, need in needed),)

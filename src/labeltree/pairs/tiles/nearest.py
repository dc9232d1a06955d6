"""Distances to the own and to the nearest other prototype.

With many prototypes the nearest is searched over tiles, and only the gradients of two distances per point are
kept for the backward. With few, all cosines are one matrix product, and only the requested ones are converted
to distances.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labeltree.geometry import Geometry, Sphere
from labeltree.geometry.hand_written import differentiable_once
from labeltree.geometry.precision import answer_dtype, widen
from labeltree.geometry.smooth import squared_norm, to_safe_length, unit
from labeltree.pairs.manual_gradient import manual_gradient, with_gradient
from labeltree.pairs.similarity import Similarity, prototype_distances
from labeltree.pairs.tiles.grid import blocks

__all__ = ["nearest_chords", "nearest_other"]

_SIDE = 1024
_LEAST_NORM = 1e-12  # as in `labeltree.geometry`: a shorter vector has no direction
_CLOSE = {torch.float32: 1e-7, torch.float64: 1e-3}  # |x − c|² below is computed from the difference


def nearest_other(
    points: Tensor,
    prototypes: Tensor,
    own: Tensor,
    geometry: Geometry,
    similarity: Similarity,
    tile: int | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """As `labeltree.pairs.nearest_other`."""
    side = tile or _SIDE
    index = _search(points.detach(), prototypes, own, geometry, similarity, side)
    if not (torch.is_grad_enabled() and points.requires_grad):
        both = [_pointwise(points, prototypes[which], geometry, similarity) for which in (own, index)]
        return both[0], both[1], index
    dtype = answer_dtype(points, prototypes)
    values = points.new_empty(len(points), 2, dtype=dtype)
    gradients = points.new_empty(len(points), 2, points.shape[1], dtype=dtype)
    for rows in blocks(len(points), side):
        for column, which in enumerate((own, index)):
            with torch.enable_grad():
                x = points[rows].detach().requires_grad_()
                value = _pointwise(x, prototypes[which[rows]], geometry, similarity)
            values[rows, column] = value.detach()
            (gradients[rows, column],) = torch.autograd.grad(value.sum(), x)
    mine, nearest = with_gradient(points, values, gradients).unbind(1)
    return mine, nearest, index


@torch.no_grad()
def _search(
    points: Tensor, prototypes: Tensor, own: Tensor, geometry: Geometry, similarity: Similarity, side: int
) -> Tensor:
    """The nearest prototype of each point except its own `(n,)`; ties go to the first."""
    index, dtype = torch.zeros_like(own), answer_dtype(points, prototypes)
    for rows in blocks(len(points), side):
        least = points.new_full((len(own[rows]),), torch.inf, dtype=dtype)
        for cols in blocks(len(prototypes), side):
            distances = prototype_distances(points[rows], prototypes[cols], geometry, similarity)
            mine = own[rows] - cols.start
            here = ((mine >= 0) & (mine < distances.shape[1])).nonzero()[:, 0]
            distances[here, mine[here]] = torch.inf
            value, at = distances.min(1)
            nearer = value < least
            least = torch.where(nearer, value, least)
            index[rows] = torch.where(nearer, at + cols.start, index[rows])
    return index


def _pointwise(points: Tensor, prototypes: Tensor, geometry: Geometry, similarity: Similarity) -> Tensor:
    if similarity == "cosine":
        return 1.0 - Sphere().similarity(points, prototypes)
    return geometry.distance(points, prototypes)


def nearest_chords(points: Tensor, prototypes: Tensor, groups: list[slice], own: Tensor) -> Tensor:
    """The chords `(n, 2·G)` to the own prototypes of G groups, then to the nearest others of each.

    As `Sphere().pairwise_distance`: in float64, and exact where a point is close to a prototype.

    Args:
        points: `(n, d)`, of any length.
        prototypes: `(m, d)`, likewise; no gradient.
        groups: The columns of each group.
        own: `(n, G)` the column of the own prototype in each.
    """
    chords: Tensor = _Chords.apply(points, prototypes, groups, own)
    return chords


class _Chords(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, points: Tensor, prototypes: Tensor, groups: list[slice], own: Tensor) -> Tensor:
        dtype = answer_dtype(points, prototypes)
        x, c = widen(points), unit(widen(prototypes))
        factor = to_safe_length(x)
        x = x * factor
        length = squared_norm(x)
        inverse = length.masked_fill_(length <= _LEAST_NORM**2, torch.inf).rsqrt_()
        x = x.mul_(inverse)  # bit by bit what `unit` gives: of equal vectors the chord is 0
        inverse = inverse * factor
        square = torch.addmm((x * x).sum(1)[:, None] + (c * c).sum(1), x, c.T, alpha=-2.0)
        others = square.scatter(1, own, torch.inf)
        column = torch.cat([own, *(others[:, g].argmin(1, True).add_(g.start) for g in groups)], 1)
        square = square.gather(1, column)
        close = square <= 2 * _CLOSE[dtype]
        if bool(close.any()):
            row, place = close.nonzero(as_tuple=True)
            square[row, place] = (x[row] - c[column[row, place]]).square_().sum(1)
        chord = square.sqrt_()
        ctx.save_for_backward(x, inverse, c, column, chord, points)
        return chord.to(dtype)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        x, inverse, c, column, chord, points = ctx.saved_tensors
        with manual_gradient(grad.device):
            slope = (grad / chord).masked_fill_(chord == 0, 0.0)  # of −x·c
            weight = x.new_zeros(len(x), len(c)).scatter_add_(1, column, slope)
            of_x = torch.mm(weight, c).neg_()  # what goes along x is taken off, as that of x·x would be
            of_x.addcmul_((of_x * x).sum(1, keepdim=True), x, value=-1.0).mul_(inverse)
        return of_x.to(points.dtype), None, None, None

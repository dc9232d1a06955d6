"""Distances to the own and the nearest other prototype: a search over tiles, then two distances per point.

What is kept for the backward are the gradients of the two.
"""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.geometry import Geometry, Sphere
from labeltree.geometry.precision import answer_dtype
from labeltree.pairs.dense.nearest import prototype_distances
from labeltree.pairs.implementation import Plan
from labeltree.pairs.similarity import Similarity
from labeltree.pairs.streaming.known_gradient import with_gradient
from labeltree.pairs.streaming.tiles import blocks

__all__ = ["nearest_other"]

_SIDE = 1024


def nearest_other(
    points: Tensor, prototypes: Tensor, own: Tensor, geometry: Geometry, similarity: Similarity, plan: Plan
) -> tuple[Tensor, Tensor, Tensor]:
    """As `labeltree.pairs.nearest_other`."""
    side = plan.tile or _SIDE
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
    """The nearest prototype of each point but its own `(n,)`, the first one of equals."""
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

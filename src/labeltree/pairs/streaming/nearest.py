"""Distances to the own and the nearest other prototype: a search over tiles, then two distances per point."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.geometry import Geometry, Sphere
from labeltree.geometry.precision import answer_dtype
from labeltree.pairs.dense.nearest import prototype_distances
from labeltree.pairs.implementation import Plan
from labeltree.pairs.similarity import Similarity
from labeltree.pairs.streaming.tiles import blocks

__all__ = ["nearest_other"]

_SIDE = 1024


def nearest_other(
    points: Tensor, prototypes: Tensor, own: Tensor, geometry: Geometry, similarity: Similarity, plan: Plan
) -> tuple[Tensor, Tensor, Tensor]:
    """As `labeltree.pairs.nearest_other`."""
    index = _search(points.detach(), prototypes, own, geometry, similarity, plan.tile or _SIDE)
    mine, nearest = (_pointwise(points, prototypes[which], geometry, similarity) for which in (own, index))
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

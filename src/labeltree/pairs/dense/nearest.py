"""Distances to the own and the nearest other prototype, dense: the reference, with all (n, m) distances."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.geometry import Geometry, Sphere
from labeltree.pairs.similarity import Similarity

__all__ = ["nearest_other", "prototype_distances"]


def prototype_distances(
    points: Tensor, prototypes: Tensor, geometry: Geometry, similarity: Similarity = "distance"
) -> Tensor:
    """Distances `(n, m)` of points `(n, d)` to prototypes `(m, d)`: the geometry's, or 1 − cos."""
    if similarity == "cosine":
        return 1.0 - Sphere().pairwise_similarity(points, prototypes)
    return geometry.pairwise_distance(points, prototypes)


def nearest_other(
    points: Tensor, prototypes: Tensor, own: Tensor, geometry: Geometry, similarity: Similarity
) -> tuple[Tensor, Tensor, Tensor]:
    """As `labeltree.pairs.nearest_other`."""
    distances = prototype_distances(points, prototypes, geometry, similarity)
    others = distances.scatter(1, own[:, None], torch.inf)
    nearest, index = others.min(1)
    return distances.gather(1, own[:, None])[:, 0], nearest, index

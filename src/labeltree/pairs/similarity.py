"""The similarity of pairs of embeddings, and the distance from prototypes."""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor

from labeltree.geometry import Geometry, Sphere

__all__ = ["Similarity", "pair_similarity", "prototype_distances"]

Similarity = Literal["cosine", "distance"]


def pair_similarity(
    queries: Tensor,
    keys: Tensor,
    geometry: Geometry,
    temperature: float | Tensor,
    similarity: Similarity = "cosine",
) -> Tensor:
    """Similarities over temperature `(n, m)`: cos/τ, or −d/τ in the geometry (Eq. 1 of the HWC paper)."""
    if similarity == "cosine":
        return Sphere().pairwise_similarity(queries, keys) / temperature
    if similarity == "distance":
        return -geometry.pairwise_distance(queries, keys) / temperature
    raise ValueError(f"similarity must be one of {', '.join(get_args(Similarity))}; got {similarity!r}")


def prototype_distances(
    points: Tensor, prototypes: Tensor, geometry: Geometry, similarity: Similarity = "distance"
) -> Tensor:
    """Distances `(n, m)` of points `(n, d)` to prototypes `(m, d)`: the geometry's, or 1 − cos."""
    if similarity == "cosine":
        return 1.0 - Sphere().pairwise_similarity(points, prototypes)
    return geometry.pairwise_distance(points, prototypes)

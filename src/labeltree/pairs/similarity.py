"""The similarity of pairs of embeddings, over a temperature."""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor

from labeltree.geometry import Geometry, Sphere

__all__ = ["Similarity", "pair_similarity"]

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

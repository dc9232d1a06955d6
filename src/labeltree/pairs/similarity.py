"""The similarity of pairs of embeddings, the distance from prototypes, and the precision of both.

Kernels take bfloat16 and float16; all other code casts to float32, and primitives run without autocast.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Literal, get_args

import torch
from torch import Tensor

from labeltree.geometry import Geometry, Sphere
from labeltree.geometry.precision import answer_dtype

__all__ = [
    "HALVES",
    "Similarity",
    "as_kernels_take",
    "at_least_single",
    "full_precision",
    "pair_similarity",
    "prototype_distances",
    "working_dtype",
]

Similarity = Literal["cosine", "distance"]
HALVES = (torch.bfloat16, torch.float16)


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


def at_least_single(x: Tensor, *others: Tensor) -> list[Tensor]:
    """The tensors in float32 or better; a tensor given twice is cast once and stays a single tensor."""
    cast = {id(each): each.to(answer_dtype(each)) for each in (x, *others)}
    return [cast[id(each)] for each in (x, *others)]


def as_kernels_take(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Cast the input of a loss to its dtype, except half precision on a GPU, which kernels take directly."""
    return x if x.dtype in HALVES and x.device.type == "cuda" else x.to(dtype)


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Context without autocast; not entered if autocast is off, as entering costs as much as an operation."""
    on = torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if on else nullcontext()


def working_dtype(z: Tensor) -> torch.dtype:
    """The dtype to compute in: float64 for float64, else float32."""
    return torch.float64 if z.dtype == torch.float64 else torch.float32

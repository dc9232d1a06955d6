"""The primitive of the level-aware margin: distances to the own prototype and to the nearest other."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.pairs.dense import nearest as dense
from labeltree.pairs.dense.nearest import prototype_distances
from labeltree.pairs.implementation import planned
from labeltree.pairs.precision import at_least_single
from labeltree.pairs.similarity import Similarity
from labeltree.pairs.streaming import nearest as streaming

__all__ = ["nearest_other", "prototype_distances"]


def nearest_other(
    points: Tensor,
    prototypes: Tensor,
    own: Tensor,
    geometry: Geometry,
    similarity: Similarity = "distance",
) -> tuple[Tensor, Tensor, Tensor]:
    """The distance of every point to its own prototype, and to the nearest of the others.

    Differentiable with respect to the points alone. Of several prototypes equally near the first counts, and
    has all of the gradient.

    Args:
        points: `(n, d)`.
        prototypes: `(m, d)`, m ≥ 2.
        own: `(n,)` int64, the index of each point's own prototype.
        geometry: the space of the distance.
        similarity: `"distance"`, that of the geometry, or `"cosine"`: 1 − cos.

    Returns:
        `(n,)` distances to the own prototype, `(n,)` to the nearest other, `(n,)` int64 its index.

    Example:
        >>> from labeltree.geometry import Euclidean
        >>> points, own = torch.tensor([[0.0], [4.0]]), torch.tensor([0, 0])
        >>> nearest_other(points, torch.tensor([[1.0], [6.0], [2.0]]), own, Euclidean())
        (tensor([1., 3.]), tensor([2., 2.]), tensor([2, 1]))
    """
    if len(prototypes) < 2:
        raise ValueError(f"prototypes must be two or more, or there is no other; got {len(prototypes)}")
    plan = planned(points.device, len(points) * len(prototypes))
    with torch.autocast(points.device.type, enabled=False):
        points, prototypes = at_least_single(points, prototypes.detach())
        if plan.name == "dense":
            return dense.nearest_other(points, prototypes, own, geometry, similarity)
        return streaming.nearest_other(points, prototypes, own, geometry, similarity, plan)

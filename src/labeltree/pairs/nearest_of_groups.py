"""The primitive of the level-aware margin for several groups of prototypes at once, say, of every depth."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from labeltree.geometry import Geometry, Sphere
from labeltree.pairs.dense.chords import nearest_chords
from labeltree.pairs.implementation import planned
from labeltree.pairs.nearest import nearest_other, prototype_distances
from labeltree.pairs.precision import at_least_single
from labeltree.pairs.similarity import Similarity

__all__ = ["nearest_of_groups"]


def nearest_of_groups(
    points: Tensor,
    prototypes: Tensor,
    sizes: Sequence[int],
    own: Tensor,
    geometry: Geometry,
    similarity: Similarity = "distance",
) -> tuple[Tensor, Tensor]:
    """`nearest_other` for G groups of prototypes: the distances to the own one and to the nearest other.

    Few distances are computed for all groups in one go.

    Args:
        points: `(n, d)`.
        prototypes: `(m, d)`, those of a group together.
        sizes: of the groups, 2 or more each, m in all.
        own: `(n, G)` int64, of all prototypes the index of each point's own in every group.
        geometry: as in `nearest_other`.
        similarity: likewise.

    Returns:
        `(n, G)` distances to the own prototype and `(n, G)` to the nearest other of the group.
    """
    starts = [sum(sizes[:group]) for group in range(len(sizes))]
    groups = list(zip(starts, sizes, strict=True))
    if planned(points.device, len(points) * len(prototypes)).name != "dense":
        each = [
            nearest_other(points, prototypes[start : start + size], mine - start, geometry, similarity)
            for (start, size), mine in zip(groups, own.unbind(1), strict=True)
        ]
        return torch.stack([mine for mine, _, _ in each], 1), torch.stack([other for _, other, _ in each], 1)
    with torch.autocast(points.device.type, enabled=False):
        points, prototypes = at_least_single(points, prototypes.detach())
        if similarity == "distance" and isinstance(geometry, Sphere):
            columns = [slice(start, start + size) for start, size in groups]
            mine, other = nearest_chords(points, prototypes, columns, own).tensor_split(2, 1)
            return mine, other
        distances = prototype_distances(points, prototypes, geometry, similarity)
        others = distances.detach().scatter(1, own, torch.inf)
        index = [
            own,
            *(others[:, start : start + size].argmin(1, True).add_(start) for start, size in groups),
        ]
        mine, other = distances.gather(1, torch.cat(index, 1)).tensor_split(2, 1)
    return mine, other

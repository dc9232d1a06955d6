"""Features or embeddings: which of the two a classifier or a search reads, as vectors and as points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.evaluation.settings import FeatureGeometry
from labeltree.geometry import Geometry, get_geometry
from labeltree.runs import EmbeddingTable

__all__ = ["ROLES", "Reading", "Representation", "check_roles", "read"]

ROLES = ("features", "embeddings")


@dataclass(frozen=True)
class Representation:
    """Which numbers of a sample a protocol reads, and how it compares them.

    Attributes:
        source: the column of the embeddings table: ``features`` or ``embeddings``.
        dim: how many numbers a sample has.
        geometry: ``sphere`` (compared by cosine), ``euclidean`` or ``poincare``.
        curvature: curvature of the Poincaré ball; not used by the other geometries.
    """

    source: str
    dim: int
    geometry: str
    curvature: float = -1.0

    def __str__(self) -> str:
        how = {"sphere": "compared by cosine", "euclidean": "compared by Euclidean distance"}
        ball = f"compared by distance in the Poincaré ball of curvature {self.curvature:g}"
        return f"{self.source}, {self.dim} numbers a sample, {how.get(self.geometry, ball)}"


@dataclass(frozen=True)
class Reading:
    """One representation of all samples of a table.

    Attributes:
        points: ``(n, d)`` points of the geometry, for whatever compares samples.
        vectors: ``(n, d)`` vectors for linear classifiers and projections: the points themselves, and for
            the Poincaré ball their image in the tangent space at its centre.
        geometry: how points are compared.
        representation: what to call it in a result.
    """

    points: Tensor
    vectors: Tensor
    geometry: Geometry
    representation: Representation


def check_roles(roles: Sequence[str]) -> None:
    """Raise ValueError unless these are one or both of the roles."""
    if not roles or not set(roles) <= set(ROLES):
        raise ValueError(f"roles are {tuple(roles)}; expected one or both of {', '.join(ROLES)}")


def read(table: EmbeddingTable, role: str, feature_geometry: FeatureGeometry = "sphere") -> Reading:
    """Read ``features`` (compared by cosine, or by their distance) or ``embeddings`` (in their geometry).

    A table without features gives its embeddings as both.
    """
    if role not in ROLES:
        raise ValueError(f"role is '{role}', expected one of {', '.join(ROLES)}")
    if role == "features" and table.features is not None:
        points = table.features.float()
        geometry = get_geometry(feature_geometry)
        return Reading(
            points, points, geometry, Representation("features", points.shape[1], feature_geometry)
        )
    space = table.space
    points = table.embeddings.float()
    vectors = space.log(torch.zeros_like(points[:1]), points) if table.geometry == "poincare" else points
    return Reading(
        points,
        vectors,
        space,
        Representation("embeddings", points.shape[1], table.geometry, table.curvature),
    )

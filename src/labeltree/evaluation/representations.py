"""The features or embeddings of a table, as points of a geometry and as vectors for linear classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.geometry import Geometry, get_geometry
from labeltree.options.choices import FeatureGeometry
from labeltree.runs import EmbeddingTable

__all__ = ["POSTERIOR", "ROLES", "Reading", "Representation", "check_roles", "read"]

ROLES = ("features", "embeddings")
POSTERIOR = "posterior"
"""The role of what is measured in the posterior space, see `read_posterior`; no protocol can ask for it."""


@dataclass(frozen=True)
class Representation:
    """The representation that a protocol reads, and the geometry in which it is compared.

    Attributes:
        source: The column of the embeddings table, `features` or `embeddings`; or `posterior`.
        dim: Number of dimensions.
        geometry: `sphere` (compared by cosine), `euclidean` or `poincare`.
        curvature: Curvature of the Poincaré ball; not used by the other geometries.
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
        points: `(n, d)` points of the geometry, for distances and similarities.
        vectors: `(n, d)` vectors for linear classifiers and projections: the points themselves or, in the
            Poincaré ball, their image in the tangent space at its centre.
        geometry: Geometry of the points.
        representation: Description of the representation for results.
    """

    points: Tensor
    vectors: Tensor
    geometry: Geometry
    representation: Representation


def check_roles(roles: Sequence[str]) -> None:
    """Check that the roles are `features`, `embeddings` or both.

    Raises:
        ValueError: If there is no role, or an unknown one.
    """
    if not roles or not set(roles) <= set(ROLES):
        raise ValueError(f"roles are {tuple(roles)}; expected one or both of {', '.join(ROLES)}")


def read(table: EmbeddingTable, role: str, feature_geometry: FeatureGeometry = "sphere") -> Reading:
    """Read the `features` (in `feature_geometry`) or `embeddings` (in their own geometry) of a table.

    For a table without features both roles give the embeddings.

    Raises:
        ValueError: For an unknown role.
    """
    check_choice("role", role, ROLES)
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

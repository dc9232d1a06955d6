"""Spaces in which embeddings live: distance, similarity, exp, log, mean. Stateless and differentiable."""

from labeltree.geometry.euclidean import Euclidean
from labeltree.geometry.geometry_base import Geometry
from labeltree.geometry.named import as_geometry, get_geometry
from labeltree.geometry.poincare import PoincareBall
from labeltree.geometry.sphere import Sphere

__all__ = ["Euclidean", "Geometry", "PoincareBall", "Sphere", "as_geometry", "get_geometry"]

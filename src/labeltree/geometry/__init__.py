"""Spaces in which embeddings live: distance, similarity, exp, log, mean. Stateless and differentiable."""

from labeltree.geometry.base import Geometry
from labeltree.geometry.euclidean import Euclidean
from labeltree.geometry.named import get_geometry
from labeltree.geometry.poincare import PoincareBall
from labeltree.geometry.sphere import Sphere

__all__ = ["Euclidean", "Geometry", "PoincareBall", "Sphere", "get_geometry"]

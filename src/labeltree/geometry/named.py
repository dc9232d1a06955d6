"""Geometries by name, as used in recipes and embeddings tables."""

import difflib

from labeltree.geometry.euclidean import Euclidean
from labeltree.geometry.geometry_base import Geometry
from labeltree.geometry.poincare import PoincareBall
from labeltree.geometry.sphere import Sphere

__all__ = ["as_geometry", "get_geometry"]

_NAMES = ("sphere", "euclidean", "poincare")


def get_geometry(name: str, curvature: float = -1.0) -> Geometry:
    """The geometry called `name`: "sphere", "euclidean" or "poincare"; `curvature`: for "poincare" only.

    Raises:
        ValueError: The name is unknown, or the curvature of "poincare" is not below 0.
    """
    if name == "sphere":
        return Sphere()
    if name == "euclidean":
        return Euclidean()
    if name == "poincare":
        return PoincareBall(curvature=curvature)
    near = difflib.get_close_matches(str(name).lower(), _NAMES, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"geometry is {name!r}; expected one of {', '.join(map(repr, _NAMES))}{hint}")


def as_geometry(geometry: Geometry | str | None, default: str = "sphere") -> Geometry:
    """Resolve an argument to a geometry: a geometry itself, a name, or None for the default.

    Raises:
        ValueError: `geometry` is neither a geometry nor a known name.
    """
    if isinstance(geometry, Geometry):
        return geometry
    if geometry is None or isinstance(geometry, str):
        return get_geometry(default if geometry is None else geometry)
    given = f"the class {geometry.__name__}" if isinstance(geometry, type) else repr(geometry)
    raise ValueError(
        f"geometry is {given}; expected one of {', '.join(map(repr, _NAMES))}, or a geometry such as "
        "PoincareBall(curvature=-0.5)"
    )

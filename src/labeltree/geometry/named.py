"""Geometries by name, as used in recipes and embeddings tables."""

import difflib
from collections.abc import Callable

from labeltree.geometry.euclidean import Euclidean
from labeltree.geometry.geometry_base import Geometry
from labeltree.geometry.poincare import PoincareBall
from labeltree.geometry.sphere import Sphere
from labeltree.options.choices import GeometryName

__all__ = ["as_geometry", "get_geometry"]

_MAKERS: dict[GeometryName, Callable[[float], Geometry]] = {
    "sphere": lambda curvature: Sphere(),
    "euclidean": lambda curvature: Euclidean(),
    "poincare": lambda curvature: PoincareBall(curvature=curvature),
}
_KNOWN = ", ".join(map(repr, _MAKERS))


def get_geometry(name: str, curvature: float = -1.0) -> Geometry:
    """The geometry called `name`: "sphere", "euclidean" or "poincare"; `curvature`: for "poincare" only.

    Raises:
        ValueError: The name is unknown, or the curvature of "poincare" is not below 0.
    """
    for known, make in _MAKERS.items():
        if name == known:
            return make(curvature)
    near = difflib.get_close_matches(str(name).lower(), _MAKERS, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"geometry is {name!r}; expected one of {_KNOWN}{hint}")


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
        f"geometry is {given}; expected one of {_KNOWN}, or a geometry such as PoincareBall(curvature=-0.5)"
    )

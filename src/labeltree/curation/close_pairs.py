"""All pairs of rows that lie within a distance of each other, exactly, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.errors import DataError
from labeltree.geometry import Geometry, PoincareBall, Sphere, as_geometry

__all__ = ["ClosePairs", "close_pairs", "nearest_distances"]

_ROWS, _COLUMNS = 1024, 4096  # of a tile of products
_AT_ONCE = 1 << 22  # numbers of the float64 differences that are held together
_UNIT = 2.0**-24  # the unit roundoff of float32


@dataclass(frozen=True)
class ClosePairs:
    """Pairs of rows with their distances.

    Attributes:
        first: `(m,)` int64 rows.
        second: `(m,)` int64 rows, each greater than that in `first`.
        distances: `(m,)` float64 distances in the geometry.
    """

    first: Tensor
    second: Tensor
    distances: Tensor

    def __len__(self) -> int:
        return len(self.first)

    def pick(self, chosen: Tensor | slice) -> ClosePairs:
        """Some of the pairs, by a mask, by positions or by a range."""
        return ClosePairs(self.first[chosen], self.second[chosen], self.distances[chosen])

    @classmethod
    def joined(cls, parts: Sequence[ClosePairs]) -> ClosePairs:
        """All pairs of the parts, in their order."""
        none = torch.empty(0, dtype=torch.int64)
        return cls(
            torch.cat([none, *(part.first for part in parts)]),
            torch.cat([none, *(part.second for part in parts)]),
            torch.cat([none.double(), *(part.distances for part in parts)]),
        )


def close_pairs(
    vectors: Tensor, geometry: Geometry | str | None = None, *, within: float
) -> Iterator[ClosePairs]:
    """All pairs of rows whose distance is at most `within`, in parts.

    Products in float32 name the candidates, with a margin for their rounding (Higham 2002, eq. 3.5, for the
    inner product of d terms); the distances of these are computed from differences in float64. So no pair is
    missed and none is too far. The time is that of n²/2 products; the memory beside the vectors is up to
    three copies of them in float64 at the start, and then one in float32 and one tile of products.

    Args:
        vectors: `(n, d)` points of the geometry.
        geometry: Default: the sphere, whose distance is the chord between normalised vectors.
        within: The largest distance, at least 0.

    Yields:
        The pairs of one tile; a part may be empty.

    Raises:
        ValueError: If `within` is negative or not a number.
        DataError: If a vector holds NaN or infinity.
    """
    space = as_geometry(geometry)
    if not within >= 0:
        raise ValueError(f"within is {within}; expected a distance of at least 0")
    points, halves, allowed = _candidates(vectors, space, within)
    for start in range(0, len(points), _ROWS):
        rows = slice(start, start + _ROWS)
        least = (halves[rows] - allowed)[:, None]
        for begin in range(start, len(points), _COLUMNS):
            columns = slice(begin, begin + _COLUMNS)
            near = torch.addmm(-halves[columns], points[rows], points[columns].T) >= least
            first, second = near.nonzero(as_tuple=True)
            first, second = first + start, second + begin
            later = second > first
            yield _measure(vectors, space, first[later], second[later], within)


def nearest_distances(
    vectors: Tensor, rows: Tensor, geometry: Geometry | str | None = None, columns: int = 8192
) -> Tensor:
    """The distance from each of the rows `(m,)` to the nearest other row of all vectors `(n, d)`.

    Returns:
        `(m,)` float64; infinite if there is no other row.
    """
    space = as_geometry(geometry)
    nearest = torch.full((len(rows),), math.inf, dtype=torch.float64)
    for begin in range(0, len(vectors), columns):
        part = vectors[begin : begin + columns].double()
        for start in range(0, len(rows), 256):
            some = rows[start : start + 256]
            distance = space.pairwise_distance(vectors[some].double(), part)
            own = ((some >= begin) & (some < begin + len(part))).nonzero().squeeze(1)
            distance[own, some[own] - begin] = math.inf
            best = distance.amin(1)
            nearest[start : start + 256] = torch.minimum(nearest[start : start + 256], best)
    return nearest


def _candidates(vectors: Tensor, space: Geometry, within: float) -> tuple[Tensor, Tensor, float]:
    """Points `(n, e)` float32, halves `(n,)` and a number such that every pair within the distance has
    x·y − half_x − half_y ≥ −number.

    On the sphere and in Euclidean space this is |x − y|² ≤ within², after normalisation or centring. In the
    ball of radius 1 it is |x − y|² ≤ sinh²(within/2)·(1 − |x|²)(1 − |y|²), whose right side is the product of
    one further coordinate. The halves |x|²/2 are smaller by the share that rounding may cost.
    """
    if not bool(torch.isfinite(vectors).all()):
        row = int((~torch.isfinite(vectors)).any(1).nonzero()[0])
        raise DataError(f"vector {row} holds NaN or infinity; leave such rows out")
    wide = vectors.double()
    allowed = within * within
    if isinstance(space, Sphere):
        largest = wide.abs().amax(1, keepdim=True).clamp_min(1e-300) if len(wide) else wide
        wide = torch.nn.functional.normalize(wide / largest, dim=1)
    elif isinstance(space, PoincareBall):
        root = math.sqrt(-space.curvature)
        wide = wide * root
        norm = wide.norm(dim=1, keepdim=True).clamp_min(1e-300)
        wide = wide * (1.0 / norm).clamp_max(1.0)  # as the geometry does: outside the ball is on its boundary
        allowed = 0.0
    elif len(wide):
        wide = wide - wide.mean(0)
        scale = float(wide.abs().amax())
        if scale > 0:
            wide, allowed = wide / scale, (within / scale) ** 2
    squared = (wide * wide).sum(1)
    share = 4.0 * (wide.shape[1] + 8) * _UNIT
    halves = (0.5 * (1.0 - share) * squared).float()
    if isinstance(space, PoincareBall):
        unscaled = within * (root if space.scaled else 1.0)
        # beyond a distance of 80, everything in float64 is close
        factor = math.sinh(min(unscaled, 80.0) / 2.0) / math.sqrt(2.0) * (1.0 + 1e-5)
        room = (1.0 - squared).clamp_min(4 * torch.finfo(torch.float64).eps)
        wide = torch.cat([wide, factor * room[:, None]], dim=1)
    # a little more, so that a limit of 0 keeps rows that are equal
    return wide.float(), halves, 0.5 * allowed * (1.0 + 1e-5) + 1e-30


def _measure(vectors: Tensor, space: Geometry, first: Tensor, second: Tensor, within: float) -> ClosePairs:
    """The candidates whose distance, from their difference in float64, is at most `within`."""
    size = max(1, _AT_ONCE // max(1, vectors.shape[1]))
    parts = [
        space.distance(vectors[i].double(), vectors[j].double())
        for i, j in zip(first.split(size), second.split(size), strict=True)  # type: ignore[no-untyped-call]
    ]
    distances = torch.cat(parts) if parts else torch.empty(0, dtype=torch.float64)
    kept = distances <= within
    return ClosePairs(first[kept], second[kept], distances[kept])

"""Distances between queries and rows: exact in float64, and fast in float32 with a bound on its error.

The fast scores order the rows of one query as the distance does; a smaller score is nearer. With
c = -curvature, room(x) = 1 - c|x|², and constants of the query left out:

    cosine      -x·q / (|x||q|)
    euclidean   |x|² - 2 x·q
    poincare    c|x - q|² / room(x)        since distance = 2 asinh(√(c|x - q|² / (room(x) room(q)))) / √c
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from labeltree.errors import DataError
from labeltree.options.choices import IndexGeometry

__all__ = ["FastScores", "cosine_factors", "distances", "lorentz", "lorentz_queries", "outside_ball"]

Array = np.ndarray[Any, Any]
_EPS = 2.0**-24  # of float32, to half of which every operation rounds
_CHUNK = 2**22  # numbers of float64 at once


def distances(geometry: IndexGeometry, query: Array, rows: Array, curvature: float = -1.0) -> Array:
    """Distances `(m,)` float64 from a query `(d,)` to rows `(m, d)`, by direct differences.

    A row has the same distance wherever it stands, so equal rows are ties. Cosine distance is 1 - cosine; a
    vector of length 0 has the cosine 0 with every other.
    """
    step = max(1, _CHUNK // max(1, rows.shape[1]))
    q = np.asarray(query, np.float64)
    parts = [_distances(geometry, q, rows[at : at + step], curvature) for at in range(0, len(rows), step)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _distances(geometry: IndexGeometry, q: Array, rows: Array, curvature: float) -> Array:
    x = np.ascontiguousarray(rows, np.float64)
    if geometry == "cosine":
        lengths = np.sqrt((x * x).sum(1)) * math.sqrt(float((q * q).sum()))
        distances = 1.0 - (x * q).sum(1) / np.where(lengths > 0, lengths, 1.0)
        return np.asarray(np.maximum(distances, 0.0))
    squares = ((x - q) ** 2).sum(1)
    if geometry == "euclidean":
        return np.asarray(np.sqrt(squares))
    c = -curvature
    rooms = _room(x, c) * float(_room(q[None], c)[0])
    return np.asarray(2.0 / math.sqrt(c) * np.arcsinh(np.sqrt(c * squares / rooms)))


def _room(x: Array, c: float) -> Array:
    """1 - c|x|² `(n,)` of points `(n, d)` float64 inside the ball."""
    return np.asarray(1.0 - c * (x * x).sum(1))


def outside_ball(vectors: Array, curvature: float) -> Array:
    """Which of the vectors `(n, d)` are no points of the Poincaré ball: `(n,)` bool."""
    step = max(1, _CHUNK // vectors.shape[1])
    parts = [
        _room(vectors[at : at + step].astype(np.float64), -curvature) <= 0
        for at in range(0, len(vectors), step)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, bool)


def lorentz(vectors: Array, curvature: float) -> Array:
    """Points `(n, d)` of the Poincaré ball on the hyperboloid: `(n, d + 1)` float32, time first.

    x becomes ((1 + c|x|²), 2√c x) / (1 - c|x|²), scaled to the ball of radius 1.
    """
    x = vectors.astype(np.float64) * math.sqrt(-curvature)
    square = (x * x).sum(1, keepdims=True)
    return np.asarray(np.concatenate([1.0 + square, 2.0 * x], axis=1) / (1.0 - square), np.float32)


def lorentz_queries(vectors: Array, curvature: float) -> Array:
    """The same with the sign of time flipped: the inner product with a row is then -cosh(√c distance)."""
    queries = lorentz(vectors, curvature)
    queries[:, 0] *= -1.0
    return queries


class FastScores:
    """Scores of q queries and any rows in float32, with bounds on their error.

    Args:
        geometry: Of the index.
        queries: `(q, d)` float32.
        curvature: Of the Poincaré ball.
    """

    def __init__(self, geometry: IndexGeometry, queries: Array, curvature: float = -1.0) -> None:
        self._geometry, self._c = geometry, -curvature
        q = queries.astype(np.float64)
        squares = (q * q).sum(1)
        # The sum of d products differs from the exact one by at most d·eps·|x||q|, in any order of summation.
        self._share = 2.0 * (queries.shape[1] + 8) * _EPS
        if geometry == "cosine":
            q = q / np.sqrt(np.where(squares > 0, squares, 1.0))[:, None]
        self._lengths = np.sqrt(squares)
        self._squares = squares
        with np.errstate(over="ignore"):
            self._queries = np.ascontiguousarray(q, np.float32)

    def products(self, rows: Array) -> Array:
        """Inner products `(q, m)` float32 with rows `(m, d)`; for cosine, queries have length 1."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(self._queries @ rows.T)

    def __call__(self, products: Array, squares: Array, factors: Array) -> tuple[Array, Array]:
        """Scores and bounds of their errors.

        Args:
            products: With m rows, as of `products`; scores take their place.
            squares: `(m,)` float64, the rows' squared lengths.
            factors: `(m,)` float32, of these as of `cosine_factors`; other geometries do not use them.

        Returns:
            Scores `(q, m)`, and bounds that broadcast with them; NaN or infinity where float32 does not
            suffice.
        """
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if self._geometry == "cosine":
                products *= factors
                return products, np.full((1, 1), 2.0 * self._share)
            products *= np.float32(-2.0)
            products += squares.astype(np.float32)
            longest = math.sqrt(float(squares.max(initial=0.0)))
            error = self._share * (longest + self._lengths[:, None]) ** 2
            if self._geometry == "euclidean":
                return products, error
            weight = 1.0 / (1.0 - self._c * squares)
            products += self._squares[:, None].astype(np.float32)
            products *= weight.astype(np.float32)
            # squares of length at most 4/c, rounded once more by the weight
            return products, (self._share * 4.0 / self._c) * weight[None, :]


def cosine_factors(squares: Array) -> Array:
    """What turns products with rows into cosine scores: -1 / length `(n,)` float32.

    It is 0 for vectors of length 0. It is NaN near that, where products lose digits, so that such rows are
    compared in float64.

    Args:
        squares: `(n,)` float64, squared lengths.
    """
    inverse = 1.0 / np.sqrt(np.where(squares > 0, squares, np.inf))
    return np.asarray(np.where((squares > 0) & (squares < 1e-30), np.nan, -inverse), np.float32)


def check_inside(vectors: Array, curvature: float, names: list[str]) -> None:
    """Raise a `DataError` that names the first vector outside the Poincaré ball."""
    outside = np.flatnonzero(outside_ball(vectors, curvature))
    if len(outside):
        row = int(outside[0])
        length = float(np.sqrt((vectors[row].astype(np.float64) ** 2).sum()))
        raise DataError(
            f"the vector of {names[row]} has length {length:.9g}, outside the Poincaré ball of radius "
            f"{1 / math.sqrt(-curvature):.9g}; take geometry euclidean, or project it into the ball first"
        )

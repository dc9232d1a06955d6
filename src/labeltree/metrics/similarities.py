"""Similarities of queries and a database, a tile at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.geometry import Euclidean, Geometry, PoincareBall, Sphere

__all__ = ["Similarities"]

_KNOWN = (Sphere, Euclidean, PoincareBall)
_COLUMNS = 2**10
_ROWS = 2**10
# an odd number without pattern: products with it, modulo 2^64, tell rows apart
_MIX = 0x9E3779B97F4A7C15 - 2**64


class Similarities:
    """What a geometry's `pairwise_similarity` gives, for tiles of all pairs.

    On the sphere the points are normalised once and not with every tile. Items that are equal, number by
    number, get the same similarity to every query: a product of matrices alone may round it differently from
    place to place, and break the tie.

    Args:
        queries: (n, d) embeddings.
        keys: (m, d) embeddings of the database.
        geometry: its `pairwise_similarity` is the score.

    Attributes:
        size: m.
        tiled: whether part of the columns may be asked for, and gives the same numbers; then the similarity
            of two points is the same both ways.
        dtype: of the similarities.

    """

    def __init__(self, queries: Tensor, keys: Tensor, geometry: Geometry) -> None:
        self.size = keys.shape[0]
        self._known = type(geometry) in _KNOWN
        self._repetitions = _repetitions(keys) if self._known else None
        self.tiled = self._known and self._repetitions is None
        self._geometry = geometry
        self._queries, self._keys = queries, keys
        self._product = type(geometry) is Sphere
        self.dtype = torch.promote_types(torch.promote_types(queries.dtype, keys.dtype), torch.float32)
        if self._product:
            self._queries = geometry.project(queries.to(self.dtype))
            self._keys = self._queries if keys is queries else geometry.project(keys.to(self.dtype))
        self._space = self._keys.new_empty(0)

    def tile(self, rows: slice | Tensor, columns: slice | Tensor = slice(None)) -> Tensor:
        """(r, c) similarities of the queries `rows` and the items `columns`, until the next call."""
        queries, keys = self._queries[rows], self._keys[columns]
        if not self._known:
            return self._geometry.pairwise_similarity(queries, keys)
        # fresh memory for every tile would cost as much time as the product
        if self._space.numel() < len(queries) * len(keys):
            self._space = queries.new_empty(len(queries) * len(keys), dtype=self.dtype)
        tile = self._space[: len(queries) * len(keys)].view(len(queries), len(keys))
        if self._product:
            with torch.autocast(queries.device.type, enabled=False):
                torch.mm(queries, keys.T, out=tile)
        else:
            # a distance works rows by blocks of pairs, which wide rows would make too short for a product
            for start in range(0, len(keys), _COLUMNS):
                part = keys[start : start + _COLUMNS]
                tile[:, start : start + len(part)] = self._geometry.pairwise_similarity(queries, part)
        if self._repetitions is not None:
            repeated, first = self._repetitions
            tile[:, repeated] = tile[:, first]
        return tile


def _repetitions(points: Tensor) -> tuple[Tensor, Tensor] | None:
    """Rows of `points` that are equal to an earlier one, and the first such; None if there are none."""
    bits = points.contiguous().view({8: torch.int64, 4: torch.int32, 2: torch.int16}[points.element_size()])
    odd = 2 * torch.arange(points.shape[1], device=points.device) + 1
    marks = torch.empty(len(points), dtype=torch.int64, device=points.device)
    for start in range(0, len(points), _ROWS):
        marks[start : start + _ROWS] = (bits[start : start + _ROWS] * (odd * _MIX)).sum(dim=1)
    _, groups = torch.unique(marks, return_inverse=True)
    everyone = torch.arange(len(points), device=points.device)
    first = torch.full_like(everyone, len(points)).scatter_reduce(0, groups, everyone, "amin")[groups]
    candidates = (first != everyone).nonzero()[:, 0]
    repeated = candidates[(points[candidates] == points[first[candidates]]).all(dim=1)]
    return (repeated, first[repeated]) if len(repeated) else None

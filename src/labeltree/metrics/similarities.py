"""Similarities of queries and a database, a tile at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.geometry import Euclidean, Geometry, PoincareBall, Sphere

__all__ = ["Similarities"]

_SYMMETRIC = (Sphere, Euclidean, PoincareBall)


class Similarities:
    """What a geometry's `pairwise_similarity` gives, for tiles of all pairs.

    On the sphere the points are normalised once and not with every tile.

    Args:
        queries: (n, d) embeddings.
        keys: (m, d) embeddings of the database.
        geometry: its `pairwise_similarity` is the score.

    Attributes:
        size: m.
        symmetric: whether the similarity of two points is known to be the same both ways.
        dtype: of the similarities.

    """

    def __init__(self, queries: Tensor, keys: Tensor, geometry: Geometry) -> None:
        self.size = keys.shape[0]
        self.symmetric = type(geometry) in _SYMMETRIC
        self._geometry = geometry
        self._queries, self._keys = queries, keys
        self._product = type(geometry) is Sphere
        self.dtype = torch.promote_types(torch.promote_types(queries.dtype, keys.dtype), torch.float32)
        if self._product:
            self._queries = geometry.project(queries.to(self.dtype))
            self._keys = self._queries if keys is queries else geometry.project(keys.to(self.dtype))
        self._space = self._keys.new_empty(0)

    def tile(self, rows: slice | Tensor, columns: slice | Tensor) -> Tensor:
        """(r, c) similarities of the queries `rows` and the items `columns`, until the next call."""
        queries, keys = self._queries[rows], self._keys[columns]
        if not self._product:
            return self._geometry.pairwise_similarity(queries, keys)
        # fresh memory for every tile would cost as much time as the product
        if self._space.numel() < len(queries) * len(keys):
            self._space = queries.new_empty(len(queries) * len(keys))
        tile = self._space[: len(queries) * len(keys)].view(len(queries), len(keys))
        with torch.autocast(queries.device.type, enabled=False):
            return torch.mm(queries, keys.T, out=tile)

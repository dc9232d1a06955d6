"""The walk over tiles of any relation, and the gradients that come of the slopes of their similarities."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.pairs.gather_ranks import num_ranks
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.similarity import Similarity, pair_similarity, working_dtype
from labeltree.pairs.tiles.grid import TILE, blocks

__all__ = ["TileGradients", "relation_tiles"]


class TileGradients:
    """Sums over tiles the gradients that autograd computes from the similarities of each tile.

    With a shard the queries are the keys, slopes are those of a pair for both its sides, and tiles are of the
    shard's rows: the gradient of the queries is complete there, and the keys have none of their own.

    Args:
        queries: `(n, d)`.
        keys: `(m, d)`.
        geometry: As in `pair_similarity`.
        similarity: Likewise.
        temperature: Likewise.
        shard: As in `PairRelation`.
    """

    def __init__(
        self,
        queries: Tensor,
        keys: Tensor,
        geometry: Geometry,
        similarity: Similarity,
        temperature: float | Tensor,
        *,
        shard: slice | None,
    ) -> None:
        # half precision would round the sum over tiles
        self._of = queries.dtype, keys.dtype
        self._queries = queries.detach().to(working_dtype(queries))
        self._keys = keys.detach().to(working_dtype(keys))
        self._geometry, self._similarity = geometry, similarity
        self._temperature = temperature.detach() if isinstance(temperature, Tensor) else temperature
        self._leaves: list[Tensor] = []
        self._sums = [torch.zeros_like(self._queries)]
        if shard is None:
            self._sums.append(torch.zeros_like(self._keys))
        if isinstance(self._temperature, Tensor):
            self._sums.append(torch.zeros_like(self._temperature))
        self._both = shard is None

    @property
    def grad_queries(self) -> Tensor:
        """The gradient of the queries, `(n, d)`."""
        return self._sums[0].to(self._of[0])

    @property
    def grad_keys(self) -> Tensor | None:
        """The gradient of the keys, `(m, d)`; None with a shard."""
        return self._sums[1].to(self._of[1]) if self._both else None

    @property
    def grad_temperature(self) -> Tensor | None:
        """The gradient of the temperature (with a shard, its mean over ranks is); None for a number."""
        if not isinstance(self._temperature, Tensor):
            return None
        return self._sums[-1] * (1.0 if self._both else num_ranks() / 2)  # of pairs as seen from both sides

    def similarities(self, rows: slice, cols: slice) -> Tensor:
        """The similarities of a tile, with a graph."""
        with torch.enable_grad():
            queries, keys = self._queries[rows].clone().requires_grad_(), self._keys[cols]
            self._leaves = [queries]
            if self._both:
                keys = keys.clone().requires_grad_()
                self._leaves.append(keys)
            temperature = self._temperature
            if isinstance(temperature, Tensor):
                temperature = temperature.clone().requires_grad_()
                self._leaves.append(temperature)
            return pair_similarity(queries, keys, self._geometry, temperature, self._similarity)

    def add(self, s: Tensor, slope: Tensor, rows: slice, cols: slice) -> None:
        """Add the gradients of Σ slope·s of the tile that `similarities` gave last."""
        gradients = torch.autograd.grad(s, self._leaves, slope)
        self._sums[0][rows] += gradients[0]
        if self._both:
            self._sums[1][cols] += gradients[1]
        if isinstance(self._temperature, Tensor):
            self._sums[-1] += gradients[-1]


def relation_tiles(
    relation: PairRelation, shard: slice | None, side: int | None
) -> Iterator[tuple[slice, slice]]:
    """All tiles of a relation, or of the rows of a shard, row block by row block; `side` None: `TILE`."""
    side = side or TILE
    within = slice(0, relation.num_queries) if shard is None else shard
    for row in blocks(within.stop - within.start, side):
        for col in blocks(relation.num_keys, side):
            yield slice(within.start + row.start, within.start + row.stop), col

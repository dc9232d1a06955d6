"""The nearest rows of a store, exactly or approximately, and the decision between the two.

A search is exact unless an approximate index is tuned, it pays (`approximate_pays`) and no row is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from labeltree.index.approximate import Tuning, approximate_pays, rank_candidates
from labeltree.index.current_store import CurrentStore
from labeltree.index.distances import distances, lorentz_queries
from labeltree.index.exact import ExactMatrix
from labeltree.index.filters import Filter
from labeltree.index.index_rows import vectors_from_arrow
from labeltree.index.store import ServerStore, Store
from labeltree.index.stored_columns import read_columns

__all__ = ["NearestRows", "RankedRows"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class RankedRows:
    """Rows near one query: numbers, labels and distances, nearest first."""

    rows: Array
    nodes: Array
    distances: Array

    def pick(self, places: Array) -> RankedRows:
        """The rows at some places."""
        return RankedRows(self.rows[places], self.nodes[places], self.distances[places])


@dataclass(frozen=True)
class NearestRows:
    """A search among the rows of one version of a store.

    Attributes:
        current: The store with its matrix.
        store: The version.
        chosen: Which rows are searched.
    """

    current: CurrentStore
    store: Store
    chosen: Filter

    def is_exact_by_default(self) -> bool:
        """Whether all rows are compared if nobody asks for one or the other."""
        store = self.store
        if not self.chosen.all_rows:
            return True
        if isinstance(store, ServerStore):
            return not store.settings.approximate or not approximate_pays(
                self.current.count_of(store), store.settings.dim
            )
        tuning = Tuning.of(store.settings.approximate)
        if tuning is None or not tuning.reached:
            return True
        return not approximate_pays(len(self.current.matrix_of(store)), store.settings.dim)

    def exact(self, queries: Array, k: int) -> list[RankedRows]:
        """The k nearest rows of each query, after comparison with all."""
        store = self.store
        if isinstance(store, ServerStore):
            return self._compared(queries, store.nearest_exact(queries, k, self.chosen), k)
        matrix = self.current.matrix_of(store)
        return _nearest(store, matrix, queries, k, self._positions(matrix))

    def approximate(self, queries: Array, k: int) -> list[RankedRows]:
        """About the k nearest rows of each query, by the approximate index if there is one."""
        store, settings, chosen = self.store, self.store.settings, self.chosen
        hyperbolic = settings.geometry == "poincare"
        asked = lorentz_queries(queries, settings.curvature) if hyperbolic else queries
        if isinstance(store, ServerStore):
            # float32 blurs the order of Lorentz coordinates, so more of them are compared again
            candidates = store.nearest(asked, max(4 * k, 100) if hyperbolic else k, chosen)
            if any(len(rows) < k for rows in candidates):
                there = min(k, store.count(chosen))
                few = [one for one, rows in enumerate(candidates) if len(rows) < there]
                for one, rows in zip(few, store.nearest_exact(queries[few], k, chosen), strict=True):
                    candidates[one] = rows
            return self._compared(queries, candidates, k)
        if Tuning.of(settings.approximate) is None or not chosen.all_rows:
            return self.exact(queries, k)  # LanceDB would look only near the query
        matrix = self.current.matrix_of(store)
        near = []
        for query, rows in zip(queries, store.nearest(asked, k), strict=True):
            at, values = rank_candidates(matrix, settings, query, rows)
            if len(at) < min(k, len(matrix)):
                near += _nearest(store, matrix, query[None], k, None)
            else:
                near.append(RankedRows(matrix.rows[at[:k]], matrix.nodes[at[:k]], values[:k]))
        return near

    def rows_and_nodes(self) -> tuple[Array, Array]:
        """Numbers and labels of all rows that are searched."""
        store = self.store
        if isinstance(store, ServerStore):
            read = read_columns(store, ["row", "node"], self.chosen)
            return read["row"].to_numpy(), read["node"].to_numpy()
        matrix = self.current.matrix_of(store)
        among = self._positions(matrix)
        return (matrix.rows, matrix.nodes) if among is None else (matrix.rows[among], matrix.nodes[among])

    def _compared(self, queries: Array, candidates: list[Array], k: int) -> list[RankedRows]:
        """The k nearest of each query's candidates, by their distances in float64."""
        store, settings = self.store, self.store.settings
        near = []
        for query, rows in zip(queries, candidates, strict=True):
            read = read_columns(store, ["row", "node", "vector"], Filter(rows=np.asarray(rows, np.int64)))
            numbers = read["row"].to_numpy()
            values = distances(
                settings.geometry, query, vectors_from_arrow(read["vector"]), settings.curvature
            )
            order = np.lexsort((numbers, values))[:k]
            near.append(RankedRows(numbers[order], read["node"].to_numpy()[order], values[order]))
        return near

    def _positions(self, matrix: ExactMatrix) -> Array | None:
        """Positions in the matrix of the rows that are searched; None if all are."""
        chosen = self.chosen
        if chosen.all_rows:
            return None
        positions = matrix.labelled(chosen)
        if chosen.conditions:
            others = replace(chosen, within=None, not_within=())
            rows = read_columns(self.store, ["row"], others)["row"].to_numpy()
            positions = positions[np.isin(matrix.rows[positions], rows)]
        return positions


def _nearest(
    store: Store, matrix: ExactMatrix, queries: Array, k: int, among: Array | None
) -> list[RankedRows]:
    settings = store.settings
    near = matrix.nearest(settings.geometry, queries, k, curvature=settings.curvature, among=among)
    return [RankedRows(matrix.rows[at], matrix.nodes[at], values) for at, values in near]

"""Search in one version of an index: by vectors, by ids, and by the mean of nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from labeltree.errors import DataError
from labeltree.index.current_store import CurrentStore
from labeltree.index.distances import check_inside
from labeltree.index.exact import ExactMatrix
from labeltree.index.exact_or_approximate import NearestRows, RankedRows
from labeltree.index.filters import Filter, Nodes, Where
from labeltree.index.hits import Hits
from labeltree.index.index_changes import listed
from labeltree.index.index_rows import vectors_from_arrow
from labeltree.index.store import IndexSettings, ServerStore, Store
from labeltree.index.stored_columns import FEW_IDS, read_columns, shown_columns, with_typed_conditions
from labeltree.taxonomy import Taxonomy

__all__ = ["SearchOptions", "search_ids", "search_mean", "search_vectors"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class SearchOptions:
    """What is searched for; `Index.search` describes each."""

    k: int = 20
    within: Nodes | None = None
    not_within: Nodes | None = None
    where: Where | None = None
    diverse: int | None = None
    exact: bool | None = None
    columns: Sequence[str] | None = None
    labels: Array | torch.Tensor | Sequence[int] | None = None

    def filter(self, taxonomy: Taxonomy) -> Filter:
        """Which rows are searched."""
        return Filter.of(taxonomy, within=self.within, not_within=self.not_within, where=self.where)


def search_vectors(
    current: CurrentStore,
    store: Store,
    query: Array | torch.Tensor | Sequence[Any],
    options: SearchOptions,
) -> list[Hits]:
    """See `Index.search`; in one version of the store, like all functions here."""
    return _search(current, store, _turn(current, _checked_queries(query, store.settings)), options)


def _turn(current: CurrentStore, vectors: Array) -> Array:
    return vectors if current.turn is None else current.turn(vectors)


def search_ids(
    current: CurrentStore, store: Store, ids: Sequence[str], options: SearchOptions
) -> list[Hits | None]:
    """See `Index.search_ids`."""
    if isinstance(ids, str):
        raise DataError(f"ids is the text '{ids}'; give a list of ids, or use search_id for one")
    names = [str(id) for id in ids]
    chosen = options.filter(store.settings.taxonomy)
    known = _checked_labels(options.labels, len(names), store.settings.taxonomy)
    asked = list(dict.fromkeys(names))
    parts = [
        read_columns(store, ["id", "row", "node", "vector"], Filter(ids=tuple(asked[at : at + FEW_IDS])))
        for at in range(0, len(asked), FEW_IDS)
    ]
    place = {name: at for at, name in enumerate(n for part in parts for n in part["id"].to_pylist())}
    there = [at for at, name in enumerate(names) if name in place]
    order = np.array([place[names[at]] for at in there], np.int64)
    rows, nodes, vectors = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, store.settings.dim))
    if there:
        rows, nodes = (
            np.concatenate([part[name].to_numpy() for part in parts])[order] for name in ("row", "node")
        )
        vectors = np.concatenate([vectors_from_arrow(part["vector"]) for part in parts])[order]
    labels = nodes if known is None else known[there]
    hits = _search(
        current, store, _turn(current, vectors), replace(options, labels=labels), chosen, left_out=rows
    )
    answers: list[Hits | None] = [None] * len(names)
    for at, one in zip(there, hits, strict=True):
        answers[at] = one
    return answers


def search_mean(current: CurrentStore, store: Store, nodes: Nodes, options: SearchOptions) -> Hits:
    """See `Index.search_mean`."""
    taxonomy, space = store.settings.taxonomy, store.settings.space
    chosen = Filter.of(taxonomy, within=nodes)
    read = read_columns(store, ["vector"], chosen)
    if not len(read):
        named = [taxonomy.path_name(first) for first, _ in chosen.within or ()]
        raise DataError(f"no sample of the index is labelled at or below {listed(named or ['it'])}")
    points = torch.from_numpy(_turn(current, vectors_from_arrow(read["vector"]).copy()))
    mean = space.group_means(points, torch.zeros(len(points), dtype=torch.int64), 1)
    return _search(current, store, mean.numpy(), options)[0]


def _search(
    current: CurrentStore,
    store: Store,
    queries: Array,
    options: SearchOptions,
    chosen: Filter | None = None,
    left_out: Array | None = None,
) -> list[Hits]:
    """The hits of each query in a version of the store, without the row `left_out` `(q,)` of each."""
    taxonomy, k = store.settings.taxonomy, options.k
    chosen = options.filter(taxonomy) if chosen is None else chosen
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise DataError(f"k is {k!r}; give a whole number of at least 1")
    branches = _branches(taxonomy, options.diverse)
    if branches is not None:
        labelled = ((0, taxonomy.num_nodes),)
        chosen = replace(chosen, within=labelled if chosen.within is None else chosen.within)
    rows = NearestRows(current, store, with_typed_conditions(store, chosen))
    exact = rows.is_exact_by_default() if options.exact is None else options.exact
    exact = exact or current.turn is not None  # the approximate index is of the vectors as they are stored
    near = rows.exact if exact else rows.approximate
    pick = _Picker(k, branches, left_out, rows.rows_and_nodes)
    ranked = pick(lambda most, some: near(queries[some], most), len(queries))
    matrix = None if isinstance(store, ServerStore) else current.matrix_of(store)
    labels = _checked_labels(options.labels, len(queries), taxonomy)
    return _hits(store, matrix, ranked, options.columns, labels)


class _Picker:
    """Take k rows for each query: without the query itself, and of different branches if these are given.

    How many branches there are is counted only if the first rows were of fewer than k, once for all queries.
    """

    def __init__(
        self,
        k: int,
        branches: Array | None,
        left_out: Array | None,
        nodes_there: Callable[[], tuple[Array, Array]],
    ) -> None:
        self._k, self._branches, self._left_out = k, branches, left_out
        self._nodes_there = nodes_there
        self._counted: tuple[int, set[int]] | None = None

    def __call__(
        self, near: Callable[[int, list[int]], list[RankedRows]], num_queries: int
    ) -> list[RankedRows]:
        most = self._k + (self._left_out is not None)
        chosen: dict[int, RankedRows] = {}
        wanted: dict[int, int] = {}
        while len(chosen) < num_queries:
            open_queries = [query for query in range(num_queries) if query not in chosen]
            for query, ranked in zip(open_queries, near(most, open_queries), strict=True):
                own = None if self._left_out is None else int(self._left_out[query])
                picked = self._pick(ranked, own)
                enough = len(picked.rows) == self._k or len(ranked.rows) < most
                if not enough and self._branches is not None and query not in wanted:
                    wanted[query] = min(self._k, self._num_branches(self._branches, own))
                if enough or (query in wanted and len(picked.rows) >= wanted[query]):
                    chosen[query] = picked
            most *= 4
        return [chosen[query] for query in range(num_queries)]

    def _num_branches(self, branches: Array, left_out: int | None) -> int:
        """Of how many branches rows pass, one of them left out."""
        if self._counted is None:
            rows, nodes = self._nodes_there()
            _, branch, count = np.unique(branches[nodes], return_inverse=True, return_counts=True)
            self._counted = len(count), set(rows[count[branch] == 1].tolist())  # those alone in their branch
        num_branches, alone = self._counted
        return num_branches - (left_out in alone)

    def _pick(self, ranked: RankedRows, left_out: int | None) -> RankedRows:
        places = np.arange(len(ranked.rows))
        if left_out is not None:
            places = places[ranked.rows != left_out]
        if self._branches is not None:
            _, first = np.unique(self._branches[ranked.nodes[places]], return_index=True)
            places = places[np.sort(first)]
        return ranked.pick(places[: self._k])


def _hits(
    store: Store,
    matrix: ExactMatrix | None,
    ranked: list[RankedRows],
    columns: Sequence[str] | None,
    labels: Array | None,
) -> list[Hits]:
    shown = shown_columns(store)
    wanted = shown if columns is None else list(columns)
    unknown = [name for name in wanted if name not in [*shown, "id", "node"]]
    if unknown:
        raise DataError(f"the index has no column '{unknown[0]}'; it has {', '.join(shown)}")
    read = [name for name in dict.fromkeys(["id", *wanted]) if name != "node"]
    rows, nodes = [one.rows for one in ranked], [one.nodes.tolist() for one in ranked]
    values = _read_store(store, rows, read) if matrix is None else _read_matrix(matrix, rows, read)
    taxonomy, geometry = store.settings.taxonomy, store.settings.geometry
    hits = []
    for query, one in enumerate(ranked):
        label = -1 if labels is None else int(labels[query])
        depths = taxonomy.lca_depth(torch.from_numpy(one.nodes.copy()), label).numpy() if label >= 0 else None
        row = {"node": nodes[query], **values[query]}
        hits.append(
            Hits(
                ids=row["id"],
                distances=one.distances,
                similarities=1.0 - one.distances if geometry == "cosine" else -one.distances,
                nodes=one.nodes,
                rows={name: row[name] for name in wanted},
                lca_depths=depths,
            )
        )
    return hits


def _read_matrix(matrix: ExactMatrix, rows: list[Array], columns: list[str]) -> list[dict[str, list[Any]]]:
    """Columns of rows, given by their numbers, for each query."""
    places = [np.searchsorted(matrix.rows, one).tolist() for one in rows]
    chosen = {name: matrix.columns[name] for name in columns}
    return [{name: [column[at].as_py() for at in some] for name, column in chosen.items()} for some in places]


def _read_store(store: Store, rows: list[Array], columns: list[str]) -> list[dict[str, list[Any]]]:
    """The same, read from the store."""
    numbers = np.unique(np.concatenate(rows)) if rows else np.zeros(0, np.int64)
    read = read_columns(store, ["row", *columns], Filter(rows=numbers)).sort_by("row")
    taken = [read.take(np.searchsorted(numbers, some)) for some in rows]
    return [{name: some[name].to_pylist() for name in columns} for some in taken]


def _branches(taxonomy: Taxonomy, depth: int | None) -> Array | None:
    """For each node its ancestor at a depth, or itself if it is coarser `(N,)`."""
    if depth is None:
        return None
    if isinstance(depth, bool) or not 0 < depth <= taxonomy.max_depth:
        raise DataError(f"diverse is {depth}; give a depth from 1 to {taxonomy.max_depth}")
    ancestors = taxonomy.ancestors[:, depth]
    return torch.where(ancestors < 0, torch.arange(taxonomy.num_nodes), ancestors).numpy()


def _checked_queries(query: Any, settings: IndexSettings) -> Array:
    try:
        given = query.detach().cpu().numpy() if isinstance(query, torch.Tensor) else np.asarray(query)
        with np.errstate(over="ignore"):
            queries = np.ascontiguousarray(given, np.float32)
    except (TypeError, ValueError) as error:
        raise DataError("a query is a vector of numbers, or several: (q, d)") from error
    queries = queries[None] if queries.ndim == 1 else queries
    if queries.ndim != 2 or queries.shape[1] != settings.dim:
        raise DataError(
            f"queries have the shape {given.shape}; the index has vectors of {settings.dim} dimensions: give "
            "those of the model whose embeddings it holds"
        )
    bad = np.flatnonzero(~np.isfinite(queries).all(1))
    if len(bad):
        raise DataError(f"query {int(bad[0])} holds NaN or infinity; leave it out")
    if settings.geometry == "poincare":
        check_inside(queries, settings.curvature, [f"query {row}" for row in range(len(queries))])
    return queries


def _checked_labels(labels: Any, num_queries: int, taxonomy: Taxonomy) -> Array | None:
    if labels is None:
        return None
    nodes = np.asarray(labels, np.int64).reshape(-1)
    if len(nodes) != num_queries:
        raise DataError(f"there are {num_queries} queries but {len(nodes)} labels; they must be as many")
    if len(nodes) and not (nodes.min() >= -1 and nodes.max() < taxonomy.num_nodes):
        raise DataError(f"labels of queries are nodes 0 to {taxonomy.num_nodes - 1}, or -1 where unknown")
    return nodes

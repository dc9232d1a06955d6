"""Many queries of an index at once: images, texts, vectors, samples by id, and nodes; on any taxonomy."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch

from labeltree.decisions.searched_space import searched_vectors
from labeltree.errors import DataError
from labeltree.file_kinds import VECTOR_SUFFIXES, is_vector_file
from labeltree.index.filters import Nodes, Where
from labeltree.index.hits import Hits
from labeltree.index.index import Index
from labeltree.index.search_results import VOTERS, Answer, likely_label
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.versions.between_versions import VersionChange

if TYPE_CHECKING:
    from labeltree.data.table_columns import DataTable

__all__ = ["Query", "array_queries", "queries_in", "run_queries", "vector_queries"]

Kind = Literal["image", "text", "vector", "embedding", "id", "node"]
_EMBEDDED: tuple[Kind, ...] = ("image", "text", "vector", "embedding")
_SELECTIONS = ("within", "not_within", "where", "diverse")  # of the samples that may be found
_COLUMNS: dict[str, Kind] = {
    "image": "image",
    "path": "image",
    "file": "image",
    "text": "text",
    "id": "id",
    "node": "node",
}
_log = logging.getLogger("labeltree.index")
_SAME_MODEL = (
    "give vectors of the model whose embeddings the index holds, or make an index of these: 'labeltree index "
    "FILE --out FOLDER'"
)
_FEW = 1000  # ids that are looked up one by one
_Embedded: TypeAlias = tuple[np.ndarray[Any, Any], dict[int, str]]


@dataclass(frozen=True)
class Query:
    """One query.

    Attributes:
        kind: What it is.
        value: An image file, a text, the name of a vector, the id of a sample of the index, or a node.
        vector: The vector `(d,)`, of one; as `embedding` it lies in the space of the index.
    """

    kind: Kind
    value: str
    vector: np.ndarray[Any, Any] | None = field(default=None, compare=False, repr=False)


def vector_queries(
    index: Index, place: str | Path, settings: Mapping[str, Any] | None = None
) -> list[Query] | None:
    """The queries of a file of vectors, for an index of a run on vectors or without a run; None of another.

    Without a run, vectors are those of the index's own space.

    Raises:
        DataError: If the file cannot be read, or its vectors have another length.
    """
    if not is_vector_file(place):
        return None
    if index.model is None:
        from labeltree.data.table_columns import DataTable
        from labeltree.data.vectors.choose_vectors import find_vectors
        from labeltree.data.vectors.read_vector_files import read_vector_file

        if Path(place).suffix.lower() in VECTOR_SUFFIXES:
            table: DataTable = read_vector_file(Path(place))
        else:
            table = DataTable.read(Path(place), **_query_settings(settings))
            if set(_COLUMNS) & set(table.columns):  # other queries
                return None
            for note in table.notes:
                _log.warning("%s", note)
        given = find_vectors(table, None)
        if given is None:
            raise DataError(f"{table} holds no vectors, and {_no_queries(table)}")
        store, names = given.store, [table.place(row) for row in range(table.num_rows)]
        if store.width != index.settings.dim:
            raise DataError(
                f"{store.what} holds vectors of {store.width:,} numbers, and the index '{index.where}' "
                f"vectors of {index.settings.dim:,}; {_SAME_MODEL}"
            )
    else:
        from labeltree.inference.named_samples import open_other

        run = index.open_model().run
        if run.network.modality != "vector":
            return None
        source = open_other(run, place, unlabelled=True, table=settings)
        assert source.vectors is not None
        store, names = source.vectors.take(source.rows.numpy()), source.sample_names()
    vectors = store.load(torch.arange(len(store))).numpy()
    return [Query("vector", name, vector) for name, vector in zip(names, vectors, strict=True)]


def array_queries(index: Index, array: Any) -> list[Query]:
    """The queries of an array of vectors, `(d,)` or `(m, d)`, named by their index as `predict` names them.

    For an index of a run on vectors these are samples, which the run embeds, if they are as long as its
    samples; otherwise they lie in the space of the index, as `embed` gives embeddings.

    Raises:
        DataError: If it is no such array.
    """
    try:
        vectors = np.asarray(array)
    except (TypeError, ValueError):
        vectors = np.asarray(None)
    wanted = f"vectors (d,) or (m, d) of d = {index.settings.dim} numbers"
    if vectors.dtype.kind not in "fiu" or vectors.ndim not in (1, 2):
        raise DataError(
            f"queries are {vectors.dtype} {vectors.shape}; an array holds {wanted}, embeddings of the index. "
            "Name images by their paths, and texts by `texts`"
        )
    vectors = np.atleast_2d(vectors).astype(np.float32)
    kind: Kind = "embedding"
    samples = ""
    if index.model is not None:
        run = index.open_model().run
        if run.network.modality == "vector":
            width = run.network.encoder.feature_dim
            kind = "vector" if vectors.shape[1] == width else kind
            samples = f", which its run makes of samples of {width:,}"
    if kind == "embedding" and vectors.shape[1] != index.settings.dim:
        raise DataError(
            f"the array holds vectors of {vectors.shape[1]:,} numbers, and the index '{index.where}' vectors "
            f"of {index.settings.dim:,}{samples}; {_SAME_MODEL}"
        )
    return [Query(kind, f"vector {row}", vector) for row, vector in enumerate(vectors)]


def queries_in(place: str | Path, settings: Mapping[str, Any] | None = None) -> list[Query]:
    """The queries of a folder of images, or of a table.

    A folder is searched with its subfolders, in the order of names. A table (`.csv`, `.xlsx`,
    `.parquet` …) has a column `image`, `path` or `file` (relative to the table), `text`, `id` or
    `node`; the first of these is taken. Its `settings` are its sheet and its encoding.

    Raises:
        DataError: If there is nothing of the kind, or a cell is empty.
    """
    path = Path(place)
    if path.is_dir():
        from labeltree.data.folders import walk_images

        files = sorted(file for _, file in walk_images(path) if file is not None)
        if not files:
            raise DataError(f"the folder '{path}' holds no images")
        return [Query("image", file) for file in files]
    from labeltree.data.table_columns import DataTable

    table = DataTable.read(path, **_query_settings(settings))
    for note in table.notes:
        _log.warning("%s", note)
    column = next((name for name in _COLUMNS if name in table.columns), None)
    if column is None:
        raise DataError(f"{table} {_no_queries(table)}")
    kind = _COLUMNS[column]
    values = table.filled(column)
    if kind == "image":
        values = [str(path.parent / value) for value in values]
    return [Query(kind, value) for value in values]


def _query_settings(settings: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The settings of a table of queries.

    Raises:
        DataError: If one is for tables of samples.
    """
    settings = settings or {}
    if others := [name for name in settings if name not in ("sheet", "encoding")]:
        raise DataError(
            f"table.{others[0]} does not apply to queries, whose column is one of {', '.join(_COLUMNS)}; of "
            "their table, table.sheet and table.encoding can be set"
        )
    return settings


def _no_queries(table: DataTable) -> str:
    return f"has no column of queries: one of {', '.join(_COLUMNS)}; it has {', '.join(table.columns)}"


def run_queries(
    index: Index,
    queries: Sequence[Query],
    *,
    k: int = 20,
    within: Nodes | None = None,
    not_within: Nodes | None = None,
    where: Where | None = None,
    diverse: int | None = None,
    exact: bool | None = None,
    label: str | int | None = None,
    taxonomy: Taxonomy | None = None,
    mapping: str | Path | None = None,
) -> list[Answer]:
    """The answer to each query, in the given order; one that cannot be read has a `problem`.

    All are answered by one version of the index, also if others change it meanwhile.

    Args:
        index: What to search in.
        queries: Images, texts and vectors are embedded by the run of the index.
        k: How many samples to find for each.
        within: As in `Index.search`.
        not_within: As in `Index.search`.
        where: As in `Index.search`.
        diverse: As in `Index.search`.
        exact: As in `Index.search`.
        label: The label of all images and texts, if it is known; None: see `likely_label`.
        taxonomy: Another version of the index's taxonomy, on which nodes are read and hits are labelled; the
            index stays as it is.
        mapping: File that says what became of the nodes of the index's taxonomy in that version; None: what
            is certain, see `TaxonomyMapping.between`.

    Raises:
        DataError: If the run of the index cannot embed the queries, or an argument does not suit.
        TaxonomyError: If a node is unknown.
    """

    def on(seen: Index) -> tuple[_View, int, dict[str, Any]]:
        """What was asked for, on the taxonomy that the index has now."""
        view = _View(seen.taxonomy, taxonomy, mapping)
        if diverse is not None and view.changed:
            raise ValueError(
                "diverse counts nodes of the index's own taxonomy; leave it out, or move the index"
            )
        known = -1 if label is None else _node(view.taxonomy, label)
        nodes = {"within": view.ranges(within), "not_within": view.ranges(not_within)}
        return view, known, {"k": k, "where": where, "diverse": diverse, "exact": exact, **nodes}

    on(index)  # wrong arguments are told before anything is embedded
    embedded: dict[str, _Embedded] = {}
    for kind in _EMBEDDED:
        given = [query for query in queries if query.kind == kind]
        if given:
            embedded[kind] = _embedded(index, kind, given)
    return index.at_once(lambda seen: _answers(seen, queries, embedded, *on(seen)))


def _answers(
    index: Index,
    queries: Sequence[Query],
    embedded: dict[str, _Embedded],
    view: _View,
    known: int,
    options: dict[str, Any],
) -> list[Answer]:
    """The answers by one version of an index, with the vectors of images and texts."""
    answers: dict[int, Answer] = {}
    for kind, (vectors, problems) in embedded.items():
        places = [place for place, query in enumerate(queries) if query.kind == kind]
        readable = [place for at, place in enumerate(places) if at not in problems]
        hits = index.search(vectors, **options) if readable else []
        # what was asked for says nothing of the query: its label comes from all samples
        selects = known < 0 and any(options[name] not in (None, {}) for name in _SELECTIONS)
        whole = {"k": VOTERS, "exact": options["exact"]}
        nearest = index.search(vectors, **whole) if readable and selects else [None] * len(hits)
        answers |= {
            place: _answer(queries[place], view.of(one), known, None if all_of is None else view.of(all_of))
            for place, one, all_of in zip(readable, hits, nearest, strict=True)
        }
        answers |= {places[at]: _unread(queries[places[at]], reason) for at, reason in problems.items()}
    of_ids = [place for place, query in enumerate(queries) if query.kind == "id"]
    names = [queries[place].value for place in of_ids]
    own = _own_labels(index, names)
    hits_of_ids = index.search_ids(names, **options) if names else []
    for place, name, of_id in zip(of_ids, names, hits_of_ids, strict=True):
        if of_id is None:
            problem = f"there is no sample '{name}' in the index '{index.where}'"
            answers[place] = _unread(queries[place], problem)
        else:
            answers[place] = _answer(queries[place], view.of(of_id), view.node(own[name]))
    for place, query in enumerate(queries):
        if query.kind == "node":
            answers[place] = _answer_node(index, query, view, options)
    return [answers[place] for place in range(len(queries))]


class _View:
    """An index's labels on another version of its taxonomy, or on its own."""

    def __init__(self, own: Taxonomy, other: Taxonomy | None, mapping: str | Path | None) -> None:
        if other is None and mapping is not None:
            raise ValueError("a mapping leads to another version of the taxonomy; name that, too")
        self.taxonomy = own if other is None else other
        self._nodes: np.ndarray[Any, Any] | None = None
        if other is not None and (mapping is not None or other != own):
            self._nodes = VersionChange.of(own, other, mapping).places.numpy()

    @property
    def changed(self) -> bool:
        """Whether this is another taxonomy than that of the index."""
        return self._nodes is not None

    def node(self, node: int) -> int:
        """A node of the index on this taxonomy; -1 stays."""
        return int(self._nodes[node]) if self._nodes is not None and node >= 0 else node

    def of(self, hits: Hits) -> Hits:
        """Hits with their labels on this taxonomy."""
        if self._nodes is None:
            return hits
        nodes = np.where(hits.nodes >= 0, self._nodes[np.maximum(hits.nodes, 0)], -1)
        return replace(hits, nodes=nodes, lca_depths=None)

    def ranges(self, nodes: Nodes | None) -> Nodes | None:
        """Nodes of this taxonomy as nodes of the index's: those that became them or something below."""
        if nodes is None or self._nodes is None:
            return nodes
        inside = np.zeros(len(self._nodes), bool)
        for one in [nodes] if isinstance(nodes, str | int) else nodes:
            node = _node(self.taxonomy, one) if isinstance(one, str | int) else one.start
            inside |= (self._nodes >= node) & (self._nodes < int(self.taxonomy.subtree_end[node]))
        edges = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]]).astype(np.int8)))
        return [range(int(first), int(end)) for first, end in edges.reshape(-1, 2)]


def _node(taxonomy: Taxonomy, node: str | int) -> int:
    number = taxonomy.find(node) if isinstance(node, str) else int(node)
    if not 0 <= number < taxonomy.num_nodes:
        raise DataError(f"there is no node {number}; the taxonomy has nodes 0 to {taxonomy.num_nodes - 1}")
    return number


def _own_labels(index: Index, names: Sequence[str]) -> dict[str, int]:
    """The labels of samples by name, -1 where they have none; without samples that are not there."""
    from labeltree.index.filters import Filter

    labels: dict[str, int] = {}
    for at in range(0, len(names), _FEW):
        read = index.rows(["id", "node"], Filter(ids=tuple(names[at : at + _FEW])))
        labels |= dict(zip(read["id"].to_pylist(), read["node"].to_pylist(), strict=True))
    return labels


def _answer_node(index: Index, query: Query, view: _View, options: dict[str, Any]) -> Answer:
    """The search of a node; on another taxonomy, around the samples whose labels lie there."""
    node = _node(view.taxonomy, query.value)
    if not view.changed:
        return _answer(query, index.search_node(node, **options), node)
    ranges = view.ranges(node)
    assert ranges is not None
    hits = index.search_mean(ranges, **options)
    return _answer(query, view.of(hits), node)


def _embedded(index: Index, kind: Kind, queries: list[Query]) -> _Embedded:
    """Vectors of the queries that can be read, and the reasons why others cannot, by position."""
    from labeltree.inference.named_samples import open_images, open_texts, open_vectors
    from labeltree.inference.run_embeddings import embed_source

    given = (
        np.stack([query.vector for query in queries if query.vector is not None])
        if kind in ("vector", "embedding")
        else None
    )
    if given is not None and (index.model is None or kind == "embedding"):
        return given, {}
    model = index.open_model()
    if given is not None:
        named = open_vectors(model.run, given)
    else:
        named = (open_images if kind == "image" else open_texts)(
            model.run, [query.value for query in queries]
        )
    if named.source is None:
        return np.zeros((0, index.settings.dim), np.float32), named.skipped
    with torch.inference_mode():
        table = embed_source(model.network, named.source, keep=False)
    return searched_vectors(table, index.settings.vectors).numpy(), named.skipped


def _answer(query: Query, hits: Hits, label: int, nearest: Hits | None = None) -> Answer:
    """The answer to a query; `nearest` are the samples nearest to it where the hits are of some alone."""
    kind = "vector" if query.kind == "embedding" else query.kind
    if label >= 0:
        return Answer(query.value, kind, hits, label, "query")
    likely = likely_label(hits if nearest is None else nearest) if query.kind in _EMBEDDED else -1
    if likely < 0:
        return Answer(query.value, kind, hits)
    return Answer(query.value, kind, hits, likely, "results" if nearest is None else "index")


def _unread(query: Query, problem: str) -> Answer:
    kind = "vector" if query.kind == "embedding" else query.kind
    return Answer(query.value, kind, None, problem=problem)

"""The points of rows on Qdrant: how they are made of rows, asked for, and read as rows again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.index.addresses import Address
from labeltree.index.distances import distances
from labeltree.index.index_rows import vectors_from_arrow, vectors_to_arrow
from labeltree.index.store import OWN_COLUMNS, VECTOR_COLUMNS, IndexSettings
from labeltree.options.choices import IndexGeometry

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "is_certain",
    "make_collection",
    "points_of_rows",
    "query_points",
    "row_numbers",
    "rows_of_points",
    "scroll_points",
    "unit_vectors",
]

Array = np.ndarray[Any, Any]
_EPS = 2.0**-24


def make_collection(client: Any, name: str, address: Address, settings: IndexSettings) -> None:
    """Make the collection of the rows of an index."""
    from qdrant_client import models

    euclidean = settings.geometry == "euclidean"
    distance = models.Distance.DOT if settings.geometry == "cosine" else models.Distance.EUCLID
    vector = models.VectorParams(size=settings.dim, distance=distance)
    if not euclidean:  # kept aside
        vector.hnsw_config, vector.on_disk = models.HnswConfigDiff(m=0), True
    vectors = {"vector": vector}
    if not euclidean:
        size = settings.dim + (settings.geometry == "poincare")
        vectors["search"] = models.VectorParams(size=size, distance=models.Distance.DOT)
    client.create_collection(name, vectors_config=vectors)
    if address.is_folder:
        return  # the client has no indexes of payloads
    for key, kind in (
        ("id", "keyword"),
        ("row", "integer"),
        ("label", "integer"),
        ("born", "integer"),
        ("died", "integer"),
    ):
        client.create_payload_index(name, key, field_schema=kind)


def points_of_rows(
    batch: pa.RecordBatch, geometry: IndexGeometry, labels: Array, first: int, generation: int
) -> list[Any]:
    """Points of rows.

    Args:
        batch: The rows.
        geometry: Of the vectors.
        labels: `(N,)` the label of each node.
        first: Number of the first point.
        generation: In which they come.
    """
    from qdrant_client import models

    further = [name for name in batch.schema.names if name not in OWN_COLUMNS]
    vectors = vectors_from_arrow(batch.column("vector"))
    vectors_by_name = {"vector": vectors.tolist()}
    if geometry == "cosine":
        vectors_by_name["search"] = unit_vectors(vectors).tolist()
    elif geometry == "poincare":
        vectors_by_name["search"] = vectors_from_arrow(batch.column("lorentz")).tolist()
    numbers = batch.column("row").to_pylist()
    columns = {name: batch.column(name).to_pylist() for name in further}
    points = []
    nodes = batch.column("node").to_pylist()
    for at, (one, number) in enumerate(zip(batch.column("id").to_pylist(), numbers, strict=True)):
        payload: dict[str, Any] = {"id": one, "row": number, "born": generation}
        if nodes[at] >= 0:
            payload["label"] = int(labels[nodes[at]])
        known = {name: values[at] for name, values in columns.items() if _is_value(values[at])}
        if known:
            payload["columns"] = known
        vector = {name: values[at] for name, values in vectors_by_name.items()}
        points.append(models.PointStruct(id=first + at, vector=vector, payload=payload))
    return points


def scroll_points(client: Any, name: str, filter: Any, columns: Sequence[str], batch: int) -> Iterator[Any]:
    """The points of a collection that pass a filter of Qdrant, with what columns of rows are made of."""
    labels = {"node": "label"}
    keys = [
        labels.get(n, n if n in OWN_COLUMNS else f"columns.{n}") for n in columns if n not in VECTOR_COLUMNS
    ]
    vectors = [{"lorentz": "search"}.get(name, name) for name in columns if name in VECTOR_COLUMNS]
    offset = None
    while True:
        points, offset = client.scroll(
            name,
            scroll_filter=filter,
            limit=batch,
            offset=offset,
            with_payload=keys,
            with_vectors=vectors,
        )
        yield from points
        if offset is None:
            return


def rows_of_points(points: list[Any], columns: list[str], nodes: Array, schema: pa.Schema) -> pa.RecordBatch:
    """Columns of points; `nodes` `(labels,)` are what labels are now, `schema` is that of the rows."""
    import pyarrow as pa

    arrays = []
    for name in columns:
        if name in VECTOR_COLUMNS:
            key = {"lorentz": "search"}.get(name, name)
            arrays.append(vectors_to_arrow(np.array([point.vector[key] for point in points], np.float32)))
            continue
        if name == "node":
            labels = np.array([(point.payload or {}).get("label", -1) for point in points], np.int64)
            arrays.append(pa.array(np.append(nodes, -1)[labels], pa.int64()))
            continue
        payloads = [point.payload or {} for point in points]
        if name not in OWN_COLUMNS:
            payloads = [payload.get("columns", {}) for payload in payloads]
        arrays.append(pa.array([payload.get(name) for payload in payloads], schema.field(name).type))
    return pa.RecordBatch.from_arrays(arrays, names=columns)


def query_points(
    client: Any, name: str, queries: Array, k: int, *, filter: Any, using: str, params: Any, with_vector: bool
) -> list[list[Any]]:
    """The k points of a collection nearest to each query `(q, d)`, by one of their vectors.

    Args:
        client: Of Qdrant.
        name: Of the collection.
        queries: `(q, d)`.
        k: How many.
        filter: Of Qdrant.
        using: Name of the vector.
        params: Of the search.
        with_vector: Give also the points' `vector`.
    """
    from qdrant_client import models

    requests = [
        models.QueryRequest(
            query=query.tolist(),
            using=using,
            limit=k,
            filter=filter,
            params=params,
            with_payload=["row"],
            with_vector=["vector"] if with_vector else False,
        )
        for query in queries
    ]
    points: list[list[Any]] = []
    for at in range(0, len(requests), 100):
        replies = client.query_batch_points(name, requests[at : at + 100])
        points += [reply.points for reply in replies]
    return points


def is_certain(settings: IndexSettings, query: Array, points: list[Any], k: int) -> bool:
    """Whether no row behind these can be among the k nearest."""
    geometry = settings.geometry
    share = 4 * (settings.dim + 8) * _EPS
    scores = np.array([point.score for point in points])
    if geometry == "cosine":
        return bool(scores[-1] < scores[k - 1] - 2 * share)
    farthest = float(scores[-1])
    if geometry == "euclidean":
        return bool(farthest > scores[k - 1] * (1 + share) + 1e-17)
    curvature = settings.curvature
    vectors = np.array([point.vector["vector"] for point in points], np.float32)
    kth = np.partition(distances("poincare", query, vectors, curvature), k - 1)[k - 1]
    c = -curvature
    room = 1.0 - c * float((query.astype(np.float64) ** 2).sum())
    # sinh²(√c distance / 2) = c|x - q|² / (room(x) room(q)), and room(x) <= 1
    return bool(c * (farthest * (1 - share)) ** 2 > room * np.sinh(np.sqrt(c) * kth * (1 + share) / 2) ** 2)


def row_numbers(points: list[Any]) -> Array:
    """Numbers of the rows of points."""
    return np.array([point.payload["row"] for point in points], np.int64)


def unit_vectors(vectors: Array) -> Array:
    """Vectors `(n, d)` at length 1; those of length 0 stay."""
    exact = vectors.astype(np.float64)
    lengths = np.sqrt((exact * exact).sum(1, keepdims=True))
    return np.asarray(exact / np.where(lengths > 0, lengths, 1.0), np.float32)


def _is_value(value: Any) -> bool:
    """Whether JSON can carry a value: not None, NaN or infinity."""
    return value is not None and (not isinstance(value, float) or bool(np.isfinite(value)))

"""The store on Qdrant: a server or a cluster, or a folder in which Qdrant's client works by itself.

Qdrant changes many points in many steps, and others see each of them. So that an index changes as a whole, no
point that readers see is changed, and what they see is decided by one point, the head, which is written last:

    NAME           the head: generation, writer, and which document holds; documents: settings, and the node
                   of each label
    NAME.KEY       the rows: points with the generation in which they came (born) and went (died)

A reader sees the points born up to its generation and not died by then. A writer takes the lock in the head,
writes points of the next generation, switches the head, and deletes what has died. If it ends before the
switch, the next writer deletes what it left. A head is written only over the head that was read.

Points refer to labels, not to nodes: a new taxonomy is a new document, and no row is written.
"""

from __future__ import annotations

import atexit
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.errors import DataError, LabeltreeError
from labeltree.index.addresses import Address
from labeltree.index.distances import distances
from labeltree.index.filters import Condition, Filter
from labeltree.index.rows import count_texts, vectors_to_arrow
from labeltree.index.store import IndexSettings, StoreChangedError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["QdrantStore"]

Array = np.ndarray[Any, Any]

_BATCH = 1000  # points of one request
_PATIENCE_S = (
    60.0  # how long a writer waits for another; as long without a sign of it, and it is taken for dead
)
_EPS = 2.0**-24
_HNSW = {"m": 16, "ef_construction": 128, "ef_search": 128}
_VECTORS = ("vector", "lorentz")
_OWN = ("id", "row", "node", *_VECTORS)
_HEAD = 0
_OLDEST = (1, 17)  # conditional writes, and those that only insert


@dataclass(frozen=True)
class _Head:
    """The point that decides what readers see.

    Attributes:
        token: changes with every write of the head.
        generation: what readers see.
        document: number of the point with the settings; 0: the index is not made yet.
        next_point: number of the next point of a row.
        next_row: number of the next row.
        writer: who is writing, or None.
        unfinished: whether points of a later generation may lie there.
    """

    token: str = ""
    generation: int = 0
    document: int = 0
    next_point: int = 0
    next_row: int = 0
    writer: str | None = None
    unfinished: bool = False


class QdrantStore:
    """Rows in collections of Qdrant.

    Args:
        address: of the server or folder, with the name of the index.
        client: of Qdrant; None: one for the address.
    """

    _nodes: Array  # (labels,) the node that each label is now

    def __init__(self, address: Address, client: Any = None) -> None:
        self.name = address.shown
        self._address = address
        self._client = _client_of(address) if client is None else client
        self._writer: str | None = None
        with _sentences(address):
            if not self._client.collection_exists(address.name):
                raise DataError(f"there is no index at '{self.name}'; make one with 'labeltree index'")
            self._head = self._read_head()
            if not self._head.document:
                raise DataError(
                    f"there is no index at '{self.name}', since making one was interrupted; "
                    "make it with 'labeltree index'"
                )
            self._read_document()

    @classmethod
    def open(cls, address: Address) -> QdrantStore:
        """Open an index.

        Raises:
            DataError: if there is none, or the server cannot be reached.
        """
        return cls(address)

    @classmethod
    def exists(cls, address: Address) -> bool:
        """Whether there is an index."""
        self = cls.__new__(cls)
        self.name, self._address, self._client = address.shown, address, _client_of(address)
        with _sentences(address):
            return bool(self._client.collection_exists(address.name)) and self._read_head().document > 0

    @classmethod
    def create(
        cls, address: Address, rows: pa.Table, settings: IndexSettings, *, overwrite: bool = False
    ) -> QdrantStore:
        """Make an index of rows. If it is interrupted there is none, or the old one.

        Raises:
            DataError: if there is one already and ``overwrite`` is False, or a collection that is none has
                its name.
        """
        from qdrant_client import models

        self = cls.__new__(cls)
        self.name, self._address, self._client, self._writer = (
            address.shown,
            address,
            _client_of(address),
            None,
        )
        client, name = self._client, address.name
        with _sentences(address):
            if not client.collection_exists(name):
                with suppress(Exception):  # another process may be faster
                    client.create_collection(name, vectors_config={})
                self._head = _Head(token=uuid.uuid4().hex)
                client.upsert(
                    name,
                    [models.PointStruct(id=_HEAD, vector={}, payload=asdict(self._head))],
                    update_mode=models.UpdateMode.INSERT_ONLY,
                    wait=True,
                )
            self._head = self._read_head()
            if self._head.document and not overwrite:
                raise DataError(
                    f"there is an index at '{self.name}' already; overwrite it, or take another name"
                )
            with self._locked():
                ours = re.compile(rf"{re.escape(name)}\.[0-9a-f]{{32}}")
                older = [c.name for c in client.get_collections().collections if ours.fullmatch(c.name)]
                self._settings, self._schema = settings, rows.schema.remove_metadata()
                self._nodes = np.arange(settings.taxonomy.num_nodes)
                self._rows = f"{name}.{settings.key}"
                self._make_rows()
                self._generation = self._head.generation + 1
                self._insert(rows)
                self._commit(document=self._write_document())
                for one in older:
                    client.delete_collection(one)
        return cls(address, client)

    @property
    def settings(self) -> IndexSettings:
        """See `Store`."""
        return self._settings

    @property
    def version(self) -> int:
        """See `Store`."""
        return self._head.generation

    @property
    def schema(self) -> pa.Schema:
        """See `Store`."""
        return self._schema

    def latest(self) -> QdrantStore:
        """See `Store`."""
        with _sentences(self._address):
            now = self._read_head()
            return (
                self if now.generation == self._head.generation else QdrantStore(self._address, self._client)
            )

    # Reading

    def count(self, filter: Filter | None = None) -> int:
        """See `Store`."""
        with self._reading():
            return int(self._client.count(self._rows, count_filter=self._filter(filter), exact=True).count)

    def count_texts(self, column: str) -> dict[str, int]:
        """See `Store`."""
        return count_texts(self.scan([column]))

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """See `Store`."""
        found: dict[str, int] = {}
        with self._reading():
            for at in range(0, len(ids), _BATCH):
                for point in self._points(Filter(ids=tuple(ids[at : at + _BATCH])), ["id", "row"]):
                    found[point.payload["id"]] = point.payload["row"]
        return found

    def next_row(self) -> int:
        """See `Store`."""
        return self._head.next_row

    def scan(self, columns: list[str], filter: Filter | None = None) -> Iterator[pa.RecordBatch]:
        """See `Store`."""
        with self._reading():
            for part in _parts(filter):
                batch: list[Any] = []
                for point in self._points(part, columns):
                    batch.append(point)
                    if len(batch) == _BATCH:
                        yield self._record_batch(batch, columns)
                        batch = []
                if batch:
                    yield self._record_batch(batch, columns)

    def nearest(self, queries: Array, k: int, filter: Filter | None = None) -> list[Array]:
        """See `Store`; by the HNSW index of Qdrant."""
        from qdrant_client import models

        tuned = int(self._settings.approximate.get("ef_search", _HNSW["ef_search"]))
        params = None if self._address.is_folder else models.SearchParams(hnsw_ef=max(tuned, k))
        asked = _unit(queries) if self._settings.geometry == "cosine" else queries
        with self._reading():
            return [_rows(points) for points in self._query(asked, k, filter, self._indexed, params)]

    def nearest_exact(self, queries: Array, k: int, filter: Filter | None = None) -> list[Array]:
        """See `Store`; the server compares every row that passes.

        Qdrant gives the m nearest by its own scores in float32. m grows until the farthest of them is farther
        than the k-th can be, or there are no more. In the ball |x - q|² / room(x) orders the rows, which is
        never less than |x - q|², so they are taken in the order of the latter.
        """
        from qdrant_client import models

        cosine = self._settings.geometry == "cosine"
        asked = _unit(queries) if cosine else queries
        params = (
            None if self._address.is_folder else models.SearchParams(exact=True)
        )  # a folder is always exact
        found: dict[int, Array] = {}
        most = 2 * k + 16
        with self._reading():
            while len(found) < len(queries):
                left = [query for query in range(len(queries)) if query not in found]
                replies = self._query(asked[left], most, filter, "search" if cosine else "vector", params)
                for query, points in zip(left, replies, strict=True):
                    if len(points) < most or self._is_certain(queries[query], points, k):
                        found[query] = _rows(points)
                most *= 4
        return [found[query] for query in range(len(queries))]

    def _is_certain(self, query: Array, points: list[Any], k: int) -> bool:
        """Whether no row behind these can be among the k nearest."""
        geometry = self._settings.geometry
        share = 4 * (self._settings.dim + 8) * _EPS
        scores = np.array([point.score for point in points])
        if geometry == "cosine":
            return bool(scores[-1] < scores[k - 1] - 2 * share)
        farthest = float(scores[-1])
        if geometry == "euclidean":
            return bool(farthest > scores[k - 1] * (1 + share) + 1e-17)
        curvature = self._settings.curvature
        vectors = np.array([point.vector["vector"] for point in points], np.float32)
        kth = np.partition(distances("poincare", query, vectors, curvature), k - 1)[k - 1]
        c = -curvature
        room = 1.0 - c * float((query.astype(np.float64) ** 2).sum())
        # sinh²(√c distance / 2) = c|x - q|² / (room(x) room(q)), and room(x) <= 1
        return bool(
            c * (farthest * (1 - share)) ** 2 > room * np.sinh(np.sqrt(c) * kth * (1 + share) / 2) ** 2
        )

    # Writing

    @contextmanager
    def writer(self) -> Iterator[QdrantStore]:
        """See `Store`; each change in the block is one generation."""
        store = QdrantStore(self._address, self._client)
        with _sentences(self._address), store._locked():
            if store._head.document:
                store._read_document()
            yield store

    def append(self, rows: pa.Table) -> None:
        """See `Store`."""
        with self._change():
            self._insert(rows)

    def replace(self, rows: pa.Table) -> None:
        """See `Store`."""
        with self._change():
            self._insert(rows)
            self._mark_died(rows["id"].to_pylist())

    def delete(self, ids: list[str]) -> None:
        """See `Store`."""
        with self._change():
            self._mark_died(ids)

    def renumber(
        self, new_nodes: Array, settings: IndexSettings, names: Mapping[str, str | None] | None = None
    ) -> None:
        """See `Store`; only the labels get other nodes, no row is written: predictions keep their names."""
        with self._change():
            moved = np.asarray(new_nodes)[self._nodes]
            without = np.setdiff1d(np.arange(settings.taxonomy.num_nodes), moved)
            self._nodes, self._settings = np.concatenate([moved, without]), settings
            self._document = self._write_document()

    def write_settings(self, settings: IndexSettings) -> None:
        """See `Store`."""
        with self._change():
            self._settings = settings
            self._document = self._write_document()

    def compact(self) -> None:
        """See `Store`; Qdrant tidies up by itself (its optimizers)."""

    def build_approximate(self, **parameters: int) -> None:
        """Set the parameters of the HNSW index, which Qdrant makes anew by itself, and keep them.

        Args:
            **parameters: ``m`` and ``ef_construction``, of the index; ``ef_search``, of searches.

        Raises:
            DataError: if a parameter is unknown.
        """
        from qdrant_client import models

        if unknown := set(parameters) - set(_HNSW):
            raise DataError(f"HNSW has no parameter '{min(unknown)}'; it has {', '.join(_HNSW)}")
        chosen = {**_HNSW, **parameters}
        with self._change():
            config = models.HnswConfigDiff(m=chosen["m"], ef_construct=chosen["ef_construction"])
            self._client.update_collection(
                self._rows, vectors_config={self._indexed: models.VectorParamsDiff(hnsw_config=config)}
            )
            self._settings = replace(self._settings, approximate={"index": "hnsw", **chosen})
            self._document = self._write_document()

    # The head

    def _read_head(self) -> _Head:
        found = self._client.retrieve(self._address.name, [_HEAD], with_payload=True)
        try:
            return _Head(**found[0].payload)
        except (IndexError, TypeError):
            raise DataError(
                f"the collection '{self._address.name}' at {self.name} is no index of labeltree; "
                "take another name"
            ) from None

    def _swap(self, **changes: Any) -> None:
        """Write the head, if it is still the one that was read. Only for who holds the lock, or takes it."""
        new = self._write_over(**changes)
        if self._read_head().token != new.token:
            raise StoreChangedError(f"another process is changing the index '{self.name}'; run it again")
        self._head = new

    def _release(self) -> None:
        """Give the lock back, if it is still held.

        Nothing is read to confirm that: the next writer may have the lock before it could be.
        """
        self._head = self._write_over(writer=None, unfinished=False)

    def _write_over(self, **changes: Any) -> _Head:
        from qdrant_client import models

        new = replace(self._head, token=uuid.uuid4().hex, **changes)
        same = models.FieldCondition(key="token", match=models.MatchValue(value=self._head.token))
        self._client.upsert(
            self._address.name,
            [models.PointStruct(id=_HEAD, vector={}, payload=asdict(new))],
            update_filter=models.Filter(must=[same]),
            ordering=models.WriteOrdering.STRONG,
            wait=True,
        )
        return new

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock in the head."""
        me = uuid.uuid4().hex
        begun = seen = time.monotonic()
        token = None
        while True:
            self._head = self._read_head()
            if self._head.token != token:
                token, seen = self._head.token, time.monotonic()
            now = time.monotonic()
            if self._head.writer is None or now - seen > _PATIENCE_S:
                with suppress(StoreChangedError):
                    self._swap(writer=me, unfinished=True, document=self._head.document)
                    break
            elif now - begun > 2 * _PATIENCE_S:
                raise DataError(
                    f"another process is changing the index '{self.name}'; run it again when it is done"
                )
            time.sleep(0.02)
        self._writer = me
        try:
            if self._head.document:
                self._read_document()
                self._clean()
            yield
            self._release()
        except StoreChangedError:
            raise
        except BaseException:  # also an interruption by the user: others need not wait for a dead writer
            with suppress(Exception):
                if self._head.document:
                    self._clean()
                self._release()
            raise
        finally:
            self._writer = None

    @contextmanager
    def _change(self) -> Iterator[None]:
        """What is written in the block becomes the next generation."""
        if self._writer is None:
            raise RuntimeError("a store of Qdrant is changed in a block of writer()")
        self._generation, self._document = self._head.generation + 1, self._head.document
        before = self._settings, self._nodes
        try:
            yield
            self._commit(document=self._document)
        except BaseException:
            self._settings, self._nodes = before
            raise
        self._clean()

    def _commit(self, document: int) -> None:
        self._swap(generation=self._generation, document=document)

    def _clean(self) -> None:
        """Delete what has died, and what a writer left that ended before its commit."""
        from qdrant_client import models

        now = self._head.generation
        dead = models.FieldCondition(key="died", range=models.Range(lte=now))
        unborn = models.FieldCondition(key="born", range=models.Range(gt=now))
        self._client.delete(self._rows, models.Filter(should=[dead, unborn]), wait=True)
        kept = models.FieldCondition(key="died", range=models.Range(gt=now))
        self._client.delete_payload(self._rows, ["died"], models.Filter(must=[kept]), wait=True)

    # Documents

    def _read_document(self) -> None:
        import base64

        import pyarrow as pa

        found = self._client.retrieve(self._address.name, [self._head.document], with_payload=True)
        if not found:
            raise DataError(
                f"the index at '{self.name}' has lost its settings; make it anew with 'labeltree index'"
            )
        payload = found[0].payload
        self._settings = IndexSettings.from_text(payload["settings"], self.name)
        self._schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(payload["columns"])))
        self._nodes = np.array(payload["nodes"], np.int64)
        self._rows = payload["rows"]

    def _write_document(self) -> int:
        import base64

        from qdrant_client import models

        number = self._generation + 1  # the head is 0
        payload = {
            "settings": self._settings.to_text(),
            "columns": base64.b64encode(self._schema.serialize().to_pybytes()).decode(),
            "nodes": self._nodes.tolist(),
            "rows": self._rows,
        }
        self._client.upsert(
            self._address.name, [models.PointStruct(id=number, vector={}, payload=payload)], wait=True
        )
        return number

    # Points

    @property
    def _indexed(self) -> str:
        """The vector that Qdrant's approximate index is made of."""
        return "vector" if self._settings.geometry == "euclidean" else "search"

    def _make_rows(self) -> None:
        from qdrant_client import models

        settings = self._settings
        euclidean = settings.geometry == "euclidean"
        distance = models.Distance.DOT if settings.geometry == "cosine" else models.Distance.EUCLID
        vector = models.VectorParams(size=settings.dim, distance=distance)
        if not euclidean:  # kept aside
            vector.hnsw_config, vector.on_disk = models.HnswConfigDiff(m=0), True
        vectors = {"vector": vector}
        if not euclidean:
            size = settings.dim + (settings.geometry == "poincare")
            vectors["search"] = models.VectorParams(size=size, distance=models.Distance.DOT)
        self._client.create_collection(self._rows, vectors_config=vectors)
        if self._address.is_folder:
            return  # the client has no indexes of payloads
        for key, kind in (
            ("id", "keyword"),
            ("row", "integer"),
            ("label", "integer"),
            ("born", "integer"),
            ("died", "integer"),
        ):
            self._client.create_payload_index(self._rows, key, field_schema=kind)

    def _insert(self, rows: pa.Table) -> None:
        from qdrant_client import models

        labels = np.full(self._settings.taxonomy.num_nodes, -1)
        labels[self._nodes[::-1]] = np.arange(len(self._nodes))[::-1]  # the first label of each node
        further = [name for name in rows.schema.names if name not in _OWN]
        first, last_row = self._head.next_point, self._head.next_row
        for batch in rows.to_batches(_BATCH):
            if not len(batch):
                continue
            vectors = _matrix(batch.column("vector"))
            found = {"vector": vectors.tolist()}
            if self._settings.geometry == "cosine":
                found["search"] = _unit(vectors).tolist()
            elif self._settings.geometry == "poincare":
                found["search"] = _matrix(batch.column("lorentz")).tolist()
            numbers = batch.column("row").to_pylist()
            columns = {name: batch.column(name).to_pylist() for name in further}
            points = []
            nodes = batch.column("node").to_pylist()
            for at, (one, number) in enumerate(zip(batch.column("id").to_pylist(), numbers, strict=True)):
                payload: dict[str, Any] = {"id": one, "row": number, "born": self._generation}
                if nodes[at] >= 0:
                    payload["label"] = int(labels[nodes[at]])
                known = {name: values[at] for name, values in columns.items() if _is_value(values[at])}
                if known:
                    payload["columns"] = known
                vector = {name: values[at] for name, values in found.items()}
                points.append(models.PointStruct(id=first + at, vector=vector, payload=payload))
            self._swap(next_point=first + len(points))  # also a sign of life
            self._client.upsert(self._rows, points, wait=True)
            first, last_row = first + len(points), max(last_row, 1 + max(numbers))
        self._head = replace(self._head, next_row=last_row)

    def _mark_died(self, ids: list[str]) -> None:
        from qdrant_client import models

        older = models.FieldCondition(key="born", range=models.Range(lt=self._generation))
        for at in range(0, len(ids), _BATCH):
            these = models.FieldCondition(key="id", match=models.MatchAny(any=ids[at : at + _BATCH]))
            self._swap()
            self._client.set_payload(
                self._rows, {"died": self._generation}, models.Filter(must=[older, these]), wait=True
            )

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """What is read in the block is of this generation, unless it ends with an error."""
        with _sentences(self._address):
            try:
                yield
            except (GeneratorExit, LabeltreeError):
                raise
            except Exception:  # such as rows that are gone
                if self._was_changed():
                    raise self._changed() from None
                raise
            if self._was_changed():
                raise self._changed()

    def _was_changed(self) -> bool:
        return self._writer is None and self._read_head().generation != self._head.generation

    def _changed(self) -> StoreChangedError:
        return StoreChangedError(f"the index '{self.name}' was changed meanwhile; run it again")

    def _points(self, filter: Filter | None, columns: Sequence[str]) -> Iterator[Any]:
        names = {"node": "label"}
        keys = [names.get(n, n if n in _OWN else f"columns.{n}") for n in columns if n not in _VECTORS]
        vectors = [{"lorentz": "search"}.get(name, name) for name in columns if name in _VECTORS]
        offset = None
        while True:
            points, offset = self._client.scroll(
                self._rows,
                scroll_filter=self._filter(filter),
                limit=_BATCH,
                offset=offset,
                with_payload=keys,
                with_vectors=vectors,
            )
            yield from points
            if offset is None:
                return

    def _query(
        self, queries: Array, k: int, filter: Filter | None, using: str, params: Any
    ) -> list[list[Any]]:
        from qdrant_client import models

        chosen = self._filter(filter)
        requests = [
            models.QueryRequest(
                query=query.tolist(),
                using=using,
                limit=k,
                filter=chosen,
                params=params,
                with_payload=["row"],
                with_vector=["vector"]
                if using == "vector" and self._settings.geometry == "poincare"
                else False,
            )
            for query in queries
        ]
        found: list[list[Any]] = []
        for at in range(0, len(requests), 100):
            replies = self._client.query_batch_points(self._rows, requests[at : at + 100])
            found += [reply.points for reply in replies]
        return found

    def _record_batch(self, points: list[Any], columns: list[str]) -> pa.RecordBatch:
        import pyarrow as pa

        arrays = []
        for name in columns:
            if name in _VECTORS:
                key = {"lorentz": "search"}.get(name, name)
                arrays.append(vectors_to_arrow(np.array([point.vector[key] for point in points], np.float32)))
                continue
            if name == "node":
                labels = np.array([(point.payload or {}).get("label", -1) for point in points], np.int64)
                arrays.append(pa.array(np.append(self._nodes, -1)[labels], pa.int64()))
                continue
            payloads = [point.payload or {} for point in points]
            if name not in _OWN:
                payloads = [payload.get("columns", {}) for payload in payloads]
            arrays.append(
                pa.array([payload.get(name) for payload in payloads], self._schema.field(name).type)
            )
        return pa.RecordBatch.from_arrays(arrays, names=columns)

    def _filter(self, filter: Filter | None) -> Any:
        """The filter of Qdrant for the rows that pass and that this generation shows."""
        from qdrant_client import models

        now = self._head.generation
        must: list[Any] = [models.FieldCondition(key="born", range=models.Range(lte=now))]
        must_not: list[Any] = [models.FieldCondition(key="died", range=models.Range(lte=now))]
        if filter is not None:
            if filter.within is not None:
                must.append(self._in_nodes(filter.within))
            if filter.not_within:
                must_not.append(self._in_nodes(filter.not_within))
            if filter.rows is not None:
                must.append(models.FieldCondition(key="row", match=models.MatchAny(any=filter.rows.tolist())))
            if filter.ids is not None:
                must.append(models.FieldCondition(key="id", match=models.MatchAny(any=list(filter.ids))))
            for condition in filter.conditions:
                _add_condition(condition, self._schema.field(condition.column).type, must, must_not)
        return models.Filter(must=must, must_not=must_not)

    def _in_nodes(self, ranges: Sequence[tuple[int, int]]) -> Any:
        """Ranges of nodes as ranges of labels: the same ones, until the taxonomy has moved."""
        from qdrant_client import models

        inside = np.zeros(len(self._nodes) + 2, bool)
        for first, end in ranges:
            inside[1:-1] |= (self._nodes >= first) & (self._nodes < end)
        edges = np.flatnonzero(inside[1:] != inside[:-1]).reshape(-1, 2).tolist()
        tests: list[Any] = [
            models.FieldCondition(key="label", range=models.Range(gte=a, lt=b)) for a, b in edges
        ]
        return models.Filter(should=tests) if tests else models.HasIdCondition(has_id=[])


def _add_condition(condition: Condition, kind: pa.DataType, must: list[Any], must_not: list[Any]) -> None:
    import pyarrow as pa
    from qdrant_client import models

    key = condition.column if condition.column in _OWN else f"columns.{condition.column}"
    floating = pa.types.is_floating(kind)
    sign, values = condition.operator, condition.values

    def equals(value: Any) -> Any:
        if floating or isinstance(value, float):
            return models.FieldCondition(key=key, range=models.Range(gte=value, lte=value))
        return models.FieldCondition(key=key, match=models.MatchValue(value=value))

    if sign in ("in", "=="):
        must.append(
            models.Filter(should=[equals(value) for value in values])
            if values
            else models.HasIdCondition(has_id=[])
        )
    elif sign == "!=":
        must_not += [equals(values[0]), models.IsEmptyCondition(is_empty=models.PayloadField(key=key))]
    elif isinstance(values[0], str | bool):
        raise DataError(
            f"Qdrant orders numbers, not {kind}; ask for values of column '{condition.column}' that are equal"
        )
    else:
        limits = {{"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}[sign]: values[0]}
        must.append(models.FieldCondition(key=key, range=models.Range(**limits)))


def _parts(filter: Filter | None) -> Iterator[Filter | None]:
    """The filter, cut into several where it names many rows or ids."""
    if filter is not None and filter.rows is not None:
        for at in range(0, len(filter.rows), _BATCH):
            yield replace(filter, rows=filter.rows[at : at + _BATCH])
    elif filter is not None and filter.ids is not None:
        for at in range(0, len(filter.ids), _BATCH):
            yield replace(filter, ids=filter.ids[at : at + _BATCH])
    else:
        yield filter


class _OneAtATime:
    """Qdrant's client in a folder or in memory, which is not for several threads, for several threads."""

    def __init__(self, client: Any) -> None:
        self._client, self._guard = client, threading.RLock()

    def __getattr__(self, name: str) -> Any:
        method: Callable[..., Any] = getattr(self._client, name)

        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self._guard:
                return method(*args, **kwargs)

        return call


_clients: dict[str, Any] = {}
_opening = threading.Lock()


def _client_of(address: Address) -> Any:
    """A client: one for each address, since a folder can be opened only once."""
    try:
        import qdrant_client
    except ImportError as error:
        raise ImportError(
            "an index on Qdrant needs the package 'qdrant-client': pip install 'labeltree[qdrant]'"
        ) from error
    with _opening, _sentences(address):
        if not address.is_folder:
            key = f"{address.target} {address.api_key}"
            if key not in _clients:
                client = qdrant_client.QdrantClient(
                    url=address.target,
                    api_key=address.api_key or os.environ.get("QDRANT_API_KEY"),
                    timeout=60,
                )
                _check_server(client, address)
                _clients[key] = client
            return _clients[key]
        key = address.target if address.target == ":memory:" else str(Path(address.target).absolute())
        if key not in _clients:
            place = None if key == ":memory:" else key
            client = qdrant_client.QdrantClient(location=None if place else key, path=place)
            atexit.register(client.close)
            _clients[key] = _OneAtATime(client)
        return _clients[key]


def _check_server(client: Any, address: Address) -> None:
    version = str(client.info().version)
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < _OLDEST:
        raise DataError(
            f"the server of '{address.shown}' is Qdrant {version}; labeltree needs "
            f"{'.'.join(map(str, _OLDEST))} or later, which writes points on conditions: update it"
        )


@contextmanager
def _sentences(address: Address) -> Iterator[None]:
    """What Qdrant's client reports becomes one sentence, without the key."""
    try:
        yield
    except (LabeltreeError, ImportError, GeneratorExit):
        raise
    except Exception as error:
        clients = ("qdrant_client", "httpx", "httpcore", "grpc")
        if type(error).__module__.partition(".")[0] not in clients and not isinstance(
            error, ValueError | OSError
        ):
            raise
        raise DataError(
            f"Qdrant reports a problem with the index '{address.shown}': {address.without_secrets(error)}"
        ) from None


def _unit(vectors: Array) -> Array:
    """Vectors ``(n, d)`` at length 1; those of length 0 stay."""
    exact = vectors.astype(np.float64)
    lengths = np.sqrt((exact * exact).sum(1, keepdims=True))
    return np.asarray(exact / np.where(lengths > 0, lengths, 1.0), np.float32)


def _matrix(column: Any) -> Array:
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False), np.float32).reshape(len(column), -1)


def _is_value(value: Any) -> bool:
    """Whether JSON can carry a value: not None, NaN or infinity."""
    return value is not None and (not isinstance(value, float) or bool(np.isfinite(value)))


def _rows(points: list[Any]) -> Array:
    return np.array([point.payload["row"] for point in points], np.int64)

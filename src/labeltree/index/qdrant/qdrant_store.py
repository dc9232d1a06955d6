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

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.errors import DataError, LabeltreeError
from labeltree.index.addresses import Address
from labeltree.index.filters import Filter
from labeltree.index.index_rows import count_texts
from labeltree.index.qdrant.qdrant_clients import as_sentences, client_of
from labeltree.index.qdrant.qdrant_document import IndexDocument
from labeltree.index.qdrant.qdrant_filters import filter_parts, qdrant_filter
from labeltree.index.qdrant.qdrant_head import HeadPoint, QdrantHead
from labeltree.index.qdrant.qdrant_points import (
    is_certain,
    make_collection,
    points_of_rows,
    query_points,
    row_numbers,
    rows_of_points,
    scroll_points,
    unit_vectors,
)
from labeltree.index.store import (
    IndexSettings,
    StoreChangedError,
    changed_meanwhile,
    hnsw_parameters,
    index_exists,
    no_index,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["QdrantStore"]

Array = np.ndarray[Any, Any]

_BATCH = 1000  # points of one request
_HNSW = {"m": 16, "ef_construction": 128, "ef_search": 128}


class QdrantStore:
    """Rows in collections of Qdrant.

    Args:
        address: Of the server or folder, with the name of the index.
        client: Of Qdrant; None: one for the address.
    """

    _nodes: Array  # (labels,) the node that each label is now

    def __init__(self, address: Address, client: Any = None) -> None:
        self._bind(address, client)
        with as_sentences(address):
            if not self._client.collection_exists(address.name):
                raise no_index(self.name)
            self._point.head = self._point.read()
            if not self._head.document:
                raise DataError(
                    f"there is no index at '{self.name}', since making one was interrupted; "
                    "make it with 'labeltree index'"
                )
            self._read_document()

    def _bind(self, address: Address, client: Any = None) -> None:
        """Say where the index is, whether or not there is one."""
        self.name = address.shown
        self._address = address
        self._client = client_of(address) if client is None else client
        self._point = HeadPoint(self._client, address.name, self.name)
        self._writer: str | None = None

    @property
    def _head(self) -> QdrantHead:
        return self._point.head

    @classmethod
    def open(cls, address: Address) -> QdrantStore:
        """Open an index.

        Raises:
            DataError: If there is none, or the server cannot be reached.
        """
        return cls(address)

    @classmethod
    def exists(cls, address: Address) -> bool:
        """Whether there is an index."""
        self = cls.__new__(cls)
        self._bind(address)
        with as_sentences(address):
            return bool(self._client.collection_exists(address.name)) and self._point.read().document > 0

    @classmethod
    def create(
        cls, address: Address, rows: pa.Table, settings: IndexSettings, *, overwrite: bool = False
    ) -> QdrantStore:
        """Make an index of rows. If it is interrupted there is none, or the old one.

        Raises:
            DataError: If there is one already and `overwrite` is False, or a collection that is none has
                its name.
        """
        self = cls.__new__(cls)
        self._bind(address)
        client, name = self._client, address.name
        with as_sentences(address):
            if not client.collection_exists(name):
                with suppress(Exception):  # another process may be faster
                    client.create_collection(name, vectors_config={})
                self._point.make()
            self._point.head = self._point.read()
            if self._head.document and not overwrite:
                raise index_exists(self.name)
            with self._locked():
                ours = re.compile(rf"{re.escape(name)}\.[0-9a-f]{{32}}")
                older = [c.name for c in client.get_collections().collections if ours.fullmatch(c.name)]
                self._settings, self._schema = settings, rows.schema.remove_metadata()
                self._nodes = np.arange(settings.taxonomy.num_nodes)
                self._rows = f"{name}.{settings.key}"
                make_collection(client, self._rows, address, settings)
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
        with as_sentences(self._address):
            now = self._point.read()
            return (
                self if now.generation == self._head.generation else QdrantStore(self._address, self._client)
            )

    # Reading

    def count(self, filter: Filter | None = None) -> int:
        """See `Store`."""
        with self._reading():
            return int(self._client.count(self._rows, count_filter=self._shown(filter), exact=True).count)

    def count_texts(self, column: str) -> dict[str, int]:
        """See `Store`."""
        return count_texts(self.scan([column]))

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """See `Store`."""
        rows: dict[str, int] = {}
        with self._reading():
            for at in range(0, len(ids), _BATCH):
                for point in self._points(Filter(ids=tuple(ids[at : at + _BATCH])), ["id", "row"]):
                    rows[point.payload["id"]] = point.payload["row"]
        return rows

    def next_row(self) -> int:
        """See `Store`."""
        return self._head.next_row

    def scan(self, columns: list[str], filter: Filter | None = None) -> Iterator[pa.RecordBatch]:
        """See `Store`."""
        with self._reading():
            for part in filter_parts(filter, _BATCH):
                batch: list[Any] = []
                for point in self._points(part, columns):
                    batch.append(point)
                    if len(batch) == _BATCH:
                        yield rows_of_points(batch, columns, self._nodes, self._schema)
                        batch = []
                if batch:
                    yield rows_of_points(batch, columns, self._nodes, self._schema)

    def nearest(self, queries: Array, k: int, filter: Filter | None = None) -> list[Array]:
        """See `Store`; by the HNSW index of Qdrant."""
        from qdrant_client import models

        tuned = int(self._settings.approximate.get("ef_search", _HNSW["ef_search"]))
        params = None if self._address.is_folder else models.SearchParams(hnsw_ef=max(tuned, k))
        asked = unit_vectors(queries) if self._settings.geometry == "cosine" else queries
        with self._reading():
            return [row_numbers(points) for points in self._query(asked, k, filter, self._indexed, params)]

    def nearest_exact(self, queries: Array, k: int, filter: Filter | None = None) -> list[Array]:
        """See `Store`; the server compares every row that passes.

        Qdrant gives the m nearest by its own scores in float32. m grows until the farthest of them is farther
        than the k-th can be, or there are no more. In the ball |x - q|² / room(x) orders the rows, which is
        never less than |x - q|², so they are taken in the order of the latter.
        """
        from qdrant_client import models

        cosine = self._settings.geometry == "cosine"
        asked = unit_vectors(queries) if cosine else queries
        params = (
            None if self._address.is_folder else models.SearchParams(exact=True)
        )  # a folder is always exact
        nearest: dict[int, Array] = {}
        most = 2 * k + 16
        with self._reading():
            while len(nearest) < len(queries):
                left = [query for query in range(len(queries)) if query not in nearest]
                replies = self._query(asked[left], most, filter, "search" if cosine else "vector", params)
                for query, points in zip(left, replies, strict=True):
                    if len(points) < most or is_certain(self._settings, queries[query], points, k):
                        nearest[query] = row_numbers(points)
                most *= 4
        return [nearest[query] for query in range(len(queries))]

    # Writing

    @contextmanager
    def writer(self) -> Iterator[QdrantStore]:
        """See `Store`; each change in the block is one generation."""
        store = QdrantStore(self._address, self._client)
        with as_sentences(self._address), store._locked():
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
            **parameters: `m` and `ef_construction`, of the index; `ef_search`, of searches.

        Raises:
            DataError: If a parameter is unknown.
        """
        from qdrant_client import models

        chosen = hnsw_parameters(parameters, _HNSW)
        with self._change():
            config = models.HnswConfigDiff(m=chosen["m"], ef_construct=chosen["ef_construction"])
            self._client.update_collection(
                self._rows, vectors_config={self._indexed: models.VectorParamsDiff(hnsw_config=config)}
            )
            self._settings = replace(self._settings, approximate={"index": "hnsw", **chosen})
            self._document = self._write_document()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock in the head."""
        me = uuid.uuid4().hex
        self._point.lock(me)
        self._writer = me
        try:
            if self._head.document:
                self._read_document()
                self._clean()
            yield
            self._point.release()
        except StoreChangedError:
            raise
        except BaseException:  # also an interruption by the user: others need not wait for a dead writer
            with suppress(Exception):
                if self._head.document:
                    self._clean()
                self._point.release()
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
        self._point.swap(generation=self._generation, document=document)

    def _clean(self) -> None:
        """Delete what has died, and what a writer left that ended before its commit."""
        from qdrant_client import models

        now = self._head.generation
        dead = models.FieldCondition(key="died", range=models.Range(lte=now))
        unborn = models.FieldCondition(key="born", range=models.Range(gt=now))
        self._client.delete(self._rows, models.Filter(should=[dead, unborn]), wait=True)
        kept = models.FieldCondition(key="died", range=models.Range(gt=now))
        self._client.delete_payload(self._rows, ["died"], models.Filter(must=[kept]), wait=True)

    def _read_document(self) -> None:
        number = self._head.document
        document = IndexDocument.read(self._client, self._address.name, number, self.name)
        self._settings, self._schema = document.settings, document.schema
        self._nodes, self._rows = document.nodes, document.rows

    def _write_document(self) -> int:
        number = self._generation + 1  # the head is 0
        document = IndexDocument(self._settings, self._schema, self._nodes, self._rows)
        document.write(self._client, self._address.name, number)
        return number

    @property
    def _indexed(self) -> str:
        """The vector that Qdrant's approximate index is made of."""
        return "vector" if self._settings.geometry == "euclidean" else "search"

    def _insert(self, rows: pa.Table) -> None:

        labels = np.full(self._settings.taxonomy.num_nodes, -1)
        labels[self._nodes[::-1]] = np.arange(len(self._nodes))[::-1]  # the first label of each node
        first, last_row = self._head.next_point, self._head.next_row
        for batch in rows.to_batches(_BATCH):
            if not len(batch):
                continue
            points = points_of_rows(batch, self._settings.geometry, labels, first, self._generation)
            self._point.swap(next_point=first + len(points))  # also a sign of life
            self._client.upsert(self._rows, points, wait=True)
            first, last_row = first + len(points), max(last_row, 1 + max(batch.column("row").to_pylist()))
        self._point.head = replace(self._head, next_row=last_row)

    def _mark_died(self, ids: list[str]) -> None:
        from qdrant_client import models

        older = models.FieldCondition(key="born", range=models.Range(lt=self._generation))
        for at in range(0, len(ids), _BATCH):
            these = models.FieldCondition(key="id", match=models.MatchAny(any=ids[at : at + _BATCH]))
            self._point.swap()
            self._client.set_payload(
                self._rows, {"died": self._generation}, models.Filter(must=[older, these]), wait=True
            )

    def _shown(self, filter: Filter | None) -> Any:
        """The filter of Qdrant for the rows that pass and that this generation shows."""
        return qdrant_filter(filter, self._head.generation, self._nodes, self._schema)

    def _query(self, queries: Array, k: int, filter: Filter | None, using: str, params: Any) -> Any:
        hyperbolic = self._settings.geometry == "poincare"
        return query_points(
            self._client,
            self._rows,
            queries,
            k,
            filter=self._shown(filter),
            using=using,
            params=params,
            with_vector=using == "vector" and hyperbolic,
        )

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """What is read in the block is of this generation, unless it ends with an error."""
        with as_sentences(self._address):
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
        return self._writer is None and self._point.read().generation != self._head.generation

    def _changed(self) -> StoreChangedError:
        return changed_meanwhile(self.name)

    def _points(self, filter: Filter | None, columns: Sequence[str]) -> Iterator[Any]:
        return scroll_points(self._client, self._rows, self._shown(filter), columns, _BATCH)

"""The store on PostgreSQL with the extension pgvector.

An index is a schema of the database, whose tables `postgres_tables` describes.
Rows refer to labels, not to nodes, so that a new taxonomy changes only the small tables and no row, whose
place in the approximate index would have to be made anew. PostgreSQL does the rest: transactions, locks,
recovery, backups, replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.errors import DataError
from labeltree.index.addresses import Address
from labeltree.index.filters import Filter
from labeltree.index.index_rows import vectors_to_arrow
from labeltree.index.postgres.postgres_connections import Connections, scans_iteratively
from labeltree.index.postgres.postgres_distances import (
    LONGEST,
    exact_score,
    indexed,
    indexed_distance,
    indexed_query,
    score_query,
)
from labeltree.index.postgres.postgres_tables import PostgresTables, check_columns, storable
from labeltree.index.store import (
    VECTOR_COLUMNS,
    IndexSettings,
    changed_meanwhile,
    hnsw_parameters,
    index_exists,
    no_index,
)

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa

__all__ = ["PostgresStore"]

Array = np.ndarray[Any, Any]

_PATIENCE = "60s"  # how long a writer waits for another
_BATCH = 10_000  # rows read at once
_HNSW = {"m": 16, "ef_construction": 128, "ef_search": 100}


class PostgresStore:
    """Rows in a schema of a PostgreSQL database.

    Writers wait for each other. Each read sees one version; if that is not the store's own any more, it
    raises `StoreChangedError`.

    Args:
        address: Of the database, with the name of the schema.
    """

    def __init__(self, address: Address, connections: Connections | None = None) -> None:
        self.name = address.shown
        self._address = address
        self._connections = connections or Connections(address)
        self._tables = PostgresTables(address)
        self._writing: psycopg.Connection[Any] | None = None
        self._load_settings()

    @classmethod
    def open(cls, address: Address) -> PostgresStore:
        """Open an index.

        Raises:
            DataError: If there is none, or the server cannot be reached.
        """
        return cls(address)

    @classmethod
    def exists(cls, address: Address) -> bool:
        """Whether there is an index."""
        self = cls._bare(address, Connections(address))
        with self._connections.one() as connection:
            return "settings" in self._tables.existing(connection)

    @classmethod
    def _bare(cls, address: Address, connections: Connections) -> PostgresStore:
        self = cls.__new__(cls)
        self.name, self._address, self._connections = address.shown, address, connections
        self._tables, self._writing = PostgresTables(address), None
        return self

    @classmethod
    def create(
        cls, address: Address, rows: pa.Table, settings: IndexSettings, *, overwrite: bool = False
    ) -> PostgresStore:
        """Make an index of rows, in one transaction.

        Raises:
            DataError: If there is one already and `overwrite` is False, or the schema holds something else.
        """
        check_columns(rows.schema)
        self = cls._bare(address, Connections(address))
        self._settings, self._schema = settings, rows.schema.remove_metadata()
        with self._connections.one() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"labeltree {address.name}"])
            existing = self._tables.existing(connection)
            if existing and "settings" not in existing:
                raise DataError(
                    f"the schema '{address.name}' at {self.name} holds tables that are not an index; "
                    "take another name"
                )
            if existing and not overwrite:
                raise index_exists(self.name)
            version = 0
            if existing:
                version = self._tables.one(connection, "SELECT version FROM {settings} FOR UPDATE")
                self._tables.run(connection, "DROP TABLE {rows}, {labels}, {nodes}, {closure}, {settings}")
            self._tables.make(connection, rows.schema)
            self._tables.run(
                connection,
                "INSERT INTO {settings} (version, key, document, columns) VALUES (%s, %s, %s, %s)",
                [version + 1, settings.key, settings.to_text(), self._schema.serialize().to_pybytes()],
            )
            self._tables.write_taxonomy(connection, settings)
            self._tables.copy(connection, "rows", rows)
            self._tables.run(connection, "CREATE INDEX ON {rows} (label)")
        with self._connections.one() as connection:
            self._tables.run(connection, "ANALYZE {rows}, {labels}, {closure}")
        return cls(address, self._connections)

    @property
    def settings(self) -> IndexSettings:
        """See `Store`."""
        return self._settings

    @property
    def version(self) -> int:
        """See `Store`."""
        return self._version

    @property
    def schema(self) -> pa.Schema:
        """See `Store`."""
        return self._schema

    def latest(self) -> PostgresStore:
        """See `Store`."""
        with self._reading(check=False) as connection:
            now = self._version_there(connection)
        if now == (self._version, self._settings.key):
            return self
        return PostgresStore(self._address, self._connections)

    # Reading

    def count(self, filter: Filter | None = None) -> int:
        """See `Store`."""
        condition, values = self._tables.condition(filter, self._schema)
        with self._reading() as connection:
            return int(self._tables.one(connection, "SELECT count(*) FROM {rows} r", condition, values))

    def count_texts(self, column: str) -> dict[str, int]:
        """See `Store`."""
        from psycopg import sql

        name = sql.Identifier("r", column)
        query = sql.SQL("SELECT {0}, count(*) {1} WHERE {0} IS NOT NULL GROUP BY {0}")
        with self._reading() as connection:
            return dict(connection.execute(query.format(name, self._tables.sql("FROM {rows} r"))).fetchall())

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """See `Store`."""
        with self._reading() as connection:
            return dict(
                self._tables.run(
                    connection, "SELECT id, row FROM {rows} WHERE id = ANY(%s)", [storable(ids)]
                ).fetchall()
            )

    def next_row(self) -> int:
        """See `Store`."""
        with self._reading() as connection:
            return int(self._tables.one(connection, "SELECT coalesce(max(row) + 1, 0) FROM {rows}"))

    def scan(self, columns: list[str], filter: Filter | None = None) -> Iterator[pa.RecordBatch]:
        """See `Store`."""
        import pyarrow as pa
        from psycopg import sql

        schema = pa.schema([self._schema.field(name) for name in columns])
        condition, values = self._tables.condition(filter, self._schema)
        wanted = sql.SQL(", ").join(
            sql.SQL("coalesce(l.node, -1)") if name == "node" else sql.Identifier("r", name)
            for name in columns
        )
        source = " FROM {rows} r" + (" LEFT JOIN {labels} l USING (label)" if "node" in columns else "")
        query = sql.SQL("SELECT {} ").format(wanted) + self._tables.sql(source) + condition
        with self._reading() as connection, connection.cursor("scan", binary=True) as cursor:
            cursor.execute(query, values)
            while batch := cursor.fetchmany(_BATCH):
                arrays = [
                    _vectors(column) if field.name in VECTOR_COLUMNS else pa.array(column, field.type)
                    for field, column in zip(schema, zip(*batch, strict=True), strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def nearest(self, queries: Array, k: int, filter: Filter | None = None) -> list[Array]:
        """See `Store`; by the HNSW index if one was made, or else by comparing every row."""
        from psycopg import sql

        tuned = self._settings.approximate
        condition, values = self._tables.condition(filter, self._schema)
        query = sql.SQL("{} {} ORDER BY {} LIMIT %s").format(
            self._tables.sql("SELECT row FROM {rows} r"), condition, indexed_distance(self._settings)
        )
        ef_search = min(1000, max(k, int(tuned.get("ef_search", _HNSW["ef_search"]))))
        with self._reading() as connection:
            connection.execute(f"SET LOCAL hnsw.ef_search = {ef_search}")
            if scans_iteratively(connection):
                connection.execute("SET LOCAL hnsw.iterative_scan = relaxed_order")
            with connection.pipeline():
                cursors = [
                    connection.execute(query, [*values, indexed_query(self._settings, one), k], binary=True)
                    for one in queries
                ]
                nearest = [_numbers(cursor) for cursor in cursors]
        return nearest

    def nearest_exact(self, queries: Array, k: int, filter: Filter | None = None) -> list[Array]:
        """See `Store`; the server compares every row that passes, in a sequential scan.

        pgvector computes in float32. A row is left out only if its rounding cannot have hidden it from the k
        nearest; NaN, where float32 does not suffice, stays in.
        """
        from psycopg import sql

        score, factor, margin = exact_score(self._settings)
        condition, values = self._tables.condition(filter, self._schema)
        query = sql.SQL(
            "WITH scored AS MATERIALIZED ({} {}), "
            "last AS (SELECT score FROM scored WHERE score <> 'NaN' ORDER BY score OFFSET %s LIMIT 1) "
            "SELECT row FROM scored WHERE score = 'NaN' "
            "OR score <= coalesce((SELECT score FROM last) * %s + %s, 'Infinity') ORDER BY score"
        ).format(
            sql.SQL("SELECT row, {} AS score {}").format(score, self._tables.sql("FROM {rows} r")), condition
        )
        nearest = []
        with self._reading() as connection:
            for one in queries:
                asked = [score_query(self._settings, one), *values, k - 1, factor, margin]
                nearest.append(_numbers(connection.execute(query, asked, binary=True)))
        return nearest

    # Writing

    @contextmanager
    def writer(self) -> Iterator[PostgresStore]:
        """The latest version of the store, locked for writing; the whole block is one transaction."""
        with self._connections.one() as connection, connection.transaction():
            self._lock(connection)
            store = self._bare(self._address, self._connections)
            store._writing = connection
            try:
                store._load_settings()
                yield store
            finally:
                store._writing = None

    def append(self, rows: pa.Table) -> None:
        """See `Store`."""
        with self._change() as connection:
            self._tables.copy(connection, "rows", rows)

    def replace(self, rows: pa.Table) -> None:
        """See `Store`."""
        from psycopg import sql

        names = ["label" if name == "node" else name for name in self._schema.names]
        with self._change() as connection:
            self._tables.run(connection, "CREATE TEMP TABLE incoming (LIKE {rows}) ON COMMIT DROP")
            self._tables.copy(connection, "incoming", rows)
            sets = sql.SQL(", ").join(
                sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in names if name != "id"
            )
            connection.execute(
                self._tables.sql("INSERT INTO {rows} SELECT * FROM incoming ON CONFLICT (id) DO UPDATE SET ")
                + sets
            )
            connection.execute("DROP TABLE incoming")

    def delete(self, ids: list[str]) -> None:
        """See `Store`."""
        with self._change() as connection:
            self._tables.run(connection, "DELETE FROM {rows} WHERE id = ANY(%s)", [storable(ids)])

    def renumber(
        self, new_nodes: Array, settings: IndexSettings, names: Mapping[str, str | None] | None = None
    ) -> None:
        """See `Store`; only the labels get other nodes, no row is written: predictions keep their names."""
        with self._change() as connection:
            self._tables.run(
                connection,
                "UPDATE {labels} l SET node = m.node "
                "FROM unnest(%s::bigint[]) WITH ORDINALITY AS m (node, old) WHERE l.node = m.old - 1",
                [np.asarray(new_nodes).tolist()],
            )
            self._settings = settings
            self._tables.write_taxonomy(connection, settings)
            self._write_settings(connection)

    def write_settings(self, settings: IndexSettings) -> None:
        """See `Store`."""
        with self._change() as connection:
            self._settings = settings
            self._write_settings(connection)

    def compact(self) -> None:
        """See `Store`; PostgreSQL tidies up by itself (autovacuum)."""

    def build_approximate(self, **parameters: int) -> None:
        """Make the HNSW index anew, and keep its parameters in the settings, in one transaction.

        Cosine: vectors brought to length 1, in half precision. Others: float32.

        Args:
            **parameters: `m` and `ef_construction`, of the index; `ef_search`, of searches.

        Raises:
            DataError: If the vectors are too long for pgvector, or a parameter is unknown.
        """
        from psycopg import sql

        chosen = hnsw_parameters(parameters, _HNSW)
        settings = self._settings
        if settings.dim + (settings.geometry == "poincare") > LONGEST[settings.geometry]:
            raise DataError(
                f"pgvector indexes {settings.geometry} vectors of at most {LONGEST[settings.geometry]} "
                f"dimensions, and these have {settings.dim}; search exactly, or shorten them"
            )
        expression, operators = indexed(settings)
        with self._change() as connection:
            self._tables.run(connection, "DROP INDEX IF EXISTS {nearest}")
            connection.execute(
                sql.SQL(
                    "CREATE INDEX nearest ON {} USING hnsw (({}) {}) WITH (m = {}, ef_construction = {})"
                ).format(
                    self._tables.sql("{rows}"),
                    expression,
                    sql.SQL(operators),
                    sql.Literal(chosen["m"]),
                    sql.Literal(chosen["ef_construction"]),
                )
            )
            self._settings = replace(settings, approximate={"index": "hnsw", **chosen})
            self._write_settings(connection)

    # Inside

    @contextmanager
    def _reading(self, check: bool = True) -> Iterator[psycopg.Connection[Any]]:
        """A connection on which one version is seen: the store's, unless `check` is False."""
        if self._writing is not None:
            with self._writing.transaction():
                yield self._writing
            return
        with self._connections.one() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            if check and self._version_there(connection) != (self._version, self._settings.key):
                raise changed_meanwhile(self.name)
            yield connection

    @contextmanager
    def _change(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction that makes the next version."""
        if self._writing is None:
            raise RuntimeError("a store of PostgreSQL is changed in a block of writer()")
        with self._writing.transaction():
            yield self._writing
            self._tables.run(self._writing, "UPDATE {settings} SET version = version + 1")
        self._version += 1

    def _lock(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(f"SET LOCAL lock_timeout = '{_PATIENCE}'")
        self._tables.run(connection, "SELECT version FROM {settings} FOR UPDATE")

    def _load_settings(self) -> None:
        import pyarrow as pa

        with self._reading(check=False) as connection:
            if "settings" not in self._tables.existing(connection):
                raise no_index(self.name)
            row = self._tables.run(connection, "SELECT version, document, columns FROM {settings}").fetchone()
        if row is None:
            raise DataError(
                f"the index at '{self.name}' has lost its settings; make it anew with 'labeltree index'"
            )
        self._version = int(row[0])
        self._settings = IndexSettings.from_text(row[1], self.name)
        self._schema = pa.ipc.read_schema(pa.py_buffer(bytes(row[2])))

    def _version_there(self, connection: psycopg.Connection[Any]) -> tuple[int, str]:
        row = self._tables.run(connection, "SELECT version, key FROM {settings}").fetchone()
        return (int(row[0]), str(row[1])) if row else (-1, "")

    def _write_settings(self, connection: psycopg.Connection[Any]) -> None:
        self._tables.run(
            connection,
            "UPDATE {settings} SET document = %s, key = %s",
            [self._settings.to_text(), self._settings.key],
        )


def _numbers(cursor: Any) -> Array:
    return np.fromiter((row[0] for row in cursor.fetchall()), np.int64)


def _vectors(column: Sequence[Any]) -> pa.Array:
    return vectors_to_arrow(np.stack([vector.to_numpy() for vector in column]))

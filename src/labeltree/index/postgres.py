"""The store on PostgreSQL with the extension pgvector.

An index is a schema of the database with these tables:

    rows      a sample each: id, row, label, vector, and its columns
    labels    which node each label is now: a label is a number that stays with its rows for good
    nodes     the taxonomy: number (depth first), parent, depth, name, path
    closure   every node with each of its ancestors, and itself
    settings  one row: version and settings

Rows refer to labels, not to nodes, so that a new taxonomy changes only the small tables and no row, whose
place in the approximate index would have to be made anew. PostgreSQL does the rest: transactions, locks,
recovery, backups, replicas.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.errors import DataError
from labeltree.index.addresses import Address
from labeltree.index.filters import Condition, Filter
from labeltree.index.rows import vectors_to_arrow
from labeltree.index.store import IndexSettings, StoreChangedError

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa

__all__ = ["PostgresStore"]

Array = np.ndarray[Any, Any]

_PATIENCE = "60s"  # how long a writer waits for another
_BATCH = 10_000  # rows read at once
_OLDEST = (0, 7)  # pgvector: half precision, and vectors brought to length 1
_LONGEST = {"cosine": 4000, "euclidean": 2000, "poincare": 2000}  # dimensions that pgvector can index
_VECTORS = ("vector", "lorentz")
_EPS = 2.0**-24
_HNSW = {"m": 16, "ef_construction": 128, "ef_search": 100}


class PostgresStore:
    """Rows in a schema of a PostgreSQL database.

    Writers wait for each other. Each read sees one version; if that is not the store's own any more, it
    raises `StoreChangedError`.

    Args:
        address: of the database, with the name of the schema.
    """

    def __init__(self, address: Address, connections: _Connections | None = None) -> None:
        self.name = address.shown
        self._address = address
        self._connections = connections or _Connections(address)
        self._writing: psycopg.Connection[Any] | None = None
        self._load_settings()

    @classmethod
    def open(cls, address: Address) -> PostgresStore:
        """Open an index.

        Raises:
            DataError: if there is none, or the server cannot be reached.
        """
        return cls(address)

    @classmethod
    def exists(cls, address: Address) -> bool:
        """Whether there is an index."""
        self = cls._bare(address, _Connections(address))
        with self._connections.one() as connection:
            return "settings" in self._tables(connection)

    @classmethod
    def _bare(cls, address: Address, connections: _Connections) -> PostgresStore:
        self = cls.__new__(cls)
        self.name, self._address, self._connections = address.shown, address, connections
        self._writing = None
        return self

    @classmethod
    def create(
        cls, address: Address, rows: pa.Table, settings: IndexSettings, *, overwrite: bool = False
    ) -> PostgresStore:
        """Make an index of rows, in one transaction.

        Raises:
            DataError: if there is one already and ``overwrite`` is False, or the schema holds something else.
        """
        _check_columns(rows.schema)
        self = cls._bare(address, _Connections(address))
        self._settings, self._schema = settings, rows.schema.remove_metadata()
        with self._connections.one() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"labeltree {address.name}"])
            found = self._tables(connection)
            if found and "settings" not in found:
                raise DataError(
                    f"the schema '{address.name}' at {self.name} holds tables that are no index; "
                    "take another name"
                )
            if found and not overwrite:
                raise DataError(
                    f"there is an index at '{self.name}' already; overwrite it, or take another name"
                )
            version = 0
            if found:
                version = self._one(connection, "SELECT version FROM {settings} FOR UPDATE")
                self._run(connection, "DROP TABLE {rows}, {labels}, {nodes}, {closure}, {settings}")
            self._make_tables(connection, rows.schema)
            self._run(
                connection,
                "INSERT INTO {settings} (version, key, document, columns) VALUES (%s, %s, %s, %s)",
                [version + 1, settings.key, settings.to_text(), self._schema.serialize().to_pybytes()],
            )
            self._write_taxonomy(connection, settings)
            self._copy(connection, "rows", rows)
            self._run(connection, "CREATE INDEX ON {rows} (label)")
        with self._connections.one() as connection:
            self._run(connection, "ANALYZE {rows}, {labels}, {closure}")
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
        condition, values = self._condition(filter)
        with self._reading() as connection:
            return int(self._one(connection, "SELECT count(*) FROM {rows} r", condition, values))

    def count_texts(self, column: str) -> dict[str, int]:
        """See `Store`."""
        from psycopg import sql

        name = sql.Identifier("r", column)
        query = sql.SQL("SELECT {0}, count(*) {1} WHERE {0} IS NOT NULL GROUP BY {0}")
        with self._reading() as connection:
            return dict(connection.execute(query.format(name, self._sql("FROM {rows} r"))).fetchall())

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """See `Store`."""
        with self._reading() as connection:
            return dict(
                self._run(
                    connection, "SELECT id, row FROM {rows} WHERE id = ANY(%s)", [_storable(ids)]
                ).fetchall()
            )

    def next_row(self) -> int:
        """See `Store`."""
        with self._reading() as connection:
            return int(self._one(connection, "SELECT coalesce(max(row) + 1, 0) FROM {rows}"))

    def scan(self, columns: list[str], filter: Filter | None = None) -> Iterator[pa.RecordBatch]:
        """See `Store`."""
        import pyarrow as pa
        from psycopg import sql

        schema = pa.schema([self._schema.field(name) for name in columns])
        condition, values = self._condition(filter)
        wanted = sql.SQL(", ").join(
            sql.SQL("coalesce(l.node, -1)") if name == "node" else sql.Identifier("r", name)
            for name in columns
        )
        source = " FROM {rows} r" + (" LEFT JOIN {labels} l USING (label)" if "node" in columns else "")
        query = sql.SQL("SELECT {} ").format(wanted) + self._sql(source) + condition
        with self._reading() as connection, connection.cursor("scan", binary=True) as cursor:
            cursor.execute(query, values)
            while found := cursor.fetchmany(_BATCH):
                arrays = [
                    _vectors(column) if field.name in _VECTORS else pa.array(column, field.type)
                    for field, column in zip(schema, zip(*found, strict=True), strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def nearest(self, queries: Array, k: int, filter: Filter | None = None) -> list[Array]:
        """See `Store`; by the HNSW index if one was made, or else by comparing every row."""
        from psycopg import sql

        tuned = self._settings.approximate
        condition, values = self._condition(filter)
        query = sql.SQL("{} {} ORDER BY {} LIMIT %s").format(
            self._sql("SELECT row FROM {rows} r"), condition, self._indexed_distance()
        )
        ef_search = min(1000, max(k, int(tuned.get("ef_search", _HNSW["ef_search"]))))
        with self._reading() as connection:
            connection.execute(f"SET LOCAL hnsw.ef_search = {ef_search}")
            if self._iterates(connection):
                connection.execute("SET LOCAL hnsw.iterative_scan = relaxed_order")
            with connection.pipeline():
                cursors = [
                    connection.execute(query, [*values, self._asked(one), k], binary=True) for one in queries
                ]
                found = [_numbers(cursor) for cursor in cursors]
        return found

    def nearest_exact(self, queries: Array, k: int, filter: Filter | None = None) -> list[Array]:
        """See `Store`; the server compares every row that passes, in a sequential scan.

        pgvector computes in float32. A row is left out only if its rounding cannot have hidden it from the k
        nearest; NaN, where float32 does not suffice, stays in.
        """
        from psycopg import sql

        score, factor, margin = self._exact_score()
        condition, values = self._condition(filter)
        query = sql.SQL(
            "WITH scored AS MATERIALIZED ({} {}), "
            "last AS (SELECT score FROM scored WHERE score <> 'NaN' ORDER BY score OFFSET %s LIMIT 1) "
            "SELECT row FROM scored WHERE score = 'NaN' "
            "OR score <= coalesce((SELECT score FROM last) * %s + %s, 'Infinity') ORDER BY score"
        ).format(sql.SQL("SELECT row, {} AS score {}").format(score, self._sql("FROM {rows} r")), condition)
        found = []
        with self._reading() as connection:
            for one in queries:
                asked = [*self._score_values(one), *values, k - 1, factor, margin]
                found.append(_numbers(connection.execute(query, asked, binary=True)))
        return found

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
            self._copy(connection, "rows", rows)

    def replace(self, rows: pa.Table) -> None:
        """See `Store`."""
        from psycopg import sql

        names = ["label" if name == "node" else name for name in self._schema.names]
        with self._change() as connection:
            self._run(connection, "CREATE TEMP TABLE incoming (LIKE {rows}) ON COMMIT DROP")
            self._copy(connection, "incoming", rows)
            sets = sql.SQL(", ").join(
                sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in names if name != "id"
            )
            connection.execute(
                self._sql("INSERT INTO {rows} SELECT * FROM incoming ON CONFLICT (id) DO UPDATE SET ") + sets
            )
            connection.execute("DROP TABLE incoming")

    def delete(self, ids: list[str]) -> None:
        """See `Store`."""
        with self._change() as connection:
            self._run(connection, "DELETE FROM {rows} WHERE id = ANY(%s)", [_storable(ids)])

    def renumber(
        self, new_nodes: Array, settings: IndexSettings, names: Mapping[str, str | None] | None = None
    ) -> None:
        """See `Store`; only the labels get other nodes, no row is written: predictions keep their names."""
        with self._change() as connection:
            self._run(
                connection,
                "UPDATE {labels} l SET node = m.node "
                "FROM unnest(%s::bigint[]) WITH ORDINALITY AS m (node, old) WHERE l.node = m.old - 1",
                [np.asarray(new_nodes).tolist()],
            )
            self._settings = settings
            self._write_taxonomy(connection, settings)
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
            **parameters: ``m`` and ``ef_construction``, of the index; ``ef_search``, of searches.

        Raises:
            DataError: if the vectors are too long for pgvector, or a parameter is unknown.
        """
        from dataclasses import replace

        from psycopg import sql

        if unknown := set(parameters) - set(_HNSW):
            raise DataError(f"HNSW has no parameter '{min(unknown)}'; it has {', '.join(_HNSW)}")
        settings = self._settings
        if settings.dim + (settings.geometry == "poincare") > _LONGEST[settings.geometry]:
            raise DataError(
                f"pgvector indexes {settings.geometry} vectors of at most {_LONGEST[settings.geometry]} "
                f"dimensions, and these have {settings.dim}; search exactly, or shorten them"
            )
        chosen = {**_HNSW, **parameters}
        expression, operators = self._indexed()
        with self._change() as connection:
            self._run(connection, "DROP INDEX IF EXISTS {nearest}")
            connection.execute(
                sql.SQL(
                    "CREATE INDEX nearest ON {} USING hnsw (({}) {}) WITH (m = {}, ef_construction = {})"
                ).format(
                    self._sql("{rows}"),
                    expression,
                    sql.SQL(operators),
                    sql.Literal(chosen["m"]),
                    sql.Literal(chosen["ef_construction"]),
                )
            )
            self._settings = replace(settings, approximate={"index": "hnsw", **chosen})
            self._write_settings(connection)

    # Distances

    def _indexed(self) -> tuple[Any, str]:
        """What the HNSW index is made of, and by which operators."""
        from psycopg import sql

        settings = self._settings
        if settings.geometry == "cosine":
            half = sql.SQL("l2_normalize(vector)::halfvec({})").format(sql.Literal(settings.dim))
            return half, "halfvec_ip_ops"
        return sql.Identifier(settings.search_column), (
            "vector_l2_ops" if settings.geometry == "euclidean" else "vector_ip_ops"
        )

    def _indexed_distance(self) -> Any:
        from psycopg import sql

        operator = "<->" if self._settings.geometry == "euclidean" else "<#>"
        kind = f"halfvec({self._settings.dim})" if self._settings.geometry == "cosine" else "vector"
        return sql.SQL("{} {} %s::{}").format(self._indexed()[0], sql.SQL(operator), sql.SQL(kind))

    def _asked(self, query: Array) -> Any:
        from pgvector import HalfVector, Vector

        return HalfVector(_unit(query)) if self._settings.geometry == "cosine" else Vector(query)

    def _exact_score(self) -> tuple[Any, float, float]:
        """A score that orders rows as the distance does; its rounding reaches to score·factor + margin."""
        from psycopg import sql

        settings = self._settings
        share = (settings.dim + 8) * 2 * _EPS
        if settings.geometry == "cosine":
            usual = "vector_norm(vector) BETWEEN 1e-12 AND 1e15"
            score = f"CASE WHEN {usual} THEN vector <=> %s::vector ELSE 'NaN' END"
            return sql.SQL(score), 1.0, 4 * share
        if settings.geometry == "euclidean":
            return sql.SQL("vector <-> %s::vector"), 1 + 4 * share, 1e-17
        c = sql.Literal(-settings.curvature)
        score = (
            "CASE WHEN {0} * vector_norm(vector) ^ 2 < 1 - 1e-9 "
            "THEN (vector <-> %s::vector) ^ 2 / (1 - {0} * vector_norm(vector) ^ 2) ELSE 'NaN' END"
        )
        return sql.SQL(score).format(c), 1 + 8 * share, 1e-24

    def _score_values(self, query: Array) -> list[Any]:
        from pgvector import Vector

        return [Vector(_unit(query) if self._settings.geometry == "cosine" else query)]

    # Inside

    @contextmanager
    def _reading(self, check: bool = True) -> Iterator[psycopg.Connection[Any]]:
        """A connection on which one version is seen: the store's, unless ``check`` is False."""
        if self._writing is not None:
            with self._writing.transaction():
                yield self._writing
            return
        with self._connections.one() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            if check and self._version_there(connection) != (self._version, self._settings.key):
                raise StoreChangedError(f"the index '{self.name}' was changed meanwhile; run it again")
            yield connection

    @contextmanager
    def _change(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction that makes the next version."""
        if self._writing is None:
            raise RuntimeError("a store of PostgreSQL is changed in a block of writer()")
        with self._writing.transaction():
            yield self._writing
            self._run(self._writing, "UPDATE {settings} SET version = version + 1")
        self._version += 1

    def _lock(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(f"SET LOCAL lock_timeout = '{_PATIENCE}'")
        self._run(connection, "SELECT version FROM {settings} FOR UPDATE")

    def _load_settings(self) -> None:
        import pyarrow as pa

        with self._reading(check=False) as connection:
            if "settings" not in self._tables(connection):
                raise DataError(f"there is no index at '{self.name}'; make one with 'labeltree index'")
            found = self._run(connection, "SELECT version, document, columns FROM {settings}").fetchone()
        if found is None:
            raise DataError(
                f"the index at '{self.name}' has lost its settings; make it anew with 'labeltree index'"
            )
        self._version = int(found[0])
        self._settings = IndexSettings.from_text(found[1], self.name)
        self._schema = pa.ipc.read_schema(pa.py_buffer(bytes(found[2])))

    def _version_there(self, connection: psycopg.Connection[Any]) -> tuple[int, str]:
        found = self._run(connection, "SELECT version, key FROM {settings}").fetchone()
        return (int(found[0]), str(found[1])) if found else (-1, "")

    def _tables(self, connection: psycopg.Connection[Any]) -> set[str]:
        found = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s", [self._address.name]
        )
        return {str(row[0]) for row in found.fetchall()}

    def _make_tables(self, connection: psycopg.Connection[Any], schema: pa.Schema) -> None:
        from psycopg import sql

        connection.execute(
            sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self._address.name))
        )
        columns = sql.SQL(", ").join(
            sql.SQL("label bigint")
            if field.name == "node"
            else sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(_column_type(field)))
            for field in schema
        )
        connection.execute(
            self._sql("CREATE TABLE {rows} (") + columns + sql.SQL(", PRIMARY KEY (id), UNIQUE (row))")
        )
        for name in set(schema.names) & set(
            _VECTORS
        ):  # outside the row only if they are long; never compressed
            connection.execute(
                self._sql("ALTER TABLE {rows} ALTER COLUMN ")
                + sql.Identifier(name)
                + sql.SQL(" SET STORAGE EXTERNAL")
            )
        self._run(connection, "CREATE TABLE {labels} (label bigint PRIMARY KEY, node bigint NOT NULL)")
        self._run(connection, "CREATE INDEX ON {labels} (node)")
        self._run(
            connection,
            'CREATE TABLE {nodes} (node bigint PRIMARY KEY, parent bigint, depth int, name text COLLATE "C", '
            'path text COLLATE "C")',
        )
        self._run(
            connection,
            "CREATE TABLE {closure} (ancestor bigint, node bigint, PRIMARY KEY (ancestor, node))",
        )
        self._run(
            connection,
            "CREATE TABLE {settings} (version bigint NOT NULL, key text NOT NULL, document text NOT NULL, "
            "columns bytea NOT NULL)",
        )

    def _write_taxonomy(self, connection: psycopg.Connection[Any], settings: IndexSettings) -> None:
        tree = settings.taxonomy
        self._run(connection, "DELETE FROM {nodes}")
        self._run(connection, "DELETE FROM {closure}")
        names = [_text(name) for name in tree.names]
        with connection.cursor() as cursor:
            with cursor.copy(self._sql("COPY {nodes} FROM STDIN (FORMAT BINARY)")) as copy:
                copy.set_types(["int8", "int8", "int4", "text", "text"])
                for node, (parent, depth) in enumerate(
                    zip(tree.parent.tolist(), tree.depth.tolist(), strict=True)
                ):
                    path = _text(tree.path_name(node))
                    copy.write_row((node, parent if parent >= 0 else None, depth, names[node], path))
            with cursor.copy(self._sql("COPY {closure} FROM STDIN (FORMAT BINARY)")) as copy:
                copy.set_types(["int8", "int8"])
                for node in range(tree.num_nodes):
                    for ancestor in [*tree.ancestors_of(node), node]:
                        copy.write_row((ancestor, node))
        # Nodes that no label stands for get one, of a new number.
        self._run(
            connection,
            "INSERT INTO {labels} SELECT coalesce((SELECT max(label) + 1 FROM {labels}), 0) "
            "+ row_number() OVER (ORDER BY node) - 1, node FROM {nodes} n "
            "WHERE NOT EXISTS (SELECT FROM {labels} l WHERE l.node = n.node)",
        )

    def _write_settings(self, connection: psycopg.Connection[Any]) -> None:
        self._run(
            connection,
            "UPDATE {settings} SET document = %s, key = %s",
            [self._settings.to_text(), self._settings.key],
        )

    def _copy(self, connection: psycopg.Connection[Any], table: str, rows: pa.Table) -> None:
        from pgvector import Vector
        from psycopg import sql

        label_of = dict(
            self._run(connection, "SELECT node, min(label) FROM {labels} GROUP BY node").fetchall()
        )
        target = sql.Identifier("incoming") if table == "incoming" else self._sql("{rows}")
        names = ["label" if name == "node" else name for name in rows.schema.names]
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
            target, sql.SQL(", ").join(map(sql.Identifier, names))
        )
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types([_copy_type(field) for field in rows.schema])
            for batch in rows.to_batches(_BATCH):
                columns: list[Any] = []
                for field, column in zip(batch.schema, batch.columns, strict=True):
                    if field.name in _VECTORS:
                        flat = column.flatten().to_numpy(zero_copy_only=False)
                        columns.append(
                            [Vector(one) for one in flat.reshape(len(batch), -1)] if len(batch) else []
                        )
                    elif field.name == "node":
                        columns.append([label_of.get(node) for node in column.to_pylist()])
                    else:
                        columns.append(self._checked_texts(field.name, column.to_pylist()))
                for row in zip(*columns, strict=True):
                    copy.write_row(row)

    def _checked_texts(self, name: str, values: list[Any]) -> list[Any]:
        for value in values:
            if isinstance(value, str) and "\0" in value:
                raise DataError(
                    f"{value!r} in column '{name}' holds a NUL character, which PostgreSQL does not store; "
                    "remove it"
                )
        return values

    def _condition(self, filter: Filter | None) -> tuple[Any, list[Any]]:
        """The WHERE clause of a filter, and its values."""
        from psycopg import sql

        if filter is None or filter.all_rows:
            return sql.SQL(""), []
        parts: list[Any] = []
        values: list[Any] = []
        labels = "ARRAY(SELECT label FROM {labels} WHERE (" + "{ranges}" + "))"

        def within(ranges: Sequence[tuple[int, int]]) -> Any:
            for first, end in ranges:
                values.extend([first, end])
            tests = " OR ".join(["node >= %s AND node < %s"] * len(ranges)) or "false"
            return self._sql(labels.replace("{ranges}", tests))

        if filter.within is not None:
            parts.append(sql.SQL("r.label = ANY({})").format(within(filter.within)))
        if filter.not_within:
            parts.append(sql.SQL("(r.label IS NULL OR r.label <> ALL({}))").format(within(filter.not_within)))
        for condition in filter.conditions:
            part, more = _condition_sql(condition, self._schema.field(condition.column).type)
            parts.append(part)
            values.extend(more)
        if filter.rows is not None:
            parts.append(sql.SQL("r.row = ANY(%s::bigint[])"))
            values.append(filter.rows.tolist())
        if filter.ids is not None:
            parts.append(sql.SQL("r.id = ANY(%s)"))
            values.append(_storable(filter.ids))
        return sql.SQL(" WHERE ") + sql.SQL(" AND ").join(parts), values

    def _sql(self, query: str) -> Any:
        """A query with the names of this index's tables in place of {rows}, {labels} and so on."""
        from psycopg import sql

        names = ("rows", "labels", "nodes", "closure", "settings", "nearest")
        tables = {name: sql.Identifier(self._address.name, name) for name in names}
        return sql.SQL(query).format(**tables)

    def _run(
        self, connection: psycopg.Connection[Any], query: str, values: Sequence[Any] | None = None
    ) -> Any:
        return connection.execute(self._sql(query), values)

    def _one(
        self,
        connection: psycopg.Connection[Any],
        query: str,
        condition: Any = None,
        values: Sequence[Any] | None = None,
    ) -> Any:
        whole = self._sql(query) if condition is None else self._sql(query) + condition
        found = connection.execute(whole, values).fetchone()
        if found is None:
            raise DataError(
                f"the index at '{self.name}' has lost its settings; make it anew with 'labeltree index'"
            )
        return found[0]

    def _iterates(self, connection: psycopg.Connection[Any]) -> bool:
        """Whether pgvector goes on searching until enough rows pass a filter (from 0.8 on)."""
        return (_extension_version(connection) or (0,)) >= (0, 8)


class _Connections:
    """Connections to one database; those that are idle are used again. For several threads.

    Args:
        address: of the index, which errors name.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._idle: list[psycopg.Connection[Any]] = []
        self._guard = threading.Lock()

    @contextmanager
    def one(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection of one's own; what PostgreSQL reports becomes one sentence, without passwords."""
        client = _client()
        try:
            connection = self._take()
            try:
                yield connection
            finally:
                self._give_back(connection)
        except client.errors.LockNotAvailable:
            raise DataError(
                f"another process is changing the index '{self._address.shown}'; run it again when it is done"
            ) from None
        except client.Error as error:
            raise DataError(
                f"PostgreSQL reports a problem with the index '{self._address.shown}': "
                f"{self._address.without_secrets(error)}"
            ) from None

    def _take(self) -> psycopg.Connection[Any]:
        with self._guard:
            while self._idle:
                connection = self._idle.pop()
                if not connection.closed:
                    return connection
        return _connect(self._address)

    def _give_back(self, connection: psycopg.Connection[Any]) -> None:
        if connection.closed or connection.info.transaction_status:  # not idle
            connection.close()
            return
        with self._guard:
            self._idle.append(connection)


def _connect(address: Address) -> psycopg.Connection[Any]:
    client = _client()
    from pgvector.psycopg import register_vector

    connection: psycopg.Connection[Any] = client.connect(
        address.target, autocommit=True, client_encoding="utf8"
    )
    try:
        installed = _extension_version(connection)
        if installed is None:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            installed = _extension_version(connection)
        if installed is None or installed < _OLDEST:
            raise DataError(
                f"the database of '{address.shown}' has pgvector {'.'.join(map(str, installed or ()))}; "
                f"labeltree needs {'.'.join(map(str, _OLDEST))} or later: update it, "
                "then run ALTER EXTENSION vector UPDATE"
            )
        if connection.info.parameter_status("server_encoding") != "UTF8":
            raise DataError(f"the database of '{address.shown}' does not store UTF-8; make one that does")
        register_vector(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _client() -> Any:
    try:
        import pgvector.psycopg  # noqa: F401
        import psycopg
    except ImportError as error:
        raise ImportError(
            "an index on PostgreSQL needs the packages 'psycopg' and 'pgvector': "
            "pip install 'labeltree[postgres]'"
        ) from error
    return psycopg


def _extension_version(connection: psycopg.Connection[Any]) -> tuple[int, ...] | None:
    found = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    return tuple(int(part) for part in str(found[0]).split(".")) if found else None


def _column_type(field: pa.Field) -> str:
    """The type of a column of PostgreSQL."""
    import pyarrow as pa

    if field.name in _VECTORS:
        return f"vector({field.type.list_size}) NOT NULL"
    if field.name == "row":
        return "bigint NOT NULL"
    if pa.types.is_string(field.type):
        return 'text COLLATE "C"'  # in the order of code points
    if pa.types.is_boolean(field.type):
        return "boolean"
    return "bigint" if pa.types.is_integer(field.type) else "double precision"


def _copy_type(field: pa.Field) -> str:
    import pyarrow as pa

    if field.name in _VECTORS:
        return "vector"
    if pa.types.is_string(field.type):
        return "text"
    if pa.types.is_boolean(field.type):
        return "bool"
    return "int8" if pa.types.is_integer(field.type) else "float8"


def _check_columns(schema: pa.Schema) -> None:
    import pyarrow as pa

    for field in schema:
        if len(field.name.encode()) > 63:
            raise DataError(
                f"the column name '{field.name}' is longer than PostgreSQL's 63 bytes; use a shorter one"
            )
        if field.type == pa.uint64():
            raise DataError(
                f"column '{field.name}' holds uint64, which PostgreSQL has not; convert it to int64"
            )
        if field.name == "label":
            raise DataError("the column name 'label' is taken on PostgreSQL; use another one")


def _condition_sql(condition: Condition, kind: pa.DataType) -> tuple[Any, list[Any]]:
    import pyarrow as pa
    from psycopg import sql

    column = sql.Identifier("r", condition.column)
    if condition.operator == "in":
        if pa.types.is_string(kind):
            return sql.SQL("{} = ANY(%s::text[])").format(column), [_storable(condition.values)]
        if pa.types.is_boolean(kind):
            return sql.SQL("{} = ANY(%s::boolean[])").format(column), [list(condition.values)]
        whole = all(isinstance(value, int) for value in condition.values)
        type_name = "numeric" if whole else "double precision"
        return sql.SQL("{} = ANY(%s::{}[])").format(column, sql.SQL(type_name)), [list(condition.values)]
    sign = {"==": "=", "!=": "<>"}.get(condition.operator, condition.operator)
    part = sql.SQL("{} {} %s").format(column, sql.SQL(sign))
    if pa.types.is_floating(kind) and sign in (">", ">="):  # PostgreSQL takes NaN for the largest number
        part = sql.SQL("({} AND {} <> 'NaN')").format(part, column)
    return part, [_text(value) if isinstance(value, str) else value for value in condition.values]


def _storable(texts: Sequence[Any]) -> list[Any]:
    """The texts that PostgreSQL can hold: those without a NUL character."""
    return [text for text in texts if "\0" not in text]


def _text(text: str) -> str:
    return text.replace("\0", "\ufffd")


def _unit(query: Array) -> Array:
    length = float(np.linalg.norm(query.astype(np.float64)))
    return np.asarray(query if length == 0 else query.astype(np.float64) / length, np.float32)


def _numbers(cursor: Any) -> Array:
    return np.fromiter((row[0] for row in cursor.fetchall()), np.int64)


def _vectors(column: Sequence[Any]) -> pa.Array:
    return vectors_to_arrow(np.stack([vector.to_numpy() for vector in column]))

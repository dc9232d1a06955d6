"""The tables of an index on PostgreSQL: their names in queries, how they are made, filled and filtered.

rows      a sample each: id, row, label, vector, and its columns
labels    which node each label is now: a label is a number that stays with its rows for good
nodes     the taxonomy: number (depth first), parent, depth, name, path
closure   every node with each of its ancestors, and itself
settings  one row: version and settings
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from labeltree.errors import DataError
from labeltree.index.addresses import Address
from labeltree.index.filters import Condition, Filter
from labeltree.index.index_rows import vectors_from_arrow
from labeltree.index.store import VECTOR_COLUMNS, IndexSettings

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa

__all__ = ["PostgresTables", "check_columns", "storable"]

_BATCH = 10_000  # rows written at once


class PostgresTables:
    """The tables of one index, which lie in a schema of their own.

    Args:
        address: Of the database, with the name of the schema.
    """

    def __init__(self, address: Address) -> None:
        self._address = address

    def sql(self, query: str) -> Any:
        """A query with the names of this index's tables in place of {rows}, {labels} and so on."""
        from psycopg import sql

        names = ("rows", "labels", "nodes", "closure", "settings", "nearest")
        tables = {name: sql.Identifier(self._address.name, name) for name in names}
        return sql.SQL(query).format(**tables)

    def run(
        self, connection: psycopg.Connection[Any], query: str, values: Sequence[Any] | None = None
    ) -> Any:
        """Run a query with the names of the tables."""
        return connection.execute(self.sql(query), values)

    def one(
        self,
        connection: psycopg.Connection[Any],
        query: str,
        condition: Any = None,
        values: Sequence[Any] | None = None,
    ) -> Any:
        """The first value of the first row, which only a damaged index lacks."""
        whole = self.sql(query) if condition is None else self.sql(query) + condition
        row = connection.execute(whole, values).fetchone()
        if row is None:
            raise DataError(
                f"the index at '{self._address.shown}' has lost its settings; make it anew with "
                "'labeltree index'"
            )
        return row[0]

    def existing(self, connection: psycopg.Connection[Any]) -> set[str]:
        """Names of the tables that there are."""
        answer = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s", [self._address.name]
        )
        return {str(row[0]) for row in answer.fetchall()}

    def make(self, connection: psycopg.Connection[Any], schema: pa.Schema) -> None:
        """Make the tables; `schema` is that of the rows."""
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
            self.sql("CREATE TABLE {rows} (") + columns + sql.SQL(", PRIMARY KEY (id), UNIQUE (row))")
        )
        for name in set(schema.names) & set(
            VECTOR_COLUMNS
        ):  # outside the row only if they are long; never compressed
            connection.execute(
                self.sql("ALTER TABLE {rows} ALTER COLUMN ")
                + sql.Identifier(name)
                + sql.SQL(" SET STORAGE EXTERNAL")
            )
        self.run(connection, "CREATE TABLE {labels} (label bigint PRIMARY KEY, node bigint NOT NULL)")
        self.run(connection, "CREATE INDEX ON {labels} (node)")
        self.run(
            connection,
            'CREATE TABLE {nodes} (node bigint PRIMARY KEY, parent bigint, depth int, name text COLLATE "C", '
            'path text COLLATE "C")',
        )
        self.run(
            connection,
            "CREATE TABLE {closure} (ancestor bigint, node bigint, PRIMARY KEY (ancestor, node))",
        )
        self.run(
            connection,
            "CREATE TABLE {settings} (version bigint NOT NULL, key text NOT NULL, document text NOT NULL, "
            "columns bytea NOT NULL)",
        )

    def write_taxonomy(self, connection: psycopg.Connection[Any], settings: IndexSettings) -> None:
        """Write the taxonomy anew, and give every node a label."""
        tree = settings.taxonomy
        self.run(connection, "DELETE FROM {nodes}")
        self.run(connection, "DELETE FROM {closure}")
        names = [_text(name) for name in tree.names]
        with connection.cursor() as cursor:
            with cursor.copy(self.sql("COPY {nodes} FROM STDIN (FORMAT BINARY)")) as copy:
                copy.set_types(["int8", "int8", "int4", "text", "text"])
                for node, (parent, depth) in enumerate(
                    zip(tree.parent.tolist(), tree.depth.tolist(), strict=True)
                ):
                    path = _text(tree.path_name(node))
                    copy.write_row((node, parent if parent >= 0 else None, depth, names[node], path))
            with cursor.copy(self.sql("COPY {closure} FROM STDIN (FORMAT BINARY)")) as copy:
                copy.set_types(["int8", "int8"])
                for node in range(tree.num_nodes):
                    for ancestor in [*tree.ancestors_of(node), node]:
                        copy.write_row((ancestor, node))
        # Nodes that no label stands for get one, of a new number.
        self.run(
            connection,
            "INSERT INTO {labels} SELECT coalesce((SELECT max(label) + 1 FROM {labels}), 0) "
            "+ row_number() OVER (ORDER BY node) - 1, node FROM {nodes} n "
            "WHERE NOT EXISTS (SELECT FROM {labels} l WHERE l.node = n.node)",
        )

    def copy(self, connection: psycopg.Connection[Any], table: str, rows: pa.Table) -> None:
        """Copy rows into the table, or into a temporary one, `incoming`."""
        from pgvector import Vector
        from psycopg import sql

        label_of = dict(
            self.run(connection, "SELECT node, min(label) FROM {labels} GROUP BY node").fetchall()
        )
        target = sql.Identifier("incoming") if table == "incoming" else self.sql("{rows}")
        names = ["label" if name == "node" else name for name in rows.schema.names]
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
            target, sql.SQL(", ").join(map(sql.Identifier, names))
        )
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types([_copy_type(field) for field in rows.schema])
            for batch in rows.to_batches(_BATCH):
                columns: list[Any] = []
                for field, column in zip(batch.schema, batch.columns, strict=True):
                    if field.name in VECTOR_COLUMNS:
                        columns.append([Vector(one) for one in vectors_from_arrow(column)])
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

    def condition(self, filter: Filter | None, schema: pa.Schema) -> tuple[Any, list[Any]]:
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
            return self.sql(labels.replace("{ranges}", tests))

        if filter.within is not None:
            parts.append(sql.SQL("r.label = ANY({})").format(within(filter.within)))
        if filter.not_within:
            parts.append(sql.SQL("(r.label IS NULL OR r.label <> ALL({}))").format(within(filter.not_within)))
        for condition in filter.conditions:
            part, more = _condition_sql(condition, schema.field(condition.column).type)
            parts.append(part)
            values.extend(more)
        if filter.rows is not None:
            parts.append(sql.SQL("r.row = ANY(%s::bigint[])"))
            values.append(filter.rows.tolist())
        if filter.ids is not None:
            parts.append(sql.SQL("r.id = ANY(%s)"))
            values.append(storable(filter.ids))
        return sql.SQL(" WHERE ") + sql.SQL(" AND ").join(parts), values


def _column_type(field: pa.Field) -> str:
    """The type of a column of PostgreSQL."""
    import pyarrow as pa

    if field.name in VECTOR_COLUMNS:
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

    if field.name in VECTOR_COLUMNS:
        return "vector"
    if pa.types.is_string(field.type):
        return "text"
    if pa.types.is_boolean(field.type):
        return "bool"
    return "int8" if pa.types.is_integer(field.type) else "float8"


def check_columns(schema: pa.Schema) -> None:
    """Raise a `DataError` if PostgreSQL cannot hold a column."""
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
            return sql.SQL("{} = ANY(%s::text[])").format(column), [storable(condition.values)]
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


def storable(texts: Sequence[Any]) -> list[Any]:
    """The texts that PostgreSQL can hold: those without a NUL character."""
    return [text for text in texts if "\0" not in text]


def _text(text: str) -> str:
    return text.replace("\0", "\ufffd")

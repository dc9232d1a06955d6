"""Reading columns of a store: tables of some rows, which columns there are, which rows have an id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from labeltree.errors import DataError
from labeltree.index.filters import Filter
from labeltree.index.store import OWN_COLUMNS, ServerStore, Store

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "FEW_IDS",
    "known_ids",
    "next_row",
    "read_columns",
    "read_rows",
    "shown_columns",
    "with_typed_conditions",
]

FEW_IDS = 1000
"""As many ids are looked up one by one."""


def read_columns(store: Store, columns: list[str], filter: Filter | None) -> pa.Table:
    """Columns of the rows that pass, in any order."""
    import pyarrow as pa

    schema = pa.schema([store.schema.field(name).remove_metadata() for name in columns])
    batches = [batch.select(columns).cast(schema) for batch in store.scan(columns, filter)]
    return pa.Table.from_batches(batches, schema)


def read_rows(store: Store, columns: Sequence[str] | None, filter: Filter | None) -> pa.Table:
    """Columns of the rows that pass, in the order of the rows; None: all except vectors.

    Raises:
        DataError: If there is no such column, or a condition does not suit.
    """
    names = ["id", "node", *shown_columns(store)] if columns is None else list(columns)
    unknown = [name for name in names if name not in store.schema.names]
    if unknown:
        raise DataError(
            f"the index has no column '{unknown[0]}'; it has id, node, {', '.join(shown_columns(store))}"
        )
    chosen = None if filter is None else with_typed_conditions(store, filter)
    read = read_columns(store, list(dict.fromkeys([*names, "row"])), chosen)
    return read.sort_by("row").select(names)


def shown_columns(store: Store) -> list[str]:
    """Names of the columns that hits and rows show: all but ids, labels and vectors."""
    return [name for name in store.schema.names if name not in OWN_COLUMNS]


def with_typed_conditions(store: Store, chosen: Filter) -> Filter:
    """The filter with values of the columns' types; a `DataError` if a column does not exist or suit."""
    if not chosen.conditions:
        return chosen
    shown = ["id", *shown_columns(store)]
    for condition in chosen.conditions:
        if condition.column not in shown:
            raise DataError(f"the index has no column '{condition.column}'; it has {', '.join(shown)}")
    fields = store.schema.field
    typed = tuple(condition.typed(fields(condition.column).type) for condition in chosen.conditions)
    return replace(chosen, conditions=typed)


def known_ids(store: Store, ids: Sequence[str]) -> dict[str, int]:
    """The row of each of the ids that the store has."""
    if isinstance(store, ServerStore):
        return store.rows_of(ids)
    wanted = set(ids)
    known: dict[str, int] = {}
    few = Filter(ids=tuple(ids)) if len(wanted) <= FEW_IDS else None
    for batch in store.scan(["id", "row"], few):
        pairs = zip(batch.column("id").to_pylist(), batch.column("row").to_pylist(), strict=True)
        known.update((one, row) for one, row in pairs if one in wanted)
    return known


def next_row(store: Store) -> int:
    """A number above those of all rows."""
    if isinstance(store, ServerStore):
        return store.next_row()
    return 1 + max((int(b.column("row").to_numpy().max()) for b in store.scan(["row"]) if len(b)), default=-1)

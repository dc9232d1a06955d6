"""Changes of an index: rows are added, replaced and deleted, and labels moved, each in one transaction."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.errors import DataError, LabeltreeError, TaxonomyError
from labeltree.index.current_store import CurrentStore
from labeltree.index.distances import check_inside, lorentz
from labeltree.index.exact import delete_matrices
from labeltree.index.filters import Filter
from labeltree.index.index_rows import IndexRows, vectors_to_arrow
from labeltree.index.lance_store.lance_store import LanceStore
from labeltree.index.open_store import matrix_folders, open_store
from labeltree.index.store import OWN_COLUMNS, VECTOR_COLUMNS, IndexSettings, Store
from labeltree.index.stored_columns import FEW_IDS, known_ids, next_row, read_columns, shown_columns
from labeltree.index.upkeep import keep_tuned
from labeltree.taxonomy import Taxonomy, TaxonomyMapping

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "add_rows",
    "delete_rows",
    "forget_rows",
    "ids_in",
    "listed",
    "move_labels",
    "replace_rows",
    "table_of",
    "writing",
]

Array = np.ndarray[Any, Any]
_SHOWN = 3  # names in a message


@contextmanager
def writing(current: CurrentStore) -> Iterator[Store]:
    """The store, locked for a change; afterwards its approximate index is kept tuned."""
    with current.store.writer() as store:  # searches of other threads go on meanwhile
        yield store
    try:
        with current.store.writer() as store:
            keep_tuned(store.latest())
    except (OSError, RuntimeError, LabeltreeError) as error:  # the change itself is done
        warnings.warn(
            f"the index '{current.store.name}' was changed, but its approximate search was not tuned anew "
            f"({error}); 'labeltree index INDEX --tune' does that",
            stacklevel=3,
        )
    current.latest()


def add_rows(current: CurrentStore, rows: IndexRows) -> None:
    """See `Index.add`."""
    with writing(current) as store:
        known = known_ids(store, rows.ids)
        if known:
            raise DataError(
                f"{listed(list(known))} {_are(len(known))} in the index already; replace what shall "
                "change, and add the others"
            )
        store.append(table_of(rows, store.settings, next_row(store), store.schema))


def replace_rows(current: CurrentStore, rows: IndexRows) -> tuple[int, int]:
    """See `Index.replace`."""
    with writing(current) as store:
        known = known_ids(store, rows.ids)
        numbers = np.fromiter((known.get(one, -1) for one in rows.ids), np.int64, len(rows))
        new = numbers < 0
        numbers[new] = np.arange(new.sum()) + next_row(store)
        table = table_of(rows, store.settings, numbers, store.schema)
        store.replace(_fill_old_values(table, store, numbers, new, rows.given()))
    return len(rows) - int(new.sum()), int(new.sum())


def delete_rows(current: CurrentStore, ids: Sequence[str]) -> None:
    """See `Index.delete`."""
    wanted = list(dict.fromkeys([ids] if isinstance(ids, str) else ids))
    with writing(current) as store:
        known = known_ids(store, wanted)
        missing = [one for one in wanted if one not in known]
        if missing:
            raise DataError(f"{listed(missing)} {_are(len(missing))} not in the index '{current.store.name}'")
        if wanted:
            store.delete(wanted)


def forget_rows(where: str | Path, ids: Collection[str]) -> int:
    """Delete rows from an index in a folder such that no file there holds them, older versions included.

    Args:
        where: The folder.
        ids: Of the samples; those that the index does not have are left out.

    Returns:
        How many rows were deleted.

    Raises:
        DataError: If there is no index in the folder, or it is on a server.
    """
    current = CurrentStore(_store_in_folder(where))
    with writing(current) as store:
        assert isinstance(store, LanceStore)
        known = sorted(known_ids(store, list(ids)))
        store.forget(known)
        for folder in matrix_folders(store):
            delete_matrices(folder)
    return len(known)


def ids_in(where: str | Path, ids: Collection[str]) -> set[str]:
    """Which of some ids an index in a folder has; see `forget_rows`."""
    return set(known_ids(_store_in_folder(where), list(ids)))


def _store_in_folder(where: str | Path) -> Store:
    store = open_store(where)
    if not isinstance(store, LanceStore):
        raise DataError(
            f"the index '{store.name}' is on a server, which keeps deleted rows for a while as it is set up; "
            "delete them there ('labeltree index INDEX --delete'), and see its own manual"
        )
    return store


def move_labels(current: CurrentStore, taxonomy: Taxonomy, mapping: TaxonomyMapping) -> None:
    """See `Index.move`."""
    if mapping.new != taxonomy:
        raise TaxonomyError("the mapping does not end with the taxonomy to move to; take its new version")
    with writing(current) as store:
        if mapping.old != store.settings.taxonomy:
            raise TaxonomyError(
                f"the mapping does not begin with the taxonomy of the index '{current.store.name}'; make one "
                "between that and the new version"
            )
        places = mapping.nodes.tolist()
        names = {
            mapping.old.path_name(node): taxonomy.path_name(place) if place else None
            for node, place in enumerate(places)
        }
        store.renumber(mapping.nodes.numpy(), store.settings.with_taxonomy(taxonomy), names)


def table_of(
    rows: IndexRows, settings: IndexSettings, first_row: int | Array = 0, schema: pa.Schema | None = None
) -> pa.Table:
    """The rows as a table of a store, after checks; with the columns of `schema` if it is given."""
    import pyarrow as pa

    if len(rows) and rows.vectors.shape[1] != settings.dim:
        raise DataError(
            f"the vectors have {rows.vectors.shape[1]} dimensions, those of the index {settings.dim}; "
            "embed the samples with the run that the index was made from"
        )
    rows.check_nodes(settings.taxonomy)
    table = rows.to_arrow(first_row)
    if settings.geometry == "poincare":
        check_inside(rows.vectors, settings.curvature, [f"'{one}'" for one in rows.ids])
        table = table.append_column("lorentz", vectors_to_arrow(lorentz(rows.vectors, settings.curvature)))
    if schema is None:
        return table
    new = [name for name in table.column_names if name not in schema.names]
    if new:
        raise DataError(
            f"the index has no column '{new[0]}'; it has "
            f"{', '.join(name for name in schema.names if name not in OWN_COLUMNS)}"
        )
    columns = []
    for field in schema:
        if field.name not in table.column_names:
            columns.append(pa.nulls(len(rows), field.type))
            continue
        if field.name in VECTOR_COLUMNS and not len(rows):
            columns.append(pa.array([], field.type))
            continue
        try:
            columns.append(table[field.name].cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"column '{field.name}' of the index holds {field.type}, and the new rows have "
                f"{table[field.name].type}; convert them"
            ) from error
    return pa.table(columns, schema=schema)


def _fill_old_values(table: pa.Table, store: Store, numbers: Array, new: Array, given: set[str]) -> pa.Table:
    """Rows that replace others, with the old values of the columns that are not given.

    Args:
        table: Rows as of `table_of`.
        store: With the old rows.
        numbers: Of the rows `(n,)`.
        new: `(n,)` bool, rows that the store does not have.
        given: Names of the columns that stay as they are in `table`.
    """
    import pyarrow as pa

    missing = [name for name in ["node", *shown_columns(store)] if name not in given]
    known = numbers[~new]
    if not missing or not len(known):
        return table
    few = Filter(rows=known) if len(known) <= FEW_IDS else None
    old = read_columns(store, ["row", *missing], few).sort_by("row")
    places = pa.array(np.searchsorted(old["row"].to_numpy(), numbers), mask=new)
    for name in missing:
        values = old[name].take(places)
        column = values.fill_null(-1) if name == "node" else values
        table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), column)
    return table


def listed(names: Sequence[str]) -> str:
    """The first few of some names, and how many more there are."""
    shown = ", ".join(f"'{name}'" for name in names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown


def _are(count: int) -> str:
    return "is" if count == 1 else "are"

"""After a change of rows: the approximate index is made, filled up or tuned again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from labeltree.errors import DataError
from labeltree.index.approximate import Tunable, Tuning, approximate_pays, measure_tuning
from labeltree.index.exact import keep_matrix, open_matrix
from labeltree.index.open_store import matrix_folders
from labeltree.index.store import ServerStore, Store

__all__ = ["compact", "keep_tuned", "tune"]

_UNINDEXED = 1_000  # rows that came after the approximate index and are compared one by one


def tune(store: Store, *, progress: Callable[[str], None] | None = None) -> Store:
    """Make the approximate index anew, measure the effort that it needs, and store that in the settings.

    Args:
        store: Locked for writing.
        progress: Called with a line about each step.

    Returns:
        The store afterwards.

    Raises:
        DataError: If there are too few rows, or the store keeps an approximate index of its own.
    """
    if isinstance(store, ServerStore):  # with parameters that are usual; nothing is measured
        if progress is not None:
            progress("the server makes its HNSW index")
        store.build_approximate()
        return store.latest()
    if not isinstance(store, Tunable):
        raise DataError(f"'{store.name}' keeps an approximate index of its own; tune it there")
    if store.count() < 1000:
        raise DataError(
            f"the index '{store.name}' has {store.count()} samples; below 1,000 search is exact, and there "
            "is nothing to tune"
        )
    matrix = open_matrix(store, *matrix_folders(store))
    tuning = measure_tuning(store, matrix, progress=progress)
    store.write_settings(replace(store.settings, approximate=tuning.to_dict()))
    return _same_rows(store)


def keep_tuned(store: Store, *, progress: Callable[[str], None] | None = None) -> Store:
    """Do what a change of rows calls for: tune, tune again, or put new rows into the approximate index.

    An index is tuned as soon as approximate search pays (`approximate_pays`); again when it has a tenth more
    rows or fewer, or lost its approximate index.

    Args:
        store: Locked for writing.
        progress: Called with a line about each step.

    Returns:
        The store afterwards.
    """
    if not isinstance(store, Tunable):
        return store
    rows, tuning = store.count(), Tuning.of(store.settings.approximate)
    if rows < 1000 or (tuning is None and not approximate_pays(rows, store.settings.dim)):
        return store
    indexed, unindexed = store.approximate_rows()
    if tuning is None or tuning.outgrown(rows) or not indexed:
        return tune(store, progress=progress)
    return compact(store) if unindexed > _UNINDEXED else store


def compact(store: Store) -> Store:
    """Tidy up after many changes; the rows stay as they are, and so does the matrix of exact search."""
    store.compact()
    return _same_rows(store)


def _same_rows(before: Store) -> Store:
    after = before.latest()
    keep_matrix(before, after, *matrix_folders(before))
    return after

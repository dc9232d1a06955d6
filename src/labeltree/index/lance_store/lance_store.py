"""The default store: a table of LanceDB in a folder."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.atomic import new_folder_in, writing
from labeltree.errors import DataError, FolderInUseError
from labeltree.index.approximate import Tuning
from labeltree.index.filters import Filter
from labeltree.index.index_rows import count_texts
from labeltree.index.lance_store.lance_search import LanceSearch
from labeltree.index.store import IndexSettings, Store, index_exists, no_index
from labeltree.links import refuse_links
from labeltree.lock import lock_folder

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["LanceStore"]

Array = np.ndarray[Any, Any]

_TABLE = "rows"
_SETTLED_NS = 3_000_000_000  # file systems keep times to 2 seconds or better
_APPROXIMATE, _BY_ROW = "nearest", "by_row"  # names of indexes
_ITERATIONS, _SAMPLE_RATE = 10, 32  # of k-means, for which LanceDB takes 50 and 256
_SETTINGS = b"labeltree"  # key of the metadata of column "id"
_PATIENCE_S = 60.0  # how long a writer waits for another
_KEPT = timedelta(hours=1)  # old versions that readers may still show


class LanceStore:
    """Rows in the table `rows.lance` of a folder; its settings are metadata of the column `id`.

    Writers of one folder wait for each other. A reader keeps the version that it opened.

    Args:
        folder: Of the index.
        table: Of LanceDB, at one version.
        earlier: The same at another version, whose settings need not be read again if they are unchanged.
    """

    def __init__(self, folder: Path, table: Any, earlier: LanceStore | None = None) -> None:
        self.name = str(folder)
        self.folder = folder
        self._table = table
        self._version = int(table.version)
        self._search = LanceSearch(folder, _TABLE, self._version)
        self._schema = table.schema
        names = self._schema.names
        text = (self._schema.field("id").metadata or {}).get(_SETTINGS) if "id" in names else None
        if text is None:
            raise DataError(f"'{folder}' holds a table of LanceDB that is not an index of labeltree")
        self._text = text
        self._seen: tuple[int, int] | None = None
        known = earlier is not None and earlier._text == text
        self._settings: IndexSettings = (
            earlier._settings if earlier and known else IndexSettings.from_text(text.decode(), self.name)
        )

    @classmethod
    def exists(cls, folder: Path) -> bool:
        """Whether a folder holds an index."""
        return (folder / f"{_TABLE}.lance").is_dir()

    @classmethod
    def open(cls, folder: Path, earlier: LanceStore | None = None) -> LanceStore:
        """Open the index in a folder.

        Args:
            folder: Of the index.
            earlier: See the class.

        Raises:
            DataError: If there is none, it cannot be read, or a file in it is a link.
        """
        if not cls.exists(folder):
            raise no_index(folder)
        refuse_links(folder)
        state = _state(folder)
        try:
            table = _connect(folder).open_table(_TABLE)
        except (OSError, ValueError, RuntimeError) as error:
            raise DataError(
                f"the index '{folder}' cannot be opened ({_first_line(error)}); make it anew with "
                "'labeltree index'"
            ) from error
        store = cls(folder, table, earlier)
        store._seen = state
        return store

    @classmethod
    def create(
        cls, folder: Path, rows: pa.Table, settings: IndexSettings, *, overwrite: bool = False
    ) -> LanceStore:
        """Make an index of rows, in one transaction: a process that is killed leaves none, or the old one.

        Raises:
            DataError: If there is one already and `overwrite` is False, or the folder holds other files.
        """
        folder = folder.absolute()
        rows = rows.cast(_add_settings(rows.schema, settings))
        if cls.exists(folder):
            if not overwrite:
                raise index_exists(folder, "name another folder")
            with _writer(folder):
                _check_ours(folder)
                _connect(folder).create_table(_TABLE, data=rows, mode="overwrite")
            return cls.open(folder)
        with writing(folder), new_folder_in(folder.parent) as new:
            _connect(new / "index").create_table(_TABLE, data=rows)
            (new / "index").rename(folder)
        return cls.open(folder)

    @property
    def settings(self) -> IndexSettings:
        """Those of this version."""
        return self._settings

    @property
    def version(self) -> int:
        """The table's version."""
        return self._version

    @property
    def schema(self) -> pa.Schema:
        """Columns and their types."""
        return self._schema

    def latest(self) -> Store:
        """See `Store`. The table is opened only if a file came to its versions, which takes milliseconds."""
        if self._seen is not None and _state(self.folder) == self._seen:
            return self
        newest = self.open(self.folder, self)
        if newest.version != self.version or newest.settings is not self.settings:
            return newest
        self._seen = newest._seen
        return self

    def count(self, filter: Filter | None = None) -> int:
        """See `Store`."""
        return int(self._table.count_rows(None if filter is None else filter.sql()))

    def count_texts(self, column: str) -> dict[str, int]:
        """See `Store`."""
        return count_texts(self.scan([column]))

    def scan(self, columns: list[str], filter: Filter | None = None) -> Iterator[pa.RecordBatch]:
        """See `Store`."""
        query = self._table.search().select(columns)
        condition = None if filter is None else filter.sql()
        if condition is not None:
            query = query.where(condition)
        yield from query.to_batches()

    def nearest(self, queries: Array, k: int, filter: Filter | None = None) -> list[Array]:
        """See `Store`; with the effort that tuning found, see `labeltree.index.approximate`."""
        tuning = Tuning.of(self._settings.approximate)
        if tuning is None:
            return self.candidates(queries, k, None, filter)
        return self.candidates(queries, *tuning.effort(k), filter)

    def candidates(
        self, queries: Array, count: int, probes: int | None, filter: Filter | None = None
    ) -> list[Array]:
        """Numbers of about `count` nearest rows of each query, nearest first.

        Args:
            queries: As in `Store.nearest`.
            count: How many rows to find.
            probes: In how many partitions of the approximate index to look; None: LanceDB's default.
            filter: Rows to search among.
        """
        condition = None if filter is None else filter.sql()
        column, metric = self._settings.search_column, self._settings.metric
        return self._search.nearest(queries, column, metric, count, probes, condition)

    def build_approximate(self, kind: str, partitions: int) -> None:
        """Make the approximate index of all rows, or make it anew; and one of their numbers."""
        from lancedb.index import BTree, IvfFlat, IvfRq

        made = {"IVF_FLAT": IvfFlat, "IVF_RQ": IvfRq}[kind](
            distance_type=self._settings.metric,
            num_partitions=partitions,
            max_iterations=_ITERATIONS,
            sample_rate=_SAMPLE_RATE,
        )
        self._table.create_index(self._settings.search_column, config=made, name=_APPROXIMATE, replace=True)
        self._table.create_index("row", config=BTree(), name=_BY_ROW, replace=True)
        self._search = LanceSearch(self.folder, _TABLE, int(self._table.version))

    def approximate_rows(self) -> tuple[int, int]:
        """How many rows the approximate index holds, and how many came after it."""
        known = {index.name for index in self._table.list_indices()}
        stats = self._table.index_stats(_APPROXIMATE) if _APPROXIMATE in known else None
        return (0, self.count()) if stats is None else (stats.num_indexed_rows, stats.num_unindexed_rows)

    def append(self, rows: pa.Table) -> None:
        """See `Store`."""
        self._table.add(rows)

    def replace(self, rows: pa.Table) -> None:
        """See `Store`."""
        self._table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)

    def delete(self, ids: list[str]) -> None:
        """See `Store`."""
        self._table.delete(Filter(ids=tuple(ids)).sql())

    def renumber(
        self, new_nodes: Array, settings: IndexSettings, names: Mapping[str, str | None] | None = None
    ) -> None:
        """See `Store`; all rows are written anew in one commit, without approximate indexes."""
        self._overwrite(settings, new_nodes, names or {})

    def write_settings(self, settings: IndexSettings) -> None:
        """See `Store`."""
        self._table.update_field_metadata(
            {"path": "id", "metadata": {_SETTINGS.decode(): settings.to_text()}}
        )

    def compact(self) -> None:
        """See `Store`: merges small files, and deletes versions that are older than an hour."""
        self._table.optimize(cleanup_older_than=_KEPT)

    def forget(self, ids: list[str]) -> None:
        """Delete rows, write the others anew, and delete every older version, with the rows in it.

        Approximate indexes go with them. Readers of an older version have to begin anew.
        """
        self._table.delete(Filter(ids=tuple(ids)).sql())
        rest = self.open(self.folder)
        rest.renumber(np.arange(rest.settings.taxonomy.num_nodes), rest.settings)
        with warnings.catch_warnings():  # of what is wanted here
            warnings.simplefilter("ignore", UserWarning)
            self.open(self.folder)._table.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)

    @contextmanager
    def writer(self) -> Iterator[Store]:
        """The latest version of the store, locked for writing until the block ends."""
        with _writer(self.folder):
            yield self.open(self.folder, self)  # a store of its own: searches hold this one

    def _overwrite(self, settings: IndexSettings, new_nodes: Array, names: Mapping[str, str | None]) -> None:
        import pyarrow as pa

        schema = _add_settings(self._schema, settings)
        place = self._schema.get_field_index("node")
        look_up = np.append(new_nodes, -1)  # -1, no label, stays
        answers = self._schema.get_field_index("prediction")
        answers = answers if answers >= 0 and pa.types.is_string(self._schema.field(answers).type) else -1

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in self.scan(self._schema.names):
                nodes = pa.array(look_up[batch.column(place).to_numpy()], pa.int64())
                columns = batch.columns
                columns[place] = nodes
                if answers >= 0:
                    moved = [names.get(name, name) for name in columns[answers].to_pylist()]
                    columns[answers] = pa.array(moved, pa.string())
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

        reader = pa.RecordBatchReader.from_batches(schema, batches())
        _connect(self.folder).create_table(_TABLE, data=reader, schema=schema, mode="overwrite")


def _check_ours(folder: Path) -> None:
    """Raise a `DataError` if a table in a folder is another program's, or cannot be read to tell."""
    try:
        names = _connect(folder).open_table(_TABLE).schema
    except (OSError, ValueError, RuntimeError) as error:
        raise DataError(
            f"the table in '{folder}' cannot be opened ({_first_line(error)}); if it was an index of yours, "
            "delete the folder, or else name another one"
        ) from error
    if "id" not in names.names or _SETTINGS not in (names.field("id").metadata or {}):
        raise DataError(
            f"'{folder}' holds a table of LanceDB that is not an index of labeltree; name another folder"
        )


def _state(folder: Path) -> tuple[int, int] | None:
    """What changes with every version: identity and time of the folder of versions.

    None if that is so new that another change could have the same time.
    """
    try:
        status = (folder / f"{_TABLE}.lance" / "_versions").stat()
    except OSError:
        return None
    settled = time.time_ns() - status.st_mtime_ns > _SETTLED_NS
    return (status.st_ino, status.st_mtime_ns) if settled else None


@contextmanager
def _writer(folder: Path) -> Iterator[None]:
    """Lock a folder for writing; another process that is writing is waited for."""
    end = time.monotonic() + _PATIENCE_S
    while True:
        lock = lock_folder(folder)
        try:
            lock.__enter__()
            break
        except FolderInUseError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
    try:
        with writing(folder):
            yield
    finally:
        lock.__exit__(None, None, None)


def _add_settings(schema: pa.Schema, settings: IndexSettings) -> pa.Schema:
    place = schema.get_field_index("id")
    return schema.set(place, schema.field(place).with_metadata({_SETTINGS: settings.to_text().encode()}))


def _connect(folder: Path) -> Any:
    try:
        import lancedb
    except ImportError as error:
        raise ImportError(
            "an index in a folder needs the package 'lancedb': pip install 'labeltree[search]'"
        ) from error
    return lancedb.connect(str(folder))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]

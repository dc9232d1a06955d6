"""The index: samples with vectors and labels, changed in transactions and searched by similarity.

Changes are in `index_changes`, search is in `searching`, and `exact_or_approximate` decides how exact it is.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from labeltree.decisions.searched_space import SpaceName, searched_vectors
from labeltree.errors import DataError
from labeltree.index.approximate import approximate_pays
from labeltree.index.checked_settings import checked_curvature, checked_geometry, checked_tree, model_path
from labeltree.index.current_store import CurrentStore, PinnedStore, TurnedStore
from labeltree.index.dials import turning
from labeltree.index.embed_queries import open_model, weights_digest
from labeltree.index.filters import Filter, Nodes, Where, node_ranges
from labeltree.index.hits import Hits
from labeltree.index.index_changes import add_rows, delete_rows, move_labels, replace_rows, table_of, writing
from labeltree.index.index_info import IndexInfo, InNotebooks
from labeltree.index.index_rows import IndexRows
from labeltree.index.open_store import check_free, create_store, open_store
from labeltree.index.searching import SearchOptions, search_ids, search_mean, search_vectors
from labeltree.index.store import IndexSettings, Store
from labeltree.index.stored_columns import read_rows, with_typed_conditions
from labeltree.index.upkeep import compact, tune
from labeltree.options.choices import IndexGeometry
from labeltree.taxonomy import AnyTaxonomy, Taxonomy, TaxonomyMapping

if TYPE_CHECKING:
    import pyarrow as pa

    from labeltree.inference.model import Model

__all__ = ["Index", "IndexInfo"]

Array = np.ndarray[Any, Any]
T = TypeVar("T")


class Index(InNotebooks):
    """Samples with vectors and labels of a taxonomy, to search among.

    Make one with `create`, or open one with `open`. Each change is one transaction: others see the index as
    it was or as it is afterwards, also when the process ends in between. A search sees one version.

    Args:
        store: Where the rows lie.
    """

    def __init__(self, store: Store) -> None:
        self._current = CurrentStore(store)
        self._model: Model | None = None
        self._guard = threading.Lock()

    @property
    def _store(self) -> Store:
        return self._current.store

    # Making and opening

    @classmethod
    def create(
        cls,
        where: str | Path,
        rows: IndexRows,
        *,
        taxonomy: AnyTaxonomy,
        geometry: IndexGeometry = "cosine",
        curvature: float = -1.0,
        model: str | Path | None = None,
        vectors: SpaceName = "embeddings",
        overwrite: bool = False,
    ) -> Index:
        """Make an index of rows.

        Args:
            where: a folder that is new or empty, or the URL of another store.
            rows: The samples; there may be none, but their vectors have a length.
            taxonomy: The tree whose nodes are the labels.
            geometry: `cosine`, `euclidean` or `poincare`, whose vectors are points of the ball.
            curvature: Of the Poincaré ball, below 0.
            model: The run that made the vectors, to embed queries with.
            vectors: What they are of that run: its `embeddings`, or the `features` of its encoder.
            overwrite: Replace an index that lies there.

        Raises:
            DataError: If there is an index already, or a row does not suit.
            TaxonomyError: If the taxonomy is not a tree.
        """
        settings = IndexSettings(
            geometry=checked_geometry(geometry),
            dim=int(rows.vectors.shape[1]),
            taxonomy=checked_tree(taxonomy),
            curvature=checked_curvature(curvature),
            model=None if model is None else model_path(model, where),
            model_digest=None if model is None else weights_digest(model),
            vectors=vectors,
        )
        table = table_of(rows, settings)
        made = cls(create_store(where, table, settings, overwrite=overwrite))
        if approximate_pays(len(rows), settings.dim):
            with writing(made._current):
                pass
        return made

    @staticmethod
    def check_free(where: str | Path, *, overwrite: bool = False) -> None:
        """Raise a `DataError` if no index can be made there: there is one already, or something else."""
        check_free(where, overwrite=overwrite)

    @classmethod
    def open(cls, where: str | Path) -> Index:
        """Open an index: a folder, a run with one in its folder `index`, or a URL.

        Raises:
            DataError: If there is none, or it is damaged.
        """
        return cls(open_store(where))

    @property
    def taxonomy(self) -> Taxonomy:
        """The tree whose nodes are the labels, as it is now."""
        return self._current.latest().settings.taxonomy

    @property
    def geometry(self) -> IndexGeometry:
        """By which distance samples are near."""
        return self._store.settings.geometry

    @property
    def settings(self) -> IndexSettings:
        """All settings."""
        return self._store.settings

    @property
    def schema(self) -> pa.Schema:
        """Columns of the store and their types."""
        return self._store.schema

    @property
    def size(self) -> int:
        """Number of samples."""
        return self._current.read(lambda store: store.count())

    def count(
        self, *, within: Nodes | None = None, not_within: Nodes | None = None, where: Where | None = None
    ) -> int:
        """Number of samples that satisfy conditions, which are those of `search`.

        Raises:
            DataError: If a node or a column is unknown, or a value does not suit its column.
        """

        def count(store: Store) -> int:
            chosen = Filter.of(store.settings.taxonomy, within=within, not_within=not_within, where=where)
            return store.count(with_typed_conditions(store, chosen))

        return self._current.read(count)

    @property
    def version(self) -> int:
        """A number that every change increases."""
        return self._store.version

    @property
    def where(self) -> str:
        """The folder, or the URL without passwords."""
        return self._store.name

    @property
    def model(self) -> str | None:
        """The run that embeds queries, a path; None if it is unknown."""
        run = self.settings.model
        return None if run is None else os.path.abspath(os.path.join(self.where, run))

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        settings = self.settings
        return f"Index('{self.where}', {self.size} samples, {settings.dim}-d {settings.geometry})"

    def info(self) -> IndexInfo:
        """What the index is, as it is now."""
        return self._current.read(lambda store: IndexInfo.of(store, self.model))

    # Changes

    def add(self, rows: IndexRows) -> None:
        """Add samples, in one transaction.

        Raises:
            DataError: If an id is in the index already, or a row does not suit; nothing is added then.
        """
        add_rows(self._current, rows)

    def replace(self, rows: IndexRows) -> tuple[int, int]:
        """Write samples over those of the same ids, and add the others, in one transaction.

        A sample that was there keeps its value in every column that is not given: labels, texts and others
        that are None, and further columns that are not named.

        Returns:
            The numbers of samples that were replaced and added.

        Raises:
            DataError: If a row does not suit; nothing is changed then.
        """
        return replace_rows(self._current, rows)

    def delete(self, ids: Sequence[str]) -> None:
        """Delete samples by id, in one transaction.

        Raises:
            DataError: If an id is not in the index; nothing is deleted then.
        """
        delete_rows(self._current, ids)

    def move(self, taxonomy: Taxonomy, mapping: TaxonomyMapping) -> None:
        """Read all labels on another version of the taxonomy, in one transaction.

        The column `prediction` of an index in a folder follows; on a server, its texts stay as they are.

        Args:
            taxonomy: The new version.
            mapping: What became of each node of the index's taxonomy, in a tree equal to `taxonomy`.

        Raises:
            TaxonomyError: If the mapping does not lead from the index's taxonomy to the new one.
        """
        move_labels(self._current, taxonomy, mapping)

    def compact(self) -> None:
        """Tidy up after many changes: small files are merged, and old versions deleted."""
        with self._store.writer() as store:
            compact(store)
        self._current.latest()

    def tune(self, *, progress: Callable[[str], None] | None = None) -> Mapping[str, Any]:
        """Make the approximate index anew and measure what effort finds 95 % of the ten nearest samples.

        An index of more than 50 million numbers (200,000 samples of 256 dimensions) is tuned when it is made,
        and again when it has grown or shrunk by a tenth. Below, search is exact unless asked otherwise.

        Args:
            progress: Called with a line about each step.

        Returns:
            What was found, as in `IndexInfo.approximate`; see `labeltree.index.approximate.Tuning`.

        Raises:
            DataError: If there are too few samples, or the store keeps an approximate index of its own.
        """
        with self._store.writer() as store:
            tuned = tune(store, progress=progress).settings.approximate
        self._current.latest()
        return dict(tuned)

    # Search

    def search(
        self,
        query: Array | torch.Tensor | Sequence[Any],
        *,
        k: int = 20,
        within: Nodes | None = None,
        not_within: Nodes | None = None,
        where: Where | None = None,
        diverse: int | None = None,
        exact: bool | None = None,
        columns: Sequence[str] | None = None,
        labels: Array | torch.Tensor | Sequence[int] | None = None,
    ) -> list[Hits]:
        """The samples nearest to each query.

        Args:
            query: Vectors `(q, d)`, or one of `(d,)`.
            k: How many samples to find for each.
            within: a node or several, by path, name or number: only samples labelled there or below.
            not_within: The same, left out; samples without a label stay.
            where: Conditions on columns: `{"split": "test", "camera": ["a", "b"], "year": (">=", 2020)}`.
            diverse: a depth: at most one sample of each node there. A label that is coarser counts as a
                node of its own, samples without a label are left out.
            exact: Compare with every sample that passes; None: unless there are more than 50 million numbers
                in all, as in 200,000 samples of 256 dimensions, an approximate index was tuned, and nothing
                is left out. In a folder, a search that leaves samples out is always exact.
            columns: Which columns to give in `Hits.rows`; None: all except vectors.
            labels: `(q,)` label of each query, -1 where unknown, for `Hits.lca_depths`.

        Returns:
            For each query its hits.

        Raises:
            DataError: If a query or an argument does not suit.
            TaxonomyError: If a node is unknown.
        """
        options = SearchOptions(k, within, not_within, where, diverse, exact, columns, labels)
        return self._current.read(lambda store: search_vectors(self._current, store, query, options))

    def search_id(self, id: str, *, k: int = 20, **options: Any) -> Hits:
        """The samples nearest to one of the index, without itself; further arguments are those of `search`.

        Raises:
            DataError: If there is no sample of that id.
        """
        (hits,) = self.search_ids([id], k=k, **options)
        if hits is None:
            raise DataError(f"there is no sample '{id}' in the index '{self.where}'")
        return hits

    def search_ids(self, ids: Sequence[str], *, k: int = 20, **options: Any) -> list[Hits | None]:
        """The samples nearest to each of several of the index, without itself; all in one search.

        Args:
            ids: Of the samples.
            k: How many for each.
            **options: Further arguments of `search`; labels are those of the samples.

        Returns:
            The hits of each, in the order of `ids`; None where there is no such sample.

        Raises:
            DataError: If an argument does not suit.
            TaxonomyError: If a node is unknown.
        """
        asked = SearchOptions(k=k, **options)
        return self._current.read(lambda store: search_ids(self._current, store, ids, asked))

    def search_node(self, node: str | int, *, k: int = 20, **options: Any) -> Hits:
        """The samples nearest to the mean of those labelled at or below a node.

        Args:
            node: By path, name or number.
            k: How many.
            **options: Further arguments of `search`.

        Raises:
            DataError: If no sample has such a label.
            TaxonomyError: If the node is unknown.
        """

        def search(store: Store) -> Hits:
            known = {"labels": [node_ranges(store.settings.taxonomy, node)[0][0]], **options}
            return search_mean(self._current, store, node, SearchOptions(k=k, **known))

        return self._current.read(search)

    def search_mean(self, nodes: Nodes, *, k: int = 20, **options: Any) -> Hits:
        """The samples nearest to the mean, in the geometry, of those labelled at or below nodes.

        Args:
            nodes: a node or several; see `node_ranges`.
            k: How many.
            **options: Further arguments of `search`.

        Raises:
            DataError: If no sample has such a label.
            TaxonomyError: If a node is unknown.
        """
        asked = SearchOptions(k=k, **options)
        return self._current.read(lambda store: search_mean(self._current, store, nodes, asked))

    def search_images(self, images: Sequence[Any], **options: Any) -> list[Hits]:
        """The samples nearest to images, embedded by the index's run; see `Model.embed` and `search`."""
        return self.search(self.embed(images), **options)

    def search_texts(self, texts: Sequence[str], **options: Any) -> list[Hits]:
        """The samples nearest to texts, embedded by the index's run; see `Model.embed` and `search`."""
        return self.search(self.embed(texts), **options)

    def embed(self, samples: Sequence[Any]) -> Array:
        """Vectors `(n, d)` of samples, by the run that made the index's.

        Raises:
            DataError: If the run is not known or has changed, see `open_model`.
        """
        return searched_vectors(self.open_model().embed(samples), self.settings.vectors).numpy()

    def open_model(self) -> Model:
        """The run that made the vectors, as a model; it is loaded once.

        Raises:
            DataError: If the run is not known, gone, or has other weights than those that made the vectors.
        """
        with self._guard:
            if self._model is None:
                self._model = open_model(self.model, self.settings.model_digest, self.where)
            return self._model

    def with_dials(self, *, tree: float | None = None, instance: float | None = None) -> Index:
        """The same index, searched with other dials of a posterior space; nothing is embedded anew.

        At `tree=0` a search finds the class and no order among the others, at 1 it follows the taxonomy; more
        `instance` finds the same thing again. All samples are compared.

        Args:
            tree: From 0 to 1; None: as the run has it.
            instance: From 0; None: as the run has it.

        Raises:
            DataError: If the index is of no posterior space, lies on a server, or its run is gone.
            ValueError: If a dial is out of range.
        """
        solver = None if self.model is None else self.open_model().network.objective.solver
        return _TurnedIndex(self, turning(self._store, solver, tree, instance))

    # Reading

    def rows(self, columns: Sequence[str] | None = None, filter: Filter | None = None) -> pa.Table:
        """Columns of the samples, in the order in which these came, as an Arrow table.

        Args:
            columns: Names; None: `id`, `node` and all others except vectors.
            filter: Which samples; None: all.
        """
        return self._current.read(lambda store: read_rows(store, columns, filter))

    def vectors(self) -> Array:
        """Vectors `(n, d)` float32 of all samples, in the order of `rows`; a read-only file in memory."""
        return self._current.read(lambda store: self._current.matrix_of(store).vectors)

    def labels(self) -> Array:
        """Labels `(n,)` int64 of all samples, in the order of `rows`."""
        return self._current.read(lambda store: self._current.matrix_of(store).nodes)

    def at_once(self, read: Callable[[Index], T]) -> T:
        """What a function reads of the index as it is now, all of it of one version.

        Each search and each reading by itself takes the newest version. Where several belong together, such
        as labels and the taxonomy that they are of, the function is given an index that stays as it is.

        Args:
            read: Is given the index. It must not change it, and is called again if others changed the index
                meanwhile in a store that keeps no old versions.

        Raises:
            StoreChangedError: If the index of a server is changed too often to be read.
        """
        return self._current.read(lambda store: read(_OneVersion(self, store)))


class _TurnedIndex(Index):
    """An index whose vectors are compared with other dials. It is searched, not changed."""

    def __init__(self, index: Index, turn: Callable[[Array], Array]) -> None:
        super().__init__(index._store)
        self._current = TurnedStore(index._current, turn)
        self._index = index

    def open_model(self) -> Model:
        return self._index.open_model()


class _OneVersion(Index):
    """An index that does not go on to newer versions; matrix and model are those of the index it is of."""

    def __init__(self, index: Index, store: Store) -> None:
        super().__init__(store)
        self._current = PinnedStore(index._current, store)
        self._index = index

    def open_model(self) -> Model:
        return self._index.open_model()

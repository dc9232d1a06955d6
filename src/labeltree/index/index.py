"""The index: samples with vectors and labels, changed in transactions and searched by similarity."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
import torch

from labeltree.decisions.searched_space import SpaceName, searched_vectors
from labeltree.errors import DataError, LabeltreeError
from labeltree.index.addresses import is_address
from labeltree.index.approximate import Tuning, approximate_pays, exact_up_to, rank_candidates
from labeltree.index.distances import check_inside, distances, lorentz, lorentz_queries
from labeltree.index.embedding import open_model, weights_digest
from labeltree.index.exact import ExactMatrix, open_matrix
from labeltree.index.filters import Filter, Nodes, Where, node_ranges
from labeltree.index.hits import Hits
from labeltree.index.opening import check_free, create_store, matrix_folders, open_store
from labeltree.index.rows import IndexRows, vectors_from_arrow, vectors_to_arrow
from labeltree.index.store import GeometryName, IndexSettings, ServerStore, Store, StoreChangedError
from labeltree.index.upkeep import compact, keep_tuned, tune
from labeltree.taxonomy import AnyTaxonomy, Taxonomy, TaxonomyMapping

if TYPE_CHECKING:
    import pyarrow as pa

    from labeltree.inference.model import Model

__all__ = ["Index", "IndexInfo"]

Array = np.ndarray[Any, Any]
_HIDDEN = ("id", "row", "node", "vector", "lorentz")
_SHOWN = 3
_FEW = 1000  # ids that are looked up one by one


@dataclass(frozen=True)
class IndexInfo:
    """What an index is.

    Attributes:
        where: its folder or URL.
        size: number of samples.
        labelled: number of samples with a label.
        dim: length of the vectors.
        geometry: ``cosine``, ``euclidean`` or ``poincare``.
        vectors: what they are of the run: its ``embeddings``, or the ``features`` of its encoder.
        nodes: number of nodes of the taxonomy, with the root.
        release: what people call this version of the taxonomy, or None.
        columns: names of the columns that `Index.rows` gives.
        splits: number of samples by split.
        model: the run that embeds queries, or None.
        version: of the store.
        approximate: what the store has tuned for approximate search; empty if nothing.
        exact_up_to: number of samples up to which search is exact unless asked otherwise.
    """

    where: str
    size: int
    labelled: int
    dim: int
    geometry: GeometryName
    vectors: SpaceName
    nodes: int
    release: str | None
    columns: tuple[str, ...]
    splits: Mapping[str, int]
    model: str | None
    version: int
    approximate: Mapping[str, Any]
    exact_up_to: int


P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
_TRIES = 10


def _tried_again(method: Callable[P, R]) -> Callable[P, R]:
    """The method, which begins with the latest store, begun anew where others change that meanwhile.

    An index of one version (see `Index.at_once`) has no newer store to begin with: who holds it begins anew.
    """

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for _ in range(0 if isinstance(args[0], _OneVersion) else _TRIES - 1):
            with suppress(StoreChangedError):
                return method(*args, **kwargs)
        return method(*args, **kwargs)

    return call


class Index:
    """Samples with vectors and labels of a taxonomy, to search among.

    Make one with `create`, or open one with `open`. Each change is one transaction: others see the index as
    it was or as it is afterwards, also when the process ends in between. A search sees one version.

    Args:
        store: where the rows lie.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._matrix: tuple[Store, ExactMatrix] | None = None
        self._counted: tuple[Store, int] | None = None
        self._model: Model | None = None
        self._guard = threading.Lock()

    # Making and opening

    @classmethod
    def create(
        cls,
        where: str | Path,
        rows: IndexRows,
        *,
        taxonomy: AnyTaxonomy,
        geometry: GeometryName = "cosine",
        curvature: float = -1.0,
        model: str | Path | None = None,
        vectors: SpaceName = "embeddings",
        overwrite: bool = False,
    ) -> Index:
        """Make an index of rows.

        Args:
            where: a folder that is new or empty, or the URL of another store.
            rows: the samples; there may be none, but their vectors have a length.
            taxonomy: the tree whose nodes are the labels.
            geometry: ``cosine``, ``euclidean`` or ``poincare``, whose vectors are points of the ball.
            curvature: of the Poincaré ball, below 0.
            model: the run that made the vectors, to embed queries with.
            vectors: what they are of that run: its ``embeddings``, or the ``features`` of its encoder.
            overwrite: replace an index that lies there.

        Raises:
            DataError: if there is an index already, or a row does not suit.
            TaxonomyError: if the taxonomy is not a tree.
        """
        settings = IndexSettings(
            geometry=_checked_geometry(geometry),
            dim=int(rows.vectors.shape[1]),
            taxonomy=_checked_tree(taxonomy),
            curvature=_checked_curvature(curvature),
            model=None if model is None else _model_path(model, where),
            model_digest=None if model is None else weights_digest(model),
            vectors=vectors,
        )
        table = _table_of(rows, settings)
        made = cls(create_store(where, table, settings, overwrite=overwrite))
        if approximate_pays(len(rows), settings.dim):
            with made._writing():
                pass
        return made

    @staticmethod
    def check_free(where: str | Path, *, overwrite: bool = False) -> None:
        """Raise a `DataError` if no index can be made there: there is one already, or something else."""
        check_free(where, overwrite=overwrite)

    @classmethod
    def open(cls, where: str | Path) -> Index:
        """Open an index: a folder, a run with one in its folder ``index``, or a URL.

        Raises:
            DataError: if there is none, or it is damaged.
        """
        return cls(open_store(where))

    @property
    def taxonomy(self) -> Taxonomy:
        """The tree whose nodes are the labels, as it is now."""
        return self._latest().settings.taxonomy

    @property
    def geometry(self) -> GeometryName:
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
    @_tried_again
    def size(self) -> int:
        """Number of samples."""
        return self._latest().count()

    @_tried_again
    def count(
        self, *, within: Nodes | None = None, not_within: Nodes | None = None, where: Where | None = None
    ) -> int:
        """Number of samples that satisfy conditions, which are those of `search`.

        Raises:
            DataError: if a node or a column is unknown, or a value does not suit its column.
        """
        store = self._latest()
        chosen = Filter.of(store.settings.taxonomy, within=within, not_within=not_within, where=where)
        return store.count(_checked_conditions(store, chosen))

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

    @_tried_again
    def info(self) -> IndexInfo:
        """What the index is, as it is now."""
        store = self._latest()
        settings = store.settings
        everywhere = Filter(within=((0, settings.taxonomy.num_nodes),))
        return IndexInfo(
            where=store.name,
            size=store.count(),
            labelled=store.count(everywhere),
            dim=settings.dim,
            geometry=settings.geometry,
            vectors=settings.vectors,
            nodes=settings.taxonomy.num_nodes,
            release=settings.taxonomy.release,
            columns=tuple(_shown_columns(store)),
            splits=dict(sorted(store.count_texts("split").items())),
            model=self.model,
            exact_up_to=exact_up_to(settings.dim),
            version=store.version,
            approximate=dict(settings.approximate),
        )

    # Changes

    def add(self, rows: IndexRows) -> None:
        """Add samples, in one transaction.

        Raises:
            DataError: if an id is in the index already, or a row does not suit; nothing is added then.
        """
        with self._writing() as store:
            known = _known_ids(store, rows.ids)
            if known:
                raise DataError(
                    f"{_listed(list(known))} {_are(len(known))} in the index already; replace what shall "
                    "change, and add the others"
                )
            store.append(_table_of(rows, store.settings, _next_row(store), store.schema))

    def replace(self, rows: IndexRows) -> tuple[int, int]:
        """Write samples over those of the same ids, and add the others, in one transaction.

        A sample that was there keeps its value in every column that is not given: labels, texts and others
        that are None, and further columns that are not named.

        Returns:
            the numbers of samples that were replaced and added.

        Raises:
            DataError: if a row does not suit; nothing is changed then.
        """
        with self._writing() as store:
            known = _known_ids(store, rows.ids)
            numbers = np.fromiter((known.get(one, -1) for one in rows.ids), np.int64, len(rows))
            new = numbers < 0
            numbers[new] = np.arange(new.sum()) + _next_row(store)
            table = _table_of(rows, store.settings, numbers, store.schema)
            store.replace(_with_old_values(table, store, numbers, new, rows.given()))
        return len(rows) - int(new.sum()), int(new.sum())

    def delete(self, ids: Sequence[str]) -> None:
        """Delete samples by id, in one transaction.

        Raises:
            DataError: if an id is not in the index; nothing is deleted then.
        """
        wanted = list(dict.fromkeys([ids] if isinstance(ids, str) else ids))
        with self._writing() as store:
            known = _known_ids(store, wanted)
            missing = [one for one in wanted if one not in known]
            if missing:
                raise DataError(f"{_listed(missing)} {_are(len(missing))} not in the index '{self.where}'")
            if wanted:
                store.delete(wanted)

    def move(self, taxonomy: Taxonomy, mapping: TaxonomyMapping) -> None:
        """Read all labels on another version of the taxonomy, in one transaction.

        The column ``prediction`` of an index in a folder follows; on a server, its texts stay as they are.

        Args:
            taxonomy: the new version.
            mapping: what became of each node of the index's taxonomy, in a tree equal to ``taxonomy``.

        Raises:
            TaxonomyError: if the mapping does not lead from the index's taxonomy to the new one.
        """
        from labeltree.errors import TaxonomyError

        if mapping.new != taxonomy:
            raise TaxonomyError("the mapping does not end with the taxonomy to move to; take its new version")
        with self._writing() as store:
            if mapping.old != store.settings.taxonomy:
                raise TaxonomyError(
                    f"the mapping does not begin with the taxonomy of the index '{self.where}'; make one "
                    "between that and the new version"
                )
            places = mapping.nodes.tolist()
            names = {
                mapping.old.path_name(node): taxonomy.path_name(place) if place else None
                for node, place in enumerate(places)
            }
            store.renumber(mapping.nodes.numpy(), store.settings.with_taxonomy(taxonomy), names)

    def compact(self) -> None:
        """Tidy up after many changes: small files are merged, and old versions deleted."""
        with self._store.writer() as store:
            compact(store)
        self._latest()

    def tune(self, *, progress: Callable[[str], None] | None = None) -> Mapping[str, Any]:
        """Make the approximate index anew and measure what effort finds 95 % of the ten nearest samples.

        An index of more than 50 million numbers (200,000 samples of 256 dimensions) is tuned when it is made,
        and again when it has grown or shrunk by a tenth. Below, search is exact unless asked otherwise.

        Args:
            progress: called with a line about each step.

        Returns:
            what was found, as in `IndexInfo.approximate`; see `labeltree.index.approximate.Tuning`.

        Raises:
            DataError: if there are too few samples, or the store keeps an approximate index of its own.
        """
        with self._store.writer() as store:
            found = tune(store, progress=progress).settings.approximate
        self._latest()
        return dict(found)

    # Search

    @_tried_again
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
            query: vectors ``(q, d)``, or one of ``(d,)``.
            k: how many samples to find for each.
            within: a node or several, by path, name or number: only samples labelled there or below.
            not_within: the same, left out; samples without a label stay.
            where: conditions on columns: ``{"split": "test", "camera": ["a", "b"], "year": (">=", 2020)}``.
            diverse: a depth: at most one sample of each node there. A label that is coarser counts as a
                node of its own, samples without a label are left out.
            exact: compare with every sample that passes; None: unless there are more than 50 million numbers
                in all, as in 200,000 samples of 256 dimensions, an approximate index was tuned, and nothing
                is left out. In a folder, a search that leaves samples out is always exact.
            columns: which columns to give in `Hits.rows`; None: all except vectors.
            labels: ``(q,)`` label of each query, -1 where unknown, for `Hits.lca_depths`.

        Returns:
            for each query its hits.

        Raises:
            DataError: if a query or an argument does not suit.
            TaxonomyError: if a node is unknown.
        """
        return self._search_in(
            self._latest(),
            query,
            k=k,
            within=within,
            not_within=not_within,
            where=where,
            diverse=diverse,
            exact=exact,
            columns=columns,
            labels=labels,
        )

    def _search_in(
        self,
        store: Store,
        query: Array | torch.Tensor | Sequence[Any],
        *,
        k: int,
        within: Nodes | None = None,
        not_within: Nodes | None = None,
        where: Where | None = None,
        diverse: int | None = None,
        exact: bool | None = None,
        columns: Sequence[str] | None = None,
        labels: Array | torch.Tensor | Sequence[int] | None = None,
    ) -> list[Hits]:
        """`search` in one version of the store."""
        queries = _checked_queries(query, store.settings)
        chosen = Filter.of(store.settings.taxonomy, within=within, not_within=not_within, where=where)
        return self._search(store, queries, k, chosen, diverse, exact, columns, labels)

    def search_id(self, id: str, *, k: int = 20, **options: Any) -> Hits:
        """The samples nearest to one of the index, without itself; further arguments are those of `search`.

        Raises:
            DataError: if there is no sample of that id.
        """
        (hits,) = self.search_ids([id], k=k, **options)
        if hits is None:
            raise DataError(f"there is no sample '{id}' in the index '{self.where}'")
        return hits

    @_tried_again
    def search_ids(self, ids: Sequence[str], *, k: int = 20, **options: Any) -> list[Hits | None]:
        """The samples nearest to each of several of the index, without itself; all in one search.

        Args:
            ids: of the samples.
            k: how many for each.
            **options: further arguments of `search`; labels are those of the samples.

        Returns:
            The hits of each, in the order of ``ids``; None where there is no such sample.

        Raises:
            DataError: if an argument does not suit.
            TaxonomyError: if a node is unknown.
        """
        if isinstance(ids, str):
            raise DataError(f"ids is the text '{ids}'; give a list of ids, or use search_id for one")
        store, names = self._latest(), [str(id) for id in ids]
        given = {n: options.pop(n, None) for n in ("diverse", "exact", "columns", "labels")}
        chosen = Filter.of(store.settings.taxonomy, **options)
        known = _checked_labels(given["labels"], len(names), store.settings.taxonomy)
        asked = list(dict.fromkeys(names))
        parts = [
            _read(store, ["id", "row", "node", "vector"], Filter(ids=tuple(asked[at : at + _FEW])))
            for at in range(0, len(asked), _FEW)
        ]
        place = {name: at for at, name in enumerate(n for part in parts for n in part["id"].to_pylist())}
        there = [at for at, name in enumerate(names) if name in place]
        order = np.array([place[names[at]] for at in there], np.int64)
        rows, nodes, vectors = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, store.settings.dim))
        if there:
            rows, nodes = (
                np.concatenate([part[name].to_numpy() for part in parts])[order] for name in ("row", "node")
            )
            vectors = np.concatenate([vectors_from_arrow(part["vector"]) for part in parts])[order]
        labels = nodes if known is None else known[there]
        hits = self._search(
            store,
            vectors,
            k,
            chosen,
            given["diverse"],
            given["exact"],
            given["columns"],
            labels,
            left_out=rows,
        )
        found: list[Hits | None] = [None] * len(names)
        for at, one in zip(there, hits, strict=True):
            found[at] = one
        return found

    @_tried_again
    def search_node(self, node: str | int, *, k: int = 20, **options: Any) -> Hits:
        """The samples nearest to the mean of those labelled at or below a node.

        Args:
            node: by path, name or number.
            k: how many.
            **options: further arguments of `search`.

        Raises:
            DataError: if no sample has such a label.
            TaxonomyError: if the node is unknown.
        """
        store = self._latest()
        options.setdefault("labels", [node_ranges(store.settings.taxonomy, node)[0][0]])
        return self._search_mean(store, node, k, options)

    def search_mean(self, nodes: Nodes, *, k: int = 20, **options: Any) -> Hits:
        """The samples nearest to the mean, in the geometry, of those labelled at or below nodes.

        Args:
            nodes: a node or several; see `node_ranges`.
            k: how many.
            **options: further arguments of `search`.

        Raises:
            DataError: if no sample has such a label.
            TaxonomyError: if a node is unknown.
        """
        return self._search_mean(self._latest(), nodes, k, options)

    def _search_mean(self, store: Store, nodes: Nodes, k: int, options: dict[str, Any]) -> Hits:
        taxonomy = store.settings.taxonomy
        chosen = Filter.of(taxonomy, within=nodes)
        found = _read(store, ["vector"], chosen)
        if not len(found):
            named = [taxonomy.path_name(first) for first, _ in chosen.within or ()]
            raise DataError(f"no sample of the index is labelled at or below {_listed(named or ['it'])}")
        space = store.settings.space
        points = torch.from_numpy(vectors_from_arrow(found["vector"]).copy())
        mean = space.group_means(points, torch.zeros(len(points), dtype=torch.int64), 1)
        return self._search_in(store, mean.numpy(), k=k, **options)[0]

    def search_images(self, images: Sequence[Any], **options: Any) -> list[Hits]:
        """The samples nearest to images, embedded by the index's run; see `Model.embed` and `search`."""
        return self.search(self.embed(images), **options)

    def search_texts(self, texts: Sequence[str], **options: Any) -> list[Hits]:
        """The samples nearest to texts, embedded by the index's run; see `Model.embed` and `search`."""
        return self.search(self.embed(texts), **options)

    def embed(self, samples: Sequence[Any]) -> Array:
        """Vectors ``(n, d)`` of samples, by the run that made the index's.

        Raises:
            DataError: if the run is not known or has changed, see `open_model`.
        """
        return searched_vectors(self.open_model().embed(samples), self.settings.vectors).numpy()

    def open_model(self) -> Model:
        """The run that made the vectors, as a model; it is loaded once.

        Raises:
            DataError: if the run is not known, gone, or has other weights than those that made the vectors.
        """
        with self._guard:
            if self._model is None:
                self._model = open_model(self.model, self.settings.model_digest, self.where)
            return self._model

    # Reading

    @_tried_again
    def rows(self, columns: Sequence[str] | None = None, filter: Filter | None = None) -> pa.Table:
        """Columns of the samples, in the order in which these came, as an Arrow table.

        Args:
            columns: names; None: ``id``, ``node`` and all others except vectors.
            filter: which samples; None: all.
        """
        store = self._latest()
        names = ["id", "node", *_shown_columns(store)] if columns is None else list(columns)
        unknown = [name for name in names if name not in store.schema.names]
        if unknown:
            raise DataError(
                f"the index has no column '{unknown[0]}'; it has id, node, {', '.join(_shown_columns(store))}"
            )
        chosen = None if filter is None else _checked_conditions(store, filter)
        read = _read(store, list(dict.fromkeys([*names, "row"])), chosen)
        return read.sort_by("row").select(names)

    @_tried_again
    def vectors(self) -> Array:
        """Vectors ``(n, d)`` float32 of all samples, in the order of `rows`; a read-only file in memory."""
        return self._matrix_of(self._latest()).vectors

    @_tried_again
    def labels(self) -> Array:
        """Labels ``(n,)`` int64 of all samples, in the order of `rows`."""
        return self._matrix_of(self._latest()).nodes

    @_tried_again
    def at_once(self, read: Callable[[Index], T]) -> T:
        """What a function reads of the index as it is now, all of it of one version.

        Each search and each reading by itself takes the newest version. Where several belong together, such
        as labels and the taxonomy that they are of, the function is given an index that stays as it is.

        Args:
            read: is given the index. It must not change it, and is called again if others changed the index
                meanwhile in a store that keeps no old versions.

        Raises:
            StoreChangedError: if the index of a server is changed too often to be read.
        """
        return read(_OneVersion(self, self._latest()))

    # Inside

    def _latest(self) -> Store:
        """The store as it is now; a search goes on with the one that it began with."""
        with self._guard:
            self._store = self._store.latest()
            return self._store

    @contextmanager
    def _writing(self) -> Iterator[Store]:
        with self._store.writer() as store:  # searches of other threads go on meanwhile
            yield store
        try:
            with self._store.writer() as store:
                keep_tuned(store.latest())
        except (OSError, RuntimeError, LabeltreeError) as error:  # the change itself is done
            warnings.warn(
                f"the index '{self.where}' was changed, but its approximate search was not tuned anew "
                f"({error}); 'labeltree index INDEX --tune' does that",
                stacklevel=3,
            )
        self._latest()

    def _matrix_of(self, store: Store) -> ExactMatrix:
        with self._guard:
            if self._matrix is None or self._matrix[0] is not store:
                self._matrix = store, open_matrix(store, *matrix_folders(store))
            return self._matrix[1]

    def _count_of(self, store: Store) -> int:
        """How many rows a server has, counted once for each version."""
        if self._counted is None or self._counted[0] is not store:
            self._counted = store, store.count()
        return self._counted[1]

    def _search(
        self,
        store: Store,
        queries: Array,
        k: int,
        chosen: Filter,
        diverse: int | None,
        exact: bool | None,
        columns: Sequence[str] | None,
        labels: Any,
        left_out: Array | None = None,
    ) -> list[Hits]:
        settings = store.settings
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise DataError(f"k is {k!r}; give a whole number of at least 1")
        branches = _branches(settings.taxonomy, diverse)
        if branches is not None:
            labelled = ((0, settings.taxonomy.num_nodes),)
            chosen = replace(chosen, within=labelled if chosen.within is None else chosen.within)
        chosen = _checked_conditions(store, chosen)
        if exact is None:
            exact = not (chosen.all_rows and self._approximate_by_default(store))
        near = self._exact if exact else self._approximate
        places = _Picker(k, branches, left_out, partial(self._nodes_there, store, chosen))
        found = places(lambda m, some: near(store, queries[some], m, chosen), len(queries))
        matrix = None if isinstance(store, ServerStore) else self._matrix_of(store)
        return _hits(store, matrix, found, columns, _checked_labels(labels, len(queries), settings.taxonomy))

    def _nodes_there(self, store: Store, chosen: Filter) -> tuple[Array, Array]:
        """Row numbers and labels of the rows that pass."""
        if isinstance(store, ServerStore):
            read = _read(store, ["row", "node"], chosen)
            return read["row"].to_numpy(), read["node"].to_numpy()
        matrix = self._matrix_of(store)
        among = _positions(store, matrix, chosen)
        return (matrix.rows, matrix.nodes) if among is None else (matrix.rows[among], matrix.nodes[among])

    def _approximate_by_default(self, store: Store) -> bool:
        tuning = Tuning.of(store.settings.approximate)
        if isinstance(store, ServerStore):
            return bool(store.settings.approximate) and approximate_pays(
                self._count_of(store), store.settings.dim
            )
        if tuning is None:
            return False
        return tuning.reached and approximate_pays(len(self._matrix_of(store)), store.settings.dim)

    def _exact(self, store: Store, queries: Array, k: int, chosen: Filter) -> list[_Found]:
        if isinstance(store, ServerStore):
            return self._compared(store, queries, store.nearest_exact(queries, k, chosen), k)
        matrix = self._matrix_of(store)
        return _nearest(store, matrix, queries, k, _positions(store, matrix, chosen))

    def _approximate(self, store: Store, queries: Array, k: int, chosen: Filter) -> list[_Found]:
        settings = store.settings
        hyperbolic = settings.geometry == "poincare"
        asked = lorentz_queries(queries, settings.curvature) if hyperbolic else queries
        if isinstance(store, ServerStore):
            # float32 blurs the order of Lorentz coordinates, so more of them are compared again
            candidates = store.nearest(asked, max(4 * k, 100) if hyperbolic else k, chosen)
            if any(len(rows) < k for rows in candidates):
                there = min(k, store.count(chosen))
                few = [one for one, rows in enumerate(candidates) if len(rows) < there]
                for one, rows in zip(few, store.nearest_exact(queries[few], k, chosen), strict=True):
                    candidates[one] = rows
            return self._compared(store, queries, candidates, k)
        if Tuning.of(settings.approximate) is None or not chosen.all_rows:
            return self._exact(store, queries, k, chosen)  # LanceDB would look only near the query
        matrix = self._matrix_of(store)
        found = []
        for query, rows in zip(queries, store.nearest(asked, k), strict=True):
            at, values = rank_candidates(matrix, settings, query, rows)
            if len(at) < min(k, len(matrix)):
                found += _nearest(store, matrix, query[None], k, None)
            else:
                found.append(_Found(matrix.rows[at[:k]], matrix.nodes[at[:k]], values[:k]))
        return found

    @staticmethod
    def _compared(store: Store, queries: Array, candidates: list[Array], k: int) -> list[_Found]:
        """The k nearest of each query's candidates, by their distances in float64."""
        settings = store.settings
        found = []
        for query, rows in zip(queries, candidates, strict=True):
            read = _read(store, ["row", "node", "vector"], Filter(rows=np.asarray(rows, np.int64)))
            numbers = read["row"].to_numpy()
            values = distances(
                settings.geometry, query, vectors_from_arrow(read["vector"]), settings.curvature
            )
            order = np.lexsort((numbers, values))[:k]
            found.append(_Found(numbers[order], read["node"].to_numpy()[order], values[order]))
        return found


class _OneVersion(Index):
    """An index that does not go on to newer versions; matrix and model are those of the index it is of."""

    def __init__(self, index: Index, store: Store) -> None:
        super().__init__(store)
        self._index = index

    def _latest(self) -> Store:
        return self._store

    def _matrix_of(self, store: Store) -> ExactMatrix:
        return self._index._matrix_of(store)

    def open_model(self) -> Model:
        return self._index.open_model()


@dataclass(frozen=True)
class _Found:
    """Rows found for one query: numbers, labels and distances, nearest first."""

    rows: Array
    nodes: Array
    distances: Array

    def pick(self, places: Array) -> _Found:
        return _Found(self.rows[places], self.nodes[places], self.distances[places])


def _positions(store: Store, matrix: ExactMatrix, chosen: Filter) -> Array | None:
    """Positions in the matrix of the rows that pass; None if all do."""
    if chosen.all_rows:
        return None
    found = matrix.labelled(chosen)
    if chosen.conditions:
        rows = _read(store, ["row"], replace(chosen, within=None, not_within=()))["row"].to_numpy()
        found = found[np.isin(matrix.rows[found], rows)]
    return found


def _nearest(store: Store, matrix: ExactMatrix, queries: Array, k: int, among: Array | None) -> list[_Found]:
    settings = store.settings
    found = matrix.nearest(settings.geometry, queries, k, curvature=settings.curvature, among=among)
    return [_Found(matrix.rows[at], matrix.nodes[at], values) for at, values in found]


class _Picker:
    """Take k rows for each query: without the query itself, and of different branches if these are given.

    How many branches there are is counted only if the first rows were of fewer than k, once for all queries.
    """

    def __init__(
        self,
        k: int,
        branches: Array | None,
        left_out: Array | None,
        nodes_there: Callable[[], tuple[Array, Array]],
    ) -> None:
        self._k, self._branches, self._left_out = k, branches, left_out
        self._nodes_there = nodes_there
        self._counted: tuple[int, set[int]] | None = None

    def __call__(self, near: Callable[[int, list[int]], list[_Found]], num_queries: int) -> list[_Found]:
        most = self._k + (self._left_out is not None)
        chosen: dict[int, _Found] = {}
        wanted: dict[int, int] = {}
        while len(chosen) < num_queries:
            open_queries = [query for query in range(num_queries) if query not in chosen]
            for query, found in zip(open_queries, near(most, open_queries), strict=True):
                own = None if self._left_out is None else int(self._left_out[query])
                picked = self._pick(found, own)
                enough = len(picked.rows) == self._k or len(found.rows) < most
                if not enough and self._branches is not None and query not in wanted:
                    wanted[query] = min(self._k, self._num_branches(self._branches, own))
                if enough or (query in wanted and len(picked.rows) >= wanted[query]):
                    chosen[query] = picked
            most *= 4
        return [chosen[query] for query in range(num_queries)]

    def _num_branches(self, branches: Array, left_out: int | None) -> int:
        """Of how many branches rows pass, one of them left out."""
        if self._counted is None:
            rows, nodes = self._nodes_there()
            _, branch, count = np.unique(branches[nodes], return_inverse=True, return_counts=True)
            self._counted = len(count), set(rows[count[branch] == 1].tolist())  # those alone in their branch
        num_branches, alone = self._counted
        return num_branches - (left_out in alone)

    def _pick(self, found: _Found, left_out: int | None) -> _Found:
        places = np.arange(len(found.rows))
        if left_out is not None:
            places = places[found.rows != left_out]
        if self._branches is not None:
            _, first = np.unique(self._branches[found.nodes[places]], return_index=True)
            places = places[np.sort(first)]
        return found.pick(places[: self._k])


def _hits(
    store: Store,
    matrix: ExactMatrix | None,
    found: list[_Found],
    columns: Sequence[str] | None,
    labels: Array | None,
) -> list[Hits]:
    shown = _shown_columns(store)
    wanted = shown if columns is None else list(columns)
    unknown = [name for name in wanted if name not in [*shown, "id", "node"]]
    if unknown:
        raise DataError(f"the index has no column '{unknown[0]}'; it has {', '.join(shown)}")
    read = [name for name in dict.fromkeys(["id", *wanted]) if name != "node"]
    rows, nodes = [one.rows for one in found], [one.nodes.tolist() for one in found]
    values = _from_store(store, rows, read) if matrix is None else _from_matrix(matrix, rows, read)
    taxonomy, geometry = store.settings.taxonomy, store.settings.geometry
    hits = []
    for query, one in enumerate(found):
        label = -1 if labels is None else int(labels[query])
        depths = taxonomy.lca_depth(torch.from_numpy(one.nodes.copy()), label).numpy() if label >= 0 else None
        row = {"node": nodes[query], **values[query]}
        hits.append(
            Hits(
                ids=row["id"],
                distances=one.distances,
                similarities=1.0 - one.distances if geometry == "cosine" else -one.distances,
                nodes=one.nodes,
                rows={name: row[name] for name in wanted},
                lca_depths=depths,
            )
        )
    return hits


def _from_matrix(matrix: ExactMatrix, rows: list[Array], columns: list[str]) -> list[dict[str, list[Any]]]:
    """Columns of rows, given by their numbers, for each query."""
    places = [np.searchsorted(matrix.rows, one).tolist() for one in rows]
    chosen = {name: matrix.columns[name] for name in columns}
    return [{name: [column[at].as_py() for at in some] for name, column in chosen.items()} for some in places]


def _from_store(store: Store, rows: list[Array], columns: list[str]) -> list[dict[str, list[Any]]]:
    """The same, read from the store."""
    numbers = np.unique(np.concatenate(rows)) if rows else np.zeros(0, np.int64)
    read = _read(store, ["row", *columns], Filter(rows=numbers)).sort_by("row")
    taken = [read.take(np.searchsorted(numbers, some)) for some in rows]
    return [{name: some[name].to_pylist() for name in columns} for some in taken]


def _model_path(model: str | Path, where: str | Path) -> str:
    """The path of a run; relative to the index if that lies within, so that they can be moved together."""
    run, folder = Path(model).absolute(), Path(where).absolute()
    inside = not is_address(where) and folder.is_relative_to(run)
    return os.path.relpath(run, folder) if inside else str(run)


def _read(store: Store, columns: list[str], filter: Filter | None) -> pa.Table:
    import pyarrow as pa

    schema = pa.schema([store.schema.field(name).remove_metadata() for name in columns])
    batches = [batch.select(columns).cast(schema) for batch in store.scan(columns, filter)]
    return pa.Table.from_batches(batches, schema)


def _shown_columns(store: Store) -> list[str]:
    return [name for name in store.schema.names if name not in _HIDDEN]


def _known_ids(store: Store, ids: Sequence[str]) -> dict[str, int]:
    """The row of each of the ids that the store has."""
    if isinstance(store, ServerStore):
        return store.rows_of(ids)
    wanted = set(ids)
    known: dict[str, int] = {}
    few = Filter(ids=tuple(ids)) if len(wanted) <= _FEW else None
    for batch in store.scan(["id", "row"], few):
        pairs = zip(batch.column("id").to_pylist(), batch.column("row").to_pylist(), strict=True)
        known.update((one, row) for one, row in pairs if one in wanted)
    return known


def _next_row(store: Store) -> int:
    if isinstance(store, ServerStore):
        return store.next_row()
    return 1 + max((int(b.column("row").to_numpy().max()) for b in store.scan(["row"]) if len(b)), default=-1)


def _table_of(
    rows: IndexRows, settings: IndexSettings, first_row: int | Array = 0, schema: pa.Schema | None = None
) -> pa.Table:
    """The rows as a table of a store, after checks; with the columns of ``schema`` if it is given."""
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
            f"{', '.join(name for name in schema.names if name not in _HIDDEN)}"
        )
    columns = []
    for field in schema:
        if field.name not in table.column_names:
            columns.append(pa.nulls(len(rows), field.type))
            continue
        if field.name in ("vector", "lorentz") and not len(rows):
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


def _with_old_values(table: pa.Table, store: Store, numbers: Array, new: Array, given: set[str]) -> pa.Table:
    """Rows that replace others, with the old values of the columns that are not given.

    Args:
        table: rows as of `_table_of`.
        store: with the old rows.
        numbers: of the rows ``(n,)``.
        new: ``(n,)`` bool, rows that the store does not have.
        given: names of the columns that stay as they are in ``table``.
    """
    import pyarrow as pa

    missing = [name for name in ["node", *_shown_columns(store)] if name not in given]
    known = numbers[~new]
    if not missing or not len(known):
        return table
    few = Filter(rows=known) if len(known) <= _FEW else None
    old = _read(store, ["row", *missing], few).sort_by("row")
    places = pa.array(np.searchsorted(old["row"].to_numpy(), numbers), mask=new)
    for name in missing:
        values = old[name].take(places)
        column = values.fill_null(-1) if name == "node" else values
        table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), column)
    return table


def _checked_conditions(store: Store, chosen: Filter) -> Filter:
    """The filter with values of the columns' types; a `DataError` if a column does not exist or suit."""
    if not chosen.conditions:
        return chosen
    shown = ["id", *_shown_columns(store)]
    for condition in chosen.conditions:
        if condition.column not in shown:
            raise DataError(f"the index has no column '{condition.column}'; it has {', '.join(shown)}")
    fields = store.schema.field
    typed = tuple(condition.typed(fields(condition.column).type) for condition in chosen.conditions)
    return replace(chosen, conditions=typed)


def _branches(taxonomy: Taxonomy, depth: int | None) -> Array | None:
    """For each node its ancestor at a depth, or itself if it is coarser ``(N,)``."""
    if depth is None:
        return None
    if isinstance(depth, bool) or not 0 < depth <= taxonomy.max_depth:
        raise DataError(f"diverse is {depth}; give a depth from 1 to {taxonomy.max_depth}")
    ancestors = taxonomy.ancestors[:, depth]
    return torch.where(ancestors < 0, torch.arange(taxonomy.num_nodes), ancestors).numpy()


def _checked_queries(query: Any, settings: IndexSettings) -> Array:
    try:
        given = query.detach().cpu().numpy() if isinstance(query, torch.Tensor) else np.asarray(query)
        with np.errstate(over="ignore"):
            queries = np.ascontiguousarray(given, np.float32)
    except (TypeError, ValueError) as error:
        raise DataError("a query is a vector of numbers, or several: (q, d)") from error
    queries = queries[None] if queries.ndim == 1 else queries
    if queries.ndim != 2 or queries.shape[1] != settings.dim:
        raise DataError(
            f"queries have the shape {given.shape}; the index has vectors of {settings.dim} dimensions"
        )
    bad = np.flatnonzero(~np.isfinite(queries).all(1))
    if len(bad):
        raise DataError(f"query {int(bad[0])} holds NaN or infinity; leave it out")
    if settings.geometry == "poincare":
        check_inside(queries, settings.curvature, [f"query {row}" for row in range(len(queries))])
    return queries


def _checked_labels(labels: Any, num_queries: int, taxonomy: Taxonomy) -> Array | None:
    if labels is None:
        return None
    found = np.asarray(labels, np.int64).reshape(-1)
    if len(found) != num_queries:
        raise DataError(f"there are {num_queries} queries but {len(found)} labels; they must be as many")
    if len(found) and not (found.min() >= -1 and found.max() < taxonomy.num_nodes):
        raise DataError(f"labels of queries are nodes 0 to {taxonomy.num_nodes - 1}, or -1 where unknown")
    return found


def _checked_geometry(name: str) -> GeometryName:
    from typing import get_args

    if name == "sphere":  # as embeddings tables call it
        return "cosine"
    if name not in get_args(GeometryName):
        raise DataError(f"geometry is '{name}'; expected one of {', '.join(get_args(GeometryName))}")
    return name  # type: ignore[return-value]


def _checked_tree(taxonomy: AnyTaxonomy) -> Taxonomy:
    from labeltree.errors import TaxonomyError

    if not isinstance(taxonomy, Taxonomy):
        raise TaxonomyError("an index needs a tree; make one of the DAG with 'labeltree taxonomy project'")
    return taxonomy


def _checked_curvature(curvature: float) -> float:
    if not (curvature < 0 and np.isfinite(curvature)):
        raise DataError(f"curvature is {curvature}; expected a number below 0, such as -1.0")
    return float(curvature)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown


def _are(count: int) -> str:
    return "is" if count == 1 else "are"

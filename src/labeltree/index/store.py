"""Where the rows of an index lie: what a store must do."""

from __future__ import annotations

import base64
import json
import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np

from labeltree.decisions.searched_space import SpaceName
from labeltree.errors import DataError, RunError
from labeltree.geometry import Geometry, get_geometry
from labeltree.index.filters import Filter
from labeltree.options.choices import IndexGeometry
from labeltree.taxonomy import Taxonomy

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "OWN_COLUMNS",
    "VECTOR_COLUMNS",
    "IndexSettings",
    "Metric",
    "ServerStore",
    "Store",
    "StoreChangedError",
    "changed_meanwhile",
    "hnsw_parameters",
    "index_exists",
    "no_index",
]

VECTOR_COLUMNS = ("vector", "lorentz")
"""The columns of vectors: as given, and on the hyperboloid for the Poincaré ball."""
OWN_COLUMNS = ("id", "row", "node", *VECTOR_COLUMNS)
"""The columns that every store keeps for itself, beside those of its samples."""

Array = np.ndarray[Any, Any]
Metric = Literal["cosine", "l2", "dot"]
_FORMAT = 1


@dataclass(frozen=True)
class IndexSettings:
    """What an index is about; stored with its rows and changed in the same transaction.

    Attributes:
        geometry: `cosine`, `euclidean` or `poincare`.
        dim: d, the length of the vectors.
        taxonomy: The tree whose nodes are the labels of the rows.
        curvature: Of the Poincaré ball, below 0; other geometries do not use it.
        model: The run that embeds queries, a path; None if it is unknown.
        model_digest: Fingerprint of the weights that made the vectors; None if it is unknown.
        vectors: What the vectors are of that run: its `embeddings`, or the `features` of its encoder.
        approximate: What the store has tuned for approximate search; empty if nothing.
        key: Tells this index from others that lay or will lie in the same place.
    """

    geometry: IndexGeometry
    dim: int
    taxonomy: Taxonomy
    curvature: float = -1.0
    model: str | None = None
    model_digest: str | None = None
    vectors: SpaceName = "embeddings"
    approximate: dict[str, Any] = field(default_factory=dict)
    key: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def search_column(self) -> str:
        """The column whose vectors an approximate index is made of: `vector`, or `lorentz`."""
        return "lorentz" if self.geometry == "poincare" else "vector"

    @property
    def metric(self) -> Metric:
        """By what the vectors of `search_column` are ordered: `dot` = largest inner product first."""
        metrics: dict[IndexGeometry, Metric] = {"cosine": "cosine", "euclidean": "l2", "poincare": "dot"}
        return metrics[self.geometry]

    @property
    def space(self) -> Geometry:
        """The geometry with its distances and means; compared by cosine, vectors lie on the sphere."""
        return get_geometry("sphere" if self.geometry == "cosine" else self.geometry, self.curvature)

    def to_text(self) -> str:
        """The settings as a short text of ASCII characters."""
        document = {
            "format": _FORMAT,
            "taxonomy": self.taxonomy.to_dict(),
            **{name: getattr(self, name) for name in _PLAIN},
        }
        return base64.b64encode(zlib.compress(json.dumps(document).encode())).decode()

    @classmethod
    def from_text(cls, text: str, where: str) -> IndexSettings:
        """The inverse of `to_text`; `where` names the index in errors."""
        try:
            document = json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
            if document["format"] > _FORMAT:
                raise DataError(
                    f"the index '{where}' was made by a newer labeltree; update labeltree, or make it anew"
                )
            taxonomy = Taxonomy.from_dict(document["taxonomy"])
            return cls(taxonomy=taxonomy, **{name: document[name] for name in _PLAIN if name in document})
        except (ValueError, KeyError, TypeError, zlib.error) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(
                f"the settings of the index '{where}' are damaged ({error}); make it anew with "
                "'labeltree index'"
            ) from error

    def with_taxonomy(self, taxonomy: Taxonomy) -> IndexSettings:
        """The same settings with another taxonomy."""
        return replace(self, taxonomy=taxonomy)


_PLAIN = ("geometry", "dim", "curvature", "model", "model_digest", "vectors", "approximate", "key")


class StoreChangedError(RunError):
    """A store that shows only its newest version was changed while it was read."""


def changed_meanwhile(name: str) -> StoreChangedError:
    """The error of a reader whose version of an index is gone."""
    return StoreChangedError(f"the index '{name}' was changed meanwhile; run it again")


def index_exists(where: object, instead: str = "take another name") -> DataError:
    """The error of who would make an index where there is one."""
    return DataError(f"there is an index at '{where}' already; overwrite it (--overwrite), or {instead}")


def no_index(where: object) -> DataError:
    """The error of who would open an index where there is none."""
    return DataError(f"there is no index at '{where}'; make one with 'labeltree index'")


def hnsw_parameters(given: Mapping[str, int], usual: Mapping[str, int]) -> dict[str, int]:
    """The parameters of an HNSW index: those that are given, and the usual ones.

    Raises:
        DataError: If there is no such parameter.
    """
    if unknown := set(given) - set(usual):
        raise DataError(f"HNSW has no parameter '{min(unknown)}'; it has {', '.join(usual)}")
    return {**usual, **given}


class Store(Protocol):
    """A table of rows, with the settings of its index.

    Rows come and go as Arrow tables with columns `id` (text, unique), `row` (int64, unique, ascending in
    the order in which samples came; ties are broken by it), `node` (int64, -1 = no label; nodes are
    numbered depth first, so a subtree is a range), `vector` (d float32), with geometry `poincare` also
    `lorentz` (d + 1 float32), `path`, `text`, `split`, `group` (texts) and further ones.

    Each of `append`, `replace`, `delete`, `renumber` and `write_settings` is one transaction: it is done
    wholly or not at all, whenever the process ends.
    """

    name: str
    """Path or URL, for messages; without passwords."""

    @property
    def settings(self) -> IndexSettings: ...

    @property
    def version(self) -> int:
        """A number that every change increases."""

    @property
    def schema(self) -> pa.Schema: ...

    def latest(self) -> Store:
        """The store as it is now: itself, or a new object if others have changed it; the old one keeps
        showing the old rows if the store can."""

    def count(self, filter: Filter | None = None) -> int:
        """The number of rows that pass."""

    def scan(self, columns: list[str], filter: Filter | None = None) -> Iterator[pa.RecordBatch]:
        """These columns of the rows that pass, in any order, in batches."""

    def count_texts(self, column: str) -> dict[str, int]:
        """How many rows have each text in a column; rows without one are left out."""

    def nearest(self, queries: Array, k: int, filter: Filter | None = None) -> list[Array]:
        """About the nearest rows of each query, by an approximate index if there is one.

        Args:
            queries: `(q, D)` float32, to compare with `IndexSettings.search_column`; for `dot`, rows of
                largest inner product are nearest.
            k: How many rows to find.
            filter: Rows to search among.

        Returns:
            For each query the numbers of at most k rows, nearest first.
        """

    def append(self, rows: pa.Table) -> None:
        """Add rows whose ids are new."""

    def replace(self, rows: pa.Table) -> None:
        """Write rows over those of the same ids, and add those whose ids are new."""

    def delete(self, ids: list[str]) -> None:
        """Delete the rows of these ids, all of which exist."""

    def renumber(
        self, new_nodes: Array, settings: IndexSettings, names: Mapping[str, str | None] | None = None
    ) -> None:
        """Give every row with node v the node `new_nodes[v]` `(N_old,)`, and write the settings.

        In a folder, the texts of a column `prediction`, paths of nodes, become those that `names` gives.
        """

    def write_settings(self, settings: IndexSettings) -> None:
        """Write the settings, without a change of rows."""

    def compact(self) -> None:
        """Tidy up after many changes."""

    def writer(self) -> AbstractContextManager[Store]:
        """The store as it is now, which no other process changes until the block ends."""


@runtime_checkable
class ServerStore(Store, Protocol):
    """A store on a server, which is asked rather than read as a whole.

    It shows only its newest version: reading raises `StoreChangedError` if that is not the store's own.
    """

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """The row of each of the ids that the store has."""

    def next_row(self) -> int:
        """A number above those of all rows."""

    def nearest_exact(self, queries: Array, k: int, filter: Filter | None = None) -> list[Array]:
        """Rows among which the k nearest are for certain, from a comparison with every row that passes.

        Args:
            queries: `(q, d)` float32, as given to `Index.search`.
            k: How many rows are wanted.
            filter: Rows to search among.

        Returns:
            For each query the numbers of the k nearest rows and of those that float32 cannot tell from them.
        """

    def build_approximate(self, **parameters: int) -> None:
        """Make the approximate index of the server anew, in one transaction, and keep its parameters."""

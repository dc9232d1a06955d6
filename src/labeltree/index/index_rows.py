"""The rows of an index: ids, vectors, labels, and what else is known of the samples."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.decisions.searched_space import SpaceName, searched_vectors
from labeltree.errors import DataError
from labeltree.index.store import OWN_COLUMNS
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KNOWN_COLUMNS", "RESERVED", "IndexRows"]

Array = np.ndarray[Any, Any]
KNOWN_COLUMNS = ("path", "text", "split", "group")
"""Columns of texts that every index has; empty where nothing is known."""
RESERVED = (*OWN_COLUMNS, *KNOWN_COLUMNS)
_PLURALS = {"paths": "path", "texts": "text", "splits": "split", "groups": "group"}
_COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class IndexRows:
    """Samples to put into an index, one a row.

    Attributes:
        ids: Name of each sample, unique within the index, `(n,)` texts.
        vectors: Embeddings `(n, d)`, kept as float32.
        nodes: Labels `(n,)` int64, nodes of the index's taxonomy, -1 where missing; None: all missing.
        paths: Image file of each sample, `(n,)` texts; None, or empty where there is none.
        texts: Text of each sample, likewise.
        splits: Split of each sample, such as `train`, likewise.
        groups: Group of each sample, such as a patient, likewise.
        columns: Further columns by name, each `(n,)` of texts, whole numbers, numbers or booleans.

    Raises:
        DataError: If columns differ in length, an id is empty or given twice, a vector holds NaN or infinity,
            or the name of a column is unsuitable.
    """

    ids: Sequence[str]
    vectors: Array
    nodes: Array | None = None
    paths: Sequence[str | None] | None = None
    texts: Sequence[str | None] | None = None
    splits: Sequence[str | None] | None = None
    groups: Sequence[str | None] | None = None
    columns: Mapping[str, Sequence[object]] = field(default_factory=dict)
    _has_nodes: bool = field(init=False, default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_has_nodes", self.nodes is not None)
        ids = _checked_ids(self.ids)
        vectors = _checked_vectors(self.vectors, ids)
        nodes = np.full(len(ids), -1) if self.nodes is None else np.asarray(self.nodes)
        if nodes.ndim != 1 or (nodes.dtype.kind not in "iu" and len(nodes)):
            raise DataError(f"nodes must be whole numbers (n,), got {nodes.dtype} {nodes.shape}")
        for name, value in (("ids", ids), ("vectors", vectors), ("nodes", nodes.astype(np.int64))):
            object.__setattr__(self, name, value)  # the rows are frozen, their columns are checked once
        for name in _PLURALS:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, list(getattr(self, name)))
        given: list[tuple[str, Any]] = [(name, getattr(self, name)) for name in ("nodes", *_PLURALS)]
        for name, column in [*given, *self.columns.items()]:
            if column is not None and len(column) != len(ids):
                raise DataError(f"there are {len(ids)} ids but {len(column)} {name}; they must be as many")
        for name in self.columns:
            if not _COLUMN.fullmatch(name) or name.lower() in RESERVED:
                why = (
                    "is a name that every index uses itself" if name.lower() in RESERVED else "is unsuitable"
                )
                raise DataError(
                    f"the column name '{name}' {why}; use another one, of letters, digits and underscores"
                )

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def from_table(
        cls, table: EmbeddingTable, ids: Sequence[str] | None = None, space: SpaceName = "embeddings"
    ) -> IndexRows:
        """The rows of an embeddings table.

        Args:
            table: n embeddings.
            space: `embeddings` or `features`, which become the vectors.
            ids: `(n,)` texts; None: the names of the table.
        """
        paths = None if table.paths is None else [str(path) for path in table.paths.tolist()]
        groups: list[str | None] | None = None
        if table.group_names is not None:
            groups = [str(name) or None for name in table.group_names.tolist()]
        elif table.groups is not None:
            groups = [str(group) if group >= 0 else None for group in table.groups.tolist()]
        return cls(
            table.names if ids is None else ids,
            searched_vectors(table, space).numpy(),
            table.nodes.numpy(),
            paths=paths,
            splits=None if table.split is None else [str(split) for split in table.split.tolist()],
            groups=groups,
        )

    def given(self) -> set[str]:
        """Names of the columns of an index that these rows say something of, beside id and vector."""
        known = {name for plural, name in _PLURALS.items() if getattr(self, plural) is not None}
        return known | set(self.columns) | ({"node"} if self._has_nodes else set())

    def check_nodes(self, taxonomy: Taxonomy) -> None:
        """Raise a `DataError` if a label is no node of the taxonomy."""
        nodes = np.asarray(self.nodes)
        wrong = np.flatnonzero((nodes < -1) | (nodes >= taxonomy.num_nodes))
        if len(wrong):
            row = int(wrong[0])
            raise DataError(
                f"sample '{self.ids[row]}' has node {nodes[row]}, but the taxonomy's nodes are 0 to "
                f"{taxonomy.num_nodes - 1}, and -1 for no label"
            )

    def to_arrow(self, first_row: int | Array = 0) -> pa.Table:
        """The rows as an Arrow table with the columns of a store, without those of a geometry.

        Args:
            first_row: Number of the first row, or the numbers of all rows `(n,)`.
        """
        import pyarrow as pa

        n = len(self)
        numbers = np.arange(first_row, first_row + n) if isinstance(first_row, int) else first_row
        columns: dict[str, Any] = {
            "id": pa.array(self.ids, pa.string()),
            "row": pa.array(numbers, pa.int64()),
            "node": pa.array(self.nodes, pa.int64()),
            "vector": vectors_to_arrow(self.vectors),
        }
        for plural, name in _PLURALS.items():
            values = getattr(self, plural)
            texts = [None] * n if values is None else [None if v in ("", None) else str(v) for v in values]
            columns[name] = pa.array(texts, pa.string())
        for name, values in self.columns.items():
            columns[name] = _column_to_arrow(name, values)
        return pa.table(columns)


def vectors_to_arrow(vectors: Array) -> pa.FixedSizeListArray:
    """Vectors `(n, d)` float32 as an Arrow array of lists of d numbers, without a copy."""
    import pyarrow as pa

    flat = np.ascontiguousarray(vectors, np.float32).reshape(-1)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat), vectors.shape[1])


def vectors_from_arrow(column: Any) -> Array:
    """The inverse of `vectors_to_arrow`, of an array or a chunked array."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    dim = column.type.list_size
    flat = column.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat, np.float32).reshape(-1, dim)


def count_texts(batches: Iterable[pa.RecordBatch]) -> dict[str, int]:
    """How many rows of batches of one column of texts have each; those without one are left out."""
    counts: Counter[str] = Counter()
    for batch in batches:
        for pair in batch.column(0).value_counts().to_pylist():
            if pair["values"] is not None:
                counts[pair["values"]] += int(pair["counts"])
    return dict(counts)


def _checked_ids(given: Sequence[str]) -> list[str]:
    ids = np.asarray(given, dtype=object).tolist() if isinstance(given, np.ndarray) else list(given)
    for row, one in enumerate(ids):
        if not isinstance(one, str) or not one:
            raise DataError(f"the id of row {row} is {one!r}; ids are texts that are not empty")
    if len(set(ids)) < len(ids):
        name, times = Counter(ids).most_common(1)[0]
        raise DataError(f"the id '{name}' is given {times} times; each sample needs an id of its own")
    return ids


def _checked_vectors(given: Array, ids: list[str]) -> Array:
    vectors = np.asarray(given)
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiu" or not vectors.shape[1]:
        raise DataError(f"vectors must be numbers (n, d), got {vectors.dtype} {vectors.shape}")
    if len(vectors) != len(ids):
        raise DataError(f"there are {len(ids)} ids but {len(vectors)} vectors; they must be as many")
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused
        vectors = np.ascontiguousarray(vectors, np.float32)
    finite = np.isfinite(vectors).all(1)
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0])
        raise DataError(f"the vector of '{ids[row]}' holds NaN or infinity; leave such samples out")
    return vectors


def _column_to_arrow(name: str, values: Sequence[object]) -> Any:
    import pyarrow as pa

    try:
        column = pa.array(values.tolist() if isinstance(values, np.ndarray) else list(values))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise DataError(
            f"column '{name}' mixes kinds of values; make them all texts or all numbers"
        ) from error
    kind = column.type
    if pa.types.is_null(kind):
        return column.cast(pa.string())
    if not (
        pa.types.is_string(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
    ):
        raise DataError(f"column '{name}' holds {kind}; a column holds texts, numbers or booleans")
    return column

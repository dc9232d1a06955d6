"""The embeddings table: the door through which anybody's embeddings enter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.atomic import atomic_write
from labeltree.errors import DataError
from labeltree.geometry import Geometry, get_geometry
from labeltree.taxonomy import Taxonomy

__all__ = ["EmbeddingTable"]


@dataclass(frozen=True)
class EmbeddingTable:
    """Embeddings of samples with their labels: a row a sample.

    Attributes:
        embeddings: ``(n, d)`` float32, what the head gives, in the geometry named below.
        nodes: ``(n,)`` int64 labels of a taxonomy, −1 where missing.
        split: ``(n,)`` array of str (``train``, ``val``, ``test``), or None where the table has no splits.
        features: ``(n, f)`` float32, what the encoder gives; None where only one representation is known.
        instances: ``(n,)`` int64 sample ids; row numbers when not given.
        paths: ``(n,)`` array of str, where each sample's image lies; None when unknown.
        geometry: ``sphere``, ``euclidean`` or ``poincare``.
        curvature: of the Poincaré ball, below 0; not used by the other geometries.
    """

    embeddings: Tensor
    nodes: Tensor
    split: np.ndarray[Any, Any] | None = None
    features: Tensor | None = None
    instances: Tensor | None = None
    paths: np.ndarray[Any, Any] | None = None
    geometry: str = "sphere"
    curvature: float = -1.0

    def __post_init__(self) -> None:
        if self.embeddings.ndim != 2 or not self.embeddings.is_floating_point():
            raise DataError(f"embeddings must be a float (n, d) array, got {_describe(self.embeddings)}")
        n = len(self.embeddings)
        for name in ("nodes", "split", "features", "instances", "paths"):
            column = getattr(self, name)
            if column is not None and len(column) != n:
                raise DataError(
                    f"the table has {n} embeddings but {len(column)} {name}; they must be as many"
                )
        if not bool(torch.isfinite(self.embeddings).all()):
            row = int((~torch.isfinite(self.embeddings)).any(1).nonzero()[0])
            raise DataError(f"embedding row {row} holds NaN or infinity; leave such rows out")

    def __len__(self) -> int:
        return len(self.embeddings)

    @property
    def space(self) -> Geometry:
        """The geometry object that the embeddings live in."""
        return get_geometry(self.geometry, self.curvature)

    def rows(self, index: Tensor) -> EmbeddingTable:
        """The table of the rows in ``index``: ``(m,)`` int64 positions or ``(n,)`` bool."""
        where = index.nonzero().squeeze(1) if index.dtype == torch.bool else index
        picked: dict[str, Any] = {}
        for name in ("embeddings", "nodes", "features", "instances"):
            column = getattr(self, name)
            picked[name] = None if column is None else column[where]
        for name in ("split", "paths"):
            array = getattr(self, name)
            picked[name] = None if array is None else array[where.numpy()]
        return replace(self, **picked)

    def select(self, split: str) -> EmbeddingTable:
        """The rows of one split; an error where there are none."""
        if self.split is None:
            raise DataError("this embeddings table has no splits")
        mask = torch.from_numpy(np.asarray(self.split == split))
        if not bool(mask.any()):
            known = sorted(set(self.split.tolist()))
            raise DataError(f"the embeddings table has no rows of split '{split}'; it has {known}")
        return self.rows(mask)

    def save(self, path: str | Path) -> None:
        """Write the table as ``.npz`` or ``.parquet``, by suffix, atomically."""
        path = Path(path)
        columns: dict[str, Any] = {"embeddings": self.embeddings.numpy(), "nodes": self.nodes.numpy()}
        for name in ("split", "features", "instances", "paths"):
            column = getattr(self, name)
            if column is not None:
                columns[name] = (
                    column.numpy() if isinstance(column, Tensor) else np.asarray(column, dtype=str)
                )
        with atomic_write(path) as temporary:
            if path.suffix == ".npz":
                np.savez(temporary, geometry=self.geometry, curvature=self.curvature, **columns)
            elif path.suffix == ".parquet":
                self._save_parquet(temporary, columns)
            else:
                raise DataError(f"cannot write embeddings to '{path}': use .npz or .parquet")

    def _save_parquet(self, path: Path, columns: dict[str, Any]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        arrays = {}
        for name, column in columns.items():
            if column.ndim == 2:
                arrays[name] = pa.FixedSizeListArray.from_arrays(pa.array(column.ravel()), column.shape[1])
            else:
                arrays[name] = pa.array(column)
        table = pa.table(arrays)
        note = {"geometry": self.geometry, "curvature": repr(self.curvature)}
        pq.write_table(table.replace_schema_metadata(note), path)

    @classmethod
    def load(cls, path: str | Path, taxonomy: Taxonomy | None = None) -> EmbeddingTable:
        """Read a table that labeltree, or anybody else, wrote.

        Needed are ``embeddings`` (n, d) and either ``nodes`` (int64 node ids of the taxonomy) or ``labels``
        (names or ``a/b/c`` paths, empty = missing; needs ``taxonomy``). Optional: ``split``, ``features``,
        ``instances``, ``paths``, ``geometry``, ``curvature``. The singular of each name is accepted too.

        Args:
            path: an ``.npz`` file, or a ``.parquet`` file whose embedding columns are lists of numbers.
            taxonomy: turns ``labels`` into nodes, and is what nodes are checked against.

        Raises:
            DataError: if the file is missing, unreadable or lacks a column.
            TaxonomyError: if a label is not in the taxonomy.
        """
        path = Path(path)
        if not path.is_file():
            raise DataError(f"no embeddings at '{path}'")
        raw = _read(path)
        for plural in ("embeddings", "nodes", "labels", "splits", "features", "instances", "paths"):
            singular = plural.removesuffix("s")
            name = "split" if plural == "splits" else plural
            if name not in raw:
                alias = next((a for a in (singular, plural) if a in raw), None)
                if alias is not None:
                    raw[name] = raw[alias]
        if "embeddings" not in raw:
            raise DataError(f"'{path}' has no column 'embeddings'; it has {sorted(raw)}")
        nodes = _nodes(path, raw, taxonomy)
        text = {k: np.asarray(raw[k], dtype=str) for k in ("split", "paths") if k in raw}
        return cls(
            embeddings=_floats(path, "embeddings", raw["embeddings"]),
            nodes=nodes,
            split=text.get("split"),
            features=_floats(path, "features", raw["features"]) if "features" in raw else None,
            instances=_integers(path, "instances", raw["instances"]) if "instances" in raw else None,
            paths=text.get("paths"),
            geometry=str(raw.get("geometry", "sphere")),
            curvature=float(raw.get("curvature", -1.0)),
        )


def _nodes(path: Path, raw: dict[str, Any], taxonomy: Taxonomy | None) -> Tensor:
    if "nodes" in raw:
        nodes = _integers(path, "nodes", raw["nodes"])
        if taxonomy is not None and len(nodes) and (nodes.min() < -1 or nodes.max() >= taxonomy.num_nodes):
            bad = int(nodes[(nodes < -1) | (nodes >= taxonomy.num_nodes)][0])
            raise DataError(
                f"'{path}' has node {bad}, but the taxonomy's nodes are 0 to {taxonomy.num_nodes - 1}"
            )
        return nodes
    if "labels" not in raw:
        raise DataError(f"'{path}' has neither a column 'labels' nor 'nodes'; it has {sorted(raw)}")
    if taxonomy is None:
        raise DataError(f"'{path}' gives labels by name: a taxonomy is needed to read it")
    labels = np.asarray(raw["labels"])
    return taxonomy.encode([None if v is None or v != v or str(v) == "" else str(v) for v in labels.tolist()])


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return {name: archive[name][()] for name in archive.files}
        if path.suffix == ".parquet":
            return _read_parquet(path)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"cannot read embeddings from '{path}': {error}") from error
    raise DataError(f"cannot read embeddings from '{path}': use .npz or .parquet")


def _read_parquet(path: Path) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path).combine_chunks()
    raw: dict[str, Any] = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
    raw = {k: raw[k] for k in ("geometry", "curvature") if k in raw}
    for name in table.column_names:
        column = table.column(name)
        if pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type):
            flat = column.chunk(0).flatten() if column.num_chunks else pa.array([], column.type.value_type)
            values = flat.to_numpy(zero_copy_only=False)
            if len(column) and len(values) % len(column):
                raise ValueError(f"the rows of column '{name}' differ in length")
            raw[name] = values.reshape(len(column), -1)
        else:
            raw[name] = np.asarray(column.to_pylist(), dtype=object if column.null_count else None)
    return raw


def _floats(path: Path, name: str, array: Any) -> Tensor:
    array = np.asarray(array)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise DataError(
            f"'{name}' in '{path}' must be a numeric (n, d) array, got {array.dtype} {array.shape}"
        )
    return torch.from_numpy(np.array(array, dtype=np.float32, order="C"))


def _integers(path: Path, name: str, array: Any) -> Tensor:
    array = np.asarray(array)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(f"'{name}' in '{path}' must be integers, one a row, got {array.dtype} {array.shape}")
    return torch.from_numpy(array.astype(np.int64))


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"

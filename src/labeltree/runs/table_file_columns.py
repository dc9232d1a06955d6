"""Read and check the columns of an embeddings file: arrays in, tensors out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.errors import DataError
from labeltree.runs.unknown_labels import nodes_of_labels
from labeltree.safe_files import Reader, read_arrays, read_parquet, stack_lists
from labeltree.taxonomy import AnyTaxonomy
from labeltree.taxonomy.column_names import numbered_columns
from labeltree.text_files import split_packed
from labeltree.text_tables import TextTable, cast_numbers

_DIGESTS = ("encoder_digest", "taxonomy_digest")
_HDF5 = (
    "; of HDF5 opened by h5py as f: np.savez('table.npz', embeddings=f['vectors'][:], "
    "labels=f['labels'].asstr()[:])"
)
_TENSORS = (
    "; of tensors, t = torch.load(FILE, weights_only=True): np.savez('table.npz', "
    "embeddings=t['vectors'].numpy(), labels=t['labels'])"
)
_CONVERSIONS = {
    ".npy": "; of a pair: np.savez('table.npz', embeddings=np.load('X.npy'), labels=np.load('y.npy'))",
    ".h5": _HDF5,
    ".hdf5": _HDF5,
    ".pt": _TENSORS,
    ".pth": _TENSORS,
}
_TEXTS = (".csv", ".tsv")
_NUMBERS = ("nodes", "node", "predictions", "prediction", "instances", "instance")  # of texts
_TABLE = Reader("an embeddings table", "write it again as .npz or .parquet")

__all__ = [
    "as_floats",
    "as_integers",
    "as_texts",
    "group_names",
    "number_groups",
    "read_answers",
    "read_columns",
    "read_groups",
    "read_nodes",
]


def read_nodes(path: Path, raw: dict[str, Any], taxonomy: AnyTaxonomy | None) -> Tensor:
    """Read the labels of a file from its column of nodes or of names; see `EmbeddingTable.load`."""
    if "nodes" in raw:
        return _check_nodes(path, as_integers(path, "nodes", raw["nodes"]), taxonomy)
    if taxonomy is None:
        raise DataError(f"'{path}' gives labels by name: a taxonomy is needed to read it")
    return nodes_of_labels(path, "labels", as_texts(path, "labels", raw["labels"]), taxonomy)


def read_answers(path: Path, raw: dict[str, Any], taxonomy: AnyTaxonomy | None) -> Tensor | None:
    """Read the model's predictions, as nodes or as names; None if the file has none."""
    if "predictions" not in raw:
        return None
    answers = np.asarray(raw["predictions"])
    if answers.dtype.kind in "UO" and taxonomy is not None:
        return nodes_of_labels(path, "predictions", as_texts(path, "predictions", answers), taxonomy)
    return _check_nodes(path, as_integers(path, "predictions", answers), taxonomy)


def read_groups(path: Path, column: Any) -> Tensor:
    """Read groups of samples: whole numbers are kept, names are numbered, missing values become −1."""
    groups = _whole(column)
    if groups.dtype.kind not in "UO":
        return as_integers(path, "groups", groups)
    names = as_texts(path, "groups", groups)
    numbers = np.unique(names[names != ""], return_inverse=True)[1]
    result = np.full(len(names), -1, dtype=np.int64)
    result[names != ""] = numbers
    return torch.from_numpy(result)


def group_names(path: Path, column: Any) -> np.ndarray[Any, Any] | None:
    """Names of the groups, empty for samples without a group; None if the column holds numbers."""
    groups = _whole(column)
    return None if column is None or groups.dtype.kind not in "UO" else as_texts(path, "groups", groups)


def number_groups(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Renumber groups from 0 without gaps; every −1 becomes a group of its own.

    Example:
        >>> number_groups(np.array([7, -1, 7, -1, 3])).tolist()
        [1, 2, 1, 3, 0]
    """
    alone = groups < 0
    _, numbers = np.unique(groups[~alone], return_inverse=True)
    result = np.empty(len(groups), dtype=np.int64)
    result[~alone] = numbers
    result[alone] = np.arange(alone.sum()) + (numbers.max() + 1 if len(numbers) else 0)
    return result


def _whole(column: Any) -> np.ndarray[Any, Any]:
    """The column; floats that are whole or missing, as pandas has them, as integers, −1 where missing."""
    values = np.asarray(column)
    if values.ndim != 1 or values.dtype.kind not in "fO":
        return values
    if not all(value is None or isinstance(value, float) for value in values.tolist()):
        return values
    numbers = values.astype(float)
    numbers[np.isnan(numbers)] = -1
    return numbers.astype(np.int64) if bool((numbers == np.floor(numbers)).all()) else values


def _check_nodes(path: Path, nodes: Tensor, taxonomy: AnyTaxonomy | None) -> Tensor:
    if taxonomy is not None and len(nodes) and (nodes.min() < -1 or nodes.max() >= taxonomy.num_nodes):
        bad = int(nodes[(nodes < -1) | (nodes >= taxonomy.num_nodes)][0])
        raise DataError(
            f"'{path}' has node {bad}, but the taxonomy's nodes are 0 to {taxonomy.num_nodes - 1}: its "
            "numbers are those of another taxonomy. Write it again with 'labeltree embed', which notes that "
            "one, or give labels by name, in a column 'labels'"
        )
    return nodes


def read_columns(path: Path) -> dict[str, Any]:
    """Read all columns of an `.npz`, `.parquet` or `.csv` file as arrays by name.

    Of text, columns whose names differ in a number are numbers, where all cells are; NaN where one is empty.
    """
    if path.suffix == ".npz":
        return {name: array[()] for name, array in read_arrays(path, _TABLE).items()}
    if path.suffix == ".parquet":
        return _read_parquet(path)
    if split_packed(path)[0].lower() in _TEXTS:
        return _read_text(path)
    advice = _CONVERSIONS.get(
        path.suffix.lower(), ", such as np.savez('table.npz', embeddings=vectors, labels=labels)"
    )
    raise DataError(f"'{path}' cannot be read as an embeddings table: use .npz, .parquet or .csv{advice}")


def _read_parquet(path: Path) -> dict[str, Any]:
    import pyarrow as pa

    table = read_parquet(path, _TABLE)
    if "embeddings" in table.column_names and table.column("embeddings").null_count:
        table = table.filter(table.column("embeddings").is_valid())  # samples that could not be read
    metadata = table.schema.metadata or {}
    raw: dict[str, Any] = {
        k.decode("utf-8", "replace"): v.decode("utf-8", "replace") for k, v in metadata.items()
    }
    raw = {k: raw[k] for k in ("geometry", "curvature", "aspect_taxonomies", *_DIGESTS) if k in raw}
    for name in table.column_names:
        column = table.column(name)
        if pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type):
            try:
                raw[name] = stack_lists(column)
            except ValueError as error:
                why = f"the rows of column '{name}' differ in length ({error})"
                raise _TABLE.failure(path, why) from error
        else:
            raw[name] = np.asarray(column.to_pylist(), dtype=object if column.null_count else None)
    return raw


def _read_text(path: Path) -> dict[str, Any]:
    try:
        table = TextTable.at(path).read()
    except (OSError, ValueError) as error:
        raise DataError(f"'{path}' cannot be read as an embeddings table: {error}") from error
    families = numbered_columns(table.column_names).values()
    measured = {*_NUMBERS, *(name for names in families for name in names)}
    columns: dict[str, Any] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        numbers = cast_numbers(column) if name in measured else None
        if numbers is None:
            columns[name] = np.asarray(column.to_pylist(), dtype=object)
        else:
            whole = name in _NUMBERS and bool((numbers == np.floor(numbers)).all())
            columns[name] = numbers.astype(np.int64) if whole else numbers
    return columns


def as_texts(path: Path, name: str, array: Any) -> np.ndarray[Any, Any]:
    """Convert a column to texts `(n,)` str without blanks around; missing values become empty texts."""
    array = np.asarray(array)
    if array.dtype.kind == "S":
        try:
            array = np.char.decode(array, "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"'{name}' in '{path}' is not UTF-8 ({error}); write it as text") from error
    texts = (
        ["" if value is None or value != value else value for value in array.tolist()] if array.ndim else []
    )
    if array.ndim != 1 or not all(isinstance(text, str | int | float) for text in texts):
        raise DataError(f"'{name}' in '{path}' must be text, one a row, got {array.dtype} {array.shape}")
    return np.array([str(text).strip() for text in texts], dtype=str)


def as_floats(path: Path, name: str, array: Any) -> Tensor:
    """Convert a column of vectors to `(n, d)` float32."""
    array = np.asarray(array)
    if array.ndim != 2 or array.dtype.kind not in "fiu" or not array.shape[1]:
        raise DataError(
            f"'{name}' in '{path}' must be a numeric (n, d) array, got {array.dtype} {array.shape}"
        )
    return torch.from_numpy(np.require(array, np.float32, ["C", "W"]))  # a copy only where one is needed


def as_integers(path: Path, name: str, array: Any, *, columns: bool = False) -> Tensor:
    """Convert a column of integers to `(n,)` int64, or with `columns` to `(n, A)`."""
    array = np.asarray(array)
    if array.ndim != (2 if columns else 1) or array.dtype.kind not in "iu":
        shape = "(n, A)" if columns else "one a row"
        raise DataError(f"'{name}' in '{path}' must be integers, {shape}, got {array.dtype} {array.shape}")
    return torch.from_numpy(array.astype(np.int64))

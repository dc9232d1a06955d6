"""Vectors as other programs save them: HDF5, PyTorch tensors, folders of clip-retrieval, lists of labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from labeltree.data.table_columns import DataTable
from labeltree.errors import DataError
from labeltree.safe_files import Reader, read_array, read_parquet, read_torch
from labeltree.text_files import decode_text, read_unpacked

__all__ = ["is_clip_folder", "read_clip_folder", "read_hdf5", "read_label_list", "read_tensor_file"]

Array = np.ndarray[Any, Any]
HOW_TO_WRITE = "write np.savez('features.npz', vectors=array, label=labels)"
_HDF5 = Reader("HDF5", HOW_TO_WRITE)
_TENSORS = Reader("tensors of PyTorch", f"save a tensor or a dict of tensors, or {HOW_TO_WRITE}")
_LIST = Reader("a list of labels", "write a label a line, or an array of texts")
_PARTS = Reader("a folder of clip-retrieval", "make it again, or write one .npz file")
_LARGEST = 1 << 30  # bytes of an array that are always read
_RATIO = 30  # allowed ratio of its bytes to those of the file beyond that
_DEEPEST = 8  # groups within groups


def read_hdf5(path: Path) -> dict[str, Array]:
    """The data sets of an HDF5 file by name, `group/name` within groups; nothing outside the file is read.

    Raises:
        DataError: If it is damaged, or a data set is excessive or lies in another file.
        ImportError: If h5py is not installed.
    """
    try:
        import h5py  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError as error:
        raise ImportError(
            f"'{path}' is HDF5, which needs the package h5py: pip install 'labeltree[formats]'"
        ) from error
    largest = max(_LARGEST, _RATIO * path.stat().st_size)
    arrays: dict[str, Array] = {}
    with _HDF5.reading(path, "it is damaged, or no HDF5"), h5py.File(path, "r") as file:
        for name, data in _datasets(h5py, file, "", 0):
            if data.external or data.is_virtual:
                raise DataError(f"'{path}': '{name}' lies in another file; {HOW_TO_WRITE}")
            if data.shape is None or data.dtype.kind not in "fiubSOU":
                continue
            if data.nbytes > largest:
                raise DataError(f"'{path}': '{name}' has {data.nbytes:,} bytes, more than such a file holds")
            if data.dtype.kind != "O":
                arrays[name] = np.asarray(data[()])
            elif h5py.check_string_dtype(data.dtype) is not None:
                arrays[name] = np.asarray(data.asstr()[()], dtype=str)
    return arrays


def _datasets(h5py: Any, group: Any, prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > _DEEPEST:
        return
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):  # links may lead to other files
            continue
        one = group[name]
        if isinstance(one, h5py.Dataset):
            yield prefix + name, one
        elif isinstance(one, h5py.Group):
            yield from _datasets(h5py, one, f"{prefix}{name}/", depth + 1)


def read_tensor_file(path: Path) -> dict[str, Array]:
    """The tensors of a `.pt` file by name, and lists of texts; no code in it is run.

    A single tensor is `vectors`, and of a pair the second is `label`.

    Raises:
        DataError: If it is damaged, or holds something else.
    """
    content: Any = read_torch(path, _TENSORS)
    if isinstance(content, list | tuple) and len(content) == 2 and hasattr(content[0], "ndim"):
        content = {"vectors": content[0], "label": content[1]}
    if not isinstance(content, Mapping):
        content = {"vectors": content}
    arrays = {str(name): array for name, value in content.items() if (array := _array_of(value)) is not None}
    if not any(array.ndim > 1 for array in arrays.values()):
        raise DataError(f"'{path}' holds no tensor (n, d) of vectors; {HOW_TO_WRITE}")
    return arrays


def _array_of(value: Any) -> Array | None:
    if hasattr(value, "detach"):
        tensor = value.detach().cpu()
        return np.asarray((tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy())
    if isinstance(value, list | tuple) and value and all(isinstance(one, str | int) for one in value):
        return np.array([str(one) for one in value])
    return None


def is_clip_folder(path: Path) -> bool:
    """Whether a folder has vectors and their rows as clip-retrieval writes them."""
    return (path / "img_emb").is_dir() or (path / "text_emb").is_dir()


def read_clip_folder(path: Path) -> tuple[DataTable, dict[str, Array]]:
    """The rows (`metadata/*.parquet`) and the vectors (`img_emb/*.npy`, `text_emb/*.npy`) of such a folder.

    Raises:
        DataError: If there are not as many rows as vectors.
    """
    import pyarrow as pa

    arrays = {}
    for name in ("img_emb", "text_emb"):
        files = sorted((path / name).glob("*.npy"), key=_number)
        if files:
            parts = [read_array(file, _PARTS, mapped=True) for file in files]
            arrays[name] = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if not arrays:
        raise DataError(f"'{path}' has no vectors, img_emb/*.npy; {HOW_TO_WRITE}")
    rows = len(next(iter(arrays.values())))
    files = sorted((path / "metadata").glob("*.parquet"), key=_number)
    tables = [read_parquet(file, _PARTS) for file in files]
    table = (
        pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({"": np.arange(rows)})
    )
    for name, array in arrays.items():
        if len(array) != len(table):
            raise DataError(
                f"'{path}' has {len(array):,} vectors in '{name}', but {len(table):,} rows in 'metadata'; "
                "there must be as many, in one order"
            )
    return DataTable(path, table), arrays


def _number(file: Path) -> tuple[int, str]:
    digits = file.stem.rpartition("_")[2]
    return int(digits) if digits.isdecimal() else -1, file.name


def read_label_list(path: Path) -> DataTable:
    """The labels of an `.npy` file, or of a text file with one a line, as a table with the column `label`.

    Raises:
        DataError: If it cannot be read, or holds no labels.
    """
    import pyarrow as pa

    if path.suffix.lower() == ".npy":
        array = read_array(path, _LIST)
        if array.ndim != 1 or array.dtype.kind not in "SUiub":
            raise DataError(f"'{path}' holds no labels, but {array.dtype} {array.shape}; write one a vector")
        texts = np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
        return DataTable(path, pa.table({"label": pa.array([str(text) for text in texts.tolist()])}))
    try:
        lines = decode_text(read_unpacked(path)).text.splitlines()
    except (OSError, ValueError) as error:
        raise _LIST.failure(path, str(error)) from error
    return DataTable(path, pa.table({"label": pa.array([line.strip() for line in lines])}))

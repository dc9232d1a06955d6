"""Files of vectors (`.npz`, `.npy`, `.h5`, `.pt`, `.h5ad`) as tables: columns, and arrays beside them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.data.table_columns import DataTable
from labeltree.data.vectors.vectors_of_others import (
    is_clip_folder,
    read_clip_folder,
    read_hdf5,
    read_tensor_file,
)
from labeltree.errors import DataError
from labeltree.safe_files import Reader, read_array, read_arrays
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.naming import some

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["VectorTable", "read_vector_file"]

Array = np.ndarray[Any, Any]
_TARGETS = ("y", "targets", "target")  # labels where none are called so
_SINGULAR = {"labels": "label", "groups": "group", "splits": "split", "ids": "id", "classes": "class"}
_LAYOUTS = ("X_umap", "X_tsne", "X_draw_graph_fa")  # made to be looked at
_PURPOSES = {*_SINGULAR, *_SINGULAR.values()}
_SPARSE = {"indices", "indptr", "shape", "data", "format"}
_ARRAYS = Reader(
    "a file of vectors", "write it again, as np.savez('features.npz', vectors=array, label=labels)"
)


class VectorTable(DataTable):
    """A table that has arrays of vectors beside its columns.

    Args:
        path: Path of the file.
        table: The other columns; their rows are those of the arrays.
        arrays: By name, a function that reads the array `(n, d)`.
        spare: Names of arrays that are read only if they are named, or there is no other.
    """

    def __init__(
        self,
        path: Path,
        table: pa.Table,
        arrays: Mapping[str, Callable[[], Array]],
        spare: Collection[str] = (),
    ) -> None:
        super().__init__(path, table)
        self.arrays = dict(arrays)
        self.spare = spare
        self.columns = [name for name in self.columns if name]  # without what only counts rows
        self.columns += [name for name in arrays if name not in self.columns]

    @property
    def label_hint(self) -> str:
        """What else gives labels."""
        return "; or name a table that has them, with a column of the same ids, as --table.label_file"

    def __str__(self) -> str:
        return f"'{self.path}'"

    def array(self, name: str) -> Array:
        """The array of this name."""
        return self.arrays[name]()

    def replace_columns(self, table: pa.Table) -> VectorTable:
        """The same arrays beside other columns."""
        return VectorTable(self.path, table, self.arrays, self.spare)

    def cells(self, column: str) -> Any:
        """The cells of a column.

        Raises:
            DataError: If it is an array of vectors.
        """
        if column in self.arrays:
            raise DataError(f"{self}: '{column}' holds vectors, not one text or number a row")
        return super().cells(column)

    def holds_lists(self, column: str) -> bool:
        """Whether the cells of a column are lists."""
        return column not in self.arrays and super().holds_lists(column)


def read_vector_file(path: Path) -> VectorTable:
    """Read a file of vectors; its arrays are mapped, or read when they are asked for.

    Of an `.npz` file, arrays `(n, d)` of numbers are vectors, and arrays `(n,)` columns; names in the
    plural, as `labels`, are those of columns, `label`. `nodes`, as `labeltree embed` writes them, are
    read as labels with the `NAME.taxonomy.json` beside. Of AnnData (`.h5ad`), the arrays are those in
    `.obsm`, and `X`; the columns are those of `.obs`, and its index is `id`.

    Of HDF5, the data sets are the arrays, and of `.pt` files the tensors; see `read_hdf5` and
    `read_tensor_file`. A folder of clip-retrieval is read by `read_clip_folder`.

    Raises:
        DataError: If the file is missing, damaged, sparse or holds objects, which could run code.
        ImportError: For `.h5ad`, if anndata is not installed, and for HDF5, if h5py is not.
    """
    kind = path.suffix.lower()
    if is_clip_folder(path):
        table, arrays = read_clip_folder(path)
        return VectorTable(
            path, table.arrow, {name: partial(_itself, array) for name, array in arrays.items()}
        )
    if not path.is_file():
        raise DataError(f"there is no file of vectors '{path}'")
    if kind == ".npy":
        array = read_array(path, _ARRAYS, mapped=True)
        return _table_of(path, {"vectors": array})
    if kind == ".npz":
        return _table_of(path, read_arrays(path, _ARRAYS, mapped=True))
    if kind in (".h5", ".hdf5"):
        return _table_of(path, read_hdf5(path))
    if kind in (".pt", ".pth"):
        return _table_of(path, read_tensor_file(path))
    return _read_anndata(path)


def _table_of(path: Path, arrays: Mapping[str, Array]) -> VectorTable:
    import pyarrow as pa

    if set(arrays) >= _SPARSE - {"data"}:
        shape = " × ".join(f"{size:,}" for size in arrays["shape"].tolist())
        raise DataError(
            f"'{path}' holds a sparse matrix ({shape}); vectors are dense: write "
            "np.savez(FILE, vectors=matrix.toarray()), or reduce it first, such as with sklearn's "
            "TruncatedSVD"
        )
    vectors = {name: array for name, array in arrays.items() if array.ndim > 1 and array.dtype.kind in "fiub"}
    rest = {name: array for name, array in arrays.items() if name not in vectors and array.ndim}
    if not vectors:
        shown = ", ".join(f"'{name}' {array.dtype} {array.shape}" for name, array in arrays.items())
        raise DataError(
            f"'{path}' holds no vectors, only {shown or 'nothing'}; write an array (n, d) of numbers, a row "
            "for each sample, as np.savez('features.npz', vectors=array, label=labels)"
        )
    size = max(map(len, vectors.values()))
    columns: dict[str, Any] = {}
    for name, array in rest.items():
        if len(array) != size and len(array) < size / 2 and name not in _PURPOSES:
            continue  # such as the names of the classes
        if len(array) != size:
            vector = next(one for one, values in vectors.items() if len(values) == size)
            turned = vectors[vector].shape[1:] == (len(array),)
            say = f"write {vector}.T: a row is a sample" if turned else "there must be as many, in one order"
            raise DataError(
                f"'{path}' has {len(array):,} values in '{name}' but {size:,} rows in '{vector}'; {say}"
            )
        if name in _TARGETS and not {"label", "labels", "nodes"} & set(arrays):
            name = "label"
        name = name if _SINGULAR.get(name, name) in arrays else _SINGULAR.get(name, name)
        texts = np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
        columns[name] = pa.array(list(texts) if array.ndim == 2 else np.asarray(texts))
    nodes = arrays.get("nodes")
    if nodes is not None and "label" not in columns and path.with_suffix(".taxonomy.json").is_file():
        taxonomy = Taxonomy.from_file(path.with_suffix(".taxonomy.json"))
        paths = [taxonomy.path_name(node) for node in range(taxonomy.num_nodes)]
        columns["label"] = pa.array([paths[node] if node > 0 else None for node in nodes.tolist()])
    if not columns:  # a table of Arrow without columns has no rows
        columns[""] = pa.array(np.arange(size))
    return VectorTable(
        path,
        pa.table(columns),
        {name: partial(_itself, array) for name, array in vectors.items() if len(array) == size},
    )


def _itself(array: Array) -> Array:
    return array


def _read_anndata(path: Path) -> VectorTable:
    import pyarrow as pa

    try:
        import anndata  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError as error:
        raise ImportError(
            f"'{path}' is AnnData, which needs the package anndata: pip install 'labeltree[anndata]'"
        ) from error
    try:
        data = anndata.read_h5ad(path, backed="r")
    except Exception as error:  # anndata's and HDF5's errors have no common class
        reason = str(error).strip().partition("\n")[0][:200]
        raise DataError(
            f"'{path}' cannot be read as AnnData: {reason}; write it again with write_h5ad"
        ) from error
    frame = data.obs.copy()
    frame.insert(0, "id", data.obs_names.astype(str), allow_duplicates="id" in frame.columns)
    frame = frame.loc[:, ~frame.columns.duplicated()]
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except pa.ArrowException as error:
        raise DataError(
            f"'{path}': a column of .obs mixes texts and others ({error}); make it .astype(str)"
        ) from error
    arrays = {str(name): partial(_dense, path, data.obsm, name) for name in data.obsm}
    if data.X is not None:
        arrays["X"] = partial(_dense, path, {"X": data.X}, "X")
    return VectorTable(path, table, arrays, spare=("X", *_LAYOUTS))


def _dense(path: Path, arrays: Any, name: str) -> Array:
    values = arrays[name]
    if hasattr(values, "to_numpy"):  # a frame in .obsm
        others = [str(column) for column, dtype in values.dtypes.items() if dtype.kind not in "fiub"]
        if others:
            raise DataError(
                f"'{path}': '{name}' of .obsm is a frame with columns that hold no numbers, {some(others)}; "
                "leave them out, or name another key, --table.vector_column X_pca"
            )
        values = values.to_numpy()
    if "sparse" in type(values).__module__ or type(values).__name__.startswith(
        ("_CSR", "_CSC", "CSR", "CSC")
    ):
        raise DataError(
            f"'{path}': '{name}' is sparse; vectors are dense: reduce it first, such as with scanpy.pp.pca, "
            "and name the key of .obsm, --table.vector_column X_pca"
        )
    return np.asarray(values[...] if hasattr(values, "shape") else values)

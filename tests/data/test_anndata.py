"""Files of AnnData: layouts that its versions write, and what labeltree reads from them."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from labeltree.data import open_source
from labeltree.errors import DataError

anndata = pytest.importorskip("anndata")
h5py = pytest.importorskip("h5py")

VECTORS = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
NAMES = ["T cell", "B cell", "T cell", "monocyte"] * 2
TERMS = ["CL:0000084", "CL:0000236", "CL:0000804", "CL:0000576"] * 2
OBS = {
    "cell_type": pd.Categorical(NAMES),
    "cell_type_ontology_term_id": pd.Categorical(TERMS),
    "some": pd.Categorical(["T cell", None, "B cell", "B cell"] * 2),
    "text": np.array(NAMES, dtype=object),
    "nullable_text": pd.array(["T cell", None, "B cell", "B cell"] * 2, dtype="string[python]"),
    "stage": pd.array([1, None, 3, 4] * 2, dtype="Int64"),
    "flag": pd.array([True, None, False, True] * 2, dtype="boolean"),
    "donor_id": np.arange(8) // 2,
}
OBSM = {
    "X_pca": VECTORS,
    "half": VECTORS.astype(np.float16),
    "sparse": sparse.csr_matrix(VECTORS),
    "frame": pd.DataFrame(VECTORS, columns=["a", "b", "c"]),
    "mixed": pd.DataFrame({"a": VECTORS[:, 0], "batch": pd.Categorical(["u", "v"] * 4)}),
}
CELLS = """format-version: 1.2

[Term]
id: CL:0000738
name: leukocyte

[Term]
id: CL:0000084
name: T cell
alt_id: CL:0000804
is_a: CL:0000738 ! leukocyte

[Term]
id: CL:0000236
name: B cell
is_a: CL:0000738 ! leukocyte

[Term]
id: CL:0000576
name: monocyte
is_a: CL:0000738 ! leukocyte
"""


class Layout:
    """Writes `.h5ad` as anndata does: 0.10 and 0.11 write the index as strings, 0.12 with a mask."""

    def __init__(self, index: str) -> None:
        self.index = index

    def write(self, path: Path, obsm: dict[str, Any]) -> Path:
        with h5py.File(path, "w") as file:
            _describe(file, "anndata", "0.1.0")
            self._put(file, "X", sparse.csr_matrix(VECTORS))
            self._put(file, "obs", pd.DataFrame(OBS))
            self._put(file, "var", pd.DataFrame(index=range(3)))
            for name in ("obsm", "layers", "obsp", "uns", "varm", "varp"):
                _describe(file.create_group(name), "dict", "0.1.0")
            for name, value in obsm.items():
                self._put(file["obsm"], name, value)
        return path

    def _put(self, group: Any, name: str, value: Any) -> None:
        if isinstance(value, np.ndarray):
            texts = value.dtype == object
            kind = h5py.string_dtype() if texts else value.dtype
            group.create_dataset(name, data=value, dtype=kind)
            _describe(group[name], "string-array" if texts else "array", "0.2.0")
            return
        inner = group.create_group(name)
        if isinstance(value, pd.DataFrame):
            _describe(inner, "dataframe", "0.2.0", _index="_index")
            inner.attrs["column-order"] = np.array(value.columns, dtype=h5py.string_dtype())
            names = np.array([f"s{row}" for row in range(len(value))], dtype=object)
            self._put(inner, "_index", names if self.index == "strings" else pd.array(names, dtype="string"))
            for column in value:
                plain = isinstance(value.dtypes[column], np.dtype)
                self._put(inner, column, value[column].to_numpy() if plain else value[column].array)
        elif isinstance(value, pd.Categorical):
            _describe(inner, "categorical", "0.2.0", ordered=value.ordered)
            self._put(inner, "codes", np.asarray(value.codes))
            self._put(inner, "categories", np.array(value.categories, dtype=object))
        elif isinstance(value, sparse.csr_matrix):
            _describe(inner, "csr_matrix", "0.1.0", shape=value.shape)
            for part in ("data", "indices", "indptr"):
                inner.create_dataset(part, data=getattr(value, part))
        elif value.dtype.kind in "ib":
            _describe(inner, "nullable-integer" if value.dtype.kind == "i" else "nullable-boolean", "0.1.0")
            self._put(inner, "values", value.to_numpy(value.dtype.numpy_dtype, na_value=1))
            self._put(inner, "mask", np.asarray(value.isna()))
        else:
            _describe(inner, "nullable-string-array", "0.1.0")
            self._put(
                inner, "values", np.array(["" if text is pd.NA else text for text in value], dtype=object)
            )
            self._put(inner, "mask", np.asarray(value.isna()))


def _describe(what: Any, kind: str, version: str, **attributes: Any) -> None:
    what.attrs.update({"encoding-type": kind, "encoding-version": version, **attributes})


@pytest.fixture(params=["strings", "mask"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Layout(request.param).write(tmp_path / "cells.h5ad", OBSM)


def read(file: Path, label: str, vectors: str = "X_pca", **settings: Any) -> Any:
    return open_source(file, label_columns=label, vector_column=vectors, **settings)


def values(source: Any) -> Any:
    return source.vectors.load(source.rows).numpy()


def test_layouts_are_those_of_anndata(tmp_path: Path) -> None:
    """Every part that anndata writes is described as here; it writes texts of `.obs` as categories."""
    frame = pd.DataFrame(OBS, index=[f"s{row}" for row in range(8)]).drop(columns=["text", "nullable_text"])
    obsm = {name: v.set_axis(frame.index) if hasattr(v, "set_axis") else v for name, v in OBSM.items()}
    cells = anndata.AnnData(X=sparse.csr_matrix(VECTORS), obs=frame, obsm=obsm)
    with anndata.settings.override(allow_write_nullable_strings=True):
        cells.write_h5ad(tmp_path / "theirs.h5ad")
    theirs = described(tmp_path / "theirs.h5ad")
    ours = [described(Layout(index).write(tmp_path / f"{index}.h5ad", OBSM)) for index in ("strings", "mask")]
    for part in sorted(theirs):
        assert theirs[part] in [layout.get(part) for layout in ours], part


def described(file: Path) -> dict[str, tuple[str, str]]:
    parts: dict[str, tuple[str, str]] = {}
    with h5py.File(file) as opened:
        opened.visititems(
            lambda name, part: parts.update(
                {name: (str(part.attrs.get("encoding-type")), str(part.attrs.get("encoding-version")))}
            )
        )
    return {name: kinds for name, kinds in parts.items() if not re.search("_index/|^var/", name)}


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("cell_type", NAMES),
        ("some", ["T cell", None, "B cell", "B cell"] * 2),
        ("text", NAMES),
        ("nullable_text", ["T cell", None, "B cell", "B cell"] * 2),
        ("stage", ["1", None, "3", "4"] * 2),
        ("flag", ["True", None, "False", "True"] * 2),
        ("donor_id", [str(row // 2) for row in range(8)]),
    ],
)
def test_every_kind_of_column_holds_labels(file: Path, column: str, expected: list[str | None]) -> None:
    source = read(file, column)
    assert source.taxonomy.decode(source.nodes) == expected
    assert source.sample_names() == [f"s{row}" for row in range(8)]
    np.testing.assert_array_equal(values(source), VECTORS)


def test_ids_of_the_cell_ontology_meet_its_file(file: Path, tmp_path: Path) -> None:
    (tmp_path / "cells.obo").write_text(CELLS, encoding="utf-8")
    by_name, by_id = (
        read(file, column, taxonomy=tmp_path / "cells.obo")
        for column in ("cell_type", "cell_type_ontology_term_id")
    )
    assert by_name.taxonomy == by_id.taxonomy
    assert by_id.taxonomy.decode(by_id.nodes) == by_name.taxonomy.decode(by_name.nodes) == NAMES


def test_arrays_of_vectors(file: Path) -> None:
    np.testing.assert_array_equal(values(read(file, "cell_type", "half")), VECTORS.astype(np.float16))
    np.testing.assert_array_equal(values(read(file, "cell_type", "frame")), VECTORS)
    for name, sentence in {
        "X": r"'X' is sparse; .*X_pca",
        "sparse": r"'sparse' is sparse; .*X_pca",
        "mixed": r"'mixed' of .obsm is a frame with columns that hold no numbers, 'batch'; leave them out",
        "X_scVI": r"has no column 'X_scVI'; it has id, cell_type, .*X_pca",
    }.items():
        with pytest.raises(DataError, match=sentence):
            values(read(file, "cell_type", name))
    with pytest.raises(DataError, match=r"several arrays of vectors: 'X_pca', .*--table.vector_column X_pca"):
        open_source(file, label_columns="cell_type")


def test_the_key_is_chosen_where_there_is_one(tmp_path: Path) -> None:
    obsm = {"X_scVI": VECTORS, "X_umap": VECTORS[:, :2]}
    source = open_source(Layout("mask").write(tmp_path / "f.h5ad", obsm), label_columns="cell_type")
    assert source.columns["vectors"] == ("X_scVI",)


def test_damaged_files(tmp_path: Path) -> None:
    (tmp_path / "f.h5ad").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(DataError, match=r"cannot be read as AnnData: .*write it again with write_h5ad"):
        open_source(tmp_path / "f.h5ad")

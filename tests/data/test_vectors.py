"""Vectors as samples: what files of them are read as, and what is said of those that cannot be."""

import pickle
import re
import sys
from types import ModuleType

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from scipy import sparse

from labeltree.data import make_splits, open_source, table_labels
from labeltree.data.copies import keep_copies_together
from labeltree.data.vectors.mapped_vectors import VectorStore
from labeltree.errors import DataError
from labeltree.safe_files import Reader, read_arrays
from labeltree.text_tables import parse_numbers

VECTORS = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
LABELS = np.array(["a/x", "a/y", "b/z", "b/w"] * 2)
IDS = np.array([f"s{row}" for row in range(8)])
FRAME = pd.DataFrame(VECTORS, columns=["f1", "f2", "f3"])


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write arrays to an ``.npz`` file."""
    monkeypatch.chdir(tmp_path)

    def npz(**arrays):
        np.savez(tmp_path / "f.npz", **{"vectors": VECTORS, "labels": LABELS, **arrays})
        return tmp_path / "f.npz"

    return npz


def loaded(source):
    return source.vectors.load(source.rows).numpy()


def test_every_format_gives_the_same(write, tmp_path):
    whole = FRAME.assign(id=IDS, label=LABELS)
    whole.to_csv(tmp_path / "f.csv", index=False)
    pq.write_table(pa.table({"id": IDS, "label": LABELS, "emb": list(VECTORS)}), tmp_path / "f.parquet")
    np.save(tmp_path / "g.npy", VECTORS)
    whole[["id", "label"]].to_csv(tmp_path / "g.csv", index=False)
    files = [write(ids=IDS), *(tmp_path / name for name in ("f.csv", "f.parquet", "g.npy"))]
    for source in map(open_source, files):
        assert source.modalities == ("vector",)
        assert source.taxonomy.decode(source.nodes) == LABELS.tolist()
        np.testing.assert_array_equal(loaded(source), VECTORS)
    first, second = (open_source(file) for file in files[:2])
    assert first.sample_names() == second.sample_names() == IDS.tolist()
    assert (first.sample_digests() == second.sample_digests()).all()
    assert table_labels(files[1])[0] == first.taxonomy


@pytest.mark.parametrize("kind", ["float16", "float64", "int8", "uint16", "bool"])
def test_numbers_of_every_kind(write, kind):
    source = open_source(write(vectors=(VECTORS * 9).astype(kind)))
    assert source.vectors.load(source.rows).dtype == torch.float32
    np.testing.assert_array_equal(loaded(source), (VECTORS * 9).astype(kind).astype(np.float32))


def test_columns_with_a_purpose(write):
    path = write(groups=np.arange(8) // 2, splits=np.array(["train", "val"] * 4), site=IDS)
    source = open_source(path, keep_columns=["site"])
    assert source.columns == {
        "vectors": ("vectors",),
        "groups": ("group",),
        "split": ("split",),
        "kept": ("site",),
        "labels": ("label",),
    }
    assert source.groups.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    several = open_source(write(labels=np.array([["a/x", "b/z"]] * 4 + [["a/y", ""]] * 4)))
    assert several.label_sets is not None
    inner = open_source(write(labels=np.array(["a", "a/x", "b/z", ""] * 2)))
    assert inner.taxonomy.decode(inner.nodes) == ["a", "a/x", "b/z", None] * 2


def test_what_embed_writes_has_labels(write, tmp_path):
    taxonomy = open_source(write()).taxonomy
    np.savez(tmp_path / "e.npz", embeddings=VECTORS, nodes=np.r_[taxonomy.encode(LABELS.tolist())[:7], -1])
    taxonomy.save(tmp_path / "e.taxonomy.json")
    source = open_source(tmp_path / "e.npz")
    assert source.taxonomy.decode(source.nodes) == [*LABELS[:7].tolist(), None]


def test_columns_of_numbers(tmp_path):
    FRAME.assign(label=LABELS, patient_id=range(8), age=3, note="spot").to_csv(tmp_path / "t.csv")
    source = open_source(tmp_path / "t.csv")
    assert source.columns["vectors"] == ("f1", "f2", "f3", "age")
    assert any("4 columns of numbers" in note for note in source.notes)
    for chosen in ("f*", ["f1", "f2", "f3"]):
        assert open_source(tmp_path / "t.csv", vector_column=chosen).vectors.width == 3


def test_numbered_columns_are_the_vectors_without_other_numbers(tmp_path):
    """A patient's number is no measurement: it would tell which samples are of one patient."""
    numbered = pd.DataFrame(np.arange(40.0).reshape(8, 5), columns=["f0", "f1", "f2", "f3", "f4"])
    table = numbered.assign(label=LABELS, patient=range(8), age=3)
    table.to_csv(tmp_path / "t.csv", index=False)
    source = open_source(tmp_path / "t.csv")
    assert source.columns["vectors"] == ("f0", "f1", "f2", "f3", "f4")
    assert any("columns that are not read: 'patient' and 'age'" in note for note in source.notes)
    assert open_source(tmp_path / "t.csv", vector_column=["f*", "age"]).vectors.width == 6
    many = table.assign(**dict.fromkeys(("sepal", "petal", "leaf", "stem"), 1.5))
    many.to_csv(tmp_path / "many.csv", index=False)
    assert open_source(tmp_path / "many.csv").vectors.width == 11  # the numbered are fewer than the others


def test_numbers_beside_other_samples_are_not_the_samples(tmp_path):
    measured = FRAME.assign(label=LABELS)
    for column in ([f"{row}.jpg" for row in IDS], ["a long remark " * 9] * 8):
        measured.assign(other=column).to_csv(tmp_path / "t.csv", index=False)
        with pytest.raises(DataError, match="name one as image_column or text_column, or numbers as vector_"):
            open_source(tmp_path / "t.csv")
        assert open_source(tmp_path / "t.csv", vector_column="f*").vectors.width == 3


def test_text_comes_before_vectors(tmp_path):
    pq.write_table(pa.table({"text": LABELS, "label": LABELS, "emb": list(VECTORS)}), tmp_path / "t.parquet")
    source = open_source(tmp_path / "t.parquet")
    assert source.modalities == ("text",)
    assert any("--table.vector_column emb" in note for note in source.notes)
    assert open_source(tmp_path / "t.parquet", vector_column="emb").modalities == ("vector",)


def test_labels_are_joined_by_id(write, tmp_path):
    path = write(ids=IDS, labels=np.array(["c/v"] * 8))
    other = pd.DataFrame({"sample": IDS, "label": LABELS}).sample(frac=1, random_state=0)
    for name in ("sample", "id"):
        other.set_axis([name, "label"], axis=1).to_csv(tmp_path / "l.csv", index=False)
        source = open_source(path, label_file=tmp_path / "l.csv")
        assert source.taxonomy.decode(source.nodes) == LABELS.tolist()
    other[other["sample"] != "s3"].to_csv(tmp_path / "l.csv", index=False)
    source = open_source(path, label_file=tmp_path / "l.csv")
    assert source.nodes[3] == -1
    assert any("1 of 8 vectors have no row in 'l.csv'" in note and "row 4" in note for note in source.notes)


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ({"id": IDS + ".jpg", "label": LABELS}, "no id of .* 's0', 's1' .* is one of .* 's0.jpg'"),
        (
            {"id": ["s0", *IDS[:7]], "label": LABELS},
            "line 2 and line 3 have the same id 's0' in 'id'; keep",
        ),
        ({"label": LABELS[:5]}, "has 8 vectors and the table .* 5 rows, and .* no column of ids"),
    ],
)
def test_labels_that_do_not_meet(write, tmp_path, table, error):
    pd.DataFrame(table).to_csv(tmp_path / "l.csv", index=False)
    with pytest.raises(DataError, match=error):
        open_source(write(ids=IDS), label_file=tmp_path / "l.csv")


def test_ids_that_occur_twice_name_nothing(write):
    source = open_source(write(ids=np.array(["p1", "p1", *IDS[2:]])))
    assert source.sample_names()[:2] == ["row 1", "row 2"]
    assert any("row 1 and row 2 have the same id 'p1'" in note for note in source.notes)


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["0,25", "-1,5", "3", "1,5E-05", "nan"], [0.25, -1.5, 3, 1.5e-5, np.nan]),
        (["1.299,00", "3,99"], [1299, 3.99]),
        (["1,299", "0,5"], [1.299, 0.5]),
        (["1,299", "12,000"], [None, None]),  # thousands, or decimals
        (["1.5", "0,5"], [1.5, None]),
        (["1.299", "3,99"], [1.299, None]),  # 1299, or 1.299
        (["owl", "0,5"], [None, 0.5]),
        (["0,5", "16,13,30"], [None, None]),  # lists
        ([], []),
    ],
)
def test_commas_are_decimal_where_nothing_else_is_possible(texts, numbers):
    assert parse_numbers(texts) == pytest.approx(numbers, nan_ok=True)


@pytest.mark.parametrize(("texts", "first"), [(["3,17", "5"], 3.17), (["1,6", "2,3"], 1.6)])
def test_two_classes_in_a_cell_are_no_number(texts, first):
    assert parse_numbers(texts)[0] == first
    assert parse_numbers(texts, may_be_lists=True)[0] is None
    assert parse_numbers([*texts, "0,5"], may_be_lists=True)[0] == first
    assert parse_numbers([*texts, "1,05"], may_be_lists=True)[0] == first


@pytest.mark.parametrize(("more", "read"), [("1,6", False), ("16,13,30", False), ("-1,5", True)])
def test_lists_of_classes_are_no_part_of_vectors(tmp_path, more, read):
    """Nor is a column of one decimal place left out, where another says that commas are decimal."""
    tags = ["3,2", "1,6", "5", more] * 2
    frame = pd.DataFrame({"a": range(8), "b": range(8), "tags": tags, "label": LABELS})
    frame.to_csv(tmp_path / "f.csv", sep=";", index=False)
    assert open_source(tmp_path / "f.csv").vectors.columns == (("a", "b", "tags") if read else ("a", "b"))
    frame.assign(c="0,25").to_csv(tmp_path / "g.csv", sep=";", index=False)
    columns = open_source(tmp_path / "g.csv").vectors.columns
    assert columns == (("a", "b", "c") if "30" in more else ("a", "b", "tags", "c"))


@pytest.mark.parametrize("separator", [";", "\t"])
def test_a_table_with_decimal_commas(tmp_path, separator):
    """Not the two columns of whole numbers beside them, which would be read without a word."""
    wide = np.random.default_rng(1).normal(size=(8, 16)).astype(np.float32)
    names = tuple(f"f{place}" for place in range(16))
    frame = pd.DataFrame(wide, columns=names).assign(label=LABELS, age=range(8), genes=range(100, 108))
    frame.loc[0, "f2"] = np.nan
    frame.to_csv(tmp_path / "f.csv", sep=separator, decimal=",", index=False, na_rep="NA")
    source = open_source(tmp_path / "f.csv", on_error="skip")
    assert source.vectors.columns == names
    np.testing.assert_array_equal(loaded(source), wide[1:])


def test_points_and_commas_in_one_column(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("label;f1;f2\na;0.5;1\nb;0,25;2\n", "utf-8")
    with pytest.raises(DataError, match="line 3: the column 'f1' has '0,25', no number; write all decimals"):
        open_source(path, vector_column=["f1", "f2"])


def test_numbers_that_are_not_finite(write, tmp_path, caplog):
    broken = VECTORS.copy()
    broken[2, 1], broken[5, 0] = np.nan, np.inf
    path = write(vectors=broken)
    with pytest.raises(DataError, match=r"2 of 8 rows .* row 3 has nan in column 2.*--on_error skip"):
        open_source(path)
    source = open_source(path, on_error="skip")
    assert len(source) == 6
    assert "They are skipped" in caplog.text
    np.testing.assert_array_equal(loaded(source), VECTORS[[0, 1, 3, 4, 6, 7]])
    with pytest.raises(DataError, match=r"row 1 has .*, too large for 32 bits in column 1"):
        open_source(write(vectors=VECTORS.astype(np.float64) * 1e300))
    FRAME.assign(label=LABELS, f2=["NA", *VECTORS[1:, 1]]).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match="line 2 has nan in 'f2'"):
        open_source(tmp_path / "t.csv")
    FRAME.assign(label=LABELS, f2=[*VECTORS[1:, 1], "oops"]).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match="line 9: the column 'f2' has 'oops', no number"):
        open_source(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("arrays", "error"),
    [
        ({"labels": LABELS.astype(object)}, "'labels' holds object"),
        ({"vectors": VECTORS.astype(object)}, "'vectors' holds object"),
        ({"vectors": VECTORS.astype(np.complex64)}, "'vectors' holds complex64"),
        ({"vectors": VECTORS[:, 0]}, r"holds no vectors, only 'vectors' float32 \(8,\).*\(n, d\)"),
        ({"vectors": VECTORS[:, None]}, "has the shape 8 × 1 × 3; .*reshape"),
        ({"vectors": VECTORS.T}, "8 values in 'labels' but 3 rows in 'vectors'; write vectors.T"),
        ({"labels": LABELS[:7]}, "7 values in 'labels' but 8 rows in 'vectors'"),
        ({"vectors": VECTORS[:0], "labels": LABELS[:0]}, "has no rows"),
        (
            {"v": VECTORS, "vectors": np.array(0), "w": VECTORS},
            "several arrays .*: 'v', 'w'; .*vector_column v",
        ),
    ],
)
def test_arrays_that_are_no_vectors(write, arrays, error):
    with pytest.raises(DataError, match=error):
        open_source(write(**arrays))


def test_files_that_are_no_vectors(tmp_path):
    sparse.save_npz(tmp_path / "s.npz", sparse.csr_matrix(VECTORS))
    uneven = pa.table({"label": LABELS, "emb": [*VECTORS[:7].tolist(), [1.0]]})
    pq.write_table(uneven, tmp_path / "u.parquet")
    np.save(tmp_path / "n.npy", VECTORS)
    (tmp_path / "e.npz").write_bytes(b"")
    for name, error in (
        ("s.npz", r"holds a sparse matrix \(8 × 3\).*toarray"),
        ("u.parquet", "column 'emb': row 8 has 1 values, and row 1 has 3"),
        ("n.npy", "no column for labels.*--table.label_file"),
        ("e.npz", "damaged, or no file of NumPy arrays"),
        ("missing.npz", "neither a folder, nor a table|there is no file of vectors"),
    ):
        with pytest.raises(DataError, match=error):
            open_source(tmp_path / name)


def test_equal_vectors_stay_together(write):
    twice = np.concatenate([VECTORS[:4], VECTORS[:4]])
    source = keep_copies_together(open_source(write(vectors=twice)))
    assert source.groups.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert any("equal vectors" in note for note in source.notes)
    split = make_splits(source, val=0.25, test=0.25).split
    assert (split[:4] == split[4:]).all()


def test_large_arrays_are_mapped_and_sent_as_a_place(write, tmp_path):
    """Neither opening nor a loader process copies the numbers, wherever they begin in the file."""
    path = write(ids=IDS)
    arrays = read_arrays(path, Reader("a file", "mend it"), mapped=True)
    assert isinstance(arrays["vectors"], np.memmap)
    store = open_source(path).vectors
    assert len(pickle.dumps(VectorStore(np.zeros((9999, 9)), "x"))) > 9999
    sent = pickle.loads(pickle.dumps(store))
    rows = torch.tensor([5, 0])
    assert torch.equal(sent.load(rows), store.load(rows))
    np.save(tmp_path / "f.npy", np.asfortranarray(np.tile(VECTORS, (999, 1))))
    np.savez_compressed(tmp_path / "c.npz", vectors=VECTORS, labels=LABELS)
    large = open_source(tmp_path / "f.npy", taxonomy=open_source(path).taxonomy, label_columns=[]).vectors
    assert len(pickle.dumps(large)) < 2000
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(large)).load(rows), VECTORS[[5, 0]])
    np.testing.assert_array_equal(loaded(open_source(tmp_path / "c.npz")), VECTORS)


class _AnnData(ModuleType):
    """What is asked of the package anndata, which the tests do without."""

    def read_h5ad(self, path, backed):
        self.obsm = {"X_pca": VECTORS, "X_umap": VECTORS[:, :2]}
        self.X = sparse.csr_matrix(VECTORS)
        self.obs_names = pd.Index(IDS)
        cell_types = pd.Categorical([label[-1] for label in LABELS])
        self.obs = pd.DataFrame({"cell_type": cell_types}, index=IDS)
        return self


def test_anndata(tmp_path, monkeypatch):
    (tmp_path / "cells.h5ad").write_bytes(b"")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "anndata", None)
        with pytest.raises(ImportError, match=re.escape("pip install 'labeltree[anndata]'")):
            open_source(tmp_path / "cells.h5ad")
    monkeypatch.setitem(sys.modules, "anndata", _AnnData("anndata"))
    source = open_source(tmp_path / "cells.h5ad", label_columns="cell_type")
    assert source.columns["vectors"] == ("X_pca",)
    assert source.sample_names() == IDS.tolist()
    assert source.taxonomy.decode(source.nodes) == [label[-1] for label in LABELS]
    with pytest.raises(DataError, match=r"'X' is sparse.*X_pca"):
        open_source(tmp_path / "cells.h5ad", label_columns="cell_type", vector_column="X")

"""Vectors as other programs save them: pairs of arrays, HDF5, tensors, folders of clip-retrieval."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from labeltree.data import open_source
from labeltree.errors import DataError
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

VECTORS = np.arange(18, dtype=np.float32).reshape(6, 3)
LABELS = ["bird/owl", "bird/duck", "fish"] * 2


def check(path, **settings):
    source = open_source(path, **settings)
    names = source.taxonomy
    assert [names.path_name(node) for node in source.nodes.tolist()] == LABELS
    assert np.array_equal(source.vectors.load(torch.arange(6)).numpy(), VECTORS)
    return source


@pytest.mark.parametrize(
    ("vectors", "labels"),
    [
        ("X.npy", "y.npy"),
        ("X_train.npy", "y_train.npy"),
        ("emb.npy", "labels.txt"),
        ("emb.npy", "emb_labels.npy"),
    ],
)
@pytest.mark.parametrize("kind", ["U", "S"])
def test_pairs_of_arrays(tmp_path, vectors, labels, kind):
    np.save(tmp_path / vectors, VECTORS)
    if labels.endswith(".txt"):
        (tmp_path / labels).write_text("\n".join(LABELS) + "\n")
    else:
        np.save(tmp_path / labels, np.array(LABELS, kind))
    source = check(tmp_path / vectors)
    assert any(f"the rows of '{labels}' are those of the vectors" in note for note in source.notes)
    check(tmp_path / vectors, label_file=tmp_path / labels)


def test_labels_that_are_none_or_too_few(tmp_path):
    np.save(tmp_path / "X.npy", VECTORS)
    np.save(tmp_path / "y.npy", np.ones((6, 2)))
    with pytest.raises(DataError, match=r"holds no labels, but float64 \(6, 2\)"):
        open_source(tmp_path / "X.npy")
    np.save(tmp_path / "y.npy", np.array(LABELS[:4]))
    with pytest.raises(DataError, match=r"6 vectors and the table '.*y.npy' 4 rows"):
        open_source(tmp_path / "X.npy")
    np.save(tmp_path / "y.npy", np.array(LABELS, object), allow_pickle=True)
    with pytest.raises(DataError, match="cannot be read as a list of labels"):
        open_source(tmp_path / "X.npy")


def test_hdf5(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["features"] = VECTORS
        file["labels"] = [label.encode() for label in LABELS]
        file["more/names"] = LABELS
        file["away"] = h5py.ExternalLink("/etc/passwd", "/x")
    source = check(tmp_path / "t.h5", keep_columns=["more/names"])
    assert source.attributes["more/names"].tolist() == LABELS
    with h5py.File(tmp_path / "u.h5", "w") as file:
        file.create_dataset("features", (6, 3), np.float32, external=[("/etc/passwd", 0, 72)])
    with pytest.raises(DataError, match="'features' lies in another file"):
        open_source(tmp_path / "u.h5")
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file.create_dataset("features", (1 << 30, 1 << 10), np.float32)
    with pytest.raises(DataError, match="more than such a file holds"):
        open_source(tmp_path / "v.h5")
    (tmp_path / "w.h5").write_text("no HDF5")
    with pytest.raises(DataError, match="cannot be read as HDF5: it is damaged, or no HDF5"):
        open_source(tmp_path / "w.h5")


def test_hdf5_without_h5py_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    (tmp_path / "t.h5").touch()
    with pytest.raises(ImportError, match=r"pip install 'labeltree\[formats\]'"):
        open_source(tmp_path / "t.h5")


def test_tensors(tmp_path):
    torch.save({"features": torch.from_numpy(VECTORS), "labels": LABELS, "epoch": 3}, tmp_path / "t.pt")
    check(tmp_path / "t.pt")
    torch.save(torch.from_numpy(VECTORS), tmp_path / "u.pt")
    (tmp_path / "labels.txt").write_text("\n".join(LABELS))
    check(tmp_path / "u.pt", label_file=tmp_path / "labels.txt")
    torch.save((torch.from_numpy(VECTORS), torch.tensor([0, 1, 2] * 2)), tmp_path / "v.pth")
    assert open_source(tmp_path / "v.pth").nodes.tolist() == [1, 2, 3] * 2
    torch.save({"state": {"weight": torch.ones(3)}}, tmp_path / "w.pt")
    with pytest.raises(DataError, match=r"holds no tensor \(n, d\)"):
        open_source(tmp_path / "w.pt")
    torch.save({"f": np.savez}, tmp_path / "x.pt")
    with pytest.raises(DataError, match="could run code"):
        open_source(tmp_path / "x.pt")
    (tmp_path / "x.pkl").write_bytes(b"\x80")
    with pytest.raises(DataError, match="is a pickle, which may run any code"):
        open_source(tmp_path / "x.pkl")


def test_folders_of_clip_retrieval(tmp_path):
    for part in range(2):
        rows = slice(3 * part, 3 * part + 3)
        for folder in ("img_emb", "metadata"):
            (tmp_path / "c" / folder).mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / "c" / "img_emb" / f"img_emb_{part}.npy", VECTORS[rows].astype(np.float16))
        table = pa.table({"image_path": [f"{row}.jpg" for row in range(3)], "label": LABELS[rows]})
        pq.write_table(table, tmp_path / "c" / "metadata" / f"metadata_{part}.parquet")
    check(tmp_path / "c", keep_columns=["image_path"])
    (tmp_path / "c" / "metadata" / "metadata_1.parquet").unlink()
    with pytest.raises(DataError, match="6 vectors in 'img_emb', but 3 rows"):
        open_source(tmp_path / "c")


def test_tables_of_embeddings_take_bytes_and_say_how_to_convert(tmp_path):
    taxonomy = Taxonomy.from_paths(LABELS)
    np.savez(tmp_path / "t.npz", embeddings=VECTORS, labels=np.array(LABELS, "S"))
    assert (
        EmbeddingTable.load(tmp_path / "t.npz", taxonomy).nodes.tolist() == taxonomy.encode(LABELS).tolist()
    )
    for name, line in (("t.npy", "np.load('X.npy')"), ("t.h5", "asstr"), ("t.pt", "weights_only=True")):
        (tmp_path / name).touch()
        with pytest.raises(DataError) as caught:
            EmbeddingTable.load(tmp_path / name, taxonomy)
        assert line in str(caught.value)

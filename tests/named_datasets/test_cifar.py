"""CIFAR's trees by their figures, and its readers on miniatures of the official files."""

import hashlib
import io
import os
import pickle
import struct
import tarfile
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torchvision.datasets

from labeltree.data import check_layout, fetch, get_dataset, open_source
from labeltree.datasets.cifar_trees import (
    CIFAR_10,
    CIFAR_100,
    COARSE_100,
    cifar_10_taxonomy,
    cifar_100_deep_taxonomy,
    cifar_100_five_level_taxonomy,
    cifar_100_taxonomy,
    cifar_toy_taxonomy,
)
from labeltree.datasets.formats.safe_pickle import load_arrays
from labeltree.errors import DataError

PARTS_10 = [f"data_batch_{n}" for n in range(1, 6)] + ["test_batch"]


class OldPickler(pickle._Pickler):
    """Writes as Python 2 did, with which the official files were made: all text is bytes."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)

    def save_bytes(self, data):
        self.write(b"T" + struct.pack("<I", len(data)) + data)

    dispatch[bytes] = save_bytes
    dispatch[str] = lambda self, text: self.save_bytes(text.encode("latin1"))


def old_pickle(value) -> bytes:
    out = io.BytesIO()
    OldPickler(out, 2).dump(value)
    return out.getvalue().replace(b"cnumpy._core.multiarray", b"cnumpy.core.multiarray")


def pixels(part: str, n: int) -> np.ndarray:
    seed = int(hashlib.sha256(part.encode()).hexdigest()[:6], 16)
    return np.random.default_rng(seed).integers(0, 256, (n, 3072), dtype=np.uint8)


def fine_labels(part: str) -> np.ndarray:
    return np.arange(100) if part == "train" else np.arange(0, 100, 5)


def coarse_labels(part: str) -> np.ndarray:
    return np.array([COARSE_100.index(CIFAR_100[fine][0]) for fine in fine_labels(part)])


def write_100(folder: Path, form: str = "python") -> Path:
    files = {}
    for part in ("train", "test"):
        fine, coarse = fine_labels(part), coarse_labels(part)
        data = pixels(part, len(fine))
        if form.startswith("python"):
            batch = {"filenames": [f"{i}.png" for i in fine], "batch_label": part, "data": data}
            batch |= {"fine_labels": fine.tolist(), "coarse_labels": coarse.tolist()}
            files[f"cifar-100-python/{part}"] = old_pickle(batch)
        else:
            rows = np.column_stack([coarse, fine, data]).astype(np.uint8)
            files[f"cifar-100-binary/{part}.bin"] = rows.tobytes()
    if not form.startswith("python"):
        files["cifar-100-binary/fine_label_names.txt"] = b"apple\n"
    return write(folder, files, f"cifar-100-{form}" if form.endswith(".tar.gz") else None)


def write_10(folder: Path) -> Path:
    files = {}
    for number, part in enumerate(PARTS_10):
        labels = [(number + i) % 10 for i in range(10)]
        files[f"cifar-10-batches-py/{part}"] = old_pickle({"data": pixels(part, 10), "labels": labels})
    return write(folder, files)


def write(folder: Path, files: dict[str, bytes], archive: str | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if archive is None:
        for name, content in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)
        return folder
    with tarfile.open(folder / archive, "w:gz") as out:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            out.addfile(member, io.BytesIO(content))
    return folder


def test_the_deep_tree_is_that_of_its_authors():
    tree = cifar_100_deep_taxonomy()
    assert (tree.num_nodes, tree.num_leaves, tree.max_depth) == (163, 100, 8)
    edges = sorted(f"{tree.names[int(tree.parent[n])]} {tree.names[n]}" for n in range(1, tree.num_nodes))
    digest = hashlib.sha256("\n".join(edges).encode()).hexdigest()
    assert digest == "6fa70b7744f603be6e0d6ab1c9e557d15bb3461a5e405809c0729e7ba5887db2"
    pairs = [("dolphin", "whale"), ("apple", "pear"), ("tiger", "wolf"), ("bus", "rocket"), ("boy", "tank")]
    heights = [int(tree.lca_height(tree.find(a), tree.find(b))) for a, b in pairs]
    assert heights == [1, 1, 2, 3, 8]
    assert {tree.names[leaf] for leaf in tree.leaves.tolist()} == {name for _, name in CIFAR_100}


def test_the_other_trees():
    tree = cifar_100_taxonomy()
    assert tree.num_nodes == 121
    assert tree.depth[tree.leaves].unique().tolist() == [2]
    assert all(len(tree.children(node)) == 5 for node in tree.children(0))
    assert [name for _, name in CIFAR_100] == sorted(name for _, name in CIFAR_100)
    assert list(COARSE_100) == sorted(COARSE_100)
    assert cifar_10_taxonomy().num_leaves == 10
    good, bad = cifar_toy_taxonomy("good"), cifar_toy_taxonomy("bad")
    assert good.path(good.find("ship")) == ("A", "ship")
    assert bad.path(bad.find("ship")) == ("B", "ship")
    assert {good.names[n] for n in good.leaves.tolist()} == {bad.names[n] for n in bad.leaves.tolist()}


def test_the_five_levels_hold_every_class_once():
    tree, plain = cifar_100_five_level_taxonomy(), cifar_100_taxonomy()
    assert [int((tree.depth == depth).sum()) for depth in range(1, 6)] == [2, 4, 8, 20, 100]
    for coarse, fine in CIFAR_100:
        assert tree.path(tree.find(fine))[-2:] == plain.path(plain.find(fine)) == (coarse, fine)
    # Sizes of the groups, and distances that the authors' table of numbers has
    eight = sorted(len(tree.children(node)) for node in (tree.depth == 3).nonzero()[:, 0].tolist())
    assert eight == [1, 1, 2, 2, 3, 3, 3, 5]
    pairs = [("whale", "trout"), ("whale", "tiger"), ("bus", "castle"), ("rose", "spider"), ("sea", "cup")]
    heights = [int(tree.lca_height(tree.find(a), tree.find(b))) for a, b in pairs]
    assert heights == [2, 3, 3, 4, 4]
    assert int(tree.lca_height(tree.find("sea"), tree.find("shark"))) == 5


@pytest.mark.parametrize("form", ["python", "binary", "python.tar.gz", "binary.tar.gz"])
def test_cifar_100_in_all_its_forms(tmp_path, form):
    folder = write_100(tmp_path / "data", form)
    source = open_source("cifar-100", data_path=folder)
    assert source.split.tolist() == ["train"] * 100 + ["test"] * 20
    labels = np.concatenate([fine_labels("train"), fine_labels("test")])
    assert source.taxonomy.decode(source.nodes) == ["/".join(CIFAR_100[fine]) for fine in labels]
    both = np.concatenate([pixels("train", 100), pixels("test", 20)]).reshape(-1, 3, 32, 32)
    assert np.array_equal(source.load(range(120)).numpy(), both)
    again = open_source("cifar-100", data_path=folder, image_size=16, channels=1)
    assert again.load([3]).shape == (1, 1, 16, 16)
    in_memory = open_source("cifar-100", data_path=folder, cache=False)
    assert np.array_equal(in_memory.load(range(120)).numpy(), both)


def test_the_deeper_trees_have_the_same_samples(tmp_path, cache_folder):
    write_100(cache_folder / "cifar-100")
    plain, deep = open_source("cifar-100"), open_source("cifar-100-deep")
    five = open_source("cifar-100-five-levels")
    for other, depth in ((deep, 8), (five, 5)):
        names = [other.taxonomy.names[n] for n in other.nodes]
        assert [plain.taxonomy.names[n] for n in plain.nodes] == names
        assert other.taxonomy.max_depth == depth
    assert check_layout(get_dataset("cifar-100-five-levels"), cache_folder / "cifar-100").labels == (
        2,
        4,
        8,
        20,
        100,
    )
    problems = check_layout(get_dataset("cifar-100-deep"), cache_folder / "cifar-100").problems
    assert problems == (
        "100 samples in 'train' where 50,000 are published (Barz & Denzler 2019, Appendix E)",
        "20 samples in 'test' where 10,000 are published (Barz & Denzler 2019, Appendix E)",
    ), "the classes of each depth are all there"


def test_cifar_10_and_its_toys(cache_folder):
    write_10(cache_folder / "cifar-10")
    source = open_source("cifar-10")
    assert source.split.tolist() == ["train"] * 50 + ["test"] * 10
    assert source.taxonomy.decode(source.nodes[:2]) == ["vehicle/airplane", "vehicle/automobile"]
    toy = open_source("cifar-toy-bad")
    assert len(toy) == 48
    assert not {"deer", "frog"} & set(toy.taxonomy.names)
    kept = [i for i in range(60) if source.taxonomy.names[source.nodes[i]] not in ("deer", "frog")]
    assert toy.instances.tolist() == kept
    assert np.array_equal(toy.load([7]).numpy(), source.load([kept[7]]).numpy())
    for name in ("cifar-10", "cifar-toy-bad", "cifar-toy-good"):
        inventory = check_layout(get_dataset(name), cache_folder / "cifar-10")
        assert inventory.labels == ((2, 10) if name == "cifar-10" else (2, 8))
        assert len(inventory.problems) == 2


@pytest.mark.parametrize(
    ("form", "name", "change", "sentence"),
    [
        ("python", "cifar-100-python/train", lambda data: data[: len(data) // 2], "read as a pickle"),
        ("python", "cifar-100-python/test", lambda data: old_pickle({"data": 1}), "has no 'coarse_labels'"),
        ("python", "cifar-100-python/test", lambda data: old_pickle([1]), "holds a list"),
        ("binary", "cifar-100-binary/test.bin", lambda data: data[:-1], "not images of 3,074 bytes"),
        ("binary", "cifar-100-binary/test.bin", lambda data: b"\x14" + data[1:], "labels run from 0 to 20"),
        ("binary", "cifar-100-binary/test.bin", lambda data: b"\x13" + data[1:], "'apple' of 'vehicles_2'"),
        ("python.tar.gz", "cifar-100-python.tar.gz", lambda data: data[:5000], "damaged or half downloaded"),
    ],
)  # fmt: skip
def test_damaged_files(tmp_path, cache_folder, form, name, change, sentence):
    folder = write_100(tmp_path / "data", form)
    (folder / name).write_bytes(change((folder / name).read_bytes()))
    with pytest.raises(DataError, match=sentence):
        open_source("cifar-100", data_path=folder)
    kept = [file.name for file in (cache_folder / "images").glob("*")]
    assert not any(name.startswith(".new-") for name in kept), "nothing half-written stays"


def test_half_unpacked(tmp_path):
    with pytest.raises(DataError, match=r"there is no .*cifar-100-python' or .*cifar-100-python.tar.gz' or"):
        open_source("cifar-100", data_path=tmp_path)
    folder = write_100(tmp_path)
    os.remove(folder / "cifar-100-python" / "test")
    with pytest.raises(DataError, match="has neither all of train, test in 'cifar-100-python' nor"):
        open_source("cifar-100", data_path=folder)
    write_100(tmp_path, "python.tar.gz")
    assert len(open_source("cifar-100", data_path=folder)) == 120, "the archive is whole"


def test_a_pickle_that_would_run_something(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    folder = write_100(tmp_path / "data")
    (folder / "cifar-100-python" / "train").write_bytes(pickle.dumps({"data": Evil()}, 2))
    with pytest.raises(DataError, match=r"it names 'posix.mkdir', which is not an array"):
        open_source("cifar-100", data_path=folder)
    assert not (tmp_path / "made").exists()
    objects = pickle.dumps({"data": np.array([Evil()], dtype=object)}, 2)
    with pytest.raises(DataError, match="cannot be read as a pickle"):
        load_arrays(io.BytesIO(objects), "objects")
    new = pickle.dumps({"data": np.arange(3), "labels": b"\xff"}, 2)
    assert load_arrays(io.BytesIO(new), "new")["data"].tolist() == [0, 1, 2]
    assert load_arrays(io.BytesIO(new), "new")["labels"] == b"\xff"


def test_fetch_with_torchvision(monkeypatch, cache_folder):
    def download(root, download):
        write_100(Path(root))

    monkeypatch.setattr(torchvision.datasets, "CIFAR100", download)
    folder = fetch("cifar-100-deep")
    assert folder == cache_folder / "cifar-100"
    assert os.listdir(folder) == ["cifar-100-python"]
    assert len(open_source("cifar-100")) == 120

    def fails(root, download):
        raise RuntimeError("no line\nat all")

    monkeypatch.setattr(torchvision.datasets, "CIFAR100", fails)
    assert fetch("cifar-100") == folder, "what is there is not fetched again"
    with pytest.raises(DataError, match=r"download \(no line\); put .* cifar-100-python.tar.gz, into"):
        fetch("cifar-100", force=True)
    assert len(open_source("cifar-100")) == 120


def test_classes_are_named_as_in_the_files():
    assert [name for _, name in CIFAR_10][:3] == ["airplane", "automobile", "bird"]
    assert CIFAR_100[0] == ("fruit_and_vegetables", "apple")
    assert CIFAR_100[99] == ("non-insect_invertebrates", "worm")

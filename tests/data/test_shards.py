"""Shards as sources: tar files as WebDataset writes them, Parquet files with the bytes of images."""

import json
import logging
import pickle
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from shard_files import LABELS, cut, parquet, pixels_of, png, write_shard, write_tar

from labeltree.cli.main import main
from labeltree.data import data_exist, ignore_cache, open_source
from labeltree.data.images.stores import FileStore
from labeltree.data.shards.shard_files import find_shards
from labeltree.data.streaming import stream_samples
from labeltree.errors import DataError


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """A folder of three shards of 4, 0 and 5 images."""
    folder = tmp_path / "shards"
    write_shard(folder / "part-000.tar", range(4))
    write_tar(folder / "part-001.tar", {})
    write_shard(folder / "part-002.tar", range(4, 9))
    return folder


def test_a_folder_of_tar_files_is_a_source(shards):
    source = open_source(shards, group_column="patient")
    assert len(source) == 9
    assert source.taxonomy.decode(source.nodes)[:3] == LABELS
    assert source.image_shape == (3, 8, 8)
    assert source.sample_names()[3:5] == ["part-000.tar/000003.png", "part-002.tar/000004.png"]
    assert source.groups.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, -1]
    for row, image in enumerate(source.load(range(9))):
        assert torch.equal(image, pixels_of(row))
    assert source.name == "shards"


@pytest.mark.parametrize("cache", [True, False])
def test_files_and_shards_of_the_same_images_give_the_same(shards, tmp_path, cache):
    folder = tmp_path / "folder"
    for row in range(9):
        file = folder / LABELS[row % 3] / f"{row}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(png(row))
    files, packed = open_source(folder, cache=cache), open_source(shards, cache=cache)
    order = [int(Path(name).stem) for name in files.sample_names()]
    assert torch.equal(files.load(range(9)), packed.load(order))
    assert np.array_equal(files.sample_digests(), packed.sample_digests()[order])


def test_patterns_and_single_files(shards):
    every = open_source(shards)
    for spec in (shards / "part-{000..002}.tar", f"{shards}/part-00{{0,2}}.tar"):
        assert np.array_equal(open_source(spec).sample_digests(), every.sample_digests())
    assert len(open_source(shards / "part-002.tar")) == 5
    with pytest.raises(
        DataError, match=r"names the file '.*part-003.tar' and 1 more of 5, which is not there"
    ):
        open_source(shards / "part-{000..004}.tar")
    with pytest.raises(DataError, match="more than 1,000,000 files"):
        open_source(shards / "part-{0..9999999}.tar")
    assert data_exist(f"{shards}/part-{{000..002}}.tar")
    assert not data_exist(f"{shards}/part-{{000..003}}.tar")
    assert data_exist("emoji")
    assert not data_exist("no such data")


def test_the_images_of_a_source_can_be_sent_to_loader_processes(shards):
    source = open_source(shards, cache=False)
    store = pickle.loads(pickle.dumps(source.store))
    assert torch.equal(store.load(torch.tensor([7, 1])), source.load([7, 1]))


def test_class_numbers_and_their_list(tmp_path):
    members: dict[str, bytes | str] = {}
    for i in range(6):
        members |= {f"train/{i}.jpg": png(i), f"train/{i}.cls": f"{i % 3}\n"}
    path = write_tar(tmp_path / "a.tar", members)
    # Numbers alone are names of classes.
    (tmp_path / "tree.yaml").write_text("odd: {'1': {}}\neven: {'0': {}, '2': {}}\n")
    source = open_source(path, taxonomy=tmp_path / "tree.yaml")
    assert source.taxonomy.decode(source.nodes) == ["even/0", "odd/1", "even/2"] * 2
    (tmp_path / "classes.txt").write_text("\n".join(LABELS))
    source = open_source(path)
    assert source.taxonomy.decode(source.nodes) == LABELS * 2
    assert source.sample_names()[0] == "a.tar/train/0.jpg"
    (tmp_path / "classes.txt").write_text("animal/dog\nplant/oak\n")
    with pytest.raises(DataError, match=r"has the class '2', but '.*classes.txt' names the classes 0 to 1"):
        open_source(path)


def test_texts_of_tar_files(tmp_path):
    members = {}
    for i, label in enumerate(LABELS * 2):
        members |= {f"{i}.txt": f" a {label} with number {i}\n", f"{i}.json": json.dumps({"label": label})}
    source = open_source(write_tar(tmp_path / "texts.tar", members))
    assert source.modalities == ("text",)
    assert source.read([4]) == ["a animal/cat with number 4"]
    assert source.sample_names()[4] == "texts.tar/4"
    both = write_tar(tmp_path / "both.tar", {**members, "x.png": png(0)})
    with pytest.raises(DataError, match="6 of 7 rows have no image"):
        open_source(both)
    assert len(open_source(both, on_error="skip")) == 1
    assert len(open_source(both, text_column="txt", on_error="skip")) == 6


def test_several_images_of_a_sample(tmp_path):
    members: dict[str, bytes | str] = {}
    for i in range(4):
        members |= {f"{i}.seg.png": png(i + 10), f"{i}.png": png(i), f"{i}.txt": LABELS[i % 3]}
    path = write_tar(tmp_path / "a.tar", members)
    first = open_source(path, label_columns="txt")
    assert torch.equal(first.load([2])[0], pixels_of(2))
    masks = open_source(path, image_column="seg.png", label_columns=["txt"])
    assert torch.equal(masks.load([2])[0], pixels_of(12))
    assert masks.sample_names()[2] == "a.tar/2.seg.png"
    both = open_source(path, image_column=["png", "seg.png"], label_columns=["txt"])
    assert torch.equal(both.load([4, 5]), torch.stack([pixels_of(2), pixels_of(12)]))
    with pytest.raises(DataError, match="no column 'jpg'"):
        open_source(path, image_column="jpg", label_columns="txt")


def test_names_of_shards_are_splits(tmp_path):
    for place, name in enumerate(["train-0.tar", "train-1.tar", "validation-0.tar", "test-0.tar"]):
        write_shard(tmp_path / "named" / name, range(6 * place, 6 * place + 6))
        folder = name.split("-")[0]
        write_shard(tmp_path / "folders" / folder / name.split("-")[1], range(6 * place, 6 * place + 6))
    for folder in ("named", "folders"):
        source = open_source(tmp_path / folder)
        counts = {split: int((source.split == split).sum()) for split in ("train", "val", "test")}
        assert counts == {"train": 12, "val": 6, "test": 6}
    assert open_source(tmp_path / "named" / "train-{0..1}.tar").split is None


def test_images_with_their_archive_are_still_a_folder_of_images(tmp_path):
    for i in range(4):
        file = tmp_path / LABELS[i % 3] / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(png(i))
    write_shard(tmp_path / "archive.tar", range(4))
    assert find_shards(tmp_path) is None
    assert open_source(tmp_path).files is not None


@pytest.mark.parametrize("cache", [True, False])
def test_parquet_files_with_images(tmp_path, cache):
    parquet(tmp_path / "data" / "train-00000-of-00002.parquet", range(5))
    parquet(tmp_path / "data" / "train-00001-of-00002.parquet", range(5, 8))
    source = open_source(tmp_path / "data", cache=cache)
    assert source.taxonomy.decode(source.nodes)[:3] == LABELS
    assert source.sample_names()[5] == "train-00001-of-00002.parquet/row 1"
    assert torch.equal(source.load(range(8)), torch.stack([pixels_of(i) for i in range(8)]))
    single = open_source(tmp_path / "data" / "train-00001-of-00002.parquet", cache=cache)
    assert np.array_equal(single.sample_digests(), source.sample_digests()[5:])


def test_columns_of_plain_bytes(tmp_path):
    table = pa.table({"jpg": [png(i) for i in range(4)], "label": list("abab"), "fold": [0, 0, 1, 1]})
    pq.write_table(table, tmp_path / "a.parquet")
    assert torch.equal(open_source(tmp_path / "a.parquet").load([3])[0], pixels_of(3))
    pq.write_table(table.rename_columns(["scan", "label", "fold"]), tmp_path / "b.parquet")
    source = open_source(tmp_path / "b.parquet", image_column="scan", group_column="fold")
    assert source.groups.tolist() == [0, 0, 1, 1]
    missing = pa.table({"image": [png(0), None, b""], "label": list("aba")})
    pq.write_table(missing, tmp_path / "c.parquet")
    with pytest.raises(DataError, match=r"have no image in 'image': c\.parquet/row 2, c\.parquet/row 3"):
        open_source(tmp_path / "c.parquet")


def test_a_folder_of_parquet_tables_without_images(tmp_path):
    for part in range(2):
        rows = {"text": [f"words {part} {i}" for i in range(3)], "label": list("aba")}
        (tmp_path / "texts").mkdir(exist_ok=True)
        pq.write_table(pa.table(rows), tmp_path / "texts" / f"{part}.parquet")
    source = open_source(tmp_path / "texts")
    assert source.read([4]) == ["words 1 1"]
    assert source.sample_names()[4] == "1.parquet/row 2"
    rows = {"image": ["a.png", "b.png"], "label": ["a", "b"]}
    pq.write_table(pa.table(rows), tmp_path / "texts" / "2.parquet")
    with pytest.raises(DataError, match="the column 'image' holds no bytes of images"):
        open_source(tmp_path / "texts")


@pytest.mark.parametrize(
    ("size", "sentence"),
    [
        (0, "is empty"),
        (300, "is not a tar file, or has been cut off"),
        (700, "cut off within '000000.png'"),
        (512 * 4, "cut off: it has no mark at its end"),
        (512 * 4 + 200, "cut off"),
    ],
)
def test_shards_that_were_cut_off(shards, size, sentence, caplog):
    cut(shards / "part-000.tar", size)
    with pytest.raises(DataError, match=sentence):
        open_source(shards)
    with caplog.at_level(logging.WARNING, "labeltree.data"):
        source = open_source(shards, on_error="skip")
    assert sentence in caplog.text
    assert [name for name in source.sample_names() if "part-002" in name] == source.sample_names()[-5:]


def test_other_damage(shards, tmp_path, caplog):
    path = shards / "part-000.tar"
    whole = path.read_bytes()
    at = whole.index(b"000002.png")
    path.write_bytes(whole[:at] + b"\xff" * 512 + whole[at + 512 :])
    with pytest.raises(DataError, match=f"is damaged at byte {at:,}"):
        open_source(shards)
    assert len(open_source(shards, on_error="skip")) == 5 + 1  # the last before the damage may be incomplete
    path.write_bytes(b"no tar file" * 100)
    with pytest.raises(DataError, match="is not a tar file, or has been cut off"):
        open_source(shards)
    write_tar(path, {"0.png": png(0), "0.PNG": png(1)})
    with pytest.raises(DataError, match=r"'0\.PNG' twice"):
        open_source(shards)
    write_tar(path, {"0.png": png(0), "1.png": png(1), "0.json": "{}"})
    with pytest.raises(DataError, match=r"members of the sample '0' in two places"):
        open_source(shards)
    write_tar(path, {"0.png": png(0), "0.json": "[1]", "1.png": png(1), "1.json": '{"label": "plant/oak"}'})
    with pytest.raises(DataError, match=r"'0\.json' holds no values by name"):
        open_source(shards)
    assert len(open_source(shards, on_error="skip")) == 6
    write_tar(path, {"0.png": b"no image", "0.json": '{"label": "plant/oak"}'})
    with pytest.raises(DataError, match=r"'part-000.tar/0\.png' \(it is not an image"):
        open_source(shards)
    assert len(open_source(shards, on_error="skip")) == 5
    parquet(shards / "x.parquet", range(3))
    with pytest.raises(DataError, match=r"both \.tar and \.parquet files"):
        open_source(shards)
    write_tar(tmp_path / "empty" / "a.tar", {})
    with pytest.raises(DataError, match="holds no samples"):
        open_source(tmp_path / "empty")
    cut(parquet(tmp_path / "cut" / "a.parquet", range(3)), 900)
    with pytest.raises(DataError, match="it is damaged, or no Parquet file"):
        open_source(tmp_path / "cut")
    (tmp_path / "a.tar.gz").write_bytes(b"")
    with pytest.raises(DataError, match="is compressed"):
        open_source(tmp_path / "a.tar.gz")


def test_a_changed_shard_is_indexed_again(shards):
    before = open_source(shards, cache=False)
    write_shard(shards / "part-001.tar", range(20, 22))
    assert len(open_source(shards)) == 11
    write_shard(shards / "part-002.tar", range(5, 9))
    with pytest.raises(DataError, match=r"'part-002.tar/000008.png' has changed|cannot be read any more"):
        before.load([8])
    with ignore_cache():
        assert len(open_source(shards)) == 10
    (shards / "part-002.tar").unlink()
    with pytest.raises(DataError, match=r"cannot be read any more: .* no such file"):
        before.load([8])


def test_odd_names(tmp_path):
    members: dict[str, bytes | str] = {}
    for i, name in enumerate(["ä b", "日本", "a'b", "long" * 60, "x/y/z"]):
        members |= {f"./{name}.png": png(i), f"./{name}.cls": LABELS[i % 3]}
    members |= {".hidden.png": b"", "__meta__": b"", "README": b"no extension"}
    source = open_source(write_tar(tmp_path / "a b.tar", members))
    assert source.sample_names()[1] == "a b.tar/日本.png"
    assert source.sample_names()[4] == "a b.tar/x/y/z.png"
    assert torch.equal(source.load([3])[0], pixels_of(3))


def test_the_tree_of_shards_is_shown(shards, capsys):
    assert main(["taxonomy", "show", str(shards)]) == 0
    assert "oak" in capsys.readouterr().out
    parquet(shards.parent / "a.parquet", range(6))
    assert main(["taxonomy", "show", str(shards.parent / "a.parquet")]) == 0
    assert "oak" in capsys.readouterr().out


def test_loader_processes_share_the_list_of_files(tmp_path):
    """What is sent to a process does not grow with the number of files: it is in shared memory."""
    sizes = []
    for number in (10, 10_000):
        files = [f"folder/{row:07d}.jpg" for row in range(number)]
        store = FileStore(files, 8, 3, stamps=np.zeros((number, 2), np.int64))
        assert store._images.files[number - 1] == files[-1]
        assert list(store._images.files[2:4]) == files[2:4]
        sizes.append(len(ForkingPickler.dumps(store)))
    assert sizes[1] < sizes[0] + 1000


@pytest.mark.parametrize(
    ("stems", "names"),
    [
        (["a.5x", "a.6x", "b.5x"], ["a.5x", "a.6x", "b.5x"]),  # each text follows a further dot
        (["a", "b.1", "c.2.3"], ["a", "b.1", "c.2.3"]),  # what lies between the dots is one sample's own
        (["a", "b", "c"], ["a", "b", "c"]),
    ],
)
def test_names_of_samples_with_dots(tmp_path, stems, names):
    members = {}
    for number, stem in enumerate(stems):
        members |= {f"{stem}.png": png(number), f"{stem}.cls": LABELS[number]}
    path = write_tar(tmp_path / "s.tar", members)
    source = open_source(path)
    assert source.taxonomy.decode(source.nodes) == LABELS
    assert [sample.name for sample in stream_samples(path)] == [f"s.tar/{name}.png" for name in names]


def test_extensions_with_dots_stay(tmp_path):
    members = {}
    for number, stem in enumerate("abc"):
        members |= {f"{stem}.jpg": png(number), f"{stem}.seg.png": png(9), f"{stem}.cls": LABELS[number]}
    assert len(open_source(write_tar(tmp_path / "s.tar", members))) == 3

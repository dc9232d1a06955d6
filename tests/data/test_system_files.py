"""What systems and programs leave among images is neither a class nor an image, wherever they are sought."""

import io
import shutil
import tarfile
import zipfile

import numpy as np
import pytest
from PIL import Image

from labeltree.data import count_samples, folder_labels, open_source, stream_samples
from labeltree.data.biology.darwin_core_archive import read_archive
from labeltree.data.image_rules import list_files
from labeltree.data.shards.shard_files import find_shards
from labeltree.data.shards.tar import tar_samples
from labeltree.errors import DataError
from labeltree.index.queries import queries_in
from labeltree.system_files import is_system_file
from labeltree.taxonomy import Taxonomy

LEFT = (
    "__MACOSX/cat/._a.png",
    "__MACOSX/cat/a.png",
    "@eaDir/a.png/SYNOPHOTO_THUMB_XL.jpg",
    "cat/@eaDir/a.png/SYNOPHOTO_THUMB_XL.jpg",
    ".ipynb_checkpoints/a-checkpoint.png",
    "cat/.ipynb_checkpoints/a-checkpoint.png",
    "cat/._a.png",
    "cat/.DS_Store",
    "cat/Thumbs.db",
    "cat/desktop.ini",
    ".git/objects/a.png",
    ".thumbnails/a.png",
    ".Trash-1000/files/a.png",
    "$RECYCLE.BIN/S-1-5/a.png",
    "System Volume Information/a.png",
    "FOUND.000/a.png",
    "lost+found/a.png",
    "#recycle/a.png",
    "@Recycle/a.png",
    "dog/.@__thumb/a.png",
    "dog/@__thumb/a.png",
)


@pytest.fixture
def photos(tmp_path, write_image):
    """Two photographs of two classes, and what else such folders hold."""
    for seed, name in enumerate(("cat/a.png", "dog/b.png", *LEFT)):
        write_image(tmp_path / "photos" / name if name.endswith(("png", "jpg")) else tmp_path / "x.png", seed)
        if not name.endswith(("png", "jpg")):
            (tmp_path / "photos" / name).write_bytes(b"\0\1")
    return tmp_path / "photos"


def test_names():
    for name in ("thumbs", "Thumbs", "eaDir", "found", "lost", "cat.db", "@home", "#1", "MACOSX", "recycle"):
        assert not is_system_file(name)
    for name in ("THUMBS.DB", "ehthumbs.db", "__macosx", "Network Trash Folder", "Icon\r", "found.001"):
        assert is_system_file(name)


def test_folders_of_samples(photos):
    source = open_source(photos)
    assert source.taxonomy.names[1:] == ["cat", "dog"]
    assert list(source.names) == ["cat/a.png", "dog/b.png"]
    assert not source.notes  # nothing was left out
    assert [sample.name for sample in stream_samples(photos)] == list(source.names)
    assert count_samples(photos) == 2
    assert folder_labels(photos)[0] == source.taxonomy == Taxonomy.from_folders(photos)
    assert [query.value for query in queries_in(photos)] == [str(photos / name) for name in source.names]
    assert list_files(photos) == list(source.names)


def test_splits_are_seen_beside_them(photos, tmp_path):
    for split in ("train", "test"):
        shutil.copytree(photos, tmp_path / "set" / split)
    (tmp_path / "set" / "__MACOSX").mkdir()
    source = open_source(tmp_path / "set")
    assert source.taxonomy.names[1:] == ["cat", "dog"]
    assert sorted(source.split) == ["test", "test", "train", "train"]


def test_shards(photos, tmp_path):
    def add(tar, name, content):
        member = tarfile.TarInfo(name)
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))

    (tmp_path / "shards" / "@eaDir").mkdir(parents=True)
    with tarfile.open(tmp_path / "shards" / "a-0.tar", "w") as tar:
        for name in ("cat/a.png", *LEFT):
            add(tar, name, (photos / name).read_bytes())
            if name == "cat/a.png":
                add(tar, "cat/a.cls", b"cat")
    (tmp_path / "shards" / "._a-0.tar").write_bytes(b"\0")
    found = find_shards(tmp_path / "shards")
    assert found is not None
    assert found.names == ["a-0.tar"]
    assert [sample.key for sample in tar_samples(found.files[0])] == ["cat/a"]


def test_zipped_tables(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("table.csv", "text,label\nx,y\n")
        archive.writestr("__MACOSX/._table.csv", "\0")
        archive.writestr("@eaDir/table.csv", "\0")
        archive.writestr(".git/table.csv", "\0")
    assert read_archive(tmp_path / "a.zip")[0].num_rows == 1


def test_a_folder_without_images_is_no_class_and_named_once(tmp_path, write_image, caplog):
    for name in ("a/x.png", "b/c/y.png"):
        write_image(tmp_path / "set" / name)
    for name in ("empty", "b/none/deeper", "b/none/again", "texts", "a/.cache"):
        (tmp_path / "set" / name).mkdir(parents=True)
    (tmp_path / "set" / "texts" / "notes.txt").write_text("x")
    source = open_source(tmp_path / "set")
    assert source.taxonomy.names[1:] == ["a", "b", "c"]
    assert "3 folders hold no image and are not classes: 'b/none', 'empty' and 'texts'" in source.notes
    assert folder_labels(tmp_path / "set")[0] == source.taxonomy
    given = open_source(tmp_path / "set", taxonomy=Taxonomy.from_paths(["a", "b/c", "empty"]))
    assert not any("no class" in note for note in given.notes)  # the taxonomy says what are classes
    with pytest.raises(DataError, match="has no images"):
        open_source(tmp_path / "set" / "empty")


def test_folders_without_images_beside_splits(tmp_path, write_image):
    """A class may lack images in one split; a folder beside the splits does not hide them."""
    for name in ("train/a/x.png", "train/b/y.png", "test/a/z.png"):
        write_image(tmp_path / name)
    for name in ("test/b", "test/c", "val", "annotations"):
        (tmp_path / name).mkdir()
    source = open_source(tmp_path)
    assert source.split.tolist() == ["test", "train", "train"]
    assert source.taxonomy.names[1:] == ["a", "b"]
    assert source.notes == ("2 folders hold no image and are not classes: 'annotations' and 'test/c'",)


def test_splits_beside_another_folder_are_told(tmp_path, write_image):
    for name in ("train/a/x.png", "Test/a/y.png", "icons/a/z.png"):
        write_image(tmp_path / name)
    (note,) = open_source(tmp_path).notes
    assert note.startswith("'Test' and 'train' are read as classes and not as splits, because 'icons' lies")


def test_every_unreadable_file_is_listed(tmp_path, write_image, cache_folder, caplog):
    """In a file that the message names, where it names only five."""
    write_image(tmp_path / "set" / "a" / "good.png")
    for number in range(7):
        (tmp_path / "set" / "a" / f"bad{number}.jpg").write_bytes(b"x" * (number % 2))
    with pytest.raises(DataError, match="7 of 8 images cannot be read") as caught:
        open_source(tmp_path / "set")
    (listed,) = (cache_folder / "unreadable").iterdir()
    assert f"and 2 more, all listed in '{listed}'. Repair or remove them" in str(caught.value)
    lines = listed.read_text("utf-8").splitlines()
    assert lines[0] == "name,reason"
    assert lines[1:3] == [
        f"{tmp_path}/set/a/bad0.jpg,the file is empty",
        f"{tmp_path}/set/a/bad1.jpg,it is not an image in a format that can be read",
    ]
    assert len(lines) == 8
    source = open_source(tmp_path / "set", on_error="skip")
    assert f"and 2 more, all listed in '{listed}'. They are skipped" in caplog.text
    assert [reason for _, reason in source.unread.values()] == [line.split(",")[1] for line in lines[1:]]
    (tmp_path / "t.csv").write_text(
        "image,label\n" + "".join(f"set/a/{name},x\n" for name in ("bad0.jpg", "good.png", "bad1.jpg"))
    )
    table = open_source(tmp_path / "t.csv", on_error="skip")
    assert [line[2] for line in table.unused.lines()] == [
        "an image cannot be read: the file is empty",
        "an image cannot be read: it is not an image in a format that can be read",
    ]


def test_images_are_read_again_once_a_decoder_is_installed(tmp_path, write_image, monkeypatch):
    """What was unreadable is kept in the cache, but not beyond what made it so."""
    files = "labeltree.data.images.image_files"
    write_image(tmp_path / "set" / "a" / "x.png")
    monkeypatch.setattr(f"{files}.optional_decoders", lambda: "")
    monkeypatch.setattr(
        f"{files}.decode", lambda *given, **options: (_ for _ in ()).throw(DataError("install it"))
    )
    with pytest.raises(DataError, match="install it"):
        open_source(tmp_path / "set", image_size=8, channels=3)
    monkeypatch.setattr(f"{files}.decode", lambda *given, **options: np.zeros((3, 8, 8), np.uint8))
    with pytest.raises(DataError, match="install it"):
        open_source(tmp_path / "set", image_size=8, channels=3)
    monkeypatch.setattr(f"{files}.optional_decoders", lambda: "pillow_heif")
    assert len(open_source(tmp_path / "set", image_size=8, channels=3)) == 1
    assert Image.open(tmp_path / "set" / "a" / "x.png").size == (8, 8)

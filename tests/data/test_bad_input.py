"""Broken files, odd names, wrong cells: an error that names them or a counted skip, never a crash."""

import logging
import os
import socket
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from labeltree.data import make_splits, open_source
from labeltree.errors import DataError, TaxonomyError
from labeltree.taxonomy import Taxonomy


@pytest.fixture
def photos(tmp_path, write_image):
    """A folder with three good images."""
    for seed, name in enumerate(("a/0.png", "a/1.png", "b/2.png")):
        write_image(tmp_path / "photos" / name, seed)
    return tmp_path / "photos"


def png_of_size(width, height):
    """A small file that claims to be a large image."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def truncated(path):
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:-100])


def pipe(path):
    os.mkfifo(path)


def bound_socket(path):
    folder = os.getcwd()
    os.chdir(path.parent)  # the names of sockets are short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir(folder)


BROKEN = {
    "truncated": (truncated, "truncated"),
    "empty": (lambda path: path.touch(), "the file is empty"),
    "text": (lambda path: path.write_text("no image"), "not an image in a format that can be read"),
    "bomb": (lambda path: path.write_bytes(png_of_size(100_000, 100_000)), "pixels|decompression bomb"),
    "smaller bomb": (
        lambda path: path.write_bytes(png_of_size(12_000, 12_000)),
        "12000 x 12000 pixels; 134,",
    ),
    "pipe": (pipe, "it is not a file but a pipe"),
    "socket": (bound_socket, "it is not a file but a pipe, socket"),
    "link to itself": (lambda path: path.symlink_to(path), "too many levels of symbolic links"),
    "link to nothing": (lambda path: path.symlink_to("nothing.png"), "there is no such file"),
    "link to a device": (lambda path: path.symlink_to("/dev/zero"), "it is not a file but a pipe, socket or"),
}


@pytest.mark.filterwarnings("ignore:Image size")  # Pillow warns before we refuse
@pytest.mark.parametrize("kind", BROKEN)
def test_broken_images_in_a_folder(photos, kind, caplog):
    make, reason = BROKEN[kind]
    make(photos / "b" / "x.png")
    with pytest.raises(DataError, match=rf"1 of 4 images cannot be read: '.*/b/x\.png' \(.*({reason})"):
        open_source(photos)
    with caplog.at_level(logging.WARNING, "labeltree.data"):
        source = open_source(photos, on_error="skip")
    assert "1 of 4 images cannot be read" in caplog.text
    assert [path[-5:] for path in source.paths(range(3))] == ["0.png", "1.png", "2.png"]
    assert source.load(range(3)).shape == (3, 3, 8, 8)


@pytest.mark.parametrize("wrong", [None, "ignore"])
def test_what_on_error_can_be(photos, wrong):
    with pytest.raises(ValueError, match=f"on_error is {wrong!r}; expected one of 'raise', 'skip'"):
        open_source(photos, on_error=wrong)


def test_broken_images_in_a_table(photos, tmp_path):
    (tmp_path / "folder.jpg").mkdir()
    names = [f"photos/a/{number}.png" for number in range(2)] + ["folder.jpg", "photos/c.png", "a" * 300]
    (tmp_path / "t.csv").write_text("image,label\n" + "".join(f"{name},x\n" for name in names))
    with pytest.raises(DataError, match="3 of 5 images cannot be read") as caught:
        open_source(tmp_path / "t.csv")
    for reason in ("folder.jpg' (it is a directory)", "c.png' (there is no such file)", "file name too long"):
        assert reason in str(caught.value)
    assert open_source(tmp_path / "t.csv", on_error="skip").instances.tolist() == [0, 1]


def test_a_folder_that_is_called_like_an_image_is_a_folder(photos, write_image):
    write_image(photos / "x.jpg" / "3.png", 3)
    source = open_source(photos)
    assert source.taxonomy.decode(source.nodes)[-1] == "x.jpg"


def test_permission_denied(photos, monkeypatch):
    opened, scanned = Image.open, os.scandir

    def refuse(path, *rest, **settings):
        if str(path).endswith("1.png"):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *rest, **settings)

    monkeypatch.setattr(Image, "open", refuse)
    with pytest.raises(DataError, match=r"1 of 3 images cannot be read: '.*1\.png' \(permission denied\)"):
        open_source(photos)
    assert len(open_source(photos, on_error="skip")) == 2

    def refuse_folder(path):
        if str(path).endswith("/b"):
            raise PermissionError(13, "Permission denied", str(path))
        return scanned(path)

    monkeypatch.setattr(os, "scandir", refuse_folder)
    with pytest.raises(DataError, match=r"cannot read the folder '.*/photos/b': Permission denied"):
        open_source(photos)


def test_files_that_vanish_or_change_after_opening(photos, write_image):
    source = open_source(photos, cache=False)
    kept = open_source(photos, cache=True)
    before = kept.load(range(3))
    write_image(photos / "a" / "1.png", 9)
    os.utime(photos / "a" / "1.png", ns=(1, 1))
    with pytest.raises(DataError, match=r"the image '.*a/1\.png' has changed since the data were opened"):
        source.load([0, 1, 2])
    (photos / "b" / "2.png").unlink()
    with pytest.raises(DataError, match=r"the image '.*b/2\.png' cannot be read any more: there is no such"):
        source.load([2])
    assert source.load([0]).equal(before[:1])
    assert kept.load(range(3)).equal(before)  # what was decoded when opening stays as it was


@pytest.mark.parametrize("name", ["../secret.png", "photos/../../secret.png", "./../secret.png"])
def test_names_in_a_table_do_not_lead_out_of_its_folder(tmp_path, write_image, name):
    write_image(tmp_path / "secret.png")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "t.csv").write_text(f"image,label\n{name},a\n")
    with pytest.raises(DataError, match=r"line 2: the image '.*secret\.png' lies outside the table's folder"):
        open_source(tmp_path / "set" / "t.csv")


def test_a_name_with_a_zero_byte(tmp_path):
    import pandas as pd

    pd.DataFrame({"image": ["a\0.png"], "label": ["x"]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"row 1: the image 'a\\x00\.png' is not a file name"):
        open_source(tmp_path / "t.parquet")


def test_labels_that_are_not_in_the_taxonomy(photos, tmp_path):
    tree = Taxonomy.from_paths(["a", "c"])
    with pytest.raises(TaxonomyError, match=r"photos/b': .*'b' is not in the taxonomy"):
        open_source(photos, taxonomy=tree)
    (tmp_path / "t.csv").write_text("image,label\nphotos/a/0.png,a\nphotos/b/2.png,b\n")
    with pytest.raises(TaxonomyError, match=r"t\.csv', label: label 'b' is not in the taxonomy"):
        open_source(tmp_path / "t.csv", taxonomy=tree)


TABLES = {
    "byte-order mark": "\ufeffimage,label\nphotos/a/0.png,x\nphotos/b/2.png,y\n",
    "Windows lines": "image,label\r\nphotos/a/0.png,x\r\nphotos/b/2.png,y\r\n",
    "quotes": '"image","label"\n"photos/a/0.png","x"\n"photos/b/2.png","y"\n',
    "semicolons": "image;label\nphotos/a/0.png;x\nphotos/b/2.png;y\n",
    "empty lines": "\nimage,label\n\nphotos/a/0.png,x\n\nphotos/b/2.png,y",
    "spaces": " image , label \n photos/a/0.png ,x \nphotos/b/2.png, y\n",
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_as_programs_write_them(photos, tmp_path, kind):
    (tmp_path / "t.csv").write_bytes(TABLES[kind].encode())
    source = open_source(tmp_path / "t.csv")
    assert source.taxonomy.decode(source.nodes) == ["x", "y"]
    assert [path[-7:] for path in source.paths([0, 1])] == ["a/0.png", "b/2.png"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("image,label\na.png,x,more\n", "line 2 has 3 cells where the header has 2"),
        ("image,label\na.png\n", "line 2 has 1 cell where the header has 2"),
        ("image,label,image\na.png,x,b.png\n", "has 2 columns 'image'; rename them"),
        ("\n\n", "cannot be read: it is empty"),
        ("image,label\n", "has no rows"),
        ("a.png,x\nb.png,y\n", "no column of images"),
    ],
)
def test_malformed_tables(tmp_path, content, sentence):
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(DataError, match=sentence):
        open_source(tmp_path / "t.csv")


def test_tables_in_another_encoding(tmp_path):
    for content in ("image,label\nдом.png,a\n", "образ,это\nx.png,a\n"):
        (tmp_path / "t.csv").write_bytes(content.encode("cp1251"))
        with pytest.raises(DataError, match=r"is not UTF-8 .*; save it as UTF-8"):
            open_source(tmp_path / "t.csv")


def test_duplicate_rows_are_decoded_once_and_never_part(photos, tmp_path):
    rows = ["photos/a/0.png,x", "photos/a/1.png,x", "photos/b/2.png,y"] * 3
    (tmp_path / "t.csv").write_text("image,label\n" + "\n".join(rows))
    source = open_source(tmp_path / "t.csv")
    assert (len(source), len(source.store), len(source.files)) == (9, 3, 3)
    assert source.groups.tolist() == [0, 1, 2] * 3
    split = make_splits(source, val=0, test=0.3).split
    assert all(len(set(split[number::3])) == 1 for number in range(3))
    given = "".join(f"{row},{split}\n" for row, split in zip(rows, ["train"] * 8 + ["test"], strict=True))
    (tmp_path / "t.csv").write_text("image,label,split\n" + given)
    with pytest.raises(DataError, match=r"divide 1 group.* lies in test and train"):
        make_splits(open_source(tmp_path / "t.csv"))

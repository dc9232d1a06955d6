"""HEIC, HEIF and AVIF: read like JPEG, turned upright, limited in size; what is missing is named."""

import io
import struct
import sys

import numpy as np
import pytest
from PIL import Image, features

from labeltree.data import open_source
from labeltree.data.adapter_images import DatasetImages
from labeltree.data.images import decode as decoding
from labeltree.data.images.decode import FORMATS, decode, read_head
from labeltree.data.streaming import stream_samples
from labeltree.errors import DataError
from labeltree.serving.engine import measure_upload, read_upload

pillow_heif = pytest.importorskip("pillow_heif")
pytestmark = pytest.mark.skipif(not features.check("avif"), reason="this Pillow reads no AVIF")
RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)
KINDS = ("HEIF", "AVIF")


@pytest.fixture(autouse=True)
def _saves_heif():
    pillow_heif.register_heif_opener()


def encoded(form, *, orientation=1, side=64):
    """Four colours: red, green / blue, white."""
    pixels = np.zeros((side, side, 3), np.uint8)
    half, exif = side // 2, Image.Exif()
    pixels[:half, :half, 0] = pixels[:half, half:, 1] = pixels[half:, :half, 2] = 255
    pixels[half:, half:] = 255
    exif[0x0112] = orientation
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, form, exif=exif.tobytes(), quality=90)
    return out.getvalue()


def with_size(content, width, height):
    """The same file, whose head claims another size."""
    place = content.index(b"ispe") + 8
    return content[:place] + struct.pack(">II", width, height) + content[place + 8 :]


def corners(pixels):
    return [tuple(pixels[:, y, x].tolist()) for y, x in ((2, 2), (2, 13), (13, 2), (13, 13))]


@pytest.mark.parametrize("form", KINDS)
@pytest.mark.parametrize(
    ("orientation", "expected"),
    [(1, [RED, GREEN, BLUE, WHITE]), (3, [WHITE, BLUE, GREEN, RED]), (6, [BLUE, RED, WHITE, GREEN])],
)
def test_pixels_stand_upright(form, orientation, expected):
    found = corners(decode(encoded(form, orientation=orientation), 16, 3))
    assert np.array(found) == pytest.approx(np.array(expected), abs=30)
    uploaded = read_upload(encoded(form, orientation=orientation), 16, 3, 10_000)
    assert corners(uploaded) == found


def test_they_are_read_in_folders_and_tables(tmp_path):
    for name in ("a/one.heic", "a/two.HEIF", "b/three.hif", "b/four.avif"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / name).write_bytes(encoded("AVIF" if name.endswith("avif") else "HEIF"))
    source = open_source(tmp_path / "photos", on_error="raise")
    assert source.image_shape == (3, 64, 64)
    assert [sample.name for sample in stream_samples(tmp_path / "photos")] == list(source.names)
    (tmp_path / "t.csv").write_text("image,label\nphotos/a/one.heic,x\nphotos/b/four.avif,y\n")
    table = open_source(tmp_path / "t.csv", on_error="raise")
    assert (table.load([0, 1]).float() - source.load([0, 2]).float()).abs().max() == 0
    assert read_head(tmp_path / "photos" / "a" / "one.heic") == (64, 64, False)


@pytest.mark.parametrize("form", KINDS)
def test_other_libraries_bring_their_bytes(tmp_path, form):
    (tmp_path / "a").write_bytes(encoded(form))
    for value in ({"bytes": encoded(form)}, {"path": str(tmp_path / "a")}):
        images = DatasetImages([("train", 1, lambda item, value=value: value)])
        assert images.open(0).size == (64, 64)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("form", KINDS)
def test_bombs_are_refused_before_they_are_decoded(form, monkeypatch):
    content = encoded(form)
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("decoded"))
    with pytest.raises(DataError, match="12000 x 12000 pixels; 134,217,728 are the most"):
        decode(with_size(content, 12_000, 12_000), 8, 3)
    with pytest.raises(DataError, match="decompression bomb"):
        decode(with_size(content, 16_000, 16_000), 8, 3)
    with pytest.raises(DataError, match="64 x 64 pixels; 4,000 are the most that this service decodes"):
        measure_upload(content, 8, 4000)
    monkeypatch.setattr(decoding, "MAX_BYTES", 10_000)
    with pytest.raises(DataError, match="decoding it takes up to"):
        decode(content, 8, 3)


@pytest.mark.parametrize("form", KINDS)
def test_damage_is_told(form):
    content = encoded(form)
    for cut in (content[: len(content) * 2 // 3], content[:40]):
        assert read_head(content[:40]) is None
        with pytest.raises(DataError):
            decode(cut, 8, 3)


def test_a_missing_library_is_named_with_its_extra(tmp_path, monkeypatch):
    content = encoded("HEIF")
    (tmp_path / "photos" / "a").mkdir(parents=True)
    (tmp_path / "photos" / "a" / "x.heic").write_bytes(content)
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    monkeypatch.delitem(Image.OPEN, "HEIF")
    monkeypatch.setattr(Image, "ID", [name for name in Image.ID if name != "HEIF"])
    decoding._reads_heif.cache_clear()
    try:
        needs = r"it is a HEIC or HEIF image, which needs the package pillow-heif; install labeltree\[heif\]"
        with pytest.raises(DataError, match=needs):
            decode(content, 8, 3, formats=FORMATS)
        with pytest.raises(DataError, match=rf"x.heic' \({needs}"):
            open_source(tmp_path / "photos")
    finally:
        decoding._reads_heif.cache_clear()


def test_a_pillow_without_avif_is_told(monkeypatch):
    content = encoded("AVIF")
    monkeypatch.delitem(Image.OPEN, "AVIF")
    monkeypatch.setattr(Image, "ID", [name for name in Image.ID if name != "AVIF"])
    monkeypatch.setattr(features, "check", lambda name: False)
    for formats in (None, FORMATS):
        with pytest.raises(DataError, match=r"it is an AVIF image, .* install Pillow 11.3 or later"):
            decode(content, 8, 3, formats=formats)

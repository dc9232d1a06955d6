"""Photographs of 108 and 200 megapixels, and files that only claim such sizes."""

import io
import struct
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image

from labeltree.data.images import decode as decoding
from labeltree.data.images.decode import decode, open_image, read_head
from labeltree.errors import DataError
from labeltree.preprocessing import Preprocessing
from labeltree.serving.engine import measure_upload


def jpeg(width, height, **options):
    """Dark on the left, bright on the right."""
    image = Image.new("L", (width, height), 40)
    image.paste(210, (width // 2, 0, width, height))
    out = io.BytesIO()
    image.save(out, "JPEG", **options)
    return out.getvalue()


@pytest.mark.parametrize(("width", "height"), [(12_000, 9_000), (16_384, 12_288)])
def test_photographs_of_phones_are_reduced_while_they_are_decoded(tmp_path, width, height):
    (tmp_path / "a.jpg").write_bytes(jpeg(width, height))
    decoding._let_pillow_open_large_images.cache_clear()  # pytest takes filters back
    with warnings.catch_warnings(record=True) as told:
        warnings.resetwarnings()
        found = decode(tmp_path / "a.jpg", 64, 3)
        assert read_head(tmp_path / "a.jpg") == (width, height, True)
        needed = measure_upload((tmp_path / "a.jpg").read_bytes(), 64, 5_000_000)
        with pytest.raises(DataError, match="pixels; 1,000,000 are the most"):
            measure_upload((tmp_path / "a.jpg").read_bytes(), 64, 1_000_000)
    assert not told
    assert needed < 500_000_000
    assert found.shape == (3, 64, 64)
    assert found[:, :, :30] == pytest.approx(40, abs=2)
    assert found[:, :, 34:] == pytest.approx(210, abs=2)


def test_a_jpeg_keeps_twice_the_size_wanted(tmp_path):
    """The rest of the reduction is done with antialiasing, so that nothing is lost."""
    content, seen = jpeg(1000, 900), []
    for size in (450, 250, 225, 200, 113, 112, 8):
        with open_image(content) as image:
            decoding.decoding_bytes(image, size)
            seen.append(min(image.size))
    assert seen == [900, 900, 450, 450, 450, 225, 113]
    checks = (np.indices((1600, 1600)).sum(0) // 7 % 2 * 255).astype(np.uint8)
    Image.fromarray(checks).save(tmp_path / "a.jpg", quality=95)
    Image.fromarray(checks).save(tmp_path / "a.png")
    lossy, exact = (decode(tmp_path / f"a.{kind}", 200, 1).astype(int) for kind in ("jpg", "png"))
    assert np.abs(lossy - exact).mean() < 4


def test_a_part_of_a_large_jpeg_is_not_reduced_first():
    content = jpeg(1000, 900)
    assert (decode(content, 8, 1, box=(510, 0, 8, 8)) > 200).all()
    assert (decode(content, 8, 1, box=(480, 0, 8, 8)) < 50).all()


@pytest.mark.parametrize("side", [30_000, 65_500])
def test_a_jpeg_that_takes_too_much_memory_is_refused(side, monkeypatch):
    out = io.BytesIO()
    Image.new("RGB", (8, 8)).save(out, "JPEG")
    content = out.getvalue()
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("decoded"))
    place = content.index(b"\xff\xc0") + 5
    bomb = content[:place] + struct.pack(">HH", side, side) + content[place + 4 :]
    with pytest.raises(
        DataError, match=r"decoding it takes up to \d+\.\d GB of memory, and 3 GB are the most"
    ):
        decode(bomb, 8, 3)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    ("form", "at", "packing"), [("PNG", 16, ">II"), ("GIF", 6, "<HH"), ("BMP", 18, "<ii"), ("PPM", 0, "")]
)
def test_other_bombs_are_refused(form, at, packing, monkeypatch):
    out = io.BytesIO()
    Image.new("L", (8, 8)).save(out, form)
    content = out.getvalue()
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("decoded"))
    for side, told in ((12_000, "134,217,728 are the most that are decoded"), (60_000, "decompression bomb")):
        head = struct.pack(packing, side, side) if packing else b"P5 %d %d 255\n" % (side, side)
        bomb = content[:at] + head + content[at + len(head) :]
        if form == "PNG":  # a sum of what the head says follows it
            bomb = bomb[:29] + struct.pack(">I", zlib.crc32(bomb[12:29])) + bomb[33:]
        with pytest.raises(DataError, match=told):
            decode(bomb, 8, 3)


@pytest.mark.parametrize("upright", [True, False])
def test_of_a_strip_only_the_middle_is_enlarged(upright, monkeypatch):
    """As a whole, 200 kB would become 2 GB."""
    pixels = np.zeros((100_000, 2), np.uint8)
    pixels[40_000:60_000] = 200
    out, made, usual = io.BytesIO(), [], Image.Image.resize
    Image.fromarray(pixels if upright else pixels.T.copy()).save(out, "PNG")

    def recorded(image, size, *given, **options):
        made.append(size[0] * size[1])
        return usual(image, size, *given, **options)

    monkeypatch.setattr(Image.Image, "resize", recorded)
    how = Preprocessing(crop=0.875)
    assert (decode(out.getvalue(), 56, 1, preprocessing=how) == 200).all()
    assert (decode(out.getvalue(), 56, 1) == 200).all()
    assert max(made) <= 16 * 64 * 64
    whole = decode(out.getvalue(), 56, 1, preprocessing=Preprocessing(squash=True))
    assert 30 < whole.mean() < 50


@pytest.mark.parametrize("mode", ["I;16", "F"])
def test_large_gray_values_are_converted_in_bands(mode, monkeypatch):
    """The extremes are those of the whole image."""
    values = np.linspace(0, 60_000, 40 * 30).reshape(40, 30)
    image = Image.fromarray(values.astype(np.uint16 if mode == "I;16" else np.float32))
    out = io.BytesIO()
    image.save(out, "TIFF")
    whole = decode(out.getvalue(), 30, 1)
    monkeypatch.setattr(decoding, "_BAND", 90)
    assert np.array_equal(decode(out.getvalue(), 30, 1), whole)
    assert whole.max() == pytest.approx(60_000 / 65_535 * 255, abs=32)

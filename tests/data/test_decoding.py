"""Decoding: orientation, modes, bombs, and the square that is cut out."""

import numpy as np
import pytest
from PIL import Image

from labeltree.data.images import decode as decoding
from labeltree.data.images.decode import decode, read_head
from labeltree.errors import DataError


@pytest.fixture
def quadrants():
    """Four colours: red, green / blue, white."""
    pixels = np.zeros((16, 16, 3), np.uint8)
    pixels[:8, :8, 0] = pixels[:8, 8:, 1] = pixels[8:, :8, 2] = 255
    pixels[8:, 8:] = 255
    return Image.fromarray(pixels)


def corners(pixels):
    return [tuple(pixels[:, y, x].tolist()) for y, x in ((2, 2), (2, 13), (13, 2), (13, 13))]


RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def test_pixels_are_exact_at_their_own_size(tmp_path, quadrants):
    quadrants.save(tmp_path / "a.png")
    found = decode(tmp_path / "a.png", 16, 3)
    assert found.dtype == np.uint8
    assert np.array_equal(found, np.asarray(quadrants).transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("orientation", "expected"),
    [
        (1, [RED, GREEN, BLUE, WHITE]),
        (2, [GREEN, RED, WHITE, BLUE]),
        (3, [WHITE, BLUE, GREEN, RED]),
        (6, [BLUE, RED, WHITE, GREEN]),
        (8, [GREEN, WHITE, RED, BLUE]),
    ],
)
def test_orientation(tmp_path, quadrants, orientation, expected):
    exif = Image.Exif()
    exif[0x0112] = orientation
    quadrants.save(tmp_path / "a.png", exif=exif)
    assert corners(decode(tmp_path / "a.png", 16, 3)) == expected


def test_head_swaps_the_sides_of_turned_images(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("L", (10, 20)).save(tmp_path / "a.png", exif=exif)
    assert read_head(tmp_path / "a.png") == (20, 10, True)


@pytest.mark.parametrize("fill", [0, 200])
def test_transparency_lies_on_white(tmp_path, fill):
    Image.new("RGBA", (4, 4), (fill, fill, fill, 0)).save(tmp_path / "clear.png")
    Image.new("RGBA", (4, 4), (fill, fill, fill, 255)).save(tmp_path / "full.png")
    Image.new("LA", (4, 4), (fill, 0)).save(tmp_path / "gray.png")
    palette = Image.new("P", (4, 4))
    palette.putpalette([fill, fill, fill])
    palette.save(tmp_path / "palette.png", transparency=0)
    assert (decode(tmp_path / "clear.png", 4, 3) == 255).all()
    assert (decode(tmp_path / "full.png", 4, 3) == fill).all()
    for name in ("gray", "palette"):
        for channels in (1, 3):
            assert (decode(tmp_path / f"{name}.png", 4, channels) == 255).all()


def test_modes(tmp_path):
    wide = np.array([[0, 257], [32896, 65535]], np.uint16)
    Image.fromarray(wide).save(tmp_path / "wide.png")
    assert decode(tmp_path / "wide.png", 2, 1)[0].tolist() == [[0, 1], [128, 255]]
    Image.fromarray(wide.astype(np.int32)).save(tmp_path / "int.tiff")
    assert decode(tmp_path / "int.tiff", 2, 1)[0].tolist() == [[0, 1], [128, 255]]
    Image.fromarray(np.array([[0, 0.5], [np.nan, 1]], np.float32)).save(tmp_path / "real.tiff")
    assert decode(tmp_path / "real.tiff", 2, 3)[1].tolist() == [[0, 128], [0, 255]]
    Image.fromarray(np.array([[True, False], [False, True]])).save(tmp_path / "bits.png")
    assert decode(tmp_path / "bits.png", 2, 3)[2].tolist() == [[255, 0], [0, 255]]
    Image.new("CMYK", (2, 2), (0, 255, 255, 0)).save(tmp_path / "print.jpg")
    assert decode(tmp_path / "print.jpg", 2, 3)[:, 0, 0] == pytest.approx([255, 0, 0], abs=12)
    Image.new("RGB", (2, 2), (255, 0, 0)).save(tmp_path / "red.png")
    assert (decode(tmp_path / "red.png", 2, 1) == 76).all()


@pytest.mark.parametrize(
    ("name", "gray"), [("L", True), ("LA", True), ("RGB", False), ("RGBA", False), ("1", True)]
)
def test_gray_is_known_from_the_head(tmp_path, name, gray):
    Image.new(name, (3, 3)).save(tmp_path / "a.png")
    assert read_head(tmp_path / "a.png").gray is gray


def test_palettes_of_grays_are_gray(tmp_path):
    for name, second, gray in (("gray", [9, 9, 9], True), ("colour", [9, 0, 0], False)):
        image = Image.new("P", (2, 2))
        image.putpalette([0, 0, 0, *second])
        image.putpixel((0, 0), 1)
        image.save(tmp_path / f"{name}.png")
        assert read_head(tmp_path / f"{name}.png").gray is gray


def test_the_centred_square_is_kept(tmp_path):
    pixels = np.zeros((10, 30), np.uint8)
    pixels[:, 10:20] = 200
    Image.fromarray(pixels).save(tmp_path / "wide.png")
    assert (decode(tmp_path / "wide.png", 10, 1) == 200).all()
    Image.fromarray(pixels.T.copy()).save(tmp_path / "tall.png")
    assert (decode(tmp_path / "tall.png", 10, 1) == 200).all()


def test_large_photographs_are_reduced_with_antialiasing(tmp_path):
    checks = (np.indices((800, 1200)).sum(0) % 2 * 255).astype(np.uint8)
    Image.fromarray(checks).save(tmp_path / "a.png")
    Image.fromarray(checks).save(tmp_path / "a.jpg", quality=95)
    for name in ("a.png", "a.jpg"):
        found = decode(tmp_path / name, 32, 1)
        assert found.shape == (1, 32, 32)
        assert abs(found.astype(int) - 127).max() <= 6


def test_bombs_are_refused_before_they_are_decoded(tmp_path, monkeypatch):
    monkeypatch.setattr(decoding, "MAX_PIXELS", 1000)
    Image.new("L", (101, 10)).save(tmp_path / "a.png")
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("decoded"))
    with pytest.raises(DataError, match="101 x 10 pixels; 1,000 are the most"):
        decode(tmp_path / "a.png", 8, 1)


def test_pillows_own_limit_is_ours_too(tmp_path, monkeypatch):
    # Beyond twice its limit Pillow itself refuses.
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    Image.new("L", (101, 10)).save(tmp_path / "a.png")
    with pytest.raises(DataError, match="decompression bomb"):
        decode(tmp_path / "a.png", 8, 1)


def test_reasons(tmp_path, quadrants):
    (tmp_path / "empty.png").touch()
    with pytest.raises(DataError, match="the file is empty"):
        decode(tmp_path / "empty.png", 8, 3)
    with pytest.raises(DataError, match="there is no such file"):
        decode(tmp_path / "nowhere.png", 8, 3)
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(DataError, match="is a directory"):
        decode(tmp_path / "folder.png", 8, 3)
    for suffix in ("png", "jpg", "bmp", "webp", "tiff"):
        quadrants.resize((64, 64)).save(tmp_path / f"whole.{suffix}")
        data = (tmp_path / f"whole.{suffix}").read_bytes()
        (tmp_path / f"cut.{suffix}").write_bytes(data[: len(data) * 2 // 3])
        with pytest.raises(DataError):
            decode(tmp_path / f"cut.{suffix}", 8, 3)


def test_drawings_are_refused_before_another_program_reads_them(tmp_path):
    """Pillow has Ghostscript draw EPS, a language with which programs are written."""
    drawing = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n\n0 0 moveto 8 8 lineto stroke\n"
    (tmp_path / "innocent.png").write_bytes(drawing)
    with pytest.raises(DataError, match=r"it is a drawing \(EPS\), not an image of pixels; save it as PNG"):
        decode(tmp_path / "innocent.png", 8, 3)
    with pytest.raises(DataError, match="it is a drawing"):
        decode(drawing, 8, 3)

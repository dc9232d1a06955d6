"""TIFF files beyond 8 bits: what is read, and a sentence for what is not."""

import numpy as np
import pytest
from PIL import Image
from PIL.TiffImagePlugin import ImageFileDirectory_v2

from labeltree.data.images.decode import decode, read_head
from labeltree.errors import DataError

WIDE = np.array([[0, 257], [32896, 65535]])


@pytest.fixture
def write(tmp_path):
    """Write values ``(h, w)`` or ``(h, w, c)`` as an uncompressed TIFF of one strip, or one a channel."""

    def save(values, kind, photometric=None, planar=1, extra=()):
        values = np.asarray(values).astype(kind)
        channels = 1 if values.ndim == 2 else values.shape[2]
        strips = channels if planar == 2 else 1
        pixels = (values.transpose(2, 0, 1) if planar == 2 else values).tobytes()
        tags = ImageFileDirectory_v2()
        tags[256], tags[257], tags[277], tags[284] = values.shape[1], values.shape[0], channels, planar
        tags[258] = (8 * values.dtype.itemsize,) * channels
        tags[262] = (2 if channels > 2 else 1) if photometric is None else photometric
        tags[278], tags[279] = values.shape[0], (len(pixels) // strips,) * strips
        tags[339] = ({"u": 1, "i": 2, "f": 3}[values.dtype.kind],) * channels
        if extra:
            tags[338] = extra
        tags[273] = tuple(number * len(pixels) // strips for number in range(strips))  # from its end
        (tmp_path / "a.tif").write_bytes(b"II*\0\x08\0\0\0" + tags.tobytes(8) + pixels)
        return tmp_path / "a.tif"

    return save


def gray(path):
    return decode(path, 2, 1)[0].tolist()


def test_sixteen_bits(write):
    assert gray(write(WIDE, "<u2")) == [[0, 1], [128, 255]]
    assert gray(write(WIDE, "<u2", photometric=0)) == [[255, 254], [127, 0]]  # 0 is white
    assert gray(write(WIDE // 257, "u1", photometric=0)) == [[255, 254], [127, 0]]
    assert gray(write(WIDE // 257, "<i2")) == [[0, 1], [128, 255]]
    colour = np.stack([WIDE, WIDE.T, 0 * WIDE], axis=-1)
    path = write(colour, "<u2")
    assert decode(path, 2, 3).tolist() == [[[0, 1], [128, 255]], [[0, 128], [1, 255]], [[0, 0], [0, 0]]]
    assert read_head(path) == (2, 2, False)
    assert decode(write(colour // 257, "u1", planar=2), 2, 3)[1].tolist() == [[0, 128], [1, 255]]


def test_real_numbers(write):
    assert gray(write([[0, 0.5], [0.25, 1]], "<f4")) == [[0, 128], [64, 255]]
    assert gray(write([[0, 2], [128, 255]], "<f4")) == [[0, 2], [128, 255]]
    assert gray(write([[0, 257], [np.nan, 65535]], "<f4")) == [[0, 1], [0, 255]]
    assert gray(write([[-1e-9, 0.5], [0.25, 1]], "<f4")) == [[0, 128], [64, 255]]


def test_the_first_page_counts(tmp_path):
    pages = [Image.new("L", (2, 2), value) for value in (7, 8, 9)]
    pages[0].save(tmp_path / "pages.tiff", save_all=True, append_images=pages[1:])
    assert gray(tmp_path / "pages.tiff") == [[7, 7], [7, 7]]


@pytest.mark.parametrize(
    ("values", "kind", "options", "sentence"),
    [
        (np.ones((2, 2)), "<f8", {}, "a TIFF of 1 channel.* of 64-bit real numbers, .* save it as gray"),
        (np.ones((2, 2, 3)), "<f4", {}, "a TIFF of 3 channel.* of 32-bit real numbers"),
        (
            np.ones((2, 2, 5)),
            "<u2",
            {"photometric": 1, "extra": (0,) * 4},
            "5 channel.* 16-bit whole numbers",
        ),
        (np.ones((2, 2, 3)), "<u2", {"planar": 2}, "16-bit channels lie apart"),
        ([[-900, 0], [0, 3000]], "<f4", {}, r"its values go from -900 to 3000; they must be in \[0, 65535\]"),
        ([[-900, 0], [0, 3000]], "<i2", {}, "its values go from -900 to 3000"),
        ([[0, 0], [0, 70000]], "<u4", {}, "its values go from 0 to 70000"),
    ],
)
def test_what_is_not_read_says_what_to_do(write, values, kind, options, sentence):
    with pytest.raises(DataError, match=sentence):
        gray(write(values, kind, **options))


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_broken_directories(tmp_path):
    for data in (b"II*\0\xff\xff\xff\x7f", b"II*\0", b"II+\0\x08\0\0\0\xff", b"MM\0*\0\0\0\x08\xff\xff"):
        (tmp_path / "a.tif").write_bytes(data)
        with pytest.raises(DataError):
            gray(tmp_path / "a.tif")
        assert read_head(tmp_path / "a.tif") is None

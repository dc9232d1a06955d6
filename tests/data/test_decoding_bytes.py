"""How much memory decoding takes is known before: measured, of every mode and format, on Linux."""

import importlib.util
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian

from forked import run_forked
from labeltree.data.images.decode import decoding_bytes

SIDE = 1600
SIZE = 64

MEASURE = """
import ctypes, json, os, sys
from pathlib import Path
import pydicom.pixels
from PIL import Image
from labeltree.data.images.decode import decode, decoding_bytes, open_image, pixels_of
from labeltree.data.images.dicom import dicom_bytes, dicom_head, dicom_pixels

def resident(key):
    line = next(line for line in open("/proc/self/status") if line.startswith(key))
    return 1024 * int(line.split()[1])

for name in sys.argv[2:]:  # each in a process of its own, whose memory is that of this one
    if os.fork() == 0:
        try:
            content, size = Path(name).read_bytes(), int(sys.argv[1])
            if name.endswith(".dcm"):
                told = dicom_bytes(*dicom_head(content)) + 2 * len(content)
            else:
                with open_image(content) as image:
                    told = decoding_bytes(image, size)
            ctypes.CDLL(None).malloc_trim(0)  # nor is what is free of this one
            Path("/proc/self/clear_refs").write_text("5")  # the highest so far is forgotten
            before = resident("VmRSS")
            if name.endswith(".dcm"):
                pixels_of(Image.fromarray(dicom_pixels(content, 10**9)), size, 3)
            else:
                decode(content, size, 3)
            print(json.dumps([name, resident("VmHWM") - before, told]), flush=True)
        except OSError as error:
            print(json.dumps([name, str(error), 0]), flush=True)
        finally:
            os._exit(0)
    os.wait()
"""


def saved(image: Image.Image, form: str, **options: Any) -> Callable[[Path], None]:
    return lambda path: image.save(path, form, **options)


def dicom(values: np.ndarray[Any, Any], **tags: Any) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        dataset, bits = Dataset(), 8 * values.dtype.itemsize
        dataset.file_meta = FileMetaDataset()
        dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        dataset.file_meta.MediaStorageSOPClassUID = dataset.SOPClassUID = "1.2.840.10008.5.1.4.1.1.7"
        dataset.file_meta.MediaStorageSOPInstanceUID = dataset.SOPInstanceUID = "1.2.3"
        dataset.Rows, dataset.Columns = values.shape[:2]
        dataset.SamplesPerPixel = 3 if values.ndim == 3 else 1
        dataset.PhotometricInterpretation = "RGB" if values.ndim == 3 else "MONOCHROME1"
        dataset.BitsAllocated = dataset.BitsStored = bits
        dataset.HighBit, dataset.PixelRepresentation = bits - 1, 0
        if values.ndim == 3:
            dataset.PlanarConfiguration = 0
        for tag, value in tags.items():
            setattr(dataset, tag, value)
        dataset.PixelData = values.tobytes()
        dataset["PixelData"].VR = "OB" if bits == 8 else "OW"
        dataset.save_as(path, enforce_file_format=True)

    return write


def images() -> dict[str, Callable[[Path], None]]:
    gray = np.add.outer(np.arange(SIDE), np.arange(SIDE)).astype(np.uint8)
    colour = Image.fromarray(np.stack([gray] * 3, 2))
    clear, palette = colour.copy(), Image.fromarray(gray).convert("P")
    clear.putalpha(Image.fromarray(gray))
    half, clear_half = (image.resize((SIDE // 2, SIDE // 2)) for image in (colour, clear))  # slow to encode
    strip = {"compression": "tiff_deflate", "tiffinfo": {278: SIDE}}
    window = {"WindowCenter": 900, "WindowWidth": 500, "RescaleSlope": 1.5, "RescaleIntercept": -2}
    real = Image.fromarray(gray.astype(np.float32))
    found = {
        "gray.png": saved(Image.fromarray(gray), "PNG"),
        "colour.png": saved(colour, "PNG"),
        "clear.png": saved(clear, "PNG"),
        "clear-colour.png": saved(colour, "PNG", transparency=(1, 2, 3)),
        "clear-gray.png": saved(clear.convert("LA"), "PNG"),
        "palette.gif": saved(palette, "GIF"),
        "clear-palette.png": saved(palette, "PNG", transparency=3),
        "16.png": saved(Image.fromarray(gray.astype(np.uint16) * 200), "PNG"),
        "real.tif": saved(real, "TIFF"),
        "real-strip.tif": saved(real, "TIFF", **strip),
        "clear-strip.tif": saved(clear, "TIFF", **strip),
        "print.tif": saved(colour.convert("CMYK"), "TIFF"),
        "clear.webp": saved(clear, "WEBP", lossless=True, method=0),
        "colour.webp": saved(colour, "WEBP", quality=20, method=0),
        "fast.jpg": saved(colour, "JPEG"),
        "large-fast.jpg": saved(Image.new("L", (12_000, 9_000), 9), "JPEG"),
        "progressive.jpg": saved(colour, "JPEG", progressive=True, subsampling=0),
        "print.jpg": saved(colour.convert("CMYK"), "JPEG", progressive=True),
        "16.pgm": lambda path: path.write_bytes(b"P5 %d %d 65535\n" % (SIDE, SIDE) + bytes(2 * SIDE**2)),
        "colour.avif": saved(half, "AVIF", quality=30, speed=10),
        "clear.avif": saved(clear_half, "AVIF", quality=30, speed=10),
        "8.dcm": dicom(gray),
        "16.dcm": dicom(gray.astype(np.uint16) * 20, PixelPaddingValue=5),
        "window.dcm": dicom(gray.astype(np.uint16) * 20, VOILUTFunction="SIGMOID", **window),
        "colour.dcm": dicom(np.asarray(colour)),
        "colour-16.dcm": dicom(np.asarray(colour).astype(np.uint16) * 200),
    }
    if importlib.util.find_spec("pillow_heif") is not None:
        found["clear.heic"] = saved(clear_half, "HEIF", quality=10)
        found["16.heic"] = saved(Image.fromarray(gray[::2, ::2].astype(np.uint16) * 200), "HEIF", quality=10)
    return found


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the highest memory use is read as Linux shows it")
def test_no_image_takes_more_than_was_told(tmp_path: Path) -> None:
    if importlib.util.find_spec("pillow_heif") is not None:
        importlib.import_module("pillow_heif").register_heif_opener()
    written = images()
    for name, write in written.items():
        write(tmp_path / name)
    names = [str(tmp_path / name) for name in written]
    done = run_forked(MEASURE, [str(SIZE), *names])
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == names, done.stderr
    if isinstance(rows[0][1], str):
        pytest.skip(f"this system does not let it be measured: {rows[0][1]}")
    for name, took, told in rows:
        assert took <= told, f"{name}: {took / SIDE**2:.1f} bytes a pixel, not {told / SIDE**2:.1f}"
        if name.endswith("large-fast.jpg"):
            assert took < 40_000_000, f"108 megapixels take {took:,} bytes"
        if not name.endswith("fast.jpg"):  # whether a JPEG has several scans is not known before
            assert told < 3 * took + 10_000_000, f"{name}: {took / SIDE**2:.1f} bytes a pixel"


def test_a_large_jpeg_is_counted_at_the_size_that_it_is_decoded_to() -> None:
    out = io.BytesIO()
    Image.new("RGB", (SIDE, SIDE)).save(out, "JPEG")
    with Image.open(out) as small, Image.open(out) as large:
        assert decoding_bytes(small, SIZE) < decoding_bytes(large, SIDE) / 2


@pytest.mark.long
def test_tiles_of_a_tiff_are_counted() -> None:
    """A tile is decoded as a whole, however small the image is."""
    out = io.BytesIO()
    Image.new("L", (8, 8)).save(out, "TIFF")
    with Image.open(out) as image:
        before = decoding_bytes(image, 8)
        image.tag_v2[322], image.tag_v2[323] = 10_000, 20_000  # type: ignore[attr-defined]
        assert decoding_bytes(image, 8) - before > 200_000_000

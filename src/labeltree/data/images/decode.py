"""Decode images, from files or bytes, to pixels of one size, or say why that is impossible."""

from __future__ import annotations

import stat
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from labeltree.data.images.dicom import (
    dicom_bytes,
    dicom_head,
    dicom_pixels,
    is_dicom,
)
from labeltree.errors import DataError
from labeltree.file_kinds import DICOM_SUFFIXES
from labeltree.links import SPECIAL
from labeltree.preprocessing import Preprocessing

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage
    from PIL.TiffImagePlugin import ImageFileDirectory_v2

__all__ = [
    "FORMATS",
    "MAX_BYTES",
    "MAX_PIXELS",
    "REDUCING_GAP",
    "ImageHead",
    "check_file",
    "decode",
    "decoding_bytes",
    "image_errors",
    "is_gray",
    "open_image",
    "optional_decoders",
    "pixels_of",
    "read_head",
]

FORMATS = ("AVIF", "BMP", "GIF", "HEIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Pillow's names of their formats but DICOM. It knows more, and runs another program for some of them."""

MAX_PIXELS = 1 << 27
"""The most pixels that are decoded, which photographs of 108 megapixels have room in. A file of a few bytes
can claim any size (a decompression bomb). Of a JPEG those count that are left once it is reduced."""

MAX_BYTES = 3_000_000_000
"""The most memory that decoding an image may take, by `decoding_bytes`: that bounds what MAX_PIXELS does not,
images with many bytes a pixel, and JPEGs, of which the decoder may hold the whole before it reduces it."""

REDUCING_GAP = 3.0
"""Images more than this many times too large are reduced by a whole factor before they are resized."""

_GRAY = {"1", "L", "LA", "I", "F"}
_DRAWINGS = ("EPS", "WMF")  # Pillow starts another program (Ghostscript) to draw them
_FIXED_BYTES = 4_000_000  # of decoders and their libraries, whatever the size
_TIFF_BYTES = 8  # a pixel: a strip or tile of up to four 16-bit channels, which may be the whole image
_DECODER_BYTES = {"AVIF": 8, "HEIF": 8, "WEBP": 12}  # a pixel: planes or canvases, and what is handed over
_COEFFICIENT_BYTES = 2  # a pixel and channel, of a JPEG in several scans, at full size
_JPEG = ("JPEG", "MPO")  # MPO: several in a file, of which the first counts
_BAND = 1 << 16  # gray values that are converted at once
_HEIF_BRANDS = frozenset(
    (b"heic", b"heim", b"heis", b"heix", b"hevc", b"hevm", b"hevs", b"hevx", b"mif1", b"msf1")
)
_AVIF_BRANDS = frozenset((b"avif", b"avis"))
_LONGEST = 16  # times its shorter side, of which an image is resized before its centre is cut out
_ORIENTATION = 0x0112  # EXIF
_TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_BITS, _PHOTOMETRIC, _CHANNELS, _PLANAR, _FORMAT = 258, 262, 277, 284, 339
_TILE_WIDTH, _TILE_LENGTH = 322, 323
_TIFF_NUMBERS = {1: "whole numbers", 2: "signed whole numbers", 3: "real numbers"}


class ImageHead(NamedTuple):
    """The header of an image file."""

    width: int
    height: int
    gray: bool


def open_image(file: Path | bytes, formats: tuple[str, ...] | None = None) -> PilImage:
    """Open an image whose pixels are not read yet, unless it is DICOM.

    Args:
        file: The file, or its content.
        formats: The formats that Pillow may open, such as `FORMATS`; None = all that it knows.

    Raises:
        DataError: With the reason; other errors, which `image_errors` converts, are Pillow's.
    """
    from PIL import UnidentifiedImageError

    check_file(file)
    if isinstance(file, Path) and file.suffix.lower() in DICOM_SUFFIXES:
        return _open_dicom(file)
    try:
        image = _open_by_pillow(file, formats)
    except UnidentifiedImageError:
        if is_dicom(file):
            return _open_dicom(file)
        if (why := _why_not_tiff(file)) is not None:
            raise DataError(why) from None
        raise
    try:
        if image.format in _DRAWINGS:
            raise DataError(f"it is a drawing ({image.format}), not an image of pixels; save it as PNG")
        if image.format not in _JPEG:
            _check_pixels(image)
    except DataError:
        image.close()
        raise
    _check_tiff(image)
    return image


def _open_dicom(file: Path | bytes) -> PilImage:
    from PIL import Image

    _check_bytes(dicom_bytes(*dicom_head(file)))
    return Image.fromarray(dicom_pixels(file, MAX_PIXELS))


def _open_by_pillow(file: Path | bytes, formats: tuple[str, ...] | None) -> PilImage:
    from PIL import Image, JpegImagePlugin, UnidentifiedImageError, __version__

    _let_pillow_open_large_images()
    try:
        return _pillow_image(file, formats)
    except Image.DecompressionBombError:
        if not _head(file).startswith(b"\xff\xd8\xff"):
            raise
        # A photograph of 200 megapixels is reduced while it is decoded; Pillow asks for its size alone.
        return JpegImagePlugin.JpegImageFile(BytesIO(file) if isinstance(file, bytes) else file)
    except UnidentifiedImageError:
        head = _head(file)
        brand = head[8:12] if head[4:8] == b"ftyp" else b""
        if brand in _HEIF_BRANDS:
            if _reads_heif():
                return _pillow_image(file, formats)
            raise DataError(
                "it is a HEIC or HEIF image, which needs the package pillow-heif; install labeltree[heif]"
            ) from None
        if brand in _AVIF_BRANDS and not _reads_avif():
            raise DataError(
                f"it is an AVIF image, which Pillow {__version__} does not read here; install Pillow "
                "11.3 or later, or save it as PNG"
            ) from None
        raise


def _pillow_image(file: Path | bytes, formats: tuple[str, ...] | None) -> PilImage:
    from PIL import Image

    if formats is not None:
        Image.init()
        formats = tuple(name for name in formats if name in Image.OPEN)
    return Image.open(BytesIO(file) if isinstance(file, bytes) else file, formats=formats)


def _head(file: Path | bytes) -> bytes:
    """The first twelve bytes, by which JPEG, HEIF and AVIF are known."""
    if isinstance(file, bytes):
        return file[:12]
    with file.open("rb") as opened:
        return opened.read(12)


@cache
def _let_pillow_open_large_images() -> None:
    """Leave it to our own limits to warn of bombs; filters that the user has set go before this one."""
    from PIL import Image

    warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning, append=True)


@cache
def _reads_heif() -> bool:
    """Have Pillow read HEIF by pillow-heif, if that is installed."""
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        return False
    register_heif_opener()
    return True


def _reads_avif() -> bool:
    from PIL import features

    return "avif" in features.modules and features.check("avif") is True


def optional_decoders() -> str:
    """The names of the installed decoders that labeltree does without: what is unreadable depends on them."""
    packages = [name for name in ("pillow_heif", "pydicom") if find_spec(name) is not None]
    return " ".join([*packages, *(["avif"] if _reads_avif() else [])])


def _check_bytes(needed: int) -> None:
    if needed > MAX_BYTES:
        raise DataError(
            f"decoding it takes up to {needed / 1e9:.1f} GB of memory, and {MAX_BYTES / 1e9:g} GB are the "
            "most; save it with fewer pixels"
        )


def _check_pixels(image: PilImage) -> None:
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise DataError(f"it has {width} x {height} pixels; {MAX_PIXELS:,} are the most that are decoded")


def check_file(file: Path | bytes) -> int:
    """Refuse anything but a regular file that is not empty: opening a named pipe would block for ever.

    Returns:
        The size in bytes.

    Raises:
        DataError: With the reason.
    """
    if isinstance(file, bytes):
        if not file:
            raise DataError("the file is empty")
        return len(file)
    try:
        status = file.stat()
    except FileNotFoundError:
        raise DataError("there is no such file") from None
    if stat.S_ISDIR(status.st_mode):
        raise DataError("it is a directory")
    if not stat.S_ISREG(status.st_mode):
        raise DataError(SPECIAL)
    if status.st_size == 0:
        raise DataError("the file is empty")
    return status.st_size


def _reason(error: Exception) -> str:
    from PIL import UnidentifiedImageError

    if isinstance(error, DataError):
        return str(error)
    if isinstance(error, UnidentifiedImageError):
        return "it is not an image in a format that can be read"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__


def read_head(file: Path | bytes) -> ImageHead | None:
    """Size and kind of an image (its file, or the content), without decoding it; None if unreadable."""
    try:
        check_file(file)
        if is_dicom(file):
            return ImageHead(*dicom_head(file))
        with open_image(file) as image:
            width, height = image.size
            # Of a PNG without an orientation before its pixels, Pillow would decode them to look behind them.
            turns = image.format != "PNG" or "exif" in image.info
            if turns and image.getexif().get(_ORIENTATION, 1) >= 5:  # the orientations that swap the sides
                width, height = height, width
            return ImageHead(width, height, is_gray(image))
    except Exception:  # decoding will fail in the same way and say why
        return None


def is_gray(image: PilImage) -> bool:
    """Whether an image has no colours."""
    if image.mode == "P":
        palette = np.asarray(image.getpalette("RGB"), np.uint8).reshape(-1, 3)
        return bool((palette == palette[:, :1]).all())
    return image.mode in _GRAY or image.mode.startswith("I;")


def decode(
    file: Path | bytes,
    size: int,
    channels: int,
    box: Sequence[float] | None = None,
    *,
    formats: tuple[str, ...] | None = None,
    preprocessing: Preprocessing | None = None,
) -> np.ndarray[Any, Any]:
    """Read an image as `(channels, size, size)`, uint8.

    The image is turned as its EXIF orientation says; transparency is laid on white; 16-bit values are
    reduced to 8; the largest centred square is resized with antialiasing. Of several frames or pages the
    first counts. DICOM files are shown as `dicom_pixels` says.

    A JPEG of at least four times the size wanted is decoded to a half, quarter or eighth of its size, still
    at least twice the size wanted, and then resized. So photographs of 108 or 200 megapixels take little
    memory. Other formats are decoded as they are, up to MAX_PIXELS and MAX_BYTES.

    Args:
        file: The file, or its content.
        size: Side in pixels.
        channels: 1 or 3.
        box: Left, top, width and height of a crop box in pixels: the square around it is read, as far as the
            image goes; None = the whole image.
        formats: The formats that Pillow may open, such as `FORMATS`; None = all that it knows.
        preprocessing: How the square is cut out; None = the largest centred one. A crop box goes before it.

    Raises:
        DataError: With the reason (without the path) if the file cannot be read as a whole.
    """
    with image_errors(), open_image(file, formats) as opened:
        _check_bytes(decoding_bytes(opened, draft_side(size, preprocessing), whole=box is None))
        _check_pixels(opened)
        return _pixels(opened, size, channels, box, preprocessing)


def draft_side(size: int, preprocessing: Preprocessing | None) -> int:
    """The side in pixels to which the shorter side of an image is resized, before the square is cut out."""
    return size if preprocessing is None else min(preprocessing.resized(size, size, size))


def decoding_bytes(image: PilImage, size: int, *, whole: bool = True) -> int:
    """About the most memory that `decode` takes for an image that Pillow has opened; no pixel is read.

    Decoded pixels and their copy turned upright, what `decode` makes of them by their mode, and the buffers
    of Pillow's decoder. The content of the file is not counted. DICOM: see `dicom_bytes`.

    Args:
        image: The image, of one of `FORMATS`; a JPEG is set to be decoded to a fraction of its size.
        size: Side in pixels to decode to.
        whole: Whether the whole image is wanted; of a JPEG of which a part is, all is decoded at full size.

    Returns:
        Bytes.
    """
    pixels, channels = image.width * image.height, len(image.getbands())
    if whole and image.format in _JPEG:
        # JPEG decodes faster to a half, quarter or eighth; twice the size wanted leaves the rest to resizing.
        image.draft(None, (2 * size, 2 * size))
    each = 1 if image.mode in ("1", "L", "P") else 2 if image.mode.startswith("I;") else 4
    if image.mode.startswith("I;") or image.mode in ("I", "F"):
        work = 2 * each + 8  # as an array, which is made of pieces; in 8 bits; converted
    elif image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info:
        work = 12  # RGBA, the white below, and both together
    else:
        work = 4 if image.mode == "RGB" else 8  # converted, and resized in one direction
    buffers = 0
    if image.format in _JPEG:
        buffers = _COEFFICIENT_BYTES * channels * pixels
    elif image.format in _DECODER_BYTES:
        buffers = _DECODER_BYTES[image.format] * pixels
    elif image.format == "TIFF":
        tags: Any = getattr(image, "tag_v2", {})
        tile = _first(tags.get(_TILE_WIDTH, 0)) * _first(tags.get(_TILE_LENGTH, 0))
        buffers = _TIFF_BYTES * max(pixels, tile)
    result = 16 * size * size  # in up to four channels: resized in one direction, in both, as arrays
    return image.width * image.height * (2 * each + work) + buffers + result + _FIXED_BYTES


def pixels_of(
    image: PilImage, size: int, channels: int, preprocessing: Preprocessing | None = None
) -> np.ndarray[Any, Any]:
    """Convert an opened image to `(channels, size, size)`, uint8, as `decode` does.

    Raises:
        DataError: With the reason if it cannot be read as a whole.
    """
    with image_errors():
        _check_pixels(image)
        return _pixels(image, size, channels, None, preprocessing)


@contextmanager
def image_errors() -> Iterator[None]:
    """Convert any error raised by a broken image to a DataError with the reason."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        raise DataError(_reason(error)) from error


def _pixels(
    opened: PilImage,
    size: int,
    channels: int,
    box: Sequence[float] | None,
    preprocessing: Preprocessing | None,
) -> np.ndarray[Any, Any]:
    from PIL import Image, ImageOps

    opened.load()
    turned = opened.getexif().get(_ORIENTATION, 1) != 1
    image = ImageOps.exif_transpose(opened) if turned else opened  # which would be a copy
    image = _flat(image, "L" if channels == 1 else "RGB", _is_white_zero(opened))
    if preprocessing is not None and box is None:
        image = _centre(image, size, preprocessing)
    elif image.size != (size, size) or box is not None:
        square = _square(image.size, box)
        image = image.resize((size, size), Image.Resampling.BICUBIC, box=square, reducing_gap=REDUCING_GAP)
    pixels = np.asarray(image)
    return pixels[None] if channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _centre(image: PilImage, size: int, preprocessing: Preprocessing) -> PilImage:
    """The centre of an image, resized and cut as timm and torchvision do."""
    from PIL import Image

    longest = _LONGEST * min(image.size)
    if max(image.size) > longest and not preprocessing.squash:  # the whole of a strip would fill the memory
        across, down = (min(side, longest) for side in image.size)
        left, top = (image.width - across) // 2, (image.height - down) // 2
        image = image.crop((left, top, left + across, top + down))
    width, height = preprocessing.resized(*image.size, size)
    if image.size != (width, height):
        kind = Image.Resampling[preprocessing.interpolation.upper()]
        image = image.resize((width, height), kind)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return image.crop((left, top, left + size, top + size)) if (width, height) != (size, size) else image


def _square(size: tuple[int, int], box: Sequence[float] | None) -> tuple[float, float, float, float]:
    """The largest centred square of an image, or the one around a box, moved and reduced to fit."""
    width, height = size
    left, top, across, down = (0.0, 0.0, float(width), float(height)) if box is None else box
    if not (across > 0 and down > 0 and left < width and top < height and left + across > 0 < top + down):
        raise DataError(f"its box {tuple(box or ())} lies outside its {width} x {height} pixels")
    side = min(min(across, down) if box is None else max(across, down), width, height)
    x = min(max(left + (across - side) / 2, 0), width - side)
    y = min(max(top + (down - side) / 2, 0), height - side)
    return (x, y, x + side, y + side)


def _flat(image: PilImage, mode: str, white_zero: bool) -> PilImage:
    """Convert to 8 bits per channel, without palette or transparency."""
    from PIL import Image

    if image.mode.startswith("I;") or image.mode in ("I", "F"):
        image = _gray_bytes(np.asarray(image), image.mode, white_zero)
    if image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info:
        layer = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    return image if image.mode == mode else image.convert(mode)


def _gray_bytes(values: np.ndarray[Any, Any], mode: str, white_zero: bool) -> PilImage:
    """Whole numbers of 16 or 8 bits, or reals in [0, 1] or of as many bits, as gray; not a number is black.

    Raises:
        DataError: If values lie beyond.
    """
    from PIL import Image

    rows = max(1, _BAND // max(1, values.shape[1]))
    bands = [slice(at, at + rows) for at in range(0, len(values), rows)]  # float64 takes 8 bytes a value

    def real(band: slice) -> np.ndarray[Any, Any]:
        return np.nan_to_num(values[band].astype(np.float64))

    lowest = min((real(band).min(initial=0) for band in bands), default=0)
    highest = max((real(band).max(initial=0) for band in bands), default=0)
    if lowest < min(0, -1e-3 * highest) or highest > 65535:
        raise DataError(
            f"its values go from {lowest:g} to {highest:g}; they must be in [0, 65535], [0, 255] or, as real "
            "numbers, [0, 1]: rescale them"
        )
    if mode == "F":
        top = next(limit for limit in (1, 255, 65535) if highest <= limit)
    else:
        top = 255 if mode == "I" and highest <= 255 else 65535
    gray = np.empty(values.shape, np.uint8)
    for band in bands:
        scaled = real(band) * (255 / top)
        gray[band] = (255 - scaled if white_zero else scaled).clip(0, 255).round()
    return Image.fromarray(gray)


def _why_not_tiff(file: Path | bytes) -> str | None:
    """Why a TIFF file cannot be identified, with what to do; None if it is no TIFF file."""
    from PIL import TiffImagePlugin

    stream: IO[bytes] = BytesIO(file) if isinstance(file, bytes) else file.open("rb")
    with stream:
        head = stream.read(8)
        if head[:4] not in _TIFF_MAGIC:
            return None
        if head[2:3] == b"+" or head[3:4] == b"+":
            head += stream.read(8)
        try:
            tags = TiffImagePlugin.ImageFileDirectory_v2(head)
            stream.seek(tags.next)
            tags.load(stream)
        except Exception:  # a broken file, as the caller's sentence says
            return None
    numbers = _TIFF_NUMBERS.get(_first(tags.get(_FORMAT, 1)), "numbers")
    return (
        f"it is a TIFF of {tags.get(_CHANNELS, 1)} channel(s) of {_bits(tags)}-bit {numbers}, which cannot "
        "be read; save it as gray or RGB of 8 or 16 bits, or as gray of 32-bit real numbers"
    )


def _check_tiff(image: PilImage) -> None:
    """Check that Pillow reads the pixels of an identified image correctly.

    Raises:
        DataError: If it is a TIFF whose 16-bit channels lie apart, which Pillow garbles.
    """
    tags = getattr(image, "tag_v2", None)
    if tags is not None and tags.get(_PLANAR, 1) == 2 and _bits(tags) > 8:
        raise DataError(
            f"it is a TIFF whose {_bits(tags)}-bit channels lie apart (planar configuration 2), which cannot "
            "be read; save it with interleaved channels, or with 8 bits"
        )


def _is_white_zero(image: PilImage) -> bool:
    """Whether 0 is white in a TIFF of more than 8 bits; with 8, Pillow has turned it already."""
    tags = getattr(image, "tag_v2", None)
    return tags is not None and tags.get(_PHOTOMETRIC) == 0 and _bits(tags) > 8


def _bits(tags: ImageFileDirectory_v2) -> int:
    return _first(tags.get(_BITS, 1))


def _first(value: Any) -> int:
    """The first value of a tag with one value, or one per channel."""
    return int(value[0] if isinstance(value, tuple) else value)

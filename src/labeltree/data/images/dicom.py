"""DICOM files: from stored values to gray or colour as a viewer shows them, by the first frame."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.errors import DataError
from labeltree.file_kinds import DICOM_SUFFIXES

if TYPE_CHECKING:
    from pydicom import Dataset

__all__ = ["dicom_bytes", "dicom_head", "dicom_pixels", "is_dicom"]

_GRAY_BYTES, _COLOUR_BYTES = 64, 130  # a pixel, of up to 32 bits a channel
_MARK_AT, _MARK = 128, b"DICM"
_DEFLATED = b"1.2.840.10008.1.2.1.99"  # transfer syntax of files that are compressed as a whole


def is_dicom(file: Path | bytes) -> bool:
    """Whether a file, or its content, is DICOM by the extension, or by the mark after the first 128 bytes."""
    if isinstance(file, bytes):
        return file[_MARK_AT : _MARK_AT + len(_MARK)] == _MARK
    if file.suffix.lower() in DICOM_SUFFIXES:
        return True
    with file.open("rb") as opened:
        return opened.read(_MARK_AT + len(_MARK))[_MARK_AT:] == _MARK


def dicom_head(file: Path | bytes) -> tuple[int, int, bool]:
    """Width, height, and whether the image is gray; no pixel is read.

    Raises:
        DataError: If the file holds no image.
    """
    return _size_and_kind(_read(file, pixels=False))


def dicom_bytes(width: int, height: int, gray: bool) -> int:
    """About the most memory that `dicom_pixels` and the resizing of its result take, in bytes.

    Args:
        width: As of `dicom_head`.
        height: As of `dicom_head`.
        gray: As of `dicom_head`.
    """
    return width * height * (_GRAY_BYTES if gray else _COLOUR_BYTES) + 4_000_000


def dicom_pixels(file: Path | bytes, largest: int) -> np.ndarray[Any, Any]:
    """The first frame, uint8, `(h, w)` if gray, else `(h, w, 3)`.

    Gray values go through the modality's table or slope and intercept, then through the first window
    (centre and width; DICOM PS3.3, C.11.2) or look-up table that the file names. Without either, 8-bit values
    stay as they are, and others are spread from the smallest to the largest, padding aside. `MONOCHROME1`
    is inverted. Palettes and YBR become RGB.

    Args:
        file: The file, or its content.
        largest: Maximum number of pixels.

    Raises:
        DataError: If the package for it is missing, or the file holds no image that can be decoded; with the
            reason.
    """
    width, height, gray = _size_and_kind(_read(file, pixels=False))
    if width * height > largest:
        raise DataError(f"it has {width} x {height} pixels; {largest:,} are the most that are decoded")
    dataset = _read(file, pixels=True)
    try:
        values = _first_frame(dataset)
    except RuntimeError as error:  # all decoders have failed, each with a line of its own
        raise DataError(f"its pixels cannot be decoded: {str(error).splitlines()[-1].strip()}") from error
    if gray:
        return _to_display(values, dataset)
    if dataset.PhotometricInterpretation == "PALETTE COLOR":
        from pydicom.pixels.processing import apply_color_lut

        values = apply_color_lut(values, dataset)
    bits = 8 * values.dtype.itemsize if values.dtype != np.uint8 else int(dataset.get("BitsStored", 8))
    return _bytes(values / (2**bits - 1))


def _read(file: Path | bytes, *, pixels: bool) -> Dataset:
    try:
        from pydicom import dcmread
        from pydicom.errors import InvalidDicomError
    except ImportError as error:
        raise DataError(
            "it is a DICOM file, which needs the package pydicom; install labeltree[dicom]"
        ) from error
    if (
        isinstance(file, bytes) and _DEFLATED in file
    ):  # of a stranger: pydicom would unpack it without a limit
        raise DataError("it is a deflated DICOM file; save it with another transfer syntax")
    try:
        return dcmread(BytesIO(file) if isinstance(file, bytes) else file, stop_before_pixels=not pixels)
    except InvalidDicomError as error:
        raise DataError(f"it is not a DICOM file: there is no '{_MARK.decode()}' in its head") from error


def _first_frame(dataset: Dataset) -> np.ndarray[Any, Any]:
    from pydicom.pixels.decoders.base import get_decoder
    from pydicom.pixels.utils import pixel_array

    syntax = dataset.file_meta.TransferSyntaxUID
    if syntax.is_compressed and not get_decoder(syntax).is_available:
        raise DataError(
            f"its pixels are compressed ({syntax.name}), which needs a further package; install pylibjpeg "
            "with pylibjpeg-libjpeg and pylibjpeg-openjpeg, or python-gdcm, or save it uncompressed"
        )
    frame: np.ndarray[Any, Any] = pixel_array(dataset, index=0)
    return frame


def _size_and_kind(dataset: Dataset) -> tuple[int, int, bool]:
    if "Rows" not in dataset or "Columns" not in dataset:
        what = dataset.get("Modality") or "it"
        raise DataError(f"it is a DICOM file without an image ({what})")
    gray = int(dataset.get("SamplesPerPixel", 1)) == 1 and dataset.get("PhotometricInterpretation") in (
        "MONOCHROME1",
        "MONOCHROME2",
    )
    return int(dataset.Columns), int(dataset.Rows), gray


def _to_display(values: np.ndarray[Any, Any], dataset: Dataset) -> np.ndarray[Any, Any]:
    """Gray values for display, 0 to 255."""
    from pydicom.pixels.processing import apply_modality_lut, apply_voi

    padding = dataset.get("PixelPaddingValue")
    seen = np.ones(values.shape, bool) if padding is None else values != padding
    unsigned_byte = values.dtype == np.uint8 and int(dataset.get("BitsStored", 8)) == 8
    real = np.asarray(apply_modality_lut(values, dataset))
    if "VOILUTSequence" in dataset and real.dtype.kind in "iu":
        bits = int(dataset.VOILUTSequence[0].LUTDescriptor[2])
        gray = apply_voi(real, dataset) / (2**bits - 1)
    elif "WindowCenter" in dataset and "WindowWidth" in dataset:
        function = str(dataset.get("VOILUTFunction") or "LINEAR").upper()
        gray = _window(
            real.astype(np.float64), _first(dataset.WindowCenter), _first(dataset.WindowWidth), function
        )
    elif unsigned_byte and real.dtype == np.uint8:
        gray = real / 255
    else:
        inside = real[seen] if seen.any() else real.ravel()
        low, high = float(inside.min()), float(inside.max())
        gray = (real - low) / (high - low or 1.0)
    if dataset.PhotometricInterpretation == "MONOCHROME1":
        gray = 1 - gray
    return _bytes(gray)


def _bytes(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    whole: np.ndarray[Any, Any] = (np.clip(values, 0, 1) * 255).round().astype(np.uint8)
    return whole


def _window(values: np.ndarray[Any, Any], center: float, width: float, function: str) -> np.ndarray[Any, Any]:
    """Values between 0 and 1 (DICOM PS3.3, C.11.2.1.2 and C.11.2.1.3)."""
    if function == "SIGMOID" and width > 0:
        shown: np.ndarray[Any, Any] = 1 / (1 + np.exp(-4 * (values - center) / width))
        return shown
    if function == "LINEAR_EXACT" and width > 0:
        return (values - center) / width + 0.5
    if function == "LINEAR" and width >= 1:
        # A width of one pixel value is a step.
        return (values - (center - 0.5)) / max(width - 1, 1e-9) + 0.5
    raise DataError(f"its window has width {width:g} and function {function}, which DICOM does not know")


def _first(value: Any) -> float:
    """Of several windows."""
    from pydicom.multival import MultiValue

    return float(value[0] if isinstance(value, MultiValue) else value)

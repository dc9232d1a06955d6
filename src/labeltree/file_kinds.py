"""What a file may hold, by its name: an image, a table, vectors, shards."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from labeltree.text_files import split_packed

__all__ = [
    "DICOM_SUFFIXES",
    "IMAGE_SUFFIXES",
    "PARQUET",
    "RECORDS",
    "SHEETS",
    "TABLE_SUFFIXES",
    "TEXTS",
    "VECTOR_SUFFIXES",
    "is_data_file",
    "is_table_file",
    "is_vector_file",
    "names_image",
    "near_path",
]

_PICTURES = (
    "avif",
    "bmp",
    "gif",
    "heic",
    "heif",
    "hif",
    "jfif",
    "jpe",
    "jpeg",
    "jpg",
    "pbm",
    "pgm",
    "png",
    "pnm",
    "ppm",
    "tif",
    "tiff",
    "webp",
)
DICOM_SUFFIXES = frozenset({".dcm", ".dicom"})
IMAGE_SUFFIXES = frozenset(f".{kind}" for kind in _PICTURES) | DICOM_SUFFIXES
"""The suffixes of images."""

PARQUET = (".parquet", ".pq")
TEXTS = (".csv", ".tsv", ".tab", ".psv", ".txt")
RECORDS = (".jsonl", ".ndjson", ".json")
SHEETS = (".xlsx", ".xlsm")
TABLE_SUFFIXES = (*TEXTS, *RECORDS, *SHEETS, *PARQUET, ".zip")
"""The suffixes of tables; `.gz`, `.bz2`, `.xz` or `.zst` may follow those of text and JSON."""
VECTOR_SUFFIXES = (".npz", ".npy", ".h5ad", ".h5", ".hdf5", ".pt", ".pth")


def names_image(text: str) -> bool:
    """Whether a text ends as the name of an image file does."""
    return os.path.splitext(text)[1].lower() in IMAGE_SUFFIXES


def is_table_file(path: str | Path) -> bool:
    """Whether a file may be a table, by its name."""
    kind, packing = split_packed(path)
    return kind in TABLE_SUFFIXES and (not packing or kind in (*TEXTS, *RECORDS))


def is_vector_file(path: str | Path) -> bool:
    """Whether a file may hold vectors, by its name."""
    suffix = Path(path).suffix.lower()
    return suffix in VECTOR_SUFFIXES or (is_table_file(path) and suffix not in (".txt", ".json"))


def is_data_file(path: str | Path) -> bool:
    """Whether a file may hold many samples, by its name: a table, vectors, or a shard."""
    return is_vector_file(path) or is_table_file(path) or Path(path).suffix.lower() == ".tar"


def near_path(path: str | Path) -> str | None:
    """The file or folder beside a missing one whose name is nearly the same; None if there is none."""
    path = Path(path)
    try:
        names = [each.name for each in path.parent.iterdir()] if path.name else []
    except OSError:
        return None
    near = difflib.get_close_matches(path.name, names, 1, 0.7)
    return str(path.parent / near[0]) if near else None

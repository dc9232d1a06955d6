"""The IDX format, in which MNIST and its relatives come: big-endian header, then raw bytes."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from labeltree.errors import DataError

__all__ = ["IdxHeader", "read_header", "read_labels"]


class IdxHeader(NamedTuple):
    """Shape of an IDX file and where its data begin."""

    shape: tuple[int, ...]
    offset: int


def read_header(path: Path, dimensions: int) -> IdxHeader:
    """Read and check the header of an uncompressed IDX file of unsigned bytes.

    Raises:
        DataError: If the file is missing, has another format, or does not hold what its header says.
    """
    if not path.is_file():
        raise DataError(f"the file '{path}' is missing")
    offset = 4 + 4 * dimensions
    with path.open("rb") as file:
        head = file.read(offset)
    if len(head) < offset or head[:4] != bytes((0, 0, 8, dimensions)):
        raise DataError(f"'{path}' is not an IDX file of unsigned bytes with {dimensions} dimensions")
    shape = struct.unpack(f">{dimensions}I", head[4:])
    size = path.stat().st_size
    if size != offset + math.prod(shape):
        raise DataError(f"'{path}' has {size} bytes, but its header promises {offset + math.prod(shape)}")
    return IdxHeader(shape, offset)


def read_labels(path: Path) -> np.ndarray[Any, Any]:
    """The labels ``(n,)``, int64, of an IDX file with one dimension."""
    header = read_header(path, 1)
    return np.fromfile(path, np.uint8, offset=header.offset).astype(np.int64)

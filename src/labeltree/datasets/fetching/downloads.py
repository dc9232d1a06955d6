"""Files that are what they claim to be: sizes, digests, and no half-written ones."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labeltree.errors import DataError

__all__ = ["Expected", "check_files", "sha256"]


@dataclass(frozen=True)
class Expected:
    """What a file must be."""

    size: int
    sha256: str


def sha256(path: Path) -> str:
    """Digest of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_files(folder: Path, expected: Mapping[str, Expected], *, digests: bool = True) -> None:
    """Compare files with what they must be.

    Raises:
        DataError: Names the first file that is missing, has another size, or another digest.
    """
    for name, wanted in expected.items():
        path = folder / name
        if not path.is_file():
            raise DataError(f"the file '{path}' is missing")
        size = path.stat().st_size
        if size != wanted.size:
            raise DataError(f"the file '{path}' has {size} bytes where {wanted.size} were expected")
        if digests and sha256(path) != wanted.sha256:
            raise DataError(
                f"the file '{path}' is damaged or of another version: its digest is not {wanted.sha256[:12]}…"
            )

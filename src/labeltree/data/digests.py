"""What a sample holds, in 16 bytes: the digests by which a change of its content is noticed."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["DIGEST_BYTES", "combined_digests", "file_digest", "row_digests", "text_digests"]

Array = np.ndarray[Any, Any]

DIGEST_BYTES = 16
"""The first half of a SHA-256: no two different contents share it by chance."""


def file_digest(path: str | Path) -> bytes:
    """The digest of a file's bytes; zeros where it cannot be read, or is none: a pipe would wait for ever."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return bytes(DIGEST_BYTES)
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()[:DIGEST_BYTES]
    except (OSError, ValueError):  # a name may be none at all
        return bytes(DIGEST_BYTES)


def row_digests(array: Array) -> Array:
    """The digest of each row of an array ``(n, ...)`` of bytes: ``(n, 16)`` uint8."""
    rows = np.ascontiguousarray(array).reshape(len(array), -1)
    return _stacked(hashlib.sha256(row.data).digest() for row in rows.view(np.uint8))


def text_digests(texts: Iterable[str]) -> Array:
    """The digest of each text: ``(n, 16)`` uint8."""
    return _stacked(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts)


def combined_digests(first: Array, second: Array) -> Array:
    """One digest of two things that a sample has, such as an image and a text.

    Args:
        first: ``(n, a)`` uint8.
        second: ``(n, b)`` uint8.

    Returns:
        ``(n, 16)`` uint8.
    """
    return row_digests(np.concatenate([first, second], axis=1))


def _stacked(digests: Iterable[bytes]) -> Array:
    joined = b"".join(digest[:DIGEST_BYTES] for digest in digests)
    return np.frombuffer(joined, np.uint8).reshape(-1, DIGEST_BYTES)

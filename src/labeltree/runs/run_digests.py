"""Digests of a run: of its weights and other files, and of its samples."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from labeltree.runs.run_folder import RunFolder

__all__ = ["file_digest", "samples_digest", "weights_digest"]


def file_digest(file: Path) -> str:
    """The SHA-256 of a file."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def weights_digest(folder: RunFolder) -> str:
    """A fingerprint of the weights of a run."""
    return file_digest(folder.encoder)


def samples_digest(folder: RunFolder) -> str:
    """First half of the SHA-256 of a run's samples (ids, contents, labels and splits) and taxonomy."""
    digest = hashlib.sha256(folder.taxonomy.read_bytes())
    for name, column in sorted(folder.load_samples().arrays().items()):
        digest.update(f"{name} {column.dtype} {column.shape}".encode())
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()[:32]

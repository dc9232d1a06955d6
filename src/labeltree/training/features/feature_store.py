"""Features of a frozen encoder, kept on disk by the content of the samples that they are of."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.atomic import atomic_write
from labeltree.errors import DataError

__all__ = ["FeatureStore", "KeptFeatures", "forget_features"]

_MAGIC = b"labeltree features 1\n"
_DIGEST = 16
_SUFFIX = ".features"

Array = np.ndarray[Any, Any]


class FeatureStore:
    """A folder of features by the digest of a sample's content; all runs with the same encoder share it.

    The folder has a file for every call of `add`: a line that names the format, the number of samples in 8
    bytes, their digests `(n, 16)`, and their features `(n, f)` float32, which are read only where they
    are wanted. A file appears whole or not at all, so a process may die at any time. Processes that compute
    the same features at the same time keep them twice.

    Args:
        folder: The folder; it need not exist.
        width: Number of features, f.
    """

    def __init__(self, folder: Path, width: int) -> None:
        self.folder = folder
        self.width = width
        self._parts: list[Array] = []
        self._read: set[str] = set()
        self._keys = np.zeros(0, dtype=f"S{_DIGEST}")
        self._places = np.zeros((0, 2), np.int64)  # part, and row in it, in the order of the keys
        self._look()

    def _look(self) -> None:
        """Take in the files that have come since the last look."""
        keys, places = [self._keys], [self._places]
        for file in sorted(self.folder.glob(f"*{_SUFFIX}")) if self.folder.is_dir() else ():
            if file.name in self._read or (opened := self._open(file)) is None:
                continue
            digests, features = opened
            self._read.add(file.name)
            keys.append(digests)
            places.append(
                np.stack([np.full(len(digests), len(self._parts)), np.arange(len(digests))], axis=1)
            )
            self._parts.append(features)
        together = np.concatenate(keys)
        self._keys, first = np.unique(together, return_index=True)
        self._places = np.concatenate(places)[first]

    def _open(self, file: Path) -> tuple[Array, Array] | None:
        """Digests and features in a file; None if it is damaged, or another program wrote it."""
        try:
            with file.open("rb") as opened:
                if opened.read(len(_MAGIC)) != _MAGIC:
                    return None
                count = int.from_bytes(opened.read(8), "little")
                start = len(_MAGIC) + 8 + count * _DIGEST
                if file.stat().st_size != start + 4 * count * self.width:
                    return None
                digests = np.frombuffer(opened.read(count * _DIGEST), dtype=f"S{_DIGEST}")
            shape = (count, self.width)
            return digests, np.memmap(file, np.float32, "r", start, shape) if count else np.zeros(
                shape, np.float32
            )
        except OSError:
            return None

    def places(self, digests: Array) -> Array:
        """Where the features of samples are, `(m, 2)` int64 for `take`; -1 where there are none.

        Args:
            digests: `(m, 16)` uint8.
        """
        wanted = _make_keys(digests)
        at = np.minimum(np.searchsorted(self._keys, wanted), max(len(self._keys) - 1, 0))
        if not len(self._keys):
            return np.full((len(wanted), 2), -1)
        return np.where((self._keys[at] == wanted)[:, None], self._places[at], -1)

    def take(self, places: Array) -> Tensor:
        """Features `(m, f)` at places that `places` has found."""
        features = np.empty((len(places), self.width), np.float32)
        for part in np.unique(places[:, 0]).tolist():
            here = np.flatnonzero(places[:, 0] == part)
            features[here] = self._parts[part][places[here, 1]]
        return torch.from_numpy(features)

    def add(self, digests: Array, features: Sequence[Tensor]) -> None:
        """Keep the features of further samples.

        Args:
            digests: `(m, 16)` uint8.
            features: Their features, `(m, f)` float32 in all.

        Raises:
            DataError: If they cannot be written, for example because the disk is full.
        """
        if not len(digests):
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with (
                atomic_write(self.folder / f"{secrets.token_hex(8)}{_SUFFIX}") as fresh,
                fresh.open("wb") as out,
            ):
                out.write(_MAGIC + len(digests).to_bytes(8, "little"))
                out.write(np.ascontiguousarray(digests).tobytes())
                for part in features:
                    out.write(np.ascontiguousarray(part.numpy(), dtype=np.float32).tobytes())
        except OSError as error:
            raise DataError(
                f"features cannot be kept in '{self.folder}' ({error.strerror or error}); choose another "
                "cache folder with LABELTREE_DATA"
            ) from error
        self._look()

    def __getstate__(self) -> tuple[Path, int]:
        return self.folder, self.width

    def __setstate__(self, state: tuple[Path, int]) -> None:
        self.__init__(*state)  # type: ignore[misc]


def forget_features(folder: Path, digests: Array) -> int:
    """Delete the features of samples from all stores in a folder, whatever encoder they are of.

    Args:
        folder: Whose folders are stores.
        digests: `(m, 16)` uint8 of the contents of the samples.

    Returns:
        How many were deleted.
    """
    wanted, deleted = _make_keys(digests), 0
    for file in sorted(folder.glob(f"*/*{_SUFFIX}")):
        content = file.read_bytes()
        start = len(_MAGIC) + 8
        count = int.from_bytes(content[len(_MAGIC) : start], "little")
        rest = start + count * _DIGEST
        if not content.startswith(_MAGIC) or not count or (len(content) - rest) % count:
            continue
        rows = np.frombuffer(content[start:rest], np.uint8).reshape(count, _DIGEST)
        keep = ~np.isin(_make_keys(rows), wanted)
        if keep.all():
            continue
        deleted += int((~keep).sum())
        if not keep.any():
            file.unlink()
            continue
        features = np.frombuffer(content[rest:], np.uint8).reshape(count, -1)
        with atomic_write(file) as fresh:
            fresh.write_bytes(
                _MAGIC
                + int(keep.sum()).to_bytes(8, "little")
                + rows[keep].tobytes()
                + features[keep].tobytes()
            )
    return deleted


def _make_keys(digests: Array) -> Array:
    return np.ascontiguousarray(digests, dtype=np.uint8).reshape(-1).view(f"S{_DIGEST}")


class KeptFeatures:
    """The features of the rows of a source, from a store.

    Args:
        store: The store.
        rows: `(m,)` ascending rows that may be loaded.
        digests: `(m, 16)` digests of their content.
    """

    def __init__(self, store: FeatureStore, rows: Tensor, digests: Array) -> None:
        self._store = store
        self._rows = rows
        self._digests = digests

    def load(self, rows: Tensor) -> Tensor:
        """Features `(n, f)` of the rows `(n,)`.

        Raises:
            DataError: If some have been deleted meanwhile.
            IndexError: For a row that may not be loaded.
        """
        at = torch.searchsorted(self._rows, rows).clamp_max(len(self._rows) - 1)
        if not torch.equal(self._rows[at], rows):
            raise IndexError("features of other rows than those of this view of the store")
        places = self._store.places(self._digests[at.numpy()])
        if (places < 0).any():
            raise DataError(
                f"features have vanished from '{self._store.folder}'; the same command makes them again"
            )
        return self._store.take(places)

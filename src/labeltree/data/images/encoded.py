"""Encoded images, not yet decoded: files, or parts of larger files such as the members of a tar file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from labeltree.data.images.decode import check_file
from labeltree.data.source import DIGEST_BYTES, bytes_digest, file_digest, printable
from labeltree.errors import DataError
from labeltree.lazy import torch

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EncodedImages", "ImageFiles", "ImageParts", "PartNames", "encoded", "file_stamps", "read_part"]

Array = np.ndarray[Any, Any]
_AT_ONCE = 65_536
_END = 4096


class EncodedImages(Protocol):
    """Encoded images by row."""

    @property
    def files(self) -> Sequence[str]:
        """The files that hold them."""

    def __len__(self) -> int: ...

    def where(self, row: int) -> str:
        """The printable place of an image, for messages."""

    def read(self, row: int) -> Path | bytes:
        """The file of an image, or its content, as `decode` takes it.

        Raises:
            DataError: With the reason, if it cannot be read.
        """

    def digest(self, row: int) -> bytes:
        """The digest of an image's bytes; zeros if they cannot be read."""

    def quick_digest(self, row: int) -> bytes:
        """A digest of the size of an image and its first and last 4 kB, by which a change is noticed.

        Raises:
            DataError: With the reason, if it is missing, empty, no file, or cannot be opened.
        """

    def stamps(self) -> Array:
        """Integers `(n, k)` that change when an image changes: sizes, times of change, positions."""

    def stamp(self, row: int) -> Array:
        """The present stamp `(k,)` of one image."""


class PathList(Sequence[str]):
    """Paths, packed into two tensors: loader processes share their memory instead of each having a copy.

    Args:
        paths: The paths.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        coded = [os.fsencode(path) for path in paths]
        self._ends = torch.tensor([0, *map(len, coded)]).cumsum(0)
        self._bytes = torch.frombuffer(bytearray(b"".join(coded) or b"\0"), dtype=torch.uint8)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[place] for place in range(*row.indices(len(self)))]
        if not -len(self) <= row < len(self):
            raise IndexError(f"there is no path {row}")
        start, end = self._ends[row % len(self) :][:2].tolist()
        return os.fsdecode(self._bytes[start:end].numpy().tobytes())


class ImageFiles:
    """Images that are files of their own.

    Args:
        files: Paths of the files.
    """

    def __init__(self, files: Sequence[str]) -> None:
        self.files = PathList(files)

    def __len__(self) -> int:
        return len(self.files)

    def where(self, row: int) -> str:
        """The printable path."""
        return printable(self.files[row])

    def read(self, row: int) -> Path:
        """The path."""
        return Path(self.files[row])

    def digest(self, row: int) -> bytes:
        """The digest of the file's bytes."""
        return file_digest(self.files[row])

    def quick_digest(self, row: int) -> bytes:
        """The digest of the file's size and ends."""
        file = self.files[row]
        return _ends_digest(file, 0, check_file(Path(file)))

    def stamps(self) -> Array:
        """The size and the time of change of each file; see `file_stamps`."""
        return file_stamps(self.files)

    def stamp(self, row: int) -> Array:
        """The size and the time of change of a file now."""
        stamp: Array = file_stamps([self.files[row]])[0]
        return stamp


class PartNames(Sequence[str]):
    """The names of parts of files, made when they are asked for: `FILE/KEY`, or `FILE/KEY.EXTENSION`.

    Args:
        files: Name of each file.
        starts: Number of keys before those of each file, and of all `(files + 1,)`.
        keys: The keys of all files, an Arrow array.
        rows: The key of each part `(n,)`.
        extensions: The extensions; None = the names have none.
        codes: The extension of each part `(n,)`.
    """

    def __init__(
        self,
        files: Sequence[str],
        starts: Array,
        keys: pa.Array,
        rows: Array,
        extensions: Sequence[str] | None = None,
        codes: Array | None = None,
    ) -> None:
        self._files = files
        self._starts = starts
        self._keys = keys
        self._rows = rows
        self._extensions = extensions
        self._codes = codes

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, part: Any) -> Any:
        names = list(self.take(np.arange(len(self))[part].reshape(-1)))
        return names if isinstance(part, slice) else names[0]

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _AT_ONCE):
            rows = self._rows[start : start + _AT_ONCE]
            files = (np.searchsorted(self._starts, rows, "right") - 1).tolist()
            keys = self._keys.take(rows).to_pylist()
            if self._extensions is None or self._codes is None:
                ends = [""] * len(rows)
            else:
                ends = [
                    f".{self._extensions[code]}" for code in self._codes[start : start + _AT_ONCE].tolist()
                ]
            yield from (f"{self._files[f]}/{key}{end}" for f, key, end in zip(files, keys, ends, strict=True))

    def take(self, parts: Array) -> PartNames:
        """The names of some parts `(m,)`, in this order."""
        codes = None if self._codes is None else self._codes[parts]
        return PartNames(self._files, self._starts, self._keys, self._rows[parts], self._extensions, codes)


class ImageParts:
    """Images that are parts of larger files.

    Args:
        files: Paths of the larger files.
        parts: File, offset and size in bytes of each image `(n, 3)` int64; the file is an index into
            `files`.
        names: Names of the images.
        origins: The files in which a user knows the images, if `files` are copies made from them: these are
            named in messages, and their changes count.
    """

    def __init__(
        self, files: Sequence[str], parts: Array, names: PartNames, origins: Sequence[str] | None = None
    ) -> None:
        self.files = list(files)
        self.parts = parts
        self.names = names
        self.origins = self.files if origins is None else list(origins)

    def __len__(self) -> int:
        return len(self.parts)

    def take(self, rows: Array) -> ImageParts:
        """The images of the rows `(m,)`, in this order."""
        return ImageParts(self.files, self.parts[rows], self.names.take(rows), self.origins)

    def where(self, row: int) -> str:
        """The printable name of the image, which begins with that of its file."""
        return printable(self.names[row])

    def read(self, row: int) -> bytes:
        """The bytes of the image."""
        file, offset, size = self.parts[row].tolist()
        return read_part(self.files[file], offset, size)

    def digest(self, row: int) -> bytes:
        """The digest of the image's bytes."""
        try:
            return bytes_digest(self.read(row))
        except DataError:
            return bytes(DIGEST_BYTES)

    def quick_digest(self, row: int) -> bytes:
        """The digest of the image's size and ends."""
        file, offset, size = self.parts[row].tolist()
        if not size:
            raise DataError("the file is empty")
        return _ends_digest(self.files[file], offset, size)

    def stamps(self) -> Array:
        """The size and the time of change of each image's file, its offset and its own size."""
        return np.concatenate([file_stamps(self.origins)[self.parts[:, 0]], self.parts[:, 1:]], axis=1)

    def stamp(self, row: int) -> Array:
        """The stamp of an image now."""
        now = file_stamps([self.origins[self.parts[row, 0]]])[0]
        return np.concatenate([now, self.parts[row, 1:]])


def encoded(images: Sequence[str] | EncodedImages) -> EncodedImages:
    """Encoded images as such; paths become `ImageFiles`."""
    return ImageFiles(images) if isinstance(images, Sequence) else images


def read_part(file: str | Path, offset: int, size: int) -> bytes:
    """Read a part of a file.

    Raises:
        DataError: With the reason, if it cannot be read as a whole.
    """
    try:
        with open(file, "rb", buffering=0) as opened:
            content = os.pread(opened.fileno(), size, offset)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DataError(f"'{printable(str(file))}' cannot be read: {reason}") from error
    if len(content) < size:
        raise DataError(f"'{printable(str(file))}' has been cut off")
    return content


def _ends_digest(file: str, offset: int, size: int) -> bytes:
    """The digest of the size and the ends of a part of a file."""
    ends = read_part(file, offset, min(size, _END))
    if size > _END:
        last = max(_END, size - _END)
        ends += read_part(file, offset + last, size - last)
    return bytes_digest(f"{size}\n".encode() + ends)


def file_stamps(files: Sequence[str]) -> Array:
    """Size in bytes and time of the last change in nanoseconds of each file `(n, 2)`; -1 if missing."""
    stamps = np.full((len(files), 2), -1, np.int64)
    for row, file in enumerate(files):
        try:
            status = os.stat(file)
            stamps[row] = status.st_size, status.st_mtime_ns
        except (OSError, ValueError):  # the name may not be a valid path
            continue
    return stamps

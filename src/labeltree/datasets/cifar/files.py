"""CIFAR's files: the Python and the binary version, unpacked or in the archives as they are downloaded."""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from labeltree.data.images.array_cache import Batch
from labeltree.data.registry import Needed
from labeltree.datasets.formats.safe_pickle import load_arrays
from labeltree.errors import DataError

__all__ = ["CIFAR_10_LAYOUT", "CIFAR_100_LAYOUT", "Layout", "find_files", "read_batches"]

TRAIN, TEST = 0, 1
_PIXELS = 3 * 32 * 32
_LARGEST = 1 << 28  # bytes of a batch in an archive, which can claim any size


class Layout(NamedTuple):
    """Where a data set's batches are.

    Attributes:
        python: Folder of the Python version.
        binary: Folder of the binary version.
        archives: The two archives.
        train: Names of the training batches.
        test: Name of the test batch.
        columns: Labels of an image: in a Python batch the keys, in a binary one as many bytes.
        classes: How many of each label there are.
    """

    python: str
    binary: str
    archives: tuple[str, str]
    train: tuple[str, ...]
    test: tuple[str, ...]
    columns: tuple[str, ...]
    classes: tuple[int, ...]

    @property
    def needed(self) -> tuple[Needed, ...]:
        """What must be in the folder: any of the four forms."""
        what = "the Python or the binary version, as downloaded or unpacked"
        return (Needed((self.python, self.archives[0], self.binary, self.archives[1]), what),)


CIFAR_10_LAYOUT = Layout(
    "cifar-10-batches-py",
    "cifar-10-batches-bin",
    ("cifar-10-python.tar.gz", "cifar-10-binary.tar.gz"),
    tuple(f"data_batch_{number}" for number in range(1, 6)),
    ("test_batch",),
    ("labels",),
    (10,),
)
CIFAR_100_LAYOUT = Layout(
    "cifar-100-python",
    "cifar-100-binary",
    ("cifar-100-python.tar.gz", "cifar-100-binary.tar.gz"),
    ("train",),
    ("test",),
    ("coarse_labels", "fine_labels"),
    (20, 100),
)


def find_files(path: Path, layout: Layout) -> list[Path]:
    """The files of the first form that is complete: Python, binary, the archives of either.

    Raises:
        DataError: If none is.
    """
    names = layout.train + layout.test
    for files in (
        [path / layout.python / name for name in names],
        [path / layout.binary / f"{name}.bin" for name in names],
        [path / layout.archives[0]],
        [path / layout.archives[1]],
    ):
        if all(file.is_file() for file in files):
            return files
    raise DataError(
        f"'{path}' has neither all of {', '.join(names)} in '{layout.python}' nor all of them, with .bin, in "
        f"'{layout.binary}', nor one of the archives {' and '.join(layout.archives)}; unpack an archive "
        "there again"
    )


def read_batches(file: Path, layout: Layout) -> Iterator[Batch]:
    """The batches of one file, or of all in an archive, training batches first.

    Labels have the columns of the layout and then one that is 0 for training and 1 for test images.

    Raises:
        DataError: If a batch is missing, damaged or of another data set.
    """
    if not file.name.endswith(".tar.gz"):
        with file.open("rb") as opened:
            yield _batch(opened, str(file), file.name, layout)
        return
    names = [
        name + (".bin" if file.name == layout.archives[1] else "") for name in layout.train + layout.test
    ]
    found: dict[str, bytes] = {}
    try:
        # Members are read in place, by their last name: nothing is written, wherever their paths point.
        with tarfile.open(file) as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                if name in names and member.isfile():
                    if member.size > _LARGEST:
                        raise DataError(f"'{name}' in '{file}' has {member.size:,} bytes; it is no batch")
                    content = archive.extractfile(member)
                    assert content is not None
                    found[name] = content.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise DataError(f"'{file}' is damaged or half downloaded: {error}") from error
    for name in names:
        if name not in found:
            raise DataError(f"'{file}' has no '{name}'; it is not the official archive")
        yield _batch(io.BytesIO(found.pop(name)), f"{file}: {name}", name, layout)


def _batch(file: BinaryIO, where: str, name: str, layout: Layout) -> Batch:
    if name.endswith(".bin"):
        images, labels = _from_bytes(file.read(), where, len(layout.columns))
    else:
        images, labels = _from_pickle(file, where, layout.columns)
    for column, (title, count) in enumerate(zip(layout.columns, layout.classes, strict=True)):
        if labels.size and not 0 <= labels[:, column].min() <= labels[:, column].max() < count:
            raise DataError(
                f"'{where}': {title} run from {labels[:, column].min()} to {labels[:, column].max()}; there "
                f"are {count}, from 0"
            )
    part = TEST if name.removesuffix(".bin") in layout.test else TRAIN
    return Batch(images, np.column_stack([labels, np.full(len(labels), part)]))


def _from_bytes(data: bytes, where: str, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the labels, a byte each, and the pixels, channel by channel."""
    width = columns + _PIXELS
    if not data or len(data) % width:
        raise DataError(f"'{where}' has {len(data):,} bytes, which are no images of {width:,} bytes each")
    rows = np.frombuffer(data, np.uint8).reshape(-1, width)
    return rows[:, columns:].reshape(-1, 3, 32, 32), rows[:, :columns].astype(np.int64)


def _from_pickle(file: BinaryIO, where: str, columns: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    found = load_arrays(file, where)
    for key in ("data", *columns):
        if key not in found:
            raise DataError(f"'{where}' has no '{key}'; is it a batch of another data set?")
    images = np.asarray(found["data"])
    try:
        labels = np.column_stack([np.asarray(found[key], np.int64) for key in columns])
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"'{where}': {' or '.join(columns)} are no whole numbers, one an image") from error
    if images.dtype != np.uint8 or images.shape != (len(labels), _PIXELS):
        raise DataError(
            f"'{where}': data are {images.dtype} {images.shape}; they must be uint8 {(len(labels), _PIXELS)}"
        )
    return images.reshape(-1, 3, 32, 32), labels

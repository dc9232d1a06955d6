"""Fashion-MNIST (Xiao, Rasul & Vollgraf 2017) with a taxonomy of depth 3."""

from __future__ import annotations

import dataclasses
import errno
import gzip
import math
import os
import shutil
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np
import torch

from labeltree.cache import data_home
from labeltree.data.images.image_files import ImageSettings
from labeltree.data.images.stores import ChainedStore, MappedStore, reshaped
from labeltree.data.named_data import Needed, Published, register_dataset
from labeltree.data.source import Source
from labeltree.datasets.fetching.atomic_download import (
    Expected,
    check_files,
    download_with_torchvision,
    downloading,
)
from labeltree.datasets.fetching.debian import has_apt, unpack_package
from labeltree.errors import DataError
from labeltree.progress import Progress, silent
from labeltree.taxonomy import Taxonomy

__all__ = [
    "CLASSES",
    "fashion_mnist_taxonomy",
    "fetch_fashion_mnist",
    "open_fashion_mnist",
    "read_fashion_mnist",
]


NAME = "fashion-mnist"

# By the class number in the files. The tree is labeltree's; the data set has only the ten classes. Depth 1
# is a department of a shop. Depth 2 is where on the body a garment is worn, and whether a shoe is open or
# closed. Some inner nodes have one child (bottoms, one-piece, outerwear, open, bags): the data set has one
# class of each.
CLASSES: tuple[tuple[str, str, str], ...] = (
    ("apparel", "tops", "t-shirt"),
    ("apparel", "bottoms", "trouser"),
    ("apparel", "tops", "pullover"),
    ("apparel", "one-piece", "dress"),
    ("apparel", "outerwear", "coat"),
    ("footwear", "open", "sandal"),
    ("apparel", "tops", "shirt"),
    ("footwear", "closed", "sneaker"),
    ("accessory", "bags", "bag"),
    ("footwear", "closed", "ankle boot"),
)

# Digests of the uncompressed files: distributors compress the same data differently.
FILES: Mapping[str, Expected] = {
    "train-images-idx3-ubyte": Expected(
        47_040_016, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"
    ),
    "train-labels-idx1-ubyte": Expected(
        60_008, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"
    ),
    "t10k-images-idx3-ubyte": Expected(
        7_840_016, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"
    ),
    "t10k-labels-idx1-ubyte": Expected(
        10_008, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"
    ),
}

_PACKAGE = "dataset-fashion-mnist"
_PACKAGE_SIZE = 30_900_652
_INSTALLED = Path("/usr/share/datasets/fashion-mnist")


def fashion_mnist_taxonomy() -> Taxonomy:
    """Departments, kinds, classes: 3 + 7 + 10 nodes below the root."""
    return Taxonomy.from_paths(CLASSES, root_name="fashion")


def read_fashion_mnist(folder: Path) -> Source:
    """Read the four uncompressed IDX files of a folder.

    Raises:
        DataError: If a file is missing or does not fit the others.
    """
    taxonomy = fashion_mnist_taxonomy()
    by_digit = taxonomy.encode(list(CLASSES))
    stores, labels = [], []
    for part in ("train", "t10k"):
        images = folder / f"{part}-images-idx3-ubyte"
        header = _read_header(images, 3)
        digits = _read_labels(folder / f"{part}-labels-idx1-ubyte")
        if len(digits) != header.shape[0]:
            raise DataError(
                f"'{images}' has {header.shape[0]} images but there are {len(digits)} labels beside it"
            )
        if digits.size and digits.max() >= len(CLASSES):
            raise DataError(
                f"a label in '{folder}' is {digits.max()}; Fashion-MNIST has {len(CLASSES)} classes, from 0"
            )
        stores.append(MappedStore(images, header.shape, header.offset))
        labels.append(digits)
    return Source.in_order(
        NAME,
        taxonomy,
        by_digit[torch.from_numpy(np.concatenate(labels))],
        store=ChainedStore(stores),
        split=np.repeat(["train", "test"], [len(labels[0]), len(labels[1])]),
    )


def fetch_fashion_mnist(*, progress: Progress | None = None, force: bool = False) -> Path:
    """Download the four files into the cache folder.

    The files come from the Debian package (installed or downloaded), or if that fails from torchvision.

    Raises:
        DataError: If all three sources fail.
    """
    report = progress or silent
    folder = data_home() / NAME
    if not force:
        try:
            check_files(folder, FILES)
            return folder
        except DataError:
            pass
    otherwise = f"run the command again to continue, or put its four uncompressed IDX files into '{folder}'"
    with downloading(folder, "Fashion-MNIST", otherwise) as (work, fresh):
        failures = []
        for origin, bring in _origins():
            try:
                bring(fresh, work, report)
                report(f"checking Fashion-MNIST from {origin}", 0, 0)
                try:
                    check_files(fresh, FILES)
                except DataError:
                    shutil.rmtree(work, ignore_errors=True)  # do not resume a damaged download
                    raise
                for name in FILES:
                    os.replace(fresh / name, folder / name)
                return folder
            except (DataError, OSError, EOFError) as error:
                if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise
                failures.append(f"{origin}: {error}")
        raise DataError("; ".join(failures))


Bring = Callable[[Path, Path, Progress], None]


def _origins() -> list[tuple[str, Bring]]:
    origins: list[tuple[str, Bring]] = []
    if _INSTALLED.is_dir():
        origins.append(
            (f"the installed package {_PACKAGE}", lambda fresh, work, report: _expand(_INSTALLED, fresh))
        )
    if has_apt():
        origins.append((f"the Debian package {_PACKAGE}", _fetch_package))
    origins.append(("torchvision's download", _fetch_torchvision))
    return origins


def _expand(packed: Path, fresh: Path) -> None:
    for name in FILES:
        with gzip.open(packed / f"{name}.gz") as source, (fresh / name).open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)


def _fetch_package(fresh: Path, work: Path, report: Progress) -> None:
    root = unpack_package(_PACKAGE, work, _PACKAGE_SIZE, report)
    _expand(root / _INSTALLED.relative_to("/"), fresh)


def _fetch_torchvision(fresh: Path, work: Path, report: Progress) -> None:
    report("downloading Fashion-MNIST with torchvision", 0, 0)
    download_with_torchvision("FashionMNIST", work)
    for name in FILES:
        os.replace(work / "FashionMNIST" / "raw" / name, fresh / name)


@register_dataset(
    NAME,
    summary="70,000 grayscale images of clothing, 28 x 28, 10 classes in a taxonomy of depth 3",
    licence="MIT (Zalando SE)",
    size="31 MB to download, 55 MB on disk",
    fetch=fetch_fashion_mnist,
    files=tuple(Needed(name, f"the file {name}, unpacked") for name in FILES),
    published=Published(
        {"train": 60_000, "test": 10_000}, (3, 7, 10), "Xiao, Rasul & Vollgraf 2017, and the tree"
    ),
)
def open_fashion_mnist(*, path: Path, **images: Unpack[ImageSettings]) -> Source:
    """Open Fashion-MNIST from a folder.

    Raises:
        DataError: If the data are missing; the message has the command that downloads it.
    """
    try:
        check_files(path, FILES)
    except DataError as error:
        raise DataError(f"{error}; 'labeltree data get {NAME}' fetches the data set") from error
    source = read_fashion_mnist(path)
    assert source.store is not None
    return dataclasses.replace(source, store=reshaped(source.store, **images))


class _IdxHeader(NamedTuple):
    """Shape of an IDX file and where its data begin."""

    shape: tuple[int, ...]
    offset: int


def _read_header(path: Path, dimensions: int) -> _IdxHeader:
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
        raise DataError(f"'{path}' has {size} bytes, but its header declares {offset + math.prod(shape)}")
    return _IdxHeader(shape, offset)


def _read_labels(path: Path) -> np.ndarray[Any, Any]:
    """The labels `(n,)`, int64, of an IDX file with one dimension."""
    header = _read_header(path, 1)
    return np.fromfile(path, np.uint8, offset=header.offset).astype(np.int64)

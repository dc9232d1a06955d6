"""CIFAR-10, CIFAR-100 and CIFARtoy (Krizhevsky 2009): their files, pickled or binary, and the data sets."""

from __future__ import annotations

import io
import math
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Unpack

import numpy as np
import torch

from labeltree.cache import data_home
from labeltree.data.images.image_files import ImageSettings
from labeltree.data.images.stores import reshaped
from labeltree.data.named_data import Needed, Published, register_dataset
from labeltree.data.source import Source
from labeltree.datasets.cifar_trees import (
    CIFAR_10,
    CIFAR_100,
    COARSE_100,
    cifar_10_taxonomy,
    cifar_100_deep_taxonomy,
    cifar_100_five_level_taxonomy,
    cifar_100_taxonomy,
    cifar_toy_taxonomy,
)
from labeltree.datasets.fetching.atomic_download import download_with_torchvision, downloading
from labeltree.datasets.formats.arrays import Batch, images_and_labels, open_arrays
from labeltree.datasets.formats.safe_pickle import load_arrays
from labeltree.errors import DataError
from labeltree.progress import Progress, silent
from labeltree.taxonomy import Taxonomy

__all__ = [
    "CIFAR_10_LAYOUT",
    "CIFAR_100_LAYOUT",
    "Layout",
]

TRAIN, TEST = 0, 1
_SHAPE = (3, 32, 32)
_LARGEST = 1 << 28  # bytes of a batch in an archive, which can claim any size


class Layout(NamedTuple):
    """Names of a data set's files.

    Attributes:
        python: Folder of the Python version.
        binary: Folder of the binary version.
        archives: The two archives.
        train: Names of the training batches.
        test: Name of the test batch.
        columns: Keys of the labels in a Python batch; a binary batch has as many label bytes per image.
        classes: Number of classes of each label.
        name: Name of the data set.
        torchvision_name: Name of its class in torchvision, which downloads it.
    """

    python: str
    binary: str
    archives: tuple[str, str]
    train: tuple[str, ...]
    test: tuple[str, ...]
    columns: tuple[str, ...]
    classes: tuple[int, ...]
    name: str
    torchvision_name: str

    @property
    def needed(self) -> tuple[Needed, ...]:
        """The files that must be in the folder, in any of the four forms."""
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
    "cifar-10",
    "CIFAR10",
)
CIFAR_100_LAYOUT = Layout(
    "cifar-100-python",
    "cifar-100-binary",
    ("cifar-100-python.tar.gz", "cifar-100-binary.tar.gz"),
    ("train",),
    ("test",),
    ("coarse_labels", "fine_labels"),
    (20, 100),
    "cifar-100",
    "CIFAR100",
)


def _find_files(path: Path, layout: Layout) -> list[Path]:
    """The files of the first complete form: Python, binary, or the archive of either.

    Raises:
        DataError: If no form is complete.
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


def _read_batches(file: Path, layout: Layout) -> Iterator[Batch]:
    """Yield the batches of a file, or all batches of an archive, training batches first.

    Labels have the columns of the layout and a last column, 0 for training and 1 for test images.

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
    contents: dict[str, bytes] = {}
    try:
        # Members are read in place, by their last name: nothing is written, wherever their paths point.
        with tarfile.open(file) as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                if name in names and member.isfile():
                    if member.size > _LARGEST:
                        raise DataError(f"'{name}' in '{file}' has {member.size:,} bytes; it is not a batch")
                    content = archive.extractfile(member)
                    assert content is not None
                    contents[name] = content.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise DataError(f"'{file}' is damaged or half downloaded: {error}") from error
    for name in names:
        if name not in contents:
            raise DataError(f"'{file}' has no '{name}'; it is not the official archive")
        yield _batch(io.BytesIO(contents.pop(name)), f"{file}: {name}", name, layout)


def _batch(file: BinaryIO, where: str, name: str, layout: Layout) -> Batch:
    if name.endswith(".bin"):
        images, labels = _parse_bytes(file.read(), where, len(layout.columns))
    else:
        images, labels = images_and_labels(load_arrays(file, where), where, layout.columns, _SHAPE)
    for column, (title, count) in enumerate(zip(layout.columns, layout.classes, strict=True)):
        if labels.size and not 0 <= labels[:, column].min() <= labels[:, column].max() < count:
            raise DataError(
                f"'{where}': {title} run from {labels[:, column].min()} to {labels[:, column].max()}; there "
                f"are {count}, from 0"
            )
    part = TEST if name.removesuffix(".bin") in layout.test else TRAIN
    return Batch(images, np.column_stack([labels, np.full(len(labels), part)]))


def _parse_bytes(data: bytes, where: str, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Parse rows of label bytes and pixels, the latter channel by channel."""
    width = columns + math.prod(_SHAPE)
    if not data or len(data) % width:
        raise DataError(f"'{where}' has {len(data):,} bytes, which are not images of {width:,} bytes each")
    rows = np.frombuffer(data, np.uint8).reshape(-1, width)
    return rows[:, columns:].reshape(-1, *_SHAPE), rows[:, :columns].astype(np.int64)


def _open(
    name: str,
    tree: Callable[[], Taxonomy],
    layout: Layout,
    path: Path,
    **images: Unpack[ImageSettings],
) -> Source:
    """The samples whose class is in the tree (all samples, except for CIFARtoy)."""
    store, labels = open_arrays(
        layout.python,
        _find_files(path, layout),
        partial(_read_batches, layout=layout),
        cache=images.get("cache"),
        progress=images.get("progress"),
    )
    if layout is CIFAR_100_LAYOUT:
        _check_hierarchy(labels, path)
    taxonomy = tree()
    classes = [name for _, name in (CIFAR_10 if layout is CIFAR_10_LAYOUT else CIFAR_100)]
    node_of = torch.tensor([taxonomy.find(c) if c in taxonomy.names else -1 for c in classes])
    nodes = node_of[torch.from_numpy(labels[:, -2])]
    split = np.where(labels[:, -1] == TEST, "test", "train")
    everything = Source.in_order(name, taxonomy, nodes, store=reshaped(store, **images), split=split)
    return everything.subset((nodes >= 0).nonzero()[:, 0]) if bool((node_of < 0).any()) else everything


def _check_hierarchy(labels: np.ndarray[Any, Any], path: Path) -> None:
    """Check that every class of CIFAR-100 has the coarse class given in the files."""
    coarse_of = np.array([COARSE_100.index(coarse) for coarse, _ in CIFAR_100])
    wrong = np.flatnonzero(coarse_of[labels[:, 1]] != labels[:, 0])
    if wrong.size:
        coarse, fine = labels[wrong[0], :2]
        raise DataError(
            f"sample {wrong[0]} in '{path}' is '{CIFAR_100[fine][1]}' of '{COARSE_100[coarse]}', which is "
            "not CIFAR-100's hierarchy; unpack the official archive again"
        )


def _fetch(layout: Layout, *, progress: Progress | None = None, force: bool = False) -> Path:
    """Download the data set into the cache folder with torchvision's download, which checks its digest."""
    folder = data_home() / layout.name
    if not force:
        try:
            _find_files(folder, layout)
            return folder
        except DataError:
            pass
    (progress or silent)(f"downloading {layout.name} with torchvision", 0, 0)
    with downloading(
        folder,
        f"{layout.name} with torchvision's download",
        f"put its official archive, {layout.archives[0]}, into '{folder}'",
    ) as (_, fresh):
        download_with_torchvision(layout.torchvision_name, fresh)
        shutil.rmtree(folder / layout.python, ignore_errors=True)
        os.replace(fresh / layout.python, folder / layout.python)
    return folder


def _register(
    name: str,
    summary: str,
    tree: Callable[[], Taxonomy],
    layout: Layout,
    published: Published,
) -> None:
    @register_dataset(
        name,
        summary=summary,
        licence="none stated; cite Krizhevsky 2009",
        size="170 MB to download, 360 MB on disk",
        fetch=partial(_fetch, layout),
        files=layout.needed,
        published=published,
        home=layout.name,
    )
    def opener(*, path: Path, **images: Unpack[ImageSettings]) -> Source:
        return _open(name, tree, layout, path, **images)


_ALL = {"train": 50_000, "test": 10_000}
_EIGHT = {"train": 40_000, "test": 8_000}
_DEEP = (4, 16, 27, 26, 34, 30, 20, 5)

_register(
    "cifar-10",
    "60,000 colour images, 32 x 32, 10 classes in two groups of ours: animals and vehicles",
    cifar_10_taxonomy,
    CIFAR_10_LAYOUT,
    Published(_ALL, (None, 10), "Krizhevsky 2009"),
)
_register(
    "cifar-100",
    "60,000 colour images, 32 x 32, 20 coarse classes of five classes each",
    cifar_100_taxonomy,
    CIFAR_100_LAYOUT,
    Published(_ALL, (20, 100), "Krizhevsky 2009"),
)
_register(
    "cifar-100-deep",
    "CIFAR-100 with a tree of depth 8 after WordNet",
    cifar_100_deep_taxonomy,
    CIFAR_100_LAYOUT,
    Published(_ALL, _DEEP, "Barz & Denzler 2019, Appendix E"),
)
_register(
    "cifar-100-five-levels",
    "CIFAR-100 in 2, 4, 8, 20 and 100 classes",
    cifar_100_five_level_taxonomy,
    CIFAR_100_LAYOUT,
    Published(_ALL, (2, 4, 8, 20, 100), "Chang et al. 2021, Fine-Grained or Not"),
)
for _split in ("good", "bad"):
    _register(
        f"cifar-toy-{_split}",
        f"48,000 images of CIFAR-10, eight classes in two groups, the {_split} split of MaskCon",
        partial(cifar_toy_taxonomy, _split),
        CIFAR_10_LAYOUT,
        Published(_EIGHT, (2, 8), "Feng & Patras 2023, Section 4.2"),
    )

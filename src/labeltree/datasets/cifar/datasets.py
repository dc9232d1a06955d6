"""The named data sets: CIFAR-10, CIFAR-100 with two trees, CIFARtoy with two."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labeltree.cache import data_home
from labeltree.data.images.array_cache import open_arrays
from labeltree.data.progress import Progress, silent
from labeltree.data.registry import Published, register_dataset
from labeltree.data.source import Source
from labeltree.data.stores import reshaped
from labeltree.datasets.cifar.files import (
    CIFAR_10_LAYOUT,
    CIFAR_100_LAYOUT,
    TEST,
    Layout,
    find_files,
    read_batches,
)
from labeltree.datasets.cifar.trees import (
    CIFAR_10,
    CIFAR_100,
    COARSE_100,
    cifar_10_taxonomy,
    cifar_100_deep_taxonomy,
    cifar_100_taxonomy,
    cifar_toy_taxonomy,
)
from labeltree.datasets.fetching.bringing import bringing
from labeltree.datasets.fetching.from_torchvision import download_with_torchvision
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

__all__ = ["fetch_cifar_10", "fetch_cifar_100"]


def _open(
    name: str,
    tree: Callable[[], Taxonomy],
    layout: Layout,
    path: Path,
    image_size: int | None,
    channels: int | None,
    cache: bool | None,
    progress: Progress | None,
) -> Source:
    """The samples whose class is in the tree: all, but for CIFARtoy."""
    store, labels = open_arrays(
        layout.python,
        find_files(path, layout),
        partial(read_batches, layout=layout),
        cache=cache,
        progress=progress,
    )
    if layout is CIFAR_100_LAYOUT:
        _check_hierarchy(labels, path)
    taxonomy = tree()
    classes = [name for _, name in (CIFAR_10 if layout is CIFAR_10_LAYOUT else CIFAR_100)]
    node_of = torch.tensor([taxonomy.find(c) if c in taxonomy.names else -1 for c in classes])
    nodes = node_of[torch.from_numpy(labels[:, -2])]
    everything = Source(
        name=name,
        taxonomy=taxonomy,
        nodes=nodes,
        instances=torch.arange(len(nodes)),
        store=reshaped(store, image_size, channels),
        rows=torch.arange(len(nodes)),
        split=np.where(labels[:, -1] == TEST, "test", "train"),
    )
    return everything.subset((nodes >= 0).nonzero()[:, 0]) if bool((node_of < 0).any()) else everything


def _check_hierarchy(labels: np.ndarray[Any, Any], path: Path) -> None:
    """Every class of CIFAR-100 is of the coarse class that the files say."""
    coarse_of = np.array([COARSE_100.index(coarse) for coarse, _ in CIFAR_100])
    wrong = np.flatnonzero(coarse_of[labels[:, 1]] != labels[:, 0])
    if wrong.size:
        coarse, fine = labels[wrong[0], :2]
        raise DataError(
            f"sample {wrong[0]} in '{path}' is '{CIFAR_100[fine][1]}' of '{COARSE_100[coarse]}', which is "
            "not CIFAR-100's hierarchy; unpack the official archive again"
        )


def fetch_cifar_10(*, progress: Progress | None = None, force: bool = False) -> Path:
    """Bring CIFAR-10 into the cache folder with torchvision's download, which checks its digest.

    Raises:
        DataError: If it cannot be had.
    """
    return _fetch("cifar-10", "CIFAR10", CIFAR_10_LAYOUT, progress or silent, force)


def fetch_cifar_100(*, progress: Progress | None = None, force: bool = False) -> Path:
    """Bring CIFAR-100 into the cache folder; as `fetch_cifar_10`."""
    return _fetch("cifar-100", "CIFAR100", CIFAR_100_LAYOUT, progress or silent, force)


def _fetch(name: str, torchvision_name: str, layout: Layout, report: Progress, force: bool) -> Path:
    folder = data_home() / name
    if not force:
        try:
            find_files(folder, layout)
            return folder
        except DataError:
            pass
    report(f"downloading {name} with torchvision", 0, 0)
    with bringing(
        folder,
        f"{name} with torchvision's download",
        f"put its official archive, {layout.archives[0]}, into '{folder}'",
    ) as (_, fresh):
        download_with_torchvision(torchvision_name, fresh)
        shutil.rmtree(folder / layout.python, ignore_errors=True)
        os.replace(fresh / layout.python, folder / layout.python)
    return folder


def _register(
    name: str,
    summary: str,
    tree: Callable[[], Taxonomy],
    layout: Layout,
    published: Published,
    home: str = "",
) -> None:
    @register_dataset(
        name,
        summary=summary,
        licence="none stated; cite Krizhevsky 2009",
        size="170 MB to download, 360 MB on disk",
        fetch=fetch_cifar_10 if layout is CIFAR_10_LAYOUT else fetch_cifar_100,
        files=layout.needed,
        published=published,
        home=home,
    )
    def opener(
        *,
        path: Path,
        image_size: int | None = None,
        channels: int | None = None,
        cache: bool | None = None,
        progress: Progress | None = None,
    ) -> Source:
        return _open(name, tree, layout, path, image_size, channels, cache, progress)


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
    home="cifar-100",
)
for _split in ("good", "bad"):
    _register(
        f"cifar-toy-{_split}",
        f"48,000 images of CIFAR-10, eight classes in two groups, the {_split} split of MaskCon",
        partial(cifar_toy_taxonomy, _split),
        CIFAR_10_LAYOUT,
        Published(_EIGHT, (2, 8), "Feng & Patras 2023, Section 4.2"),
        home="cifar-10",
    )

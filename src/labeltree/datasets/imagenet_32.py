"""ImageNet-32: all of ImageNet at 32 x 32 pixels, as arrays (Chrabaszcz, Loshchilov & Hutter 2017)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch

from labeltree.data.images.image_files import ImageSettings
from labeltree.data.images.stores import reshaped
from labeltree.data.named_data import Needed, Published, register_dataset
from labeltree.data.source import Source
from labeltree.datasets.formats.arrays import Batch, images_and_labels, open_arrays
from labeltree.datasets.formats.safe_pickle import load_arrays
from labeltree.datasets.imagenet_trees import imagenet_32_taxonomy, imagenet_classes
from labeltree.errors import DataError
from labeltree.safe_files import Reader, read_arrays

__all__ = ["open_imagenet_32"]

_BATCH = Reader("a batch of images", "unpack or download it again")
_TRAIN = tuple(f"train_data_batch_{number}" for number in range(1, 11))
_VAL = "val_data"
_FOLDERS = {
    "train": ("", "Imagenet32_train/", "Imagenet32_train_npz/"),
    "val": ("", "Imagenet32_val/", "Imagenet32_val_npz/"),
}


def _forms(name: str) -> tuple[str, ...]:
    folders = _FOLDERS["val" if name == _VAL else "train"]
    return tuple(f"{folder}{name}{suffix}" for folder in folders for suffix in ("", ".npz"))


@register_dataset(
    "imagenet-32",
    summary="ImageNet at 32 x 32 pixels, 1,000 classes in the 12 groups of MaskCon",
    licence="ImageNet's terms of access: non-commercial research and education",
    files=(
        Needed(
            ("train_data_batch_*", "Imagenet32_train*/train_data_batch_*"),
            "training batches, as pickles or .npz: Imagenet32_train.zip or _train_npz.zip",
        ),
        Needed(
            ("val_data*", "Imagenet32_val*/val_data*"),
            "validation images, likewise: Imagenet32_val.zip or Imagenet32_val_npz.zip",
        ),
    ),
    published=Published(
        {"train": 1_281_167, "test": 50_000},
        (12, 1000),
        "Chrabaszcz et al. 2017; Feng & Patras 2023, Section 4.4",
    ),
)
def open_imagenet_32(*, path: Path, **images: Unpack[ImageSettings]) -> Source:
    """Open ImageNet-32 with the tree of `imagenet_32_taxonomy`; its validation images are the test split.

    The pixels are kept in the cache folder (4.1 GB), or without a cache in memory.

    Raises:
        DataError: If files are missing or damaged.
    """
    files = [_find(path, name) for name in (*_TRAIN, _VAL)]
    missing = [name for name, file in zip((*_TRAIN, _VAL), files, strict=True) if file is None]
    if missing:
        raise DataError(
            f"'{path}' has no {', '.join(missing)}, as they are or with .npz; unpack the archive there again"
        )
    present = [file for file in files if file is not None]
    store, labels = open_arrays(
        "imagenet-32", present, _read, cache=images.get("cache"), progress=images.get("progress")
    )
    taxonomy = imagenet_32_taxonomy()
    node_of = taxonomy.encode([c.name for c in imagenet_classes()])
    return Source.in_order(
        "imagenet-32",
        taxonomy,
        node_of[torch.from_numpy(labels[:, 0]) - 1],
        store=reshaped(store, **images),
        split=np.where(labels[:, 1] == 1, "test", "train"),
    )


def _find(path: Path, name: str) -> Path | None:
    return next((path / form for form in _forms(name) if (path / form).is_file()), None)


def _read(file: Path) -> Iterator[Batch]:
    """Yield the batch of a file; its labels are the class, from 1, and whether it is a validation image."""
    images, labels = images_and_labels(_arrays(file), str(file), ("labels",), (3, 32, 32))
    if labels.size and not 1 <= labels.min() <= labels.max() <= len(imagenet_classes()):
        raise DataError(f"'{file}': labels run from {labels.min()} to {labels.max()}, expected 1 to 1000")
    part = int(file.name.partition(".")[0] == _VAL)
    yield Batch(images, np.column_stack([labels, np.full(len(labels), part)]))


def _arrays(file: Path) -> dict[str, Any]:
    if file.suffix != ".npz":
        with file.open("rb") as opened:
            return load_arrays(opened, str(file))
    return dict(read_arrays(file, _BATCH, only=("data", "labels")))

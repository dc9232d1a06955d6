"""The lists of images that CUB-200-2011 and NABirds have in common: classes, split, boxes."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labeltree.data.listed_images import in_archive
from labeltree.data.named_data import Needed
from labeltree.datasets.formats.listings import read_listing

__all__ = ["BirdImages", "needed_lists", "read_birds"]

_LISTS = {
    "images.txt": "the list of images",
    "image_class_labels.txt": "the class of each image",
    "train_test_split.txt": "the split",
    "classes.txt": "the names of the classes",
    "images": "the folder of images",
}


@dataclass(frozen=True)
class BirdImages:
    """Of each image: the file below `images`, class number, split, and box or None."""

    files: list[str]
    classes: list[int]
    split: list[str]
    boxes: np.ndarray[Any, Any] | None


def read_birds(root: Path, classes: Container[int], named_in: str, *, crop: bool) -> BirdImages:
    """Read the lists.

    Args:
        root: The folder with `images.txt`.
        classes: The valid class numbers.
        named_in: Name of the list of classes, for error messages.
        crop: Whether to read boxes.

    Raises:
        DataError: If a list is missing or malformed, or an image has no line or two in one of them.
    """
    images = read_listing(root / "images.txt", ("image", "file"))
    ids = images.texts("image")
    images.by("image", ids, "image")
    labels = read_listing(root / "image_class_labels.txt", ("image", "class")).by("image", ids, "image")
    numbers = labels.whole("class").tolist()
    for row, number in enumerate(numbers):
        if number not in classes:
            raise labels.error(row, f"the class is {number}, which '{named_in}' does not have")
    split = read_listing(root / "train_test_split.txt", ("image", "split")).by("image", ids, "image")
    boxes = None
    if crop:
        sides = ("left", "top", "width", "height")
        boxes = (
            read_listing(root / "bounding_boxes.txt", ("image", *sides))
            .by("image", ids, "image")
            .reals(*sides)
        )
    return BirdImages(
        images.files("file"), numbers, split.choices("split", {"1": "train", "0": "test"}), boxes
    )


def needed_lists(folder: str, archive: str, *, crop: bool, **more: str) -> tuple[Needed, ...]:
    """The files that `read_birds` needs.

    Args:
        folder: Folder in the archive.
        archive: Name of the archive.
        crop: Whether boxes are needed too.
        more: Further lists: name without `.txt` → description.
    """
    lists = {**_LISTS, **{f"{name}.txt": what for name, what in more.items()}}
    if crop:
        lists["bounding_boxes.txt"] = "a box around each bird"
    return tuple(Needed(in_archive(folder, name), f"{what}, from {archive}") for name, what in lists.items())

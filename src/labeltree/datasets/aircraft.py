"""FGVC-Aircraft (Maji et al. 2013): variants of aircraft in families of manufacturers."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from labeltree.data.listed_images import ListedImages, first_existing, label_taxonomy, register_reader
from labeltree.data.named_data import Needed, Published
from labeltree.datasets.formats.listings import read_listing
from labeltree.errors import DataError
from labeltree.split_names import SPLITS

__all__ = ["read_aircraft"]

NAME = "fgvc-aircraft"
LEVELS = ("manufacturer", "family", "variant")
_FOLDERS = ("", "data/", "fgvc-aircraft-2013b/data/")
_ARCHIVE = "fgvc-aircraft-2013b.tar.gz"


def _places(file: str) -> tuple[str, ...]:
    return tuple(f"{folder}{file}" for folder in _FOLDERS)


def read_aircraft(path: Path, *, crop: bool = False) -> ListedImages:
    """List the images of FGVC-Aircraft with the official split and the tree that its lists say.

    Args:
        path: The folder with `images_variant_train.txt`, or one of the two above it.
        crop: Reduce each image to the square around the aircraft's box.

    Raises:
        DataError: If a list is missing or malformed, or a variant is in two families.
    """
    root = first_existing(path, _places("images_variant_train.txt")).parent
    images: list[str] = []
    paths: list[tuple[str, ...]] = []
    split: list[str] = []
    for part in SPLITS:
        listed = read_listing(root / f"images_variant_{part}.txt", ("image", "variant"))
        own = listed.files("image")
        columns = []
        for level in LEVELS:
            labels = read_listing(root / f"images_{level}_{part}.txt", ("image", level))
            columns.append(labels.by("image", own, "image").texts(level))
        images += own
        paths += zip(*columns, strict=True)
        split += [part] * len(listed)
    _check_one_parent(root, paths)
    taxonomy, nodes = label_taxonomy(paths, root_name="aircraft")
    boxes = None
    if crop:
        listed = read_listing(root / "images_box.txt", ("image", "left", "top", "right", "bottom"))
        corners = listed.by("image", images, "image").reals("left", "top", "right", "bottom")
        left, top, right, bottom = corners.T
        boxes = np.stack([left - 1, top - 1, right - left + 1, bottom - top + 1], 1)
    files = [f"{image}.jpg" for image in images]
    return ListedImages(root / "images", files, nodes, taxonomy, split=split, boxes=boxes)


def _check_one_parent(root: Path, paths: list[tuple[str, ...]]) -> None:
    """Check that each family has one manufacturer, and each variant one family."""
    for depth in (1, 2):
        above: dict[str, str] = {}
        for path in paths:
            if above.setdefault(path[depth], path[depth - 1]) != path[depth - 1]:
                raise DataError(
                    f"the lists in '{root}' put the {LEVELS[depth]} '{path[depth]}' into the "
                    f"{LEVELS[depth - 1]} '{above[path[depth]]}' and into '{path[depth - 1]}'; unpack "
                    f"{_ARCHIVE} again"
                )


for _name, _crop, _what in ((NAME, False, ""), (f"{NAME}-cropped", True, ", cropped to the aircraft")):
    register_reader(
        _name,
        partial(read_aircraft, crop=_crop),
        summary=f"10,000 photographs of 100 variants of aircraft in families of manufacturers{_what}",
        licence="images for non-commercial research (their photographers)",
        size="2.75 GB",
        files=(
            *(
                Needed(_places(f"images_{level}_{part}.txt"), f"images and their {level}; {_ARCHIVE}")
                for level in LEVELS
                for part in SPLITS
            ),
            *([Needed(_places("images_box.txt"), f"boxes of the aircraft; {_ARCHIVE}")] if _crop else []),
            Needed(_places("images"), f"the folder of images; {_ARCHIVE}"),
        ),
        published=Published({"train": 3_334, "val": 3_333, "test": 3_333}, (30, 70, 100), "Maji et al. 2013"),
        home=NAME,
    )

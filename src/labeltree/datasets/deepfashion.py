"""DeepFashion Category and Attribute Prediction (Liu et al. 2016): upper, lower, full body → category."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

from labeltree.data.listed_images import ListedImages, first_existing, register_reader
from labeltree.data.named_data import Needed, Published
from labeltree.datasets.formats.listings import Listing, legible, read_listing
from labeltree.taxonomy import Taxonomy

__all__ = ["read_deepfashion"]

NAME = "deepfashion"
GROUPS = {"1": "upper body", "2": "lower body", "3": "full body"}
"""Groups by their numbers in `list_category_cloth.txt`."""

_BENCHMARK = "of the Category and Attribute Prediction Benchmark"


def _places(file: str) -> tuple[str, ...]:
    return f"Anno_coarse/{file}", f"Anno/{file}"  # the current and the former name of the folder


_CATEGORIES = _places("list_category_cloth.txt")
_LABELS = _places("list_category_img.txt")
_BOXES = _places("list_bbox.txt")
_IMAGES = ("Img/img", "img")
_PARTITION = ("Eval/list_eval_partition.txt",)


def _listing(path: Path, places: Sequence[str], columns: tuple[str, ...]) -> Listing:
    return read_listing(first_existing(path, places), columns, heading=2)


def read_deepfashion(path: Path, *, crop: bool = False) -> ListedImages:
    """List the images of DeepFashion's Category and Attribute benchmark.

    Args:
        path: The folder with `Anno_coarse` (or `Anno`), `Eval` and `Img` (or `img`).
        crop: Reduce each image to the square around the clothes' box.

    Raises:
        DataError: If a listing is missing or malformed.
    """
    partition = _listing(path, _PARTITION, ("file", "split"))
    files = partition.files("file")
    partition.by("file", files, "image")
    kinds = _listing(path, _CATEGORIES, ("category", "group"))
    groups = kinds.choices("group", GROUPS)
    paths = list(zip(groups, map(legible, kinds.texts("category")), strict=True))
    in_order = [path for group in GROUPS.values() for path in paths if path[0] == group]
    taxonomy = Taxonomy.from_paths(in_order, "clothes")
    labels = _listing(path, _LABELS, ("file", "category")).by("file", files, "image")
    numbers = labels.whole("category")
    for row, number in enumerate(numbers.tolist()):
        if not 1 <= number <= len(paths):
            raise labels.error(row, f"the category is {number}, expected 1 to {len(paths)}")
    boxes = None
    if crop:
        sides = ("left", "top", "right", "bottom")
        listed = _listing(path, _BOXES, ("file", *sides)).by("file", files, "image")
        boxes = listed.reals(*sides)
        boxes[:, 2:] -= boxes[:, :2]
    return ListedImages(
        first_existing(path, _IMAGES).parent,
        files,
        taxonomy.encode(paths)[torch.from_numpy(numbers - 1)],
        taxonomy,
        split=partition.choices("split", {"train": "train", "val": "val", "test": "test"}),
        boxes=boxes,
    )


_FILES = (
    Needed(_CATEGORIES, f"the categories and their groups, from Anno_coarse {_BENCHMARK}"),
    Needed(_LABELS, f"the category of each image, from Anno_coarse {_BENCHMARK}"),
    Needed(_PARTITION, f"the split, from Eval {_BENCHMARK}"),
    Needed(_IMAGES, f"the folder of images, from img.zip {_BENCHMARK}"),
)

for _name, _crop, _what in ((NAME, False, ""), (f"{NAME}-cropped", True, ", cropped to the clothes")):
    register_reader(
        _name,
        partial(read_deepfashion, crop=_crop),
        summary=f"289,222 photographs of clothes in 50 categories and 3 groups{_what}",
        licence="for non-commercial research (Multimedia Laboratory, The Chinese University of Hong Kong)",
        size="3 GB",
        files=(*_FILES, Needed(_BOXES, f"boxes, from Anno_coarse {_BENCHMARK}")) if _crop else _FILES,
        published=Published({"train": 209_222, "val": 40_000, "test": 40_000}, (3, None), "Liu et al. 2016"),
        home=NAME,
    )

"""Grocery Store (Klasson et al. 2019): fruit, vegetables and packages in shops, by a telephone."""

from __future__ import annotations

import csv
from pathlib import Path

import torch

from labeltree.data.listed_images import ListedImages, first_existing, register_reader
from labeltree.data.named_data import Needed, Published
from labeltree.datasets.formats.listings import read_listing
from labeltree.errors import DataError
from labeltree.safe_files import Reader, read_text
from labeltree.split_names import SPLITS
from labeltree.taxonomy import Taxonomy

__all__ = ["read_grocery_store"]

NAME = "grocery-store"
_CLONE = "https://github.com/marcusklasson/GroceryStoreDataset"
_PLACES = tuple(f"{folder}classes.csv" for folder in ("dataset/", "", "GroceryStoreDataset/dataset/"))
_READER = Reader("a list of classes", "clone the data set again")
_KIND_AT = 2  # part of /iconic-images-and-descriptions/Fruit/Apple/Granny-Smith/Granny-Smith_Iconic.jpg
_COLUMNS = ("Class Name (str)", "Class ID (int)", "Coarse Class Name (str)", "Iconic Image Path (str)")


def read_grocery_store(path: Path) -> ListedImages:
    """List the photographs of Grocery Store, with the split of its lists.

    A label is the kind (`Fruit`, `Packages`, `Vegetables`), the coarse class and the product. A product
    that is all of its coarse class and has its name, such as `Fruit/Avocado`, is one node. The lists and
    `classes.csv` say what an image shows, not its folder: the training images of `Brown-Cap-Mushroom` lie
    in another folder than those of validation and test.

    Args:
        path: The clone, its folder `dataset`, or the folder that the clone is in.

    Raises:
        DataError: If a list is missing or malformed.
    """
    root = first_existing(path, _PLACES).parent
    labels = _labels(root / "classes.csv")
    taxonomy = Taxonomy.from_paths(sorted(labels.values()))
    files: list[str] = []
    nodes: list[int] = []
    split: list[str] = []
    for part in SPLITS:
        listed = read_listing(root / f"{part}.txt", ("file", "class", "coarse class"), separator=",")
        files += listed.files("file")
        for row, number in enumerate(listed.whole("class").tolist()):
            if number not in labels:
                raise listed.error(row, f"the class is {number}, which 'classes.csv' does not have")
            nodes.append(taxonomy.find(labels[number]))
        split += [part] * len(listed)
    return ListedImages(root, files, torch.tensor(nodes), taxonomy, split=split)


def _labels(path: Path) -> dict[int, tuple[str, ...]]:
    """The label of each class number."""
    labels: dict[int, tuple[str, ...]] = {}
    rows = csv.DictReader(read_text(path, _READER).splitlines())
    lacking = [column for column in _COLUMNS if column not in (rows.fieldnames or ())]
    if lacking:
        raise DataError(f"'{path}' has no column '{lacking[0]}'; clone the data set again")
    for line, row in enumerate(rows, 2):
        name, number, coarse, icon = ((row[column] or "").strip() for column in _COLUMNS)
        parts = icon.split("/")
        if not (name and coarse and number.isdecimal() and len(parts) > _KIND_AT):
            raise DataError(f"'{path}', line {line}: it describes no class; clone the data set again")
        above = (parts[_KIND_AT], coarse)
        labels[int(number)] = above if name == coarse else (*above, name)
    if not labels:
        raise DataError(f"'{path}' lists no class; clone the data set again")
    return labels


register_reader(
    NAME,
    read_grocery_store,
    summary="5,421 photographs of 81 products in shops: fruit, vegetables, packages; coarse class, product",
    licence="MIT",
    size="117 MB",
    files=(
        Needed(_PLACES, "the list of classes, dataset/classes.csv"),
        *(
            Needed(
                tuple(place.replace("classes.csv", f"{part}.txt") for place in _PLACES),
                f"the list of the {part} images, dataset/{part}.txt",
            )
            for part in SPLITS
        ),
    ),
    clone=_CLONE,
    published=Published(
        {"train": 2_640, "val": 296, "test": 2_485}, (3, 43, 55), "the lists of its repository"
    ),
)

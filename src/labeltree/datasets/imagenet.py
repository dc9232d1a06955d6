"""ImageNet (Russakovsky et al. 2015): its files, and the data sets with WordNet's and other trees."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from labeltree.data.listed_images import ListedImages, register_reader
from labeltree.data.named_data import Needed, Published
from labeltree.datasets.formats.matlab import read_matlab
from labeltree.datasets.imagenet_trees import HIERARCHIES, hierarchy_taxonomy, imagenet_taxonomy
from labeltree.errors import DataError
from labeltree.file_kinds import names_image
from labeltree.system_files import is_system_file
from labeltree.taxonomy import Taxonomy

__all__ = ["Listing", "images_in", "read_imagenet", "read_imagenet_robustness"]

_WNID = re.compile(r"n\d{8}")
_VAL = re.compile(r"ILSVRC2012_val_(\d{8})$")
_DEVKIT = "ILSVRC2012_devkit_t12/data"
_TRUTH, _META = "ILSVRC2012_validation_ground_truth.txt", "meta.mat"
_SOLUTION = "LOC_val_solution.csv"
_LICENCE = "ImageNet's terms of access: non-commercial research and education"
_FILES = (
    Needed(
        ("train", "ILSVRC/Data/CLS-LOC/train"),
        "training images, a folder a class; ILSVRC2012_img_train.tar and the archives in it",
    ),
    Needed(
        ("val", "ILSVRC/Data/CLS-LOC/val"),
        "validation images, ILSVRC2012_img_val.tar; if they lie flat, with LOC_val_solution.csv or the "
        "unpacked ILSVRC2012_devkit_t12.tar.gz beside the folder",
    ),
)
_SPLITS = {"train": 1_281_167, "test": 50_000}
_AUTHORS = "Russakovsky et al. 2015"


class Listing(NamedTuple):
    """A listing of all images.

    Attributes:
        files: Paths relative to the data set's folder.
        wnids: Class of each image.
        split: Split of each image: `train`, or `test` for ImageNet's validation images.
    """

    files: list[str]
    wnids: list[str]
    split: list[str]


def _list_images(path: Path) -> Listing:
    """List the training and validation images below `train` and `val`, or in Kaggle's layout below
    `ILSVRC/Data/CLS-LOC`.

    Raises:
        DataError: If a folder is missing, empty or half-unpacked, or the validation images are not in class
            folders and their classes are unknown.
    """
    roots = [path, path / "ILSVRC" / "Data" / "CLS-LOC"]
    root = next((root for root in roots if (root / "train").is_dir()), None)
    if root is None:
        raise DataError(f"there is no folder '{path / 'train'}' (ILSVRC2012_img_train.tar)")
    listing = Listing([], [], [])
    for file, wnid in _walk_folders(root / "train"):
        _add(listing, path, file, wnid, "train")
    if not listing.files:
        raise DataError(_nothing(root / "train"))
    before = len(listing.files)
    val = root / "val"
    if val.is_dir():
        for file, wnid in _walk_folders(val):
            _add(listing, path, file, wnid, "test")
        if len(listing.files) == before:
            for file, wnid in _flat(val, path):
                _add(listing, path, file, wnid, "test")
    if len(listing.files) == before:
        raise DataError(
            f"there are no images in '{val}' (ILSVRC2012_img_val.tar); they are flat or in a folder a class"
        )
    return listing


def _add(listing: Listing, path: Path, file: str, wnid: str, split: str) -> None:
    listing.files.append(os.path.relpath(file, path))
    listing.wnids.append(wnid)
    listing.split.append(split)


def _walk_folders(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the images in folders named by class, with classes and images sorted."""
    with os.scandir(folder) as entries:
        classes = sorted(entry.name for entry in entries if _WNID.fullmatch(entry.name) and entry.is_dir())
    for wnid in classes:
        for file in images_in(folder / wnid):
            yield file, wnid


def images_in(folder: Path) -> list[str]:
    """Paths of the image files in a folder, sorted; not of those in folders below it."""
    with os.scandir(folder) as entries:
        return sorted(
            entry.path for entry in entries if names_image(entry.name) and not is_system_file(entry.name)
        )


def _nothing(train: Path) -> str:
    packed = sorted(file.name for file in train.glob("n*.tar"))
    if packed:
        return (
            f"'{train}' holds {len(packed)} archives such as '{packed[0]}'; unpack each into a folder of its "
            "name, without .tar"
        )
    return f"there are no images in '{train}' (ILSVRC2012_img_train.tar): none in a folder such as n01440764"


def _flat(val: Path, path: Path) -> Iterator[tuple[str, str]]:
    files = images_in(val)
    if not files:
        return
    classes = _truth(path)
    for file in files:
        name = os.path.splitext(os.path.basename(file))[0]
        if name not in classes:
            raise DataError(f"'{file}' is not a validation image that '{path}' has the class of")
        yield file, classes[name]


def _truth(path: Path) -> dict[str, str]:
    """Image → class, from the development kit or Kaggle's solution file."""
    solution = path / _SOLUTION
    if solution.is_file():
        try:
            with solution.open(encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
            return {row["ImageId"]: row["PredictionString"].split()[0] for row in rows}
        except (KeyError, IndexError, AttributeError, UnicodeDecodeError, csv.Error):
            raise DataError(
                f"'{solution}' has no column ImageId, or not a class in every PredictionString"
            ) from None
    truth, meta = path / _DEVKIT / _TRUTH, path / _DEVKIT / _META
    if not (truth.is_file() and meta.is_file()):
        raise DataError(
            f"the validation images lie flat, and nothing says their classes: there is neither '{solution}' "
            f"nor both '{truth}' and '{meta}' (ILSVRC2012_devkit_t12.tar.gz)"
        )
    wnid_of = _meta(meta)
    classes = {}
    for number, line in enumerate(truth.read_text("ascii", "replace").split(), 1):
        if not line.isdigit() or int(line) not in wnid_of:
            raise DataError(f"'{truth}', line {number}: {line!r} is not a class of '{meta}'")
        classes[f"ILSVRC2012_val_{number:08d}"] = wnid_of[int(line)]
    return classes


def _meta(path: Path) -> dict[int, str]:
    """ILSVRC2012_ID → synset, for the classes without children."""
    meta = read_matlab(path)
    try:
        synsets = meta["synsets"].reshape(-1)
        return {
            int(synset["ILSVRC2012_ID"]): str(synset["WNID"])
            for synset in synsets
            if int(synset["num_children"]) == 0
        }
    except (KeyError, AttributeError, IndexError, TypeError, ValueError) as error:
        raise DataError(f"'{path}' is not the development kit's table of synsets: {error}") from error


def read_imagenet(path: Path) -> ListedImages:
    """List ImageNet, or a part of it with fewer classes, with the tree of `imagenet_taxonomy`.

    ImageNet's validation images are the test split: those of the official test have no labels.

    Raises:
        DataError: If image files or the WordNet files are missing.
    """
    listing = _list_images(path)
    return _label_images(path, listing, imagenet_taxonomy(listing.wnids))


def read_imagenet_robustness(path: Path) -> ListedImages:
    """List ImageNet with the tree of `hierarchy_taxonomy`; otherwise the same as `read_imagenet`."""
    listing = _list_images(path)
    return _label_images(path, listing, hierarchy_taxonomy(path, listing.wnids))


def _label_images(path: Path, listing: Listing, taxonomy: Taxonomy) -> ListedImages:
    """Label the images; in all trees the wnid is the first word of a class name."""
    node_of = {title.partition(" ")[0]: node for node, title in enumerate(taxonomy.names)}
    nodes = torch.tensor([node_of[wnid] for wnid in listing.wnids])
    return ListedImages(path, listing.files, nodes, taxonomy, listing.split)


register_reader(
    "imagenet",
    read_imagenet,
    summary="ImageNet (ILSVRC 2012), 1.3 million photographs, 1,000 classes in the tree of WordNet, depth 18",
    licence=_LICENCE,
    files=_FILES,
    published=Published(
        _SPLITS,
        (2, 4, 8, 14, 29, 71, 206, 287, 285, 182, 160, 121, 117, 104, 69, 81, 40, 4),
        "Russakovsky et al. 2015; the tree of WordNet 3.0",
    ),
)
register_reader(
    "imagenet-robustness",
    read_imagenet_robustness,
    summary="ImageNet with a hierarchy in the Robustness library's files, which you add",
    licence=_LICENCE,
    files=(
        *_FILES,
        Needed(
            tuple(edges for edges, _ in HIERARCHIES),
            "the hierarchy, 'parent child' a line, from the Robustness library or its BREEDS benchmarks",
        ),
    ),
    published=Published(_SPLITS, (), _AUTHORS),
    home="imagenet",
)

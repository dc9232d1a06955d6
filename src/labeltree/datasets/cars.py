"""Stanford Cars (Krause et al. 2013), 196 models in 8 types (Feng & Patras 2023, MaskCon)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labeltree.data.listed_images import ListedImages, register_reader
from labeltree.data.named_data import Needed, Published
from labeltree.datasets.formats.matlab import read_matlab
from labeltree.datasets.formats.resources import resource_yaml
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

__all__ = ["TYPES", "cars_taxonomy", "read_cars"]

NAME = "cars-196"
# Class numbers, from 1, of each type: the grouping of MaskCon's section 4.5.2, which the paper made by hand.
TYPES: dict[str, tuple[int, ...]] = {
    name: tuple(numbers) for name, numbers in resource_yaml("cars-196.yaml").items()
}
_BOX = ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2")


def cars_taxonomy(names: Sequence[str]) -> Taxonomy:
    """Types and models.

    Args:
        names: Names of the 196 models, in the order of their class numbers.
    """
    return Taxonomy.from_paths(_paths(names), "car")


def _paths(names: Sequence[str]) -> list[tuple[str, str]]:
    """Type and model of each class, in order of the class numbers."""
    type_of = {number: kind for kind, numbers in TYPES.items() for number in numbers}
    return [(type_of[number], name) for number, name in enumerate(names, 1)]


def read_cars(path: Path, *, crop: bool = False) -> ListedImages:
    """List the images of Stanford Cars, with the split for classification.

    Args:
        path: The folder with `cars_annos.mat` and `car_ims`, or with `devkit`, `cars_train`,
            `cars_test` and `cars_test_annos_withlabels.mat` (which may lie in `devkit` too).
        crop: Reduce each image to the square around the car's box.

    Raises:
        DataError: If an annotation is missing or malformed.
    """
    if (path / "cars_annos.mat").is_file():
        parts = [_Part(path / "cars_annos.mat")]
        names = _names(path / "cars_annos.mat")
        files = parts[0].texts("relative_im_path")
        split = np.where(parts[0].numbers("test") > 0, "test", "train")
    else:
        parts = [_Part(path / "devkit/cars_train_annos.mat"), _Part(_test_annotations(path))]
        names = _names(path / "devkit/cars_meta.mat")
        train, test = (part.texts("fname") for part in parts)
        files = [*(f"cars_train/{file}" for file in train), *(f"cars_test/{file}" for file in test)]
        split = np.repeat(["train", "test"], [len(train), len(test)])
    if len(names) != 196:
        raise DataError(f"the annotations in '{path}' name {len(names)} models; Stanford Cars has 196")
    numbers = np.concatenate([part.numbers("class") for part in parts])
    wrong = np.flatnonzero((numbers < 1) | (numbers > 196))
    if wrong.size:
        raise DataError(
            f"the annotations in '{path}' give '{files[wrong[0]]}' the class {numbers[wrong[0]]}, "
            "expected 1 to 196"
        )
    boxes = None
    if crop:
        left, top, right, bottom = (np.concatenate([part.numbers(side) for part in parts]) for side in _BOX)
        boxes = np.stack([left - 1, top - 1, right - left + 1, bottom - top + 1], 1).astype(np.float64)
    taxonomy = cars_taxonomy(names)
    by_number = taxonomy.encode(_paths(names))
    nodes = by_number[torch.from_numpy(numbers - 1)]
    return ListedImages(path, files, nodes, taxonomy, split=split, boxes=boxes)


def _test_annotations(path: Path) -> Path:
    """Find the file of the labelled annotations of the test images."""
    beside, inside = (path / folder / "cars_test_annos_withlabels.mat" for folder in ("", "devkit"))
    return beside if beside.is_file() else inside


class _Part:
    """The annotations of a file: one record per image, with named fields; pixels are counted from 1."""

    def __init__(self, file: Path) -> None:
        annotations = read_matlab(file).get("annotations")
        records = np.atleast_1d(np.asarray(annotations))
        if records.dtype.names is None or not records.size:
            raise DataError(f"'{file}' has no annotations")
        self._file, self._records = file, records

    def _field(self, name: str) -> Any:
        if name not in (self._records.dtype.names or ()):
            hint = "; those with labels are called cars_test_annos_withlabels.mat" if name == "class" else ""
            raise DataError(f"the annotations in '{self._file}' have no field '{name}'{hint}")
        return self._records[name]

    def texts(self, name: str) -> list[str]:
        return [str(value) for value in self._field(name)]

    def numbers(self, name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
        values = self._field(name)
        try:
            return np.array([int(value) for value in values], np.int64)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"the field '{name}' of '{self._file}' holds values that are not numbers"
            ) from error


def _names(file: Path) -> list[str]:
    class_names = read_matlab(file).get("class_names")
    if class_names is None:
        raise DataError(f"'{file}' has no class_names")
    return [str(name).strip() for name in np.atleast_1d(class_names)]


_FILES = (
    Needed(
        ("cars_annos.mat", "devkit/cars_train_annos.mat"),
        "files, classes and boxes: alone, or the training part from car_devkit.tgz",
    ),
    Needed(
        ("cars_annos.mat", "cars_test_annos_withlabels.mat", "devkit/cars_test_annos_withlabels.mat"),
        "files, classes and boxes of the test part, which is published beside car_devkit.tgz",
    ),
    Needed(("cars_annos.mat", "devkit/cars_meta.mat"), "the names of the models, from car_devkit.tgz"),
    Needed(("car_ims", "cars_train"), "the folder of images, from car_ims.tgz, or from cars_train.tgz"),
    Needed(("car_ims", "cars_test"), "the folder of images, from car_ims.tgz, or from cars_test.tgz"),
)

for _name, _crop, _what in ((NAME, False, ""), (f"{NAME}-cropped", True, ", cropped to the cars")):
    register_reader(
        _name,
        partial(read_cars, crop=_crop),
        summary=f"16,185 photographs of 196 models of cars in 8 types{_what}",
        licence="images for non-commercial research (Stanford, ImageNet's terms)",
        size="1.9 GB",
        files=_FILES,
        published=Published({"train": 8_144, "test": 8_041}, (8, 196), "Krause et al. 2013; MaskCon, §4.5.2"),
        home=NAME,
    )

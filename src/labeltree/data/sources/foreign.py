"""Data sets of other libraries seen alike: rows with labels, images and texts, whatever their class."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from labeltree.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

__all__ = ["ForeignItems", "as_image", "class_names", "foreign_items"]


class ForeignItems(Protocol):
    """What is needed of a data set, by column."""

    @property
    def columns(self) -> Sequence[Any]:
        """Those it has: names, or places in an item."""

    def __len__(self) -> int: ...

    def default(self, what: str) -> Any:
        """The column of ``labels``, ``image`` or ``text`` where the caller names none; None = none."""

    def values(self, column: Any) -> list[Any]:
        """All values of a column that is small: labels, texts, groups."""

    def value(self, row: int, column: Any) -> Any:
        """One value: an image."""

    def classes(self, column: Any) -> list[str] | None:
        """The names of a column's numbers; None where it has none."""


class _Table:
    """A data set with named columns and ``features``, as Hugging Face's."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.columns: Sequence[Any] = list(dataset.features)

    def __len__(self) -> int:
        return len(self._dataset)

    def default(self, what: str) -> Any:
        features = self._dataset.features
        if what == "labels":
            found = [name for name, feature in features.items() if getattr(feature, "names", None)]
        elif what == "image":
            found = [name for name, feature in features.items() if type(feature).__name__ == "Image"]
        else:
            found = [name for name, feature in features.items() if getattr(feature, "dtype", "") == "string"]
        if len(found) > 1:
            raise DataError(f"the columns {', '.join(found)} may all be the {what}; choose one with {what}=")
        return found[0] if found else None

    def values(self, column: Any) -> list[Any]:
        return list(self._dataset[column])

    def value(self, row: int, column: Any) -> Any:
        return self._dataset[row][column]

    def classes(self, column: Any) -> list[str] | None:
        names = getattr(self._dataset.features[column], "names", None)
        return None if names is None else [str(name) for name in names]


class _Items:
    """A data set of items ``(image, label)``, or mappings, as torchvision's."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        first = dataset[0]
        self.columns: Sequence[Any] = (
            list(first)
            if isinstance(first, Mapping)
            else range(len(first))
            if isinstance(first, tuple)
            else ()
        )
        if len(self.columns) < 2:
            raise DataError(f"items are {type(first).__name__}, expected (image, label) or a mapping")

    def __len__(self) -> int:
        return len(self._dataset)

    def default(self, what: str) -> Any:
        if isinstance(self.columns, range):
            return {"labels": 1, "image": 0}.get(what)
        usual = {"labels": ("label", "labels", "target"), "image": ("image", "img"), "text": ("text",)}[what]
        return next((column for column in usual if column in self.columns), None)

    def values(self, column: Any) -> list[Any]:
        targets = getattr(self._dataset, "targets", None)
        if column == 1 and targets is not None and len(targets) == len(self):
            return list(targets.tolist() if isinstance(targets, torch.Tensor) else targets)
        return [self._dataset[row][column] for row in range(len(self))]

    def value(self, row: int, column: Any) -> Any:
        return self._dataset[row][column]

    def classes(self, column: Any) -> list[str] | None:
        inner, seen = self._dataset, 0
        while not hasattr(inner, "classes") and hasattr(inner, "dataset") and seen < 10:  # a subset's whole
            inner, seen = inner.dataset, seen + 1
        names = getattr(inner, "classes", None)
        if names is None:
            return None
        return [str(name[0]) if isinstance(name, (tuple, list)) else str(name) for name in names]


def foreign_items(dataset: Any) -> ForeignItems:
    """A data set of another library as rows.

    Raises:
        DataError: If it is empty, or no data set.
    """
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise DataError(
            f"a {type(dataset).__name__} has no length or no items by number; give a data set that is loaded "
            "as a whole, not one that is streamed"
        )
    if not len(dataset):
        raise DataError("the data set is empty")
    return _Table(dataset) if hasattr(dataset, "features") and dataset.features else _Items(dataset)


def class_names(numbers: Sequence[Any], classes: Sequence[str] | None) -> list[str | None]:
    """Labels as names; None where one is missing: None, -1, NaN or empty.

    Raises:
        DataError: If a number has no name among the classes.
    """
    found: list[str | None] = []
    for row, value in enumerate(numbers):
        label = value.item() if isinstance(value, (np.generic, torch.Tensor)) else value
        if label is None or label == "" or label == -1 or label != label:
            found.append(None)
        elif isinstance(label, str) or classes is None:
            found.append(str(label))
        elif isinstance(label, int) and 0 <= label < len(classes):
            found.append(classes[label])
        else:
            raise DataError(
                f"the label of item {row} is {label!r}, but there are {len(classes)} classes, from 0"
            )
    return found


def as_image(value: Any) -> PilImage:
    """An image of a data set as Pillow's: an image, its bytes, its path, or an array of pixels.

    Raises:
        DataError: If it is none.
    """
    from PIL import Image

    if isinstance(value, Image.Image):
        return value
    if isinstance(value, Mapping) and (value.get("bytes") or value.get("path")):
        return Image.open(io.BytesIO(value["bytes"]) if value.get("bytes") else value["path"])
    if isinstance(value, torch.Tensor):
        value = value.numpy()
        if value.ndim == 3 and value.shape[0] in (1, 3):
            value = value.transpose(1, 2, 0)
    if isinstance(value, np.ndarray):
        return _from_pixels(value)
    raise DataError(f"it is a {type(value).__name__}, not an image")


def _from_pixels(pixels: np.ndarray[Any, Any]) -> PilImage:
    """From ``(h, w)`` or ``(h, w, c)``, bytes or reals in [0, 1]."""
    from PIL import Image

    if pixels.dtype.kind == "f":
        if not (pixels.min(initial=0) >= 0 and pixels.max(initial=0) <= 1):
            raise DataError("its pixels are reals outside [0, 1]; open the data set without a transform")
        pixels = (pixels * 255).round().astype(np.uint8)
    if (
        pixels.dtype != np.uint8
        or pixels.ndim not in (2, 3)
        or (pixels.ndim == 3 and pixels.shape[2] not in (1, 3))
    ):
        raise DataError(f"it is an array {pixels.dtype} {pixels.shape}, expected uint8 (h, w) or (h, w, 3)")
    return Image.fromarray(pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels)

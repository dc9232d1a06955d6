"""Data sets of other libraries as sources: torchvision's, Hugging Face's, any with a length and items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Unpack

import numpy as np
import torch
from torch import Tensor

from labeltree.data.adapter_images import DatasetImages, open_dataset_images
from labeltree.data.images.image_files import ImageSettings, check_image_settings
from labeltree.data.source import Source
from labeltree.data.stratified import group_ids
from labeltree.data.tables.row_labels import cut_label
from labeltree.errors import DataError
from labeltree.split_names import SPLIT_NAMES, SPLITS
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.placeholders import MissingNames

__all__ = ["DatasetColumns", "class_names", "from_dataset"]


def from_dataset(
    dataset: Any,
    taxonomy: Taxonomy | str | Path | None = None,
    *,
    labels: Any = None,
    image: Any = None,
    text: Any = None,
    group: Any = None,
    split: str | None = None,
    classes: Sequence[str] | None = None,
    missing_labels: Sequence[str] | str = (),
    name: str = "dataset",
    **image_settings: Unpack[ImageSettings],
) -> Source:
    """Make a source from a data set loaded by another library.

    A data set is an object with a length and items by number: torchvision's, whose items are `(image,
    label)`, torch subsets of these, Hugging Face's, or one whose items are mappings. Open it without
    transforms: labeltree makes the views. The other library is not imported.

    Args:
        dataset: The data set, or a mapping from split to data set, such as Hugging Face's `DatasetDict`.
        taxonomy: Taxonomy whose node names are the labels, or its file; None = built from the labels.
        labels: Column of the labels, or several, coarse to fine; None = the second element of an item, or the
            only column of class labels. Integers are class indices of the data set.
        image: Column of the images; None = the first element of an item, or the only column of images.
        text: Column of the texts; None = the only column of text, if there are no images. To read texts
            beside images, name the column.
        group: Group column; samples with equal values stay in one split.
        split: Split of all samples: `train`, `val` (or `validation`) or `test`. Not with a mapping.
        classes: Class names by index; None = the names in the data set.
        missing_labels: Names of classes that stand for missing labels, such as `unknown`. An empty name is
            always missing.
        name: Name of the source.
        **image_settings: How images are read; see `ImageSettings`. Here `cache` keeps the pixels in memory;
            None = if they take less than 4 GiB. Otherwise images are read from the data set on
            demand.

    Raises:
        DataError: If a column is missing or unclear, or an item cannot be read.
        TaxonomyError: If a label is not in the taxonomy.

    Example:
        >>> from PIL import Image
        >>> class Two:
        ...     classes = ["cat", "oak"]
        ...     def __len__(self): return 2
        ...     def __getitem__(self, i): return Image.new("L", (8, 8), 200 * i), i
        >>> tree = Taxonomy.from_paths(["animal/cat", "animal/dog", "plant/oak"])
        >>> source = from_dataset(Two(), tree, split="train")
        >>> source.taxonomy.decode(source.nodes), source.image_shape
        (['animal/cat', 'plant/oak'], (1, 8, 8))
    """
    check_image_settings(image_settings)
    if isinstance(taxonomy, (str, Path)):
        taxonomy = Taxonomy.from_file(taxonomy)
    is_mapping = isinstance(dataset, Mapping)
    if is_mapping and split is not None:
        raise DataError("the data set is a mapping from split to data set; leave split out")
    parts = {
        part: _wrap_columns(d) for part, d in (dataset if is_mapping else {split or "": dataset}).items()
    }
    split_of = {part: _split_name(part) for part in parts}
    first = next(iter(parts.values()))
    label_columns = _columns(first, labels, "labels")
    image_column = _column(first, image, "image", text is not None)
    text_column = text if image_column is not None else _column(first, text, "text", False)
    if image_column is None and text_column is None:
        raise DataError(
            f"there are neither images nor texts in {_list_columns(first)}; name one with image= or text="
        )
    for items in parts.values():
        for column in (*label_columns, image_column, text_column, group):
            if column is not None and column not in items.columns:
                raise DataError(f"there is no column {column!r} in {_list_columns(items)}")
    missing = MissingNames(missing_labels)
    taxonomy, nodes = _label(parts, label_columns, taxonomy, classes, missing)
    n = len(nodes)
    store, readable = None, torch.arange(n)
    if image_column is not None:
        images = DatasetImages(
            [
                (part or "the data set", len(items), partial(items.value, column=image_column))
                for part, items in parts.items()
            ]
        )
        store, good = open_dataset_images(images, **image_settings)
        readable = torch.from_numpy(good)
    splits = np.concatenate([np.repeat(split_of[part], len(items)) for part, items in parts.items()])
    named = None if group is None else [v for items in parts.values() for v in items.values(group)]
    everything = Source.in_order(
        name,
        taxonomy,
        nodes,
        store=store,
        groups=None if named is None else group_ids(named),
        group_names=None if named is None else np.array(list(map(str, named)), dtype=str),
        split=splits if any(split_of.values()) else None,
        texts=None if text_column is None else _texts(parts, text_column),
        missing_labels=missing.found,
    )
    return everything.subset(readable)


def _split_name(part: str) -> str:
    split = SPLIT_NAMES.get(str(part).lower(), str(part).lower())
    if split not in (*SPLITS, ""):
        raise DataError(f"split is '{part}'; it must be one of {', '.join(SPLITS)}, or validation")
    return split


def _list_columns(items: DatasetColumns) -> str:
    return f"the columns {', '.join(map(str, items.columns))}"


def _column(items: DatasetColumns, chosen: Any, what: str, is_optional: bool) -> Any:
    return chosen if chosen is not None or is_optional else items.default(what)


def _columns(items: DatasetColumns, chosen: Any, what: str) -> list[Any]:
    if isinstance(chosen, (list, tuple)):
        return list(chosen)
    column = _column(items, chosen, what, False)
    if column is None:
        raise DataError(f"no column of {_list_columns(items)} has class labels; name one with labels=")
    return [column]


def _label(
    parts: Mapping[str, DatasetColumns],
    columns: Sequence[Any],
    taxonomy: Taxonomy | None,
    classes: Sequence[str] | None,
    missing: MissingNames,
) -> tuple[Taxonomy, Tensor]:
    """The taxonomy, built from the labels if none is given, and the node of every sample."""
    names = [
        [
            name if name is not None and name.strip() else None
            for items in parts.values()
            for name in class_names(items.values(c), classes or items.classes(c))
        ]
        for c in columns
    ]
    if len(columns) == 1 and taxonomy is not None:
        return taxonomy, taxonomy.encode([name and cut_label(name, missing) for name in names[0]])
    paths: list[tuple[str, ...] | None] = []
    for row, path in enumerate(zip(*names, strict=True)):
        given = [part for part in path if part is not None]
        if None in path[: len(given)]:
            raise DataError(f"item {row} has a gap in its labels, {path}; only the finest may be missing")
        paths.append(missing.cut(given) or None)
    made = taxonomy or Taxonomy.from_paths(sorted({path for path in paths if path}))
    return made, made.encode(paths)


def _texts(parts: Mapping[str, DatasetColumns], column: Any) -> list[str]:
    texts = [value for items in parts.values() for value in items.values(column)]
    for row, value in enumerate(texts):
        if not isinstance(value, str):
            raise DataError(f"the text of item {row} is {value!r}, expected a string")
    return texts


class DatasetColumns(Protocol):
    """The columns of a data set of another library."""

    @property
    def columns(self) -> Sequence[Any]:
        """Column keys: names, or positions in an item."""

    def __len__(self) -> int: ...

    def default(self, what: str) -> Any:
        """The default column of `labels`, `image` or `text`; None if there is none."""

    def values(self, column: Any) -> list[Any]:
        """All values of a column of labels, texts or groups."""

    def value(self, row: int, column: Any) -> Any:
        """One value of a column of images."""

    def classes(self, column: Any) -> list[str] | None:
        """The class names of a column of class indices; None if it has none."""


class _Table:
    """A data set with named columns and `features`, like those of Hugging Face."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.columns: Sequence[Any] = list(dataset.features)

    def __len__(self) -> int:
        return len(self._dataset)

    def default(self, what: str) -> Any:
        features = self._dataset.features
        if what == "labels":
            candidates = [name for name, feature in features.items() if getattr(feature, "names", None)]
        elif what == "image":
            candidates = [name for name, feature in features.items() if type(feature).__name__ == "Image"]
        else:
            candidates = [
                name for name, feature in features.items() if getattr(feature, "dtype", "") == "string"
            ]
        if len(candidates) > 1:
            raise DataError(
                f"the columns {', '.join(candidates)} may all be the {what}; choose one with {what}="
            )
        return candidates[0] if candidates else None

    def values(self, column: Any) -> list[Any]:
        return list(self._dataset[column])

    def value(self, row: int, column: Any) -> Any:
        return self._dataset[row][column]

    def classes(self, column: Any) -> list[str] | None:
        names = getattr(self._dataset.features[column], "names", None)
        return None if names is None else [str(name) for name in names]


class _Items:
    """A data set whose items are `(image, label)`, like those of torchvision, or mappings."""

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
        while not hasattr(inner, "classes") and hasattr(inner, "dataset") and seen < 10:  # unwrap subsets
            inner, seen = inner.dataset, seen + 1
        names = getattr(inner, "classes", None)
        if names is None:
            return None
        return [str(name[0]) if isinstance(name, (tuple, list)) else str(name) for name in names]


def _wrap_columns(dataset: Any) -> DatasetColumns:
    """Wrap a data set of another library by columns.

    Raises:
        DataError: If the data set is empty, or the object is no data set.
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
    """Convert labels to names; None where a label is missing (None, -1, NaN or empty).

    Raises:
        DataError: If a number has no name among the classes.
    """
    texts: list[str | None] = []
    for row, value in enumerate(numbers):
        label = value.item() if isinstance(value, (np.generic, torch.Tensor)) else value
        if label is None or label == "" or label == -1 or label != label:
            texts.append(None)
        elif isinstance(label, str) or classes is None:
            texts.append(str(label))
        elif isinstance(label, int) and 0 <= label < len(classes):
            texts.append(classes[label])
        else:
            raise DataError(
                f"the label of item {row} is {label!r}, but there are {len(classes)} classes, from 0"
            )
    return texts

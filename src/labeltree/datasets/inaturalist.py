"""iNaturalist 2017 (Van Horn et al. 2018), 2019 and 2021 (Van Horn et al. 2021): genera or seven ranks."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from labeltree.data.biology.rank_gaps import placeholder_name
from labeltree.data.listed_images import ListedImages, register_reader
from labeltree.data.named_data import Needed, Published
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

__all__ = ["RANKS", "Edition", "genus_paths", "rank_paths", "read_inaturalist"]

RANKS = ("kingdom", "phylum", "class", "order", "family", "genus")
"""Ranks above the species, coarse to fine."""

Category = Mapping[str, Any]
_CATEGORIES = "categories.json"
_KEYS = ("images", "annotations", "categories")
_USED = (*_KEYS, "id", "file_name", "image_id", "category_id", "name", "supercategory", *RANKS)


def _has_ranks(categories: Sequence[Category]) -> bool:
    """Whether the categories have ranks, unlike those of 2017 and of the first files of 2019."""
    return any(category.get("kingdom") for category in categories)


def rank_paths(categories: Sequence[Category]) -> dict[int, tuple[str, ...]]:
    """Paths of seven names, kingdom to species, by category id.

    A missing rank is filled by a separate node named after the next finer taxon, `Cichlidae (order incertae
    sedis)`. Thus depth equals rank for all species, and no two taxa are related merely because both lack a
    rank.

    Raises:
        DataError: If a category has no name, or nothing else.
    """
    paths: dict[int, tuple[str, ...]] = {}
    for category in categories:
        path = [_name(category)]
        for rank in reversed(RANKS):
            given = str(category.get(rank) or "").strip()
            if not given:
                given = placeholder_name(path[0], rank)
            path.insert(0, given)
        paths[_id(category)] = tuple(path)
    return _distinct(paths)


def genus_paths(categories: Sequence[Category]) -> dict[int, tuple[str, ...]]:
    """Paths of two names, genus and species, by category id; the genus is the first word of the name.

    A genus name that occurs in two super-categories, such as birds and plants, gives two nodes:
    `Prunella (Aves)`.

    Raises:
        DataError: If a category has no name, or nothing else.
    """
    kinds: defaultdict[str, set[str]] = defaultdict(set)
    for category in categories:
        kinds[_name(category).split()[0]].add(str(category.get("supercategory", "")))
    paths: dict[int, tuple[str, ...]] = {}
    for category in categories:
        genus = _name(category).split()[0]
        kind = str(category.get("supercategory", ""))
        paths[_id(category)] = (f"{genus} ({kind})" if len(kinds[genus]) > 1 else genus, _name(category))
    return _distinct(paths)


def _name(category: Category) -> str:
    name = str(category.get("name") or "").strip()
    if not name:
        raise DataError(f"a category has no name: {dict(category)}")
    return name


def _id(category: Category) -> int:
    if not isinstance(category.get("id"), int):
        raise DataError(f"category '{category.get('name')}' has no id")
    return int(category["id"])


def _distinct(paths: dict[int, tuple[str, ...]]) -> dict[int, tuple[str, ...]]:
    """Add the ids of categories that share a path to their names."""
    several = {path for path, count in Counter(paths.values()).items() if count > 1}
    return {
        number: (*path[:-1], f"{path[-1]} ({number})") if path in several else path
        for number, path in paths.items()
    }


@dataclass(frozen=True)
class Edition:
    """The data set of one year.

    Attributes:
        name: Name of the data set.
        train: The file of training annotations.
        val: The file of validation annotations.
        archives: Archives of the annotations and images.
        images: Folders of the images.
        ranks: Whether the tree has seven ranks, or only genus and species.
        published: Size according to the authors.
        home: Name of the folder in the cache; see `DatasetEntry`.
    """

    name: str
    train: str
    val: str
    archives: tuple[str, str, str]
    images: tuple[str, ...]
    ranks: bool
    published: Published
    home: str = ""

    @property
    def needed(self) -> tuple[Needed, ...]:
        """The files and folders that must be in the data set's folder."""
        return (
            Needed(self.train, f"annotations of the training images; {self.archives[0]}"),
            Needed(self.val, f"annotations of the validation images; {self.archives[1]}"),
            *(Needed(folder, f"the images; {self.archives[2]}") for folder in self.images),
        )


def read_inaturalist(path: Path, edition: Edition) -> ListedImages:
    """List the annotated images of one year's data set.

    The validation images are the test split, since the official test images have no labels.

    Raises:
        DataError: If files of annotations are missing or damaged.
    """
    documents = {where: _read(where) for where in (path / edition.train, path / edition.val)}
    categories = _categories(edition, path, documents[path / edition.train])
    paths = rank_paths(categories) if edition.ranks else genus_paths(categories)
    taxonomy = Taxonomy.from_paths(sorted(paths.values()), root_name="life")
    node_of = dict(zip(paths, taxonomy.encode(list(paths.values())).tolist(), strict=True))
    files: list[str] = []
    nodes: list[int] = []
    split: list[str] = []
    for where, document in documents.items():
        for file, category in _label_images(document, where):
            if category is not None and category not in node_of:
                raise DataError(f"'{where}': '{file}' is of category {category}, which is not described")
            files.append(file)
            nodes.append(-1 if category is None else node_of[category])
            split.append("train" if where.name == edition.train else "test")
    return ListedImages(path, files, torch.tensor(nodes), taxonomy, split)


def _read(path: Path) -> dict[str, Any]:
    document = _json(path)
    if not isinstance(document, dict) or not all(_are_objects(document.get(key)) for key in _KEYS):
        raise DataError(
            f"'{path}' does not hold lists of {', '.join(_KEYS)}; it is not a file of annotations"
        )
    return document


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _json(path: Path) -> Any:
    try:
        with path.open(encoding="utf-8") as file:
            return json.load(file, object_hook=_keep_needed)
    except (ValueError, RecursionError) as error:
        raise DataError(f"'{path}' is not JSON, or only half of it: {error}") from error
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror}") from error


def _keep_needed(read: dict[str, Any]) -> dict[str, Any]:
    """Keep only the fields that are used, to leave out dates and places of millions of images."""
    return {key: read[key] for key in _USED if key in read}


def _categories(edition: Edition, path: Path, train: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """The categories, with their ranks if the edition uses them."""
    own: Sequence[dict[str, Any]] = train["categories"]
    if not edition.ranks or _has_ranks(own):
        return own
    file = path / _CATEGORIES
    if not file.is_file():
        raise DataError(
            f"'{path / edition.train}' hides the names and ranks of its categories, and there is no '{file}' "
            "that tells them (categories.json.tar.gz)"
        )
    categories: Sequence[dict[str, Any]] = _json(file)
    if not _are_objects(categories) or not _has_ranks(categories):
        raise DataError(f"'{file}' is not a list of categories with their ranks")
    return categories


def _label_images(document: dict[str, Any], where: Path) -> list[tuple[str, int | None]]:
    """File and category of each image, None without an annotation."""
    try:
        category_of: dict[int, int] = {}
        for annotation in document["annotations"]:
            image, category = annotation["image_id"], annotation["category_id"]
            if category_of.setdefault(image, category) != category:
                raise DataError(
                    f"'{where}': image {image} is of category {category_of[image]} and of {category}"
                )
        labelled = [
            (str(image["file_name"]), category_of.pop(image["id"], None)) for image in document["images"]
        ]
    except (KeyError, TypeError) as error:
        raise DataError(f"'{where}': an image or an annotation lacks {error}") from error
    if category_of:
        raise DataError(f"'{where}': there is no image {next(iter(category_of))}, which has an annotation")
    return labelled


def _register(edition: Edition, summary: str) -> None:
    register_reader(
        edition.name,
        partial(read_inaturalist, edition=edition),
        summary=summary,
        licence="iNaturalist competition: non-commercial research and education, images not to be passed on",
        files=edition.needed,
        published=edition.published,
        home=edition.home,
    )


_register(
    Edition(
        "inaturalist-2017",
        "train2017.json",
        "val2017.json",
        ("train_val2017.zip", "train_val2017.zip", "train_val_images.tar.gz"),
        ("train_val_images",),
        False,
        Published({"train": 579_184, "test": 95_986}, (None, 5089), "Van Horn et al. 2018"),
    ),
    "675,170 photographs of 5,089 species in their genera",
)
_register(
    Edition(
        "inaturalist-2019",
        "train2019.json",
        "val2019.json",
        ("train2019.json.tar.gz", "val2019.json.tar.gz", "train_val2019.tar.gz"),
        ("train_val2019",),
        True,
        Published(
            {"train": 265_213, "test": 3_030},
            (None, None, None, None, None, 72, 1010),
            "iNaturalist competition at FGVC6",
        ),
    ),
    "268,243 photographs of 1,010 species, seven ranks from kingdom to species",
)
for _mini in (False, True):
    _part = "train_mini" if _mini else "train"
    _register(
        Edition(
            "inaturalist-2021-mini" if _mini else "inaturalist-2021",
            f"{_part}.json",
            "val.json",
            (f"{_part}.json.tar.gz", "val.json.tar.gz", f"{_part}.tar.gz and val.tar.gz"),
            (_part, "val"),
            True,
            Published(
                {"train": 500_000 if _mini else 2_686_843, "test": 100_000},
                (None, None, None, None, None, None, 10_000),
                "Van Horn et al. 2021",
            ),
            "inaturalist-2021" if _mini else "",
        ),
        f"{'600,000' if _mini else '2.8 million'} photographs of 10,000 species, seven ranks"
        f"{', 50 training images of each' if _mini else ' from kingdom to species'}",
    )

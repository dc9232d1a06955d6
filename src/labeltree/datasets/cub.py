"""Caltech-UCSD Birds 200-2011 (Wah et al. 2011), with three taxonomies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from labeltree.data.listed_images import ListedImages, archive_root, register_reader
from labeltree.data.named_data import Published
from labeltree.datasets.formats.bird_lists import needed_lists, read_birds
from labeltree.datasets.formats.listings import legible, read_listing
from labeltree.datasets.formats.resources import resource_yaml
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

__all__ = ["cub_taxonomy", "read_cub"]

NAME = "cub-200"
_FOLDER = "CUB_200_2011"


def cub_taxonomy(tree: str = NAME, classes: Mapping[int, str] | None = None) -> Taxonomy:
    """Build a taxonomy of the 200 species.

    Args:
        tree: `cub-200` (order, family, genus, species), `cub-200-balanced` (every species but four at
            depth 7) or `cub-200-wikispecies` (as Wikispecies has it, depths 3 to 6).
        classes: Names by class number, from 1; None = the numbers.

    Raises:
        DataError: If a class number is not in the tree.

    Example:
        >>> cub_taxonomy()
        Taxonomy(368 nodes, 200 leaves, depth 4)
    """
    above = dict(_above(tree))
    names = {number: str(number) for number in above} if classes is None else classes
    return Taxonomy.from_paths([_path(above, number, name) for number, name in names.items()], "Aves")


def _above(tree: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield every class number with its ancestors' names, coarse to fine."""
    waiting: list[tuple[tuple[str, ...], object]] = [((), resource_yaml(f"{tree}.yaml"))]
    while waiting:
        path, below = waiting.pop(0)
        if isinstance(below, Mapping):
            waiting += [((*path, name) if name else path, part) for name, part in below.items()]
        elif isinstance(below, list):
            yield from ((number, path) for number in below)


def _path(above: Mapping[int, tuple[str, ...]], number: int, name: str) -> tuple[str, ...]:
    if number not in above:
        raise DataError(f"CUB-200-2011 has no class {number} ('{name}'); its classes are 1 to 200")
    return (*above[number], name)


def read_cub(path: Path, *, tree: str = NAME, crop: bool = False) -> ListedImages:
    """List the images of CUB-200-2011.

    Args:
        path: The folder with `images.txt`, or the one above it.
        tree: See `cub_taxonomy`.
        crop: Reduce each image to the square around the bird's box.

    Raises:
        DataError: If a listing is missing or malformed.
    """
    root = archive_root(path, _FOLDER)
    listed = read_listing(root / "classes.txt", ("class", "name"))
    names = dict(zip(listed.whole("class").tolist(), map(_species, listed.texts("name")), strict=True))
    taxonomy = cub_taxonomy(tree, names)
    birds = read_birds(root, names, "classes.txt", crop=crop)
    above = dict(_above(tree))
    return ListedImages(
        root / "images",
        birds.files,
        taxonomy.encode([_path(above, number, names[number]) for number in birds.classes]),
        taxonomy,
        split=birds.split,
        boxes=birds.boxes,
    )


def _species(name: str) -> str:
    """Convert `001.Black_footed_Albatross` to a readable name."""
    return legible(name).partition(".")[2].replace("_", " ") or legible(name)


_SPLITS = {"train": 5_994, "test": 5_794}
_SOURCE = "Wah et al. 2011, and the tree"

for _name, _tree, _crop, _what, _classes in (
    (NAME, NAME, False, "order, family, genus, species", (13, 37, 121, 196)),
    (f"{NAME}-cropped", NAME, True, "cropped to the birds", (13, 37, 121, 196)),
    (
        f"{NAME}-balanced",
        f"{NAME}-balanced",
        False,
        "a tree of nearly equal depth",
        (5, 13, 16, 23, 46, 121, 196),
    ),
    (
        f"{NAME}-wikispecies",
        f"{NAME}-wikispecies",
        False,
        "a ragged tree by Wikispecies",
        (13, 17, 39, 72, 103, 138),
    ),
):
    register_reader(
        _name,
        partial(read_cub, tree=_tree, crop=_crop),
        summary=f"11,788 photographs of 200 species of birds; {_what}",
        licence="images for non-commercial research and education (Caltech)",
        size="1.2 GB",
        files=needed_lists(_FOLDER, "CUB_200_2011.tgz", crop=_crop),
        published=Published(_SPLITS, _classes, _SOURCE),
        home=NAME,
    )

"""NABirds (Van Horn et al. 2015) with its own hierarchy."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch

from labeltree.data.listed_images import ListedImages, archive_root, register_reader
from labeltree.data.named_data import Published
from labeltree.datasets.formats.bird_lists import needed_lists, read_birds
from labeltree.datasets.formats.listings import legible, read_listing
from labeltree.errors import TaxonomyError
from labeltree.taxonomy import Taxonomy

__all__ = ["read_nabirds"]

NAME = "nabirds"


def _nabirds_taxonomy(root: Path) -> tuple[Taxonomy, dict[int, int]]:
    """The hierarchy of `hierarchy.txt` with the names of `classes.txt`.

    Returns:
        The taxonomy, and the node of each class number.

    Raises:
        DataError: If a file is missing or malformed.
        TaxonomyError: If the classes form no tree.
    """
    listed = read_listing(root / "classes.txt", ("class", "name"))
    numbers = listed.whole("class").tolist()
    names = dict(zip(numbers, map(legible, listed.texts("name")), strict=True))
    edges = read_listing(root / "hierarchy.txt", ("child", "parent"))
    pairs = list(zip(edges.whole("child").tolist(), edges.whole("parent").tolist(), strict=True))
    for row, pair in enumerate(pairs):
        for number in pair:
            if number not in names:
                raise edges.error(row, f"the class is {number}, which 'classes.txt' does not have")
    try:
        taxonomy = Taxonomy.from_edges(pairs, names=names)
    except TaxonomyError as error:
        raise TaxonomyError(f"'{edges.path}': {error}") from error
    parent = dict(pairs)
    nodes: dict[int, int] = {}
    for number in {*parent, *parent.values()}:
        path, above = [], number
        while above in parent:
            path.append(names[above])
            above = parent[above]
        node = taxonomy.follow(path[::-1])
        assert node is not None
        nodes[number] = node
    return taxonomy, nodes


def read_nabirds(path: Path, *, crop: bool = True) -> ListedImages:
    """List the images of NABirds.

    Args:
        path: The folder with `images.txt`, or the one above it.
        crop: Reduce each image to the square around the bird's box, as Barz & Denzler 2019 do (§5.1.2).

    Raises:
        DataError: If a listing is missing or malformed.
        TaxonomyError: If the classes form no tree.
    """
    root = archive_root(path, NAME)
    taxonomy, node_of = _nabirds_taxonomy(root)
    birds = read_birds(root, node_of, "hierarchy.txt", crop=crop)
    return ListedImages(
        root / "images",
        birds.files,
        torch.tensor([node_of[number] for number in birds.classes]),
        taxonomy,
        split=birds.split,
        boxes=birds.boxes,
    )


for _name, _crop, _what in ((NAME, True, "cropped to the birds"), (f"{NAME}-whole", False, "not cropped")):
    register_reader(
        _name,
        partial(read_nabirds, crop=_crop),
        summary=f"48,562 photographs of birds in 555 visual categories, {_what}; 5 levels, the root included",
        licence="images for non-commercial research and education (Cornell Lab of Ornithology)",
        size="9 GB",
        files=needed_lists(NAME, "nabirds.tar.gz", crop=_crop, hierarchy="the tree of the classes"),
        published=Published(
            {"train": 23_929, "test": 24_633}, (22, 228, 495, 265), "Van Horn et al. 2015; hierarchy.txt"
        ),
        home=NAME,
    )

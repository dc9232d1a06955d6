"""The named data sets: ImageNet with the tree of WordNet, and with one of the Robustness library."""

from __future__ import annotations

from pathlib import Path

import torch

from labeltree.data.readers import ListedImages, register_reader
from labeltree.data.registry import Needed, Published
from labeltree.datasets.imagenet.files import Listing, list_images
from labeltree.datasets.imagenet.trees import HIERARCHIES, hierarchy_taxonomy, imagenet_taxonomy
from labeltree.taxonomy import Taxonomy

__all__ = ["read_imagenet", "read_imagenet_robustness"]

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


def read_imagenet(path: Path) -> ListedImages:
    """List ImageNet, or a part of it with fewer classes, with the tree of `imagenet_taxonomy`.

    ImageNet's validation images are the test split: those of the official test have no labels.

    Raises:
        DataError: If files are missing, or WordNet's are.
    """
    listing = list_images(path)
    return _with_tree(path, listing, imagenet_taxonomy(listing.wnids))


def read_imagenet_robustness(path: Path) -> ListedImages:
    """List ImageNet with the tree of `hierarchy_taxonomy`; as `read_imagenet` otherwise."""
    listing = list_images(path)
    return _with_tree(path, listing, hierarchy_taxonomy(path, listing.wnids))


def _with_tree(path: Path, listing: Listing, taxonomy: Taxonomy) -> ListedImages:
    """Label the images; in our trees the wnid is the first word of a class's name."""
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

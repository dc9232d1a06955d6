"""The named data sets: ImageNet with the tree of WordNet, and with one of the Robustness library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from labeltree.data.downloads import Progress
from labeltree.data.files import OnError
from labeltree.data.imagenet.files import list_images
from labeltree.data.imagenet.trees import HIERARCHIES, hierarchy_taxonomy, imagenet_taxonomy
from labeltree.data.listed import open_listed
from labeltree.data.registry import Needed, Published, register_dataset
from labeltree.data.source import Source
from labeltree.taxonomy import Taxonomy

__all__ = ["open_imagenet", "open_imagenet_robustness"]

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


def _open(
    name: str,
    path: Path,
    tree: Callable[[set[str]], Taxonomy],
    image_size: int | None,
    channels: int | None,
    on_error: OnError,
    cache: bool | None,
    progress: Progress | None,
) -> Source:
    listing = list_images(path)
    taxonomy = tree(set(listing.wnids))
    node_of = {title.partition(" ")[0]: node for node, title in enumerate(taxonomy.names)}
    return open_listed(
        name,
        path,
        listing.files,
        torch.tensor([node_of[wnid] for wnid in listing.wnids]),
        taxonomy,
        split=listing.split,
        image_size=image_size,
        channels=channels,
        on_error=on_error,
        cache=cache,
        progress=progress,
    )


@register_dataset(
    "imagenet",
    summary="ImageNet (ILSVRC 2012), 1.3 million photographs, 1,000 classes in the tree of WordNet, depth 18",
    licence=_LICENCE,
    files=_FILES,
    published=Published(
        _SPLITS,
        (2, 4, 8, 14, 29, 71, 206, 287, 285, 182, 160, 121, 117, 104, 69, 81, 40, 4),
        "Russakovsky et al. 2015; the tree of WordNet 3.0",
    ),
)
def open_imagenet(
    *,
    path: Path,
    image_size: int | None = None,
    channels: int | None = None,
    on_error: OnError = "raise",
    cache: bool | None = None,
    progress: Progress | None = None,
) -> Source:
    """Open ImageNet, or a part of it with fewer classes, with the tree of `imagenet_taxonomy`.

    ImageNet's validation images are the test split: those of the official test have no labels.

    Raises:
        DataError: If files are missing, or WordNet's are.
    """
    return _open("imagenet", path, imagenet_taxonomy, image_size, channels, on_error, cache, progress)


@register_dataset(
    "imagenet-robustness",
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
def open_imagenet_robustness(
    *,
    path: Path,
    image_size: int | None = None,
    channels: int | None = None,
    on_error: OnError = "raise",
    cache: bool | None = None,
    progress: Progress | None = None,
) -> Source:
    """Open ImageNet with the tree of `hierarchy_taxonomy`; as `open_imagenet` otherwise."""
    name = "imagenet-robustness"

    def tree(wnids: set[str]) -> Taxonomy:
        return hierarchy_taxonomy(path, wnids)

    return _open(name, path, tree, image_size, channels, on_error, cache, progress)

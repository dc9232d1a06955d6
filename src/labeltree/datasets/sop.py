"""Stanford Online Products (Song et al. 2016) in the two splits of Feng & Patras 2023 (MaskCon)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labeltree.data.counter_rng import sample_keys
from labeltree.data.listed_images import (
    ListedImages,
    archive_root,
    in_archive,
    label_taxonomy,
    register_reader,
)
from labeltree.data.named_data import Needed, Published
from labeltree.data.stratified import group_ids
from labeltree.datasets.formats.listings import Listing, read_listing
from labeltree.errors import DataError

Strings = np.ndarray[Any, np.dtype[np.str_]]

__all__ = ["read_sop_split1", "read_sop_split2"]

_FOLDER = "Stanford_Online_Products"
_COLUMNS = ("image", "product", "category", "file")
_FEWEST = 8  # minimum number of images of a product in split 1
_IMAGES, _HELD_OUT = 12, 2  # images of each product in split 2, and the number held out for the test


def read_sop_split1(path: Path) -> ListedImages:
    """List products with eight or more images; training and test have different products (§4.5.1).

    The paper says only "split almost equally"; labeltree takes the official halves, `Ebay_train.txt` and
    `Ebay_test.txt`.

    Args:
        path: The folder with these files, or its parent.

    Raises:
        DataError: If a listing is missing or malformed.
    """
    root = archive_root(path, _FOLDER)
    halves = {split: _listing(root, split) for split in ("train", "test")}
    kept = {split: half.where(_count(half) >= _FEWEST) for split, half in halves.items()}
    products = {split: set(half.texts("product")) for split, half in kept.items()}
    if both := sorted(products["train"] & products["test"], key=int):
        raise DataError(f"'{root}': the product {both[0]} is listed for training and for the test")
    split = np.repeat(list(kept), [len(half) for half in kept.values()])
    return _list_images(root, list(kept.values()), split)


def read_sop_split2(path: Path) -> ListedImages:
    """List products with twelve images, ten of them for training and two for the test (§4.5.1).

    The paper draws the two at random; labeltree draws them by a hash of the image's number. If the authors'
    lists `sop_split2/train_path.json` and `test_path.json` are beside the listings, the authors' draw is
    used. Of the official halves only `Ebay_train.txt` is used, as in these lists. Every product is in both
    splits by design, so there are no groups.

    Args:
        path: The folder with `Ebay_train.txt`, or the one above it.

    Raises:
        DataError: If a listing is missing or malformed.
    """
    root = archive_root(path, _FOLDER)
    half = _listing(root, "train")
    kept = half.where(_count(half) == _IMAGES)
    if not len(kept):
        raise DataError(f"'{half.path}' has no product with {_IMAGES} images")
    authors = root / "sop_split2"
    split = _authors_split(kept, authors) if (authors / "test_path.json").is_file() else _draw_split(kept)
    return replace(_list_images(root, [kept], split), groups=None)


def _listing(root: Path, half: str) -> Listing:
    listed = read_listing(root / f"Ebay_{half}.txt", _COLUMNS, heading=1)
    listed.whole("product")
    return listed


def _count(half: Listing) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Number of images of each record's product."""
    products = half.texts("product")
    counts = Counter(products)
    return np.array([counts[product] for product in products])


def _list_images(root: Path, parts: Sequence[Listing], split: Strings) -> ListedImages:
    files = [file for part in parts for file in part.files("file")]
    products = [product for part in parts for product in part.texts("product")]
    if not files:
        raise DataError(f"'{root}' lists no product with {_FEWEST} images or more")
    # bicycle_final/111085122871_0.JPG: a bicycle
    categories = [file.partition("/")[0].removesuffix("_final").replace("_", " ") for file in files]
    taxonomy, nodes = label_taxonomy(list(zip(categories, products, strict=True)), "product")
    return ListedImages(root, files, nodes, taxonomy, split=split, groups=group_ids(products))


def _draw_split(kept: Listing) -> Strings:
    products = kept.whole("product")
    keys = sample_keys(0, 0, 0x50B, torch.from_numpy(kept.whole("image"))).numpy()
    order = np.lexsort((keys, products))  # sorted by product, then in random order
    split = np.full(len(kept), "train", dtype="<U5")
    split[order.reshape(-1, _IMAGES)[:, :_HELD_OUT].ravel()] = "test"
    return split


def _authors_split(kept: Listing, folder: Path) -> Strings:
    side: dict[str, str] = {}
    for split in ("train", "test"):
        file = folder / f"{split}_path.json"
        try:
            side.update(dict.fromkeys(json.loads(file.read_text("utf-8")), split))
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"'{file}' is not a list of files: {error}") from error
    for row, file_name in enumerate(kept.texts("file")):
        if file_name not in side:
            raise kept.error(
                row, f"'{file_name}' is in no list of '{folder}'; remove that folder to draw anew"
            )
    return np.array([side[file] for file in kept.texts("file")])


def _needed_files(*halves: str) -> tuple[Needed, ...]:
    files = {f"Ebay_{half}.txt": f"the official {half} list" for half in halves}
    files["bicycle_final"] = "the folder of the first category"
    return tuple(
        Needed(in_archive(_FOLDER, file), f"{what}, from {_FOLDER}.zip") for file, what in files.items()
    )


_LICENCE = "none stated by its authors; images of eBay's sellers, for research"

register_reader(
    "sop-split1",
    read_sop_split1,
    summary="50,646 photographs of 5,035 products in 12 categories, test products unseen",
    licence=_LICENCE,
    size="3.1 GB",
    files=_needed_files("train", "test"),
    published=Published({"train": 25_368, "test": 25_278}, (12, 5_035), "MaskCon, §4.5.1"),
    home="sop",
)
register_reader(
    "sop-split2",
    read_sop_split2,
    summary="17,976 photographs of 1,498 products in 12 categories, 12 of each, 2 of them for the test",
    licence=_LICENCE,
    size="3.1 GB",
    files=_needed_files("train"),
    published=Published({"train": 14_980, "test": 2_996}, (12, 1_498), "MaskCon, §4.5.1"),
    home="sop",
)

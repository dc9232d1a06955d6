"""DeepFashion In-Shop Clothes Retrieval (Liu et al. 2016): category → item → variation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

from labeltree.data.listed_images import ListedImages, first_existing, label_taxonomy, register_reader
from labeltree.data.named_data import Needed, Published
from labeltree.data.stratified import group_ids
from labeltree.datasets.formats.listings import Listing, legible, read_listing
from labeltree.errors import DataError

__all__ = ["read_inshop"]

NAME = "inshop"
_PARTS = ("train", "query", "gallery")
_COLUMNS = ("file", "item", "part")
_LISTS = ("Eval/list_eval_partition.txt", "list_eval_partition.txt")
_IMAGES = ("Img/img", "img")
# img/WOMEN/Dresses/id_00000002/02_1_front.jpg: category, item, variation, number of the photograph
_FILE = re.compile(r"img/[^/]+/(?P<category>[^/]+)/(?P<item>[^/]+)/(?P<variation>\d+)_[^/]*")


def read_inshop(path: Path, *, parts: Sequence[str] = _PARTS, depth: int = 3) -> ListedImages:
    """List the images of DeepFashion In-Shop.

    Query and gallery share their items, so both are in the test split. Categories of men's and women's
    clothes with the same name are merged, as in the published code of Zhang et al. 2022. An item number that
    occurs in several categories is a node in each, but one group.

    Args:
        path: The folder with `Eval` and with `Img` (or `img`).
        parts: Parts to list: `train`, `query`, `gallery`. Ids and nodes do not depend on the choice.
        depth: Depth of the tree: 3, or 2 for category → item.

    Raises:
        DataError: If the listing is missing or malformed.
    """
    listed = read_listing(first_existing(path, _LISTS), _COLUMNS, heading=2)
    files = listed.files("file")
    split = listed.choices("part", {"train": "train", "query": "test", "gallery": "test"})
    labels = [_label(listed, row, file)[:depth] for row, file in enumerate(files)]
    taxonomy, nodes = label_taxonomy(labels, "clothes")
    chosen = [row for row, part in enumerate(listed.texts("part")) if part in parts]
    if not chosen:
        raise DataError(f"'{listed.path}' lists no image for {' or '.join(parts)}")
    rows = torch.tensor(chosen)
    return ListedImages(
        first_existing(path, _IMAGES).parent,
        [files[row] for row in chosen],
        nodes[rows],
        taxonomy,
        split=[split[row] for row in chosen],
        groups=group_ids(listed.texts("item"))[rows],
        instances=rows,
    )


def _label(listed: Listing, row: int, file: str) -> tuple[str, str, str]:
    match = _FILE.fullmatch(file)
    if match is None:
        raise listed.error(
            row,
            f"the file is '{legible(file)}', expected the form img/WOMEN/Dresses/id_00000002/02_1_front.jpg",
        )
    category, item, variation = map(legible, match.group("category", "item", "variation"))
    if match["item"] != listed.records[row][1]:
        raise listed.error(
            row, f"the item is '{legible(listed.records[row][1])}', but the file lies in '{item}'"
        )
    return category.replace("_", " "), item, variation


_FILES = (
    Needed(
        _LISTS, "the list of images, items and parts, from Eval of the In-shop Clothes Retrieval Benchmark"
    ),
    Needed(_IMAGES, "the folder of images, from img.zip of the In-shop Clothes Retrieval Benchmark"),
)
_SOURCE = "list_eval_partition.txt; Liu et al. 2016"
_PUBLISHED = {"train": 25_882, "query": 14_218, "gallery": 12_612}

for _name, _parts, _depth, _what in (
    (NAME, _PARTS, 3, "category → item → variation"),
    (f"{NAME}-items", _PARTS, 2, "category → item"),
    (f"{NAME}-query", ("query",), 3, "the query images alone"),
    (f"{NAME}-gallery", ("gallery",), 3, "the gallery images alone"),
):
    _counts = {"train": 0, "test": 0}
    for _part in _parts:
        _counts["train" if _part == "train" else "test"] += _PUBLISHED[_part]
    register_reader(
        _name,
        partial(read_inshop, parts=_parts, depth=_depth),
        summary=f"{sum(_counts.values()):,} photographs of clothes in a shop; {_what}",
        licence="for non-commercial research (Multimedia Laboratory, The Chinese University of Hong Kong)",
        size="1 GB",
        files=_FILES,
        published=Published(
            {split: count for split, count in _counts.items() if count}, (None,) * _depth, _SOURCE
        ),
        home=NAME,
    )

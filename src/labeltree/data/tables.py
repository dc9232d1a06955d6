"""Tables of images: CSV or Parquet, one row a sample."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from labeltree.data.columns import cell_texts, find_column, read_table
from labeltree.data.downloads import Progress
from labeltree.data.files import OnError, image_shape_of, open_images
from labeltree.data.source import SPLITS, Source
from labeltree.data.table_labels import find_label_columns, label_nodes, table_aspects
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TABLE_SUFFIXES", "open_table"]

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".pq")
_IMAGE_COLUMNS = ("image", "path", "file", "filename", "file_name", "image_path", "filepath", "file_path")
_SPLIT_NAMES = {"training": "train", "valid": "val", "validation": "val", "dev": "val", "testing": "test"}


def open_table(
    path: str | Path,
    *,
    image_size: int | None = None,
    channels: int | None = None,
    taxonomy: Taxonomy | None = None,
    image_column: str | None = None,
    label_columns: Sequence[str] | str | None = None,
    aspect_columns: Sequence[str] | str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    on_error: OnError = "raise",
    cache: bool | None = None,
    progress: Progress | None = None,
) -> Source:
    """Open a table of images.

    Args:
        path: ``.csv``, ``.tsv`` or ``.parquet``.
        image_size: Side in pixels; None = what all have, if they are square and equal, else 32.
        channels: 1 or 3; None = 1 if all are gray, else 3.
        taxonomy: Of the labels. Without it, columns per depth (coarse to fine), or paths ``a/b/c`` in one
            column, make one.
        image_column: Column of the image files, relative to the table's folder or absolute; None = the
            first of image, path, file, filename, …
        label_columns: One column, or one per depth, coarse to fine; None = label (or class, category,
            node), or depth1, depth2, … An empty cell is a missing label, empty finer cells make it an inner
            node.
        aspect_columns: Columns of further labels of the same samples, each with a taxonomy of its own: names,
            or paths ``a/b/c``. Where all of them end in whole numbers (``4``, ``positive/4``), these are
            ratings too.
        group_column: Rows with equal value never part when splitting; None = ``group`` if there is one.
            Without groups, rows that show the same file are one group.
        split_column: ``train``, ``val`` or ``test``; None = ``split`` if there is one.
        on_error: ``raise`` or ``skip`` unreadable images.
        cache: Keep decoded images in the cache folder; None = if there is room.
        progress: Is told how decoding proceeds.

    Raises:
        DataError: If the table, a column or an image is missing or malformed.
        TaxonomyError: If a label is not in the taxonomy.
    """
    where = Path(path)
    table = read_table(where)
    if not len(table):
        raise DataError(f"the table '{where}' has no rows")
    image_column = find_column(table, where, image_column, _IMAGE_COLUMNS, "the image files", "image_column")
    files = _files(table, where, image_column)
    labels = find_label_columns(table, where, label_columns)
    taxonomy, nodes = label_nodes(table, where, labels, taxonomy)
    aspects = table_aspects(table, where, aspect_columns)
    size, native_channels = image_size, channels
    if size is None or native_channels is None:
        probed = image_shape_of(files)
        size, native_channels = size or probed[0], native_channels or probed[1]
    opened = open_images(
        files, files, size=size, channels=native_channels, on_error=on_error, cache=cache, progress=progress
    )
    everything = Source(
        name=where.stem,
        taxonomy=taxonomy,
        nodes=nodes,
        instances=torch.arange(len(table)),
        store=opened.store,
        rows=torch.arange(len(table)),
        groups=_groups(table, where, group_column, files),
        split=_split(table, where, split_column),
        files=files,
        aspect_taxonomies=aspects.taxonomies,
        aspects=aspects.nodes,
        ratings=aspects.ratings,
    )
    return everything.subset(torch.from_numpy(opened.readable()))


def _files(table: pd.DataFrame, path: Path, column: str) -> list[str]:
    root = os.path.abspath(path.parent)
    files = []
    for row, name in enumerate(cell_texts(table, column)):
        if name is None:
            raise DataError(f"the table '{path}', row {row + 1}: the column '{column}' is empty")
        file = os.path.normpath(os.path.join(root, name))
        if not os.path.isabs(name) and os.path.commonpath((root, file)) != root:
            raise DataError(
                f"the table '{path}', row {row + 1}: the image '{name}' lies outside the table's folder; "
                "write its absolute path, or move the table"
            )
        files.append(file)
    return files


def _groups(table: pd.DataFrame, path: Path, column: str | None, files: Sequence[str]) -> Tensor | None:
    import pandas as pd

    if column is None and "group" not in table.columns:
        if len(set(files)) == len(files):
            return None
        return torch.from_numpy(pd.factorize(np.asarray(files, dtype=object))[0].astype(np.int64))
    column = find_column(table, path, column or "group", (), "groups", "group_column")
    return torch.from_numpy(
        pd.factorize(np.asarray(cell_texts(table, column), dtype=object))[0].astype(np.int64)
    )


def _split(table: pd.DataFrame, path: Path, column: str | None) -> np.ndarray[Any, Any] | None:
    if column is None and "split" not in table.columns:
        return None
    column = find_column(table, path, column or "split", (), "splits", "split_column")
    cells = [(text or "").lower() for text in cell_texts(table, column)]
    splits = [_SPLIT_NAMES.get(cell, cell) for cell in cells]
    for row, split in enumerate(splits):
        if split not in (*SPLITS, ""):
            raise DataError(
                f"the table '{path}', row {row + 1}: the split is '{split}', not {', '.join(SPLITS)} or empty"
            )
    return np.array(splits, dtype=str)

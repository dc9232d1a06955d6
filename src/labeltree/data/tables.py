"""Tables of images: CSV or Parquet, one row a sample."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from labeltree.data.downloads import Progress
from labeltree.data.files import OnError, image_shape_of, open_images
from labeltree.data.source import SPLITS, Source
from labeltree.errors import DataError, TaxonomyError
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.naming import split_path

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TABLE_SUFFIXES", "open_table"]

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".pq")
_IMAGE_COLUMNS = ("image", "path", "file", "filename", "file_name", "image_path", "filepath", "file_path")
_LABEL_COLUMNS = ("label", "class", "category", "node")
_PER_DEPTH = re.compile(r"(?:depth|label|level)[ _-]?(\d+)", re.IGNORECASE)
_SPLIT_NAMES = {"training": "train", "valid": "val", "validation": "val", "dev": "val", "testing": "test"}


def open_table(
    path: str | Path,
    *,
    image_size: int | None = None,
    channels: int | None = None,
    taxonomy: Taxonomy | None = None,
    image_column: str | None = None,
    label_columns: Sequence[str] | str | None = None,
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
    table = _read(where)
    if not len(table):
        raise DataError(f"the table '{where}' has no rows")
    image_column = _column(table, where, image_column, _IMAGE_COLUMNS, "the image files", "image_column")
    files = _files(table, where, image_column)
    labels = _label_columns(table, where, label_columns)
    taxonomy, nodes = _nodes(table, where, labels, taxonomy)
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
    )
    return everything.subset(torch.from_numpy(opened.readable()))


def _read(path: Path) -> pd.DataFrame:
    import pandas as pd

    if not path.is_file():
        raise DataError(f"there is no table '{path}'")
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            table = pd.read_parquet(path)
        else:
            # Only an empty cell is missing: "NA" and "null" may be names.
            table = pd.read_csv(
                path,
                sep="\t" if path.suffix.lower() == ".tsv" else ",",
                dtype=str,
                keep_default_na=False,
                na_values=[""],
                encoding="utf-8-sig",
            )
    except UnicodeDecodeError as error:
        raise DataError(f"the table '{path}' is not UTF-8 (byte {error.start}); save it as UTF-8") from error
    except Exception as error:  # pandas and pyarrow have many kinds of errors for malformed files
        raise DataError(f"the table '{path}' cannot be read: {str(error).strip().splitlines()[0]}") from error
    table.columns = [str(column).strip() for column in table.columns]
    return table


def _column(
    table: pd.DataFrame, path: Path, chosen: str | None, usual: Sequence[str], what: str, option: str
) -> str:
    columns = list(table.columns)
    if chosen is not None:
        if chosen in columns:
            return chosen
        near = difflib.get_close_matches(chosen, columns, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"it has {', '.join(columns)}"
        raise DataError(f"the table '{path}' has no column '{chosen}'; {hint}")
    by_name = {column.lower(): column for column in reversed(columns)}
    for name in usual:
        if name in by_name:
            return by_name[name]
    raise DataError(
        f"the table '{path}' has no column for {what} that is known by its name ({', '.join(usual)}); "
        f"it has {', '.join(columns)}: name one as {option}"
    )


def _label_columns(table: pd.DataFrame, path: Path, chosen: Sequence[str] | str | None) -> list[str]:
    if isinstance(chosen, str):
        chosen = [chosen]
    if chosen is not None:
        if not chosen:
            raise DataError("label_columns is empty; it must name one column, or one per depth")
        return [_column(table, path, column, (), "labels", "label_columns") for column in chosen]
    numbered = {
        int(match[1]): column
        for column in table.columns
        if (match := _PER_DEPTH.fullmatch(column)) is not None
    }
    if numbered:
        return [numbered[depth] for depth in sorted(numbered)]
    return [_column(table, path, None, _LABEL_COLUMNS, "labels", "label_columns")]


def _nodes(
    table: pd.DataFrame, path: Path, columns: Sequence[str], taxonomy: Taxonomy | None
) -> tuple[Taxonomy, Tensor]:
    rows: list[Any] = _paths(table, path, columns)
    if len(columns) == 1 and taxonomy is not None:
        rows = _texts(table, columns[0])
    elif len(columns) == 1:
        rows = [row and split_path(row[0]) for row in rows]
    try:
        if taxonomy is None:
            known = dict.fromkeys(row for row in rows if row)
            if not known:
                raise DataError(f"the table '{path}' has no labels: every {' and '.join(columns)} is empty")
            taxonomy = Taxonomy.from_paths(known)
        return taxonomy, taxonomy.encode(rows)
    except TaxonomyError as error:
        raise TaxonomyError(f"the table '{path}', {' and '.join(columns)}: {error}") from error


def _texts(table: pd.DataFrame, column: str) -> list[str | None]:
    """Cells as text, None where they are missing; whole numbers without a decimal point."""
    cells: list[Any] = table[column].tolist()
    missing = table[column].isna().tolist()
    texts = [
        str(int(c)) if isinstance(c, float) and not m and c.is_integer() else str(c)
        for c, m in zip(cells, missing, strict=True)
    ]
    return [None if m or not t.strip() else t.strip() for t, m in zip(texts, missing, strict=True)]


def _paths(table: pd.DataFrame, path: Path, columns: Sequence[str]) -> list[tuple[str, ...] | None]:
    """Labels coarse to fine, as far as they go; None where there is none."""
    paths: list[tuple[str, ...] | None] = []
    for row, cells in enumerate(zip(*(_texts(table, column) for column in columns), strict=True)):
        known = tuple(cell for cell in cells if cell is not None)
        if any(cell is not None for cell in cells[len(known) :]):
            gap = columns[cells.index(None)]
            raise DataError(
                f"the table '{path}', row {row + 1}: '{gap}' is empty but a finer label is given; "
                "only the finest labels of a row may be missing"
            )
        paths.append(known or None)
    return paths


def _files(table: pd.DataFrame, path: Path, column: str) -> list[str]:
    root = os.path.abspath(path.parent)
    files = []
    for row, name in enumerate(_texts(table, column)):
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
    column = _column(table, path, column or "group", (), "groups", "group_column")
    return torch.from_numpy(pd.factorize(np.asarray(_texts(table, column), dtype=object))[0].astype(np.int64))


def _split(table: pd.DataFrame, path: Path, column: str | None) -> np.ndarray[Any, Any] | None:
    if column is None and "split" not in table.columns:
        return None
    column = _column(table, path, column or "split", (), "splits", "split_column")
    cells = [(text or "").lower() for text in _texts(table, column)]
    splits = [_SPLIT_NAMES.get(cell, cell) for cell in cells]
    for row, split in enumerate(splits):
        if split not in (*SPLITS, ""):
            raise DataError(
                f"the table '{path}', row {row + 1}: the split is '{split}', not {', '.join(SPLITS)} or empty"
            )
    return np.array(splits, dtype=str)

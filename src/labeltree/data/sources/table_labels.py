"""Labels in the columns of a table: a tree and the nodes of its rows; further trees for aspects."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from labeltree.data.sources.columns import cells_of, find_column
from labeltree.errors import DataError, TaxonomyError
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.naming import split_path
from labeltree.taxonomy.placeholders import PLACEHOLDERS, MissingNames, plain_name

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TableAspects", "cut_label", "label_nodes", "table_aspects"]

_WHOLE = re.compile(r"[0-9]{1,9}(\.0+)?")  # tables with empty cells are often written with 4.0 for 4


@dataclass(frozen=True)
class TableAspects:
    """Aspects of the samples of a table, as `Source` holds them.

    Attributes:
        taxonomies: One per column.
        nodes: ``(n, A)``; None where there are no aspects.
        ratings: ``(n, A)``; None where no column holds ratings.
    """

    taxonomies: tuple[Taxonomy, ...] = ()
    nodes: Tensor | None = None
    ratings: Tensor | None = None


def label_nodes(
    table: pa.Table,
    path: Path,
    columns: Sequence[str],
    taxonomy: Taxonomy | None,
    missing: MissingNames | None = None,
) -> tuple[Taxonomy, Tensor]:
    """The taxonomy of the labels in the columns, unless it is given, and the node of every row ``(n,)``.

    Labels end before a name that is among the missing ones, which count the rows.

    Raises:
        DataError: If a row has a gap, or there are no labels.
        TaxonomyError: If a label is not in the taxonomy.
    """
    labels: list[Any]
    if len(columns) > 1:
        labels, codes = _paths(table, path, columns)
    else:
        cells = cells_of(table, path, columns[0])
        codes = cells.codes
        labels = cells.texts if taxonomy is not None else [_path(text) for text in cells.texts]
    if missing is not None and missing.names:
        rows = np.bincount(codes[codes >= 0], minlength=len(labels)).tolist()
        labels = [cut_label(label, missing, count) for label, count in zip(labels, rows, strict=True)]
    try:
        if taxonomy is None:
            if not any(labels):
                what = "empty or among missing_labels" if missing is not None and missing.names else "empty"
                raise DataError(f"the table '{path}' has no labels: every {' and '.join(columns)} is {what}")
            taxonomy = Taxonomy.from_paths(dict.fromkeys(label for label in labels if label))
        nodes = taxonomy.encode(labels)
    except TaxonomyError as error:
        raise TaxonomyError(f"the table '{path}', {' and '.join(columns)}: {error}") from error
    return taxonomy, torch.cat([nodes, nodes.new_full((1,), -1)])[torch.from_numpy(codes)]


def _path(text: str) -> tuple[str, ...]:
    """The names of a path; ``n/a`` is one name."""
    return (text,) if plain_name(text) in PLACEHOLDERS else split_path(text)


def cut_label(label: Any, missing: MissingNames, rows: int = 1) -> Any:
    """What is left of a label, a name or a path of names; None if nothing is."""
    path = _path(label) if isinstance(label, str) else label
    left = missing.cut(path, rows)
    return label if len(left) == len(path) else left or None


def table_aspects(
    table: pa.Table,
    path: Path,
    columns: Sequence[str] | str | None,
    missing: MissingNames | None = None,
) -> TableAspects:
    """A taxonomy and labels from each of the columns, and ratings where they are numbers.

    A cell is a name or a path ``a/b``, or empty. A column in which all finest names are whole numbers, as in
    ``4`` or ``positive/4``, holds ratings as well.

    Raises:
        DataError: If a column is missing or empty.
        TaxonomyError: If a cell holds no label.
    """
    if isinstance(columns, str):
        columns = [columns]
    if not columns:
        return TableAspects()
    found = [find_column(table, path, column, (), "an aspect", "aspect_columns") for column in columns]
    labelled = [label_nodes(table, path, [column], None, missing) for column in found]
    taxonomies = tuple(taxonomy for taxonomy, _ in labelled)
    nodes = torch.stack([column for _, column in labelled], dim=1)
    numbers = [_ratings(taxonomy, column) for taxonomy, column in labelled]
    absent = torch.full((table.num_rows,), -1)
    ratings = [absent if column is None else column for column in numbers]
    some = any(column is not None for column in numbers)
    return TableAspects(taxonomies, nodes, torch.stack(ratings, dim=1) if some else None)


def _ratings(taxonomy: Taxonomy, nodes: Tensor) -> Tensor | None:
    """The numbers that are the leaves' names, -1 where a label is no leaf; None if they are no numbers."""
    names = [taxonomy.names[leaf] for leaf in taxonomy.leaves.tolist()]
    if not all(_WHOLE.fullmatch(name) for name in names):
        return None
    numbers = torch.full((taxonomy.num_nodes + 1,), -1)  # the last entry is that of a missing label
    numbers[taxonomy.leaves] = torch.tensor([int(float(name)) for name in names])
    return numbers[nodes]


def _paths(
    table: pa.Table, path: Path, columns: Sequence[str]
) -> tuple[list[tuple[str, ...]], np.ndarray[Any, Any]]:
    """The distinct labels, coarse to fine as far as they go, and the code of each row, -1 without a label."""
    import pandas as pd

    cells = [cells_of(table, path, column) for column in columns]
    for coarser, finer, column in zip(cells, cells[1:], columns, strict=False):
        gaps = np.flatnonzero((coarser.codes < 0) & (finer.codes >= 0))
        if gaps.size:
            raise DataError(
                f"the table '{path}', row {gaps[0] + 1}: '{column}' is empty but a finer label is given; "
                "only the finest labels of a row may be missing"
            )
    codes = cells[0].codes
    for column_cells in cells[1:]:
        width = len(column_cells.texts) + 1
        codes = pd.factorize(codes * width + column_cells.codes + 1)[0]  # below n · width: never too large
    first = np.unique(codes, return_index=True)[1]
    labels = [
        tuple(c.texts[code] for c in cells if (code := int(c.codes[row])) >= 0) for row in first.tolist()
    ]
    return labels, np.where(cells[0].codes < 0, -1, codes)

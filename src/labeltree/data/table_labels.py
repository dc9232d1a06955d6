"""Labels in the columns of a table: a tree and the nodes of its rows; further trees for aspects."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from labeltree.data.columns import cell_texts, find_column
from labeltree.errors import DataError, TaxonomyError
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.naming import split_path

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TableAspects", "find_label_columns", "label_nodes", "table_aspects"]

_LABEL_COLUMNS = ("label", "class", "category", "node")
_PER_DEPTH = re.compile(r"(?:depth|label|level)[ _-]?(\d+)", re.IGNORECASE)
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


def find_label_columns(table: pd.DataFrame, path: Path, chosen: Sequence[str] | str | None) -> list[str]:
    """The columns of the labels, coarse to fine: the chosen ones, or those with a usual name."""
    if isinstance(chosen, str):
        chosen = [chosen]
    if chosen is not None:
        if not chosen:
            raise DataError("label_columns is empty; it must name one column, or one per depth")
        return [find_column(table, path, column, (), "labels", "label_columns") for column in chosen]
    numbered = {
        int(match[1]): column
        for column in table.columns
        if (match := _PER_DEPTH.fullmatch(column)) is not None
    }
    if numbered:
        return [numbered[depth] for depth in sorted(numbered)]
    return [find_column(table, path, None, _LABEL_COLUMNS, "labels", "label_columns")]


def label_nodes(
    table: pd.DataFrame, path: Path, columns: Sequence[str], taxonomy: Taxonomy | None
) -> tuple[Taxonomy, Tensor]:
    """The taxonomy of the labels in the columns, unless it is given, and the node of every row ``(n,)``.

    Raises:
        DataError: If a row has a gap, or there are no labels.
        TaxonomyError: If a label is not in the taxonomy.
    """
    rows: list[Any] = _paths(table, path, columns)
    if len(columns) == 1 and taxonomy is not None:
        rows = cell_texts(table, columns[0])
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


def table_aspects(table: pd.DataFrame, path: Path, columns: Sequence[str] | str | None) -> TableAspects:
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
    labelled = [label_nodes(table, path, [column], None) for column in found]
    taxonomies = tuple(taxonomy for taxonomy, _ in labelled)
    nodes = torch.stack([column for _, column in labelled], dim=1)
    numbers = [_ratings(taxonomy, column) for taxonomy, column in labelled]
    missing = torch.full((len(table),), -1)
    ratings = [missing if column is None else column for column in numbers]
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


def _paths(table: pd.DataFrame, path: Path, columns: Sequence[str]) -> list[tuple[str, ...] | None]:
    """Labels coarse to fine, as far as they go; None where there is none."""
    paths: list[tuple[str, ...] | None] = []
    for row, cells in enumerate(zip(*(cell_texts(table, column) for column in columns), strict=True)):
        known = tuple(cell for cell in cells if cell is not None)
        if any(cell is not None for cell in cells[len(known) :]):
            gap = columns[cells.index(None)]
            raise DataError(
                f"the table '{path}', row {row + 1}: '{gap}' is empty but a finer label is given; "
                "only the finest labels of a row may be missing"
            )
        paths.append(known or None)
    return paths

"""Columns that hold the names of paths in a known taxonomy, a depth each."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from labeltree.data.table_columns import DataTable
from labeltree.data.tables.label_candidates import LabelCandidate, label_candidates
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.placeholders import PLACEHOLDERS, plain_name

__all__ = ["find_path_columns"]

Rows = np.ndarray[Any, Any]


def find_path_columns(
    table: DataTable, finest: str | None, taken: Collection[str], taxonomy: Taxonomy
) -> list[str]:
    """The columns whose cells are the names of a path from the root, coarse to fine.

    Nothing if every value of the column `finest` names one node, so that it is enough, or if it is not among
    these columns; nor if they do not name the nodes of most rows, and of more rows than `finest` alone.

    Args:
        table: The table.
        finest: The column that is the label otherwise; None = there is none.
        taken: Columns with another purpose.
        taxonomy: The taxonomy of the labels.
    """
    alone = 0
    if finest is not None:
        if table.holds_lists(finest) or finest in taken:
            return []
        cells = table.cells(finest)
        named = np.array([len(taxonomy.candidates(text)) == 1 for text in cells.texts] + [False])
        if named[:-1].all():
            return []
        alone = int(np.count_nonzero(named[cells.codes]))
    columns = label_candidates(table, taken)
    left = [column for column in columns if _are_mostly(column, taxonomy)]
    levels: list[str] = []
    nodes: Rows = np.zeros(table.num_rows, np.int64)  # -1: no node has these names
    while left:
        steps = [_step_down(column, nodes, taxonomy) for column in left]
        best = max(range(len(left)), key=lambda place: np.count_nonzero(steps[place][1]))
        there, moved = steps[best]
        if 2 * np.count_nonzero(moved) <= np.count_nonzero(moved | (there < 0) & (nodes >= 0)):
            break
        nodes = there
        levels.append(left.pop(best).name)
    count = np.count_nonzero(nodes > 0)
    is_told = count > alone and 2 * count > np.count_nonzero(nodes)
    return levels if len(levels) > 1 and is_told and (finest is None or finest in levels) else []


def _are_mostly(column: LabelCandidate, taxonomy: Taxonomy) -> bool:
    """Whether most cells of a column are names in a taxonomy."""
    named = np.array([bool(taxonomy.candidates(text)) for text in column.texts] + [False])
    return bool(2 * np.count_nonzero(named[column.codes]) > np.count_nonzero(column.codes >= 0))


def _step_down(column: LabelCandidate, nodes: Rows, taxonomy: Taxonomy) -> tuple[Rows, Rows]:
    """The node of each row below `nodes` by the name in a column, and whether it has one there.

    A row stays where its cell is empty or says that a name is missing; -1 where there is no such child.
    """
    width = len(column.texts)
    rows = np.flatnonzero((nodes >= 0) & (column.codes >= 0))
    pairs, places = np.unique(nodes[rows] * width + column.codes[rows], return_inverse=True)
    below = np.full(len(pairs), -1)
    for number, pair in enumerate(pairs.tolist()):
        above, text = pair // width, column.texts[pair % width]
        children = taxonomy.candidates((*taxonomy.path(above), text))
        if children:
            below[number] = children[0]
        elif plain_name(text) in PLACEHOLDERS:
            below[number] = above
    there = nodes.copy()
    there[rows] = below[places.reshape(-1)]
    return there, (there >= 0) & (there != nodes)

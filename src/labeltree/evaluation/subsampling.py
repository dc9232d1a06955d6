"""Halves, shares and folds of a table's rows, balanced over the labels; halves and folds split no group."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from labeltree.data.stratified import make_folds, ranked_in_label, split_by_group, stratified_subsample
from labeltree.errors import DataError
from labeltree.evaluation.judging_taxonomy import JudgingTaxonomy
from labeltree.runs import EmbeddingTable

__all__ = [
    "half_split",
    "leak_notes",
    "ranked_in_label",
    "row_groups",
    "share_of_labels",
    "stratified_subsample",
    "table_folds",
]

Array = np.ndarray[Any, Any]


def half_split(table: EmbeddingTable, mask: Tensor, seed: int) -> Tensor:
    """Choose half of every label's samples, rounded up, without splitting an instance or a group.

    If no group has several instances, half of the instances of each label are chosen. Otherwise groups are
    assigned greedily, largest first, to the half where they bring the counts of the labels closer to one half
    each (least increase of the chi-square distance, see `labeltree.data.split_by_group`). These halves are
    only approximately even, and a label whose samples form one group is in one half only.

    Where samples have ids, the choice depends on these and not on the order of the rows: two tables of the
    same samples have the same halves.

    Args:
        table: Table of the rows.
        mask: `(n,)` bool, the rows to choose from.
        seed: Random seed of the choice.

    Returns:
        `(n,)` bool, true for the chosen half.

    Raises:
        DataError: If all the rows are of one group.
    """
    rows = mask.nonzero().squeeze(1)
    if table.ids is not None:
        named = np.asarray(table.ids)[rows.numpy()].astype(str)
        rows = rows[torch.from_numpy(np.argsort(named, kind="stable"))]
    instances = rows if table.instances is None else table.instances[rows]
    ids, first, inverse = np.unique(instances.numpy(), return_index=True, return_inverse=True)
    inverse = inverse.reshape(-1)
    if table.ids is not None:  # numbered as the ids are sorted, whatever their numbers
        order = np.argsort(first)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        ids, first, inverse = np.arange(len(ids)), first[order], place[inverse]
    labels = table.nodes[rows][torch.from_numpy(first)]
    groups = None if table.groups is None else _groups_of_instances(table.groups[rows].numpy(), inverse)
    if groups is None or len(np.unique(groups)) == len(ids):
        rank, size = ranked_in_label(labels, seed)
        chosen = rank < (size + 1) // 2
    elif len(np.unique(groups)) == 1:
        raise DataError(
            f"{len(rows)} samples are to be halved, but all are of one group, which no half may part; give "
            "the table a column 'split', or other groups"
        )
    else:
        chosen = torch.ones(len(ids), dtype=torch.bool)
        chosen[split_by_group(labels.numpy(), groups, ids, share=0.5, seed=seed)] = False
    half = torch.zeros_like(mask)
    half[rows[chosen[torch.from_numpy(inverse)]]] = True
    return half


def _groups_of_instances(groups: Array, instances: Array) -> Array:
    """The group `(k,)` of each instance; instances that share a group, even indirectly, are in one group.

    Args:
        groups: `(n,)` group of each row, −1 = none.
        instances: `(n,)` instance of each row, numbered from 0.
    """
    count = int(instances.max(initial=-1)) + 1
    known = groups >= 0
    names, group = np.unique(groups[known], return_inverse=True)
    ends = (instances[known], count + group.reshape(-1))
    size = count + len(names)
    links = coo_array((np.ones(len(ends[0]), dtype=bool), ends), shape=(size, size))
    _, parts = connected_components(links, directed=False)
    joined: Array = np.unique(parts[:count], return_inverse=True)[1].reshape(-1)
    return joined


def share_of_labels(nodes: Tensor, share: float, seed: int) -> Tensor:
    """Mask `(n,)` of a share of every label's rows: at least one row, but never all (none of a single row).

    Args:
        nodes: `(n,)` labels.
        share: Fraction between 0 and 1; rounded down to whole rows.
        seed: Random seed of the choice.
    """
    rank, size = ranked_in_label(nodes, seed)
    wanted = torch.minimum((share * size).long().clamp_min(1), size - 1)
    return rank < wanted


def row_groups(table: EmbeddingTable, rows: Tensor) -> Tensor:
    """The group of each row, numbered from 0: the table's group, or the instance of a row without a group.

    Args:
        table: Table with or without `groups` and `instances`.
        rows: `(m,)` positions of the rows.

    Returns:
        `(m,)` int64 group numbers.
    """
    instances = rows if table.instances is None else table.instances[rows]
    own = torch.stack([torch.ones_like(instances), instances], dim=1)
    if table.groups is not None:
        groups = table.groups[rows]
        given = torch.stack([torch.zeros_like(groups), groups], dim=1)
        own = torch.where((groups >= 0)[:, None], given, own)
    numbers = np.unique(own.numpy(), axis=0, return_inverse=True)[1]
    return torch.from_numpy(numbers.reshape(-1))


def table_folds(
    table: EmbeddingTable, rows: Tensor, judging: JudgingTaxonomy, folds: int, seed: int = 0
) -> Tensor:
    """Divide rows into folds, balanced at every node of the tree; see `labeltree.data.make_folds`.

    Args:
        table: Table of the rows; rows of one group or one instance stay together.
        rows: `(m,)` positions of the rows to divide.
        judging: Taxonomy of the table's nodes.
        folds: Number of folds.
        seed: Random seed of the assignment.

    Returns:
        `(m,)` fold of each row, 0 to `folds - 1`.

    Raises:
        ValueError: If there are fewer than 2 folds.
        DataError: If there are fewer groups than folds.
    """
    ids = rows if table.instances is None else table.instances[rows]
    groups = row_groups(table, rows)
    return make_folds(table.nodes[rows], judging.tree, folds, groups=groups, ids=ids, seed=seed)


def leak_notes(table: EmbeddingTable, learn: Tensor, test: Tensor) -> list[str]:
    """A note if rows to learn from and rows to test on share groups; else an empty list."""
    groups = row_groups(table, torch.cat([learn, test]))
    shared = torch.isin(groups[len(learn) :], groups[: len(learn)])
    if not bool(shared.any()):
        return []
    return [
        f"{int(shared.sum())} of {len(test)} test samples are of groups that the probe learned from too: the "
        "numbers are better than they would be for new ones. Split by group (`labeltree.data.make_folds`)."
    ]

"""Which rows of an embeddings table may not part, and their folds."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from labeltree.data.stratified import make_folds
from labeltree.evaluation.ground import Ground
from labeltree.runs import EmbeddingTable

__all__ = ["leak_notes", "row_groups", "table_folds"]


def row_groups(table: EmbeddingTable, rows: Tensor) -> Tensor:
    """The group of each of these rows: that of the table, else all rows of one sample, numbered from 0.

    Args:
        table: with or without ``groups`` and ``instances``.
        rows: ``(m,)`` positions.

    Returns:
        ``(m,)`` int64.
    """
    instances = rows if table.instances is None else table.instances[rows]
    own = torch.stack([torch.ones_like(instances), instances], dim=1)
    if table.groups is not None:
        groups = table.groups[rows]
        given = torch.stack([torch.zeros_like(groups), groups], dim=1)
        own = torch.where((groups >= 0)[:, None], given, own)
    numbers = np.unique(own.numpy(), axis=0, return_inverse=True)[1]
    return torch.from_numpy(numbers.reshape(-1))


def table_folds(table: EmbeddingTable, rows: Tensor, ground: Ground, folds: int, seed: int = 0) -> Tensor:
    """Divide rows into folds, balanced at every node of the tree; see `labeltree.data.make_folds`.

    Args:
        table: its rows of one group, or of one sample, stay together.
        rows: ``(m,)`` positions of the rows to divide.
        ground: of the table's nodes.
        folds: how many.
        seed: of the draw.

    Returns:
        ``(m,)`` the fold of each, 0 to ``folds - 1``.

    Raises:
        ValueError: if there are fewer than 2 folds.
        DataError: if there are fewer groups than folds.
    """
    ids = rows if table.instances is None else table.instances[rows]
    groups = row_groups(table, rows)
    return make_folds(table.nodes[rows], ground.tree, folds, groups=groups, ids=ids, seed=seed)


def leak_notes(table: EmbeddingTable, learn: Tensor, test: Tensor) -> list[str]:
    """A sentence that says so where rows to learn from and rows to test on are of the same groups."""
    groups = row_groups(table, torch.cat([learn, test]))
    shared = torch.isin(groups[len(learn) :], groups[: len(learn)])
    if not bool(shared.any()):
        return []
    return [
        f"{int(shared.sum())} of {len(test)} test samples are of groups that the probe learned from too: the "
        "numbers are better than they would be for new ones. Split by group (`labeltree.data.make_folds`)."
    ]

"""Equal rows of a table of embeddings: copies of a sample, which are one group."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from labeltree.data.copies import connected_groups
from labeltree.metrics.search.ranking import repeated_rows
from labeltree.runs import EmbeddingTable

__all__ = ["group_equal_rows"]


def group_equal_rows(table: EmbeddingTable, split: str) -> tuple[EmbeddingTable, str]:
    """The table with its equal rows in one group each, joined with its groups, and a sentence about them.

    Rows are equal if their embeddings are, and their features where the table has some. The sentence is empty
    without equal rows. If fewer than half of the rows are different, the groups stay: such embeddings have
    collapsed, rather than that samples occur twice.

    Args:
        table: the table.
        split: that is measured, where the table has splits.
    """
    equal = repeated_rows(table.embeddings)
    if equal is None:
        return table, ""
    repeated, first = equal
    if table.features is not None:
        alike = (table.features[repeated] == table.features[first]).all(dim=1)
        repeated, first = repeated[alike], first[alike]
    if not len(repeated):
        return table, ""
    rows, different = len(table), len(table) - len(repeated)
    told = f"{rows:,} rows, {different:,} different"
    if 2 * different < rows:
        return table, f"{told}: the embeddings have collapsed, or samples occur many times"
    same = np.full(rows, -1)
    same[repeated.numpy()] = same[first.numpy()] = first.numpy()
    groups = connected_groups(same, *([] if table.groups is None else [table.groups.numpy()]))
    assert groups is not None
    told += ": equal rows are one group, whose rows are drawn together and are no results of each other"
    if table.split is not None:
        mine = np.asarray(table.split) == split
        others = np.isin(same, same[(same >= 0) & (np.asarray(table.split) == "train")])
        torn = int((mine & others & (same >= 0)).sum()) if split != "train" else 0
        if torn:
            told += (
                f". {torn:,} of {int(mine.sum()):,} rows of {split} equal a training row: what is right for "
                "them says little about new samples"
            )
    return replace(table, groups=torch.from_numpy(groups)), told

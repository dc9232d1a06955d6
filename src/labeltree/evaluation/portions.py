"""Portions of the rows of a table, of every label alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from labeltree.data.stratified import ranked_in_label, split_by_group, thin_out
from labeltree.errors import DataError
from labeltree.runs import EmbeddingTable

__all__ = ["half_split", "ranked_in_label", "share_of_labels", "thin_out"]

Array = np.ndarray[Any, Any]


def half_split(table: EmbeddingTable, mask: Tensor, seed: int) -> Tensor:
    """Choose half of every label's samples, the odd one included; no instance and no group is parted.

    Where no group has several instances, the instances of each label are halved, the odd one being chosen.
    Otherwise groups, largest first, go to the half where they bring the counts of the labels nearer to one
    half each (least increase of the chi-square distance, see `labeltree.data.split_by_group`): halves are as
    even as that greedy rule makes them, and a label whose samples are one group is in one of them only.

    Args:
        table: whose rows are split.
        mask: ``(n,)`` bool, the rows to choose from.
        seed: of the choice.

    Returns:
        ``(n,)`` bool, true for the chosen half.

    Raises:
        DataError: if all the rows are of one group.
    """
    rows = mask.nonzero().squeeze(1)
    instances = rows if table.instances is None else table.instances[rows]
    ids, first, inverse = np.unique(instances.numpy(), return_index=True, return_inverse=True)
    inverse = inverse.reshape(-1)
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
    """The group of each instance, ``(k,)``, where instances that share a group, however indirectly, are one.

    Args:
        groups: ``(n,)`` of the rows, −1 = none.
        instances: ``(n,)`` of the rows, numbered from 0.
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
    """A share of every label's rows, at least one, but not all of them: ``(n,)`` bool.

    Args:
        nodes: ``(n,)`` labels.
        share: between 0 and 1; rounded down to whole rows.
        seed: of the choice.
    """
    rank, size = ranked_in_label(nodes, seed)
    wanted = torch.minimum((share * size).long().clamp_min(1), size - 1)
    return rank < wanted

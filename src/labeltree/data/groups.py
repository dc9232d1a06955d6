"""Groups of samples that no split may part: numbered, and dealt to the parts of a split."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.taxonomy import Taxonomy

__all__ = ["deal_groups", "divisible_labels", "grouped"]

Array = np.ndarray[Any, Any]


def grouped(keys: Sequence[Hashable]) -> Tensor:
    """Groups ``(n,)``: samples with equal keys share one; numbered as they first occur.

    Example:
        >>> grouped(["patient 7", "patient 3", "patient 7"])
        tensor([0, 1, 0])
    """
    numbers: dict[Hashable, int] = {}
    return torch.tensor([numbers.setdefault(key, len(numbers)) for key in keys], dtype=torch.int64)


def deal_groups(
    labels: Array, group: Array, order: Array, shares: Sequence[float], taxonomy: Taxonomy | None
) -> Array:
    """Deal groups to parts, each to the part where it brings the counts of labels nearer to the shares.

    That is the part with the least increase of the chi-square distance, summed over the nodes at and above
    the labels: a leaf too rare for every part is balanced by its parent. Of equal parts the one with fewer
    groups is taken. No part stays empty while there are groups for it.

    Args:
        labels: Node of each sample ``(n,)``; any other number, such as -1, is a label below the root.
        group: Group of each sample ``(n,)``, numbered from 0 without gaps.
        order: The groups in the order in which they are dealt ``(G,)``, ordinarily the largest first.
        shares: Of the samples that each of the P parts is to get; they sum to 1.
        taxonomy: Of the labels; None = all labels lie below the root.

    Returns:
        The part of each group ``(G,)`` int64.
    """
    bounds, nodes, counts = _runs(labels, group, taxonomy)
    target = np.outer(shares, np.bincount(nodes, weights=counts))
    filled = np.zeros_like(target)
    taken = np.zeros(len(shares), dtype=np.int64)
    part = np.empty(len(order), dtype=np.int64)
    for place, g in enumerate(order):
        run = slice(bounds[g], bounds[g + 1])
        node, more = nodes[run], counts[run]
        cost = ((2 * (filled[:, node] - target[:, node]) + more) * (more / target[:, node])).sum(1)
        empty = taken == 0
        if empty.sum() == len(order) - place:  # the last groups fill the parts that have none
            cost[~empty] = np.inf
        best = int(np.lexsort((taken, cost.round(9)))[0])
        part[g] = best
        taken[best] += 1
        filled[best, node] += more
    return part


def _runs(labels: Array, group: Array, taxonomy: Taxonomy | None) -> tuple[Array, Array, Array]:
    """Samples of each group by node, each counting for its label and the nodes above: runs of one group lie
    between its bounds ``(G+1,)``, with their nodes and counts.
    """
    distinct, code = np.unique(labels, return_inverse=True)
    num_nodes = 1 if taxonomy is None else taxonomy.num_nodes
    # the root is 0; what is no node of the tree has a number of its own after them
    lines = [
        [*taxonomy.ancestors_of(label), label]
        if taxonomy is not None and 0 <= label < num_nodes
        else [0, num_nodes + place]
        for place, label in enumerate(distinct.tolist())
    ]
    pairs, count = np.unique(group * len(distinct) + code.reshape(-1), return_counts=True)
    path = [lines[label] for label in (pairs % len(distinct)).tolist()]
    length: Any = [len(line) for line in path]
    node = np.fromiter((v for line in path for v in line), dtype=np.int64, count=sum(length))
    width = num_nodes + len(distinct)
    keys, place = np.unique(np.repeat(pairs // len(distinct), length) * width + node, return_inverse=True)
    total = np.bincount(place.reshape(-1), weights=np.repeat(count, length))
    runs_group, runs_node = np.divmod(keys, width)
    return np.searchsorted(runs_group, np.arange(int(group.max()) + 2)), runs_node, total


def divisible_labels(
    labels: Array, group: Array, share: float, taxonomy: Taxonomy | None
) -> tuple[Array, Array]:
    """What to draw among, so that a share of it can be held out without parting a group.

    All samples of a label that is one group are on one side of a split. Such labels stay out of the draw
    where the others have enough samples: half of all, or twice those that are to be held out. Otherwise, as
    in a shop where each product is a label and a group of images, whole labels are drawn, among those of the
    same parent. Where only one group lies below the parent, they are drawn among those of its parent, and so
    on up to the root.

    Args:
        labels: Node of each sample ``(n,)``; -1 where missing.
        group: Group of each sample ``(n,)``.
        share: Of the samples that are to be held out.
        taxonomy: Of the labels; None = all lie below the root.

    Returns:
        The label of each sample, or the node below which its label is drawn as a whole ``(n,)``; and whether
        it is drawn at all, ``(n,)`` bool.
    """
    pairs = np.unique(np.stack([labels, group]), axis=1)
    distinct, groups_of = np.unique(pairs[0], return_counts=True)
    alone = np.isin(labels, distinct[groups_of == 1])
    if (~alone).mean() >= min(2 * share, 0.5):
        return labels, ~alone
    single = distinct[(groups_of == 1) & (distinct > 0)]
    group_of = dict(zip(*pairs.tolist(), strict=True))
    parents = None if taxonomy is None else taxonomy.parent.tolist()
    pools: dict[int, list[int]] = {}  # the labels that are to be drawn below a node
    for label in single.tolist():
        pools.setdefault(parents[label] if parents else 0, []).append(label)
    places = {label: label for label in distinct.tolist()}
    # In preorder nodes come after their parents, so from the last to the first, all below a node is done.
    for node in range(len(parents) - 1 if parents else 0, -1, -1):
        pool = pools.get(node, [])
        if len({group_of[label] for label in pool}) >= 2:
            places |= dict.fromkeys(pool, node)
        elif pool and node and parents:
            pools.setdefault(parents[node], []).extend(pool)
    among = np.array([places[label] for label in distinct.tolist()])[np.searchsorted(distinct, labels)]
    return among, ~alone | (among != labels)

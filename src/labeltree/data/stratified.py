"""Random splits, folds and subsamples that keep groups together and labels in proportion.

All functions work on arrays of labels, groups and ids; `splits` applies them to a source.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.data.counter_rng import sample_keys
from labeltree.errors import DataError
from labeltree.lazy import torch
from labeltree.taxonomy import Taxonomy

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "draw_evenly",
    "group_ids",
    "group_numbers",
    "make_folds",
    "rank_within",
    "ranked_in_label",
    "split_by_group",
    "stratified_subsample",
]

Array = np.ndarray[Any, Any]
_SPLIT_STREAM, _FOLD_STREAM = 0x5417, 0xF01D


def group_ids(keys: Sequence[Hashable]) -> Tensor:
    """Number samples `(n,)` by group: equal keys share a number, in order of first occurrence.

    Example:
        >>> group_ids(["patient 7", "patient 3", "patient 7"])
        tensor([0, 1, 0])
    """
    numbers: dict[Hashable, int] = {}
    return torch.tensor([numbers.setdefault(key, len(numbers)) for key in keys], dtype=torch.int64)


def group_numbers(groups: Tensor | None, n: int) -> Array:
    """Renumber groups `(n,)` from 0 without gaps; each sample with -1 becomes a group by itself.

    Raises:
        DataError: If there is not one group number, or -1, for each of the n samples.
    """
    if groups is None:
        return np.arange(n)
    if len(groups) != n:
        raise DataError(f"there are {len(groups)} groups for {n} samples; give each sample one, or -1")
    given = groups.numpy()
    alone = given.max(initial=0) + 1 + np.arange(n)
    numbers: Array = np.unique(np.where(given >= 0, given, alone), return_inverse=True)[1].reshape(-1)
    return numbers


def split_by_group(
    labels: Array,
    groups: Array,
    ids: Array,
    share: float,
    seed: int = 0,
    draw: int = 0,
    least: int = 1,
    taxonomy: Taxonomy | None = None,
) -> Array:
    """Choose samples to hold out, whole groups at a time.

    If every group is one sample, the share is held out exactly for each label (to the nearest sample; none
    of a label with one sample). Otherwise groups are assigned, largest first, to the side where they bring
    the counts of the nodes at and above their labels closest to the target counts (least increase of the
    chi-square distance). If most labels consist of one group or one sample, whole labels are held out, evenly
    below their parents, see `_divisible_labels`.

    Args:
        labels: Node of each sample `(n,)`; -1 counts as a label of its own.
        groups: Group of each sample `(n,)`.
        ids: Stable ids of the samples `(n,)`, which decide the draw together with `seed`.
        share: Share of the samples to hold out.
        seed: Random seed.
        draw: Index that distinguishes several draws with one seed.
        least: Minimum number of groups that are not held out.
        taxonomy: Taxonomy of the labels; None = all labels lie directly below the root.

    Returns:
        Positions of the held-out samples, ascending.

    Raises:
        DataError: If there are too few groups.
    """
    names, group = np.unique(groups, return_inverse=True)
    if len(names) <= least:
        raise DataError(_too_few(len(labels), len(names), least))
    labels, drawn = _divisible_labels(labels, group, share, taxonomy)
    if len(names) == len(labels):
        return _held_out_samples(labels, ids, share, seed, draw, least)
    dealt = np.unique(group[drawn]) if drawn.any() else np.arange(len(names))
    among = np.flatnonzero(np.isin(group, dealt))
    group = np.searchsorted(dealt, group[among])
    order = _largest_first(group, ids[among], seed, draw, _SPLIT_STREAM)
    held_out = _deal_groups(labels[among], group, order, [1 - share, share], taxonomy).astype(bool)
    # Return the smallest groups until enough are not held out.
    stay = len(names) - held_out.sum()
    back = [g for g in order[::-1] if held_out[g]][: max(least - stay, 0)]
    held_out[back] = False
    chosen: Array = among[held_out[group]]
    return chosen


def make_folds(
    nodes: Tensor,
    taxonomy: Taxonomy,
    folds: int = 5,
    *,
    groups: Tensor | None = None,
    ids: Tensor | None = None,
    seed: int = 0,
) -> Tensor:
    """Divide samples into folds, whole groups at a time.

    If every group is one sample, the samples are sorted by their labels in the tree and assigned to the folds
    in turn, so that for every node, including rare leaves, the numbers of its samples in any two folds differ
    by at most one. Otherwise groups are assigned, largest first, to the fold where the counts of the nodes at
    and above their labels come closest to equal shares (least increase of the chi-square distance, summed
    over the nodes): a leaf too rare for every fold is balanced by its parent.

    Args:
        nodes: Labels `(n,)`, leaves or inner nodes; samples with -1 (missing) form a separate stratum.
        taxonomy: Taxonomy of the labels.
        folds: Number of folds.
        groups: Group of each sample `(n,)`; each sample with -1 is a group by itself; None = all are.
        ids: Stable ids `(n,)`, which determine the draw together with `seed`, independently of the order
            of the samples; None = the positions.
        seed: Random seed.

    Returns:
        The fold of each sample `(n,)` int64, 0 to `folds - 1`; no fold is empty.

    Raises:
        ValueError: If there are fewer than 2 folds.
        DataError: If there are fewer groups than folds.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("skin", "naevus"), ("skin", "melanoma")])
        >>> nodes = taxonomy.encode(["naevus"] * 4 + ["melanoma"] * 2)
        >>> patients = torch.tensor([1, 1, 2, 3, 4, 5])
        >>> folds = make_folds(nodes, taxonomy, 2, groups=patients)
        >>> folds.bincount().tolist(), bool(folds[0] == folds[1])
        ([3, 3], True)
    """
    if folds < 2:
        raise ValueError(f"folds is {folds}; there must be at least 2")
    n = len(nodes)
    names = torch.arange(n) if ids is None else ids
    whole = group_numbers(groups, n)
    count = int(whole.max(initial=-1)) + 1
    if count < folds:
        what = "sample(s)" if count == n else f"group(s) of {n} samples"
        remedy = f"ask for at most {count}" if count > 1 else "two are the least"
        if count < n:
            remedy += ", or group the samples otherwise (table.group_column)"
        raise DataError(f"{count} {what} cannot make {folds} folds; {remedy}")
    if count == n:
        # for balancing, missing labels count as one extra label
        labels = np.where(nodes.numpy() < 0, taxonomy.num_nodes, nodes.numpy())
        order = np.lexsort((names.numpy(), _random(names.numpy(), seed, 0, _FOLD_STREAM), labels))
        fold = np.empty(n, dtype=np.int64)
        fold[order] = np.arange(n) % folds
        return torch.from_numpy(fold)
    order = _largest_first(whole, names.numpy(), seed, 0, _FOLD_STREAM)
    dealt = _deal_groups(nodes.numpy(), whole, order, [1 / folds] * folds, taxonomy)
    return torch.from_numpy(dealt[whole])


def stratified_subsample(rows: Tensor, nodes: Tensor, limit: int, seed: int) -> Tensor:
    """At most `limit` of the rows, taken from every label in turn, in their original order: `(m,)`."""
    if len(rows) <= limit:
        return rows
    rank, size = ranked_in_label(nodes, seed)
    share = rank.double() / size  # 0 for one row of every label, so that none vanishes; then equal shares
    keep = torch.argsort(share, stable=True)[:limit]
    return rows[keep.sort().values]


def ranked_in_label(nodes: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """A random rank of every row among the rows of its label, and the number of these rows."""
    order = np.random.default_rng(seed).permutation(len(nodes))
    kinds = nodes.numpy()
    rank, size = _ranks(kinds, order[np.argsort(kinds[order], kind="stable")])
    return torch.from_numpy(rank), torch.from_numpy(size)


def rank_within(kinds: Array, *keys: Array) -> tuple[Array, Array]:
    """The rank of each sample among those of its kind `(n,)`, and the size of its kind `(n,)`.

    Args:
        kinds: Kind of each sample `(n,)`, such as its label.
        keys: Sort keys `(n,)` for the samples of a kind; each further key breaks ties.
    """
    return _ranks(kinds, np.lexsort((*reversed(keys), kinds)))


def _ranks(kinds: Array, order: Array) -> tuple[Array, Array]:
    """`rank_within`, given the order of the samples by kind."""
    ordered = kinds[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(order)])
    counts = np.diff(starts, append=len(order))
    rank, size = np.empty((2, len(order)), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(starts, counts)
    size[order] = np.repeat(counts, counts)
    return rank, size


def draw_evenly(strata: Array, ids: Array, wanted: int, seed: int, draw: int) -> Array:
    """Choose `wanted` positions, in proportion to the strata (largest remainders first).

    The positions are in ascending order. If no stratum is entitled to a whole position, the strata of equal
    size that give one are spread evenly over the order of the strata, which is that of the tree.
    """
    _, code, counts = np.unique(strata, return_inverse=True, return_counts=True)
    exact = counts * (wanted / len(strata))
    quota = np.floor(exact).astype(np.int64)
    missing = wanted - quota.sum()
    if missing > 0:
        # Ties between remainders go to the larger stratum, then to the earlier one.
        order = np.lexsort((np.arange(len(quota)), -counts, -(exact - quota).round(9)))
        order = order[(quota < counts)[order]]
        if exact.max() < 1:
            equal = np.flatnonzero(counts[order] == counts[order[missing - 1]])
            first = int(equal[0])  # all strata before it give one
            start = int(_random(np.zeros(1, np.int64), seed, draw, _SPLIT_STREAM)[0]) % 2**32 / 2**32
            places = ((np.arange(missing - first) + start) * len(equal) / (missing - first)).astype(np.int64)
            order[first:missing] = order[equal[places]]
        quota[order[:missing]] += 1
    rank, _ = rank_within(strata, _random(ids, seed, draw, _SPLIT_STREAM), ids)
    chosen: Array = np.flatnonzero(rank < quota[code])
    return chosen


def _deal_groups(
    labels: Array, group: Array, order: Array, shares: Sequence[float], taxonomy: Taxonomy | None
) -> Array:
    """Assign each group to the part where it brings the counts of labels closest to the shares.

    That is the part with the least increase of the chi-square distance, summed over the nodes at and above
    the labels: a leaf too rare for every part is balanced by its parent. Ties go to the part with fewer
    groups. No part stays empty as long as there are enough groups.

    Args:
        labels: Node of each sample `(n,)`; any other number, such as -1, counts as a label below the root.
        group: Group of each sample `(n,)`, numbered from 0 without gaps.
        order: The groups in the order of assignment `(G,)`, usually the largest first.
        shares: Target share of the samples in each of the P parts; they sum to 1.
        taxonomy: Taxonomy of the labels; None = all labels lie directly below the root.

    Returns:
        The part of each group `(G,)` int64.
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
        if empty.sum() == len(order) - place:  # the last groups fill the empty parts
            cost[~empty] = np.inf
        best = int(np.lexsort((taken, cost.round(9)))[0])
        part[g] = best
        taken[best] += 1
        filled[best, node] += more
    return part


def _divisible_labels(
    labels: Array, group: Array, share: float, taxonomy: Taxonomy | None
) -> tuple[Array, Array]:
    """Find labels, or nodes above them, of which a share can be held out without dividing a group.

    All samples of a label that consists of one group are on one side of a split. Such labels are not drawn if
    the others have enough samples: half of all samples, or twice the number to hold out. Otherwise, as in a
    shop where each product is a label and a group of images, whole labels are drawn among those of the same
    parent; if the parent has only one group below it, among those below the grandparent, and so on up to the
    root.

    Args:
        labels: Node of each sample `(n,)`; -1 where missing.
        group: Group of each sample `(n,)`.
        share: Share of the samples to hold out.
        taxonomy: Taxonomy of the labels; None = all labels lie directly below the root.

    Returns:
        The label of each sample, or the node below which its label is drawn as a whole `(n,)`; and a mask
        `(n,)` bool of the samples that can be drawn.
    """
    pairs = np.unique(np.stack([labels, group]), axis=1)
    distinct, groups_of = np.unique(pairs[0], return_counts=True)
    alone = np.isin(labels, distinct[groups_of == 1])
    if (~alone).mean() >= min(2 * share, 0.5):
        return labels, ~alone
    single = distinct[(groups_of == 1) & (distinct > 0)]
    group_of = dict(zip(*pairs.tolist(), strict=True))
    parents = None if taxonomy is None else taxonomy.parent.tolist()
    pools: dict[int, list[int]] = {}  # the labels to draw below each node
    for label in single.tolist():
        pools.setdefault(parents[label] if parents else 0, []).append(label)
    places = {label: label for label in distinct.tolist()}
    # Preorder puts nodes after their parents: in reverse, all descendants are done before a node.
    for node in range(len(parents) - 1 if parents else 0, -1, -1):
        pool = pools.get(node, [])
        if len({group_of[label] for label in pool}) >= 2:
            places |= dict.fromkeys(pool, node)
        elif pool and node and parents:
            pools.setdefault(parents[node], []).extend(pool)
    among = np.array([places[label] for label in distinct.tolist()])[np.searchsorted(distinct, labels)]
    return among, ~alone | (among != labels)


def _runs(labels: Array, group: Array, taxonomy: Taxonomy | None) -> tuple[Array, Array, Array]:
    """Count the samples of each group by node; a sample counts for its label and for all nodes above.

    Returns:
        Bounds of each group `(G+1,)` in the two arrays that follow: nodes and counts.
    """
    distinct, code = np.unique(labels, return_inverse=True)
    num_nodes = 1 if taxonomy is None else taxonomy.num_nodes
    # the root is 0; labels that are not nodes of the tree are numbered after the nodes
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


def _too_few(samples: int, groups: int, least: int) -> str:
    if groups == samples:
        return f"{samples} sample(s) cannot be split; {least + 1} are the least"
    return (
        f"{samples} samples in {groups} group(s) cannot be split, since groups are kept whole; {least + 1} "
        "groups are the least. Give the samples a split column, or group them otherwise"
    )


def _held_out_samples(labels: Array, ids: Array, share: float, seed: int, draw: int, least: int) -> Array:
    wanted = min(max(1, round(share * len(labels))), len(labels) - least)
    # The only sample of a label is not held out unless there is no other choice.
    _, code, counts = np.unique(labels, return_inverse=True, return_counts=True)
    candidates = np.flatnonzero(counts[code] > 1)
    if len(candidates) <= wanted:
        candidates = np.arange(len(labels))
    chosen: Array = candidates[draw_evenly(labels[candidates], ids[candidates], wanted, seed, draw)]
    return chosen


def _largest_first(group: Array, ids: Array, seed: int, draw: int, stream: int) -> Array:
    """The groups from the largest to the smallest; groups of equal size are in random order by the seed."""
    sizes = np.bincount(group)
    first = np.full(len(sizes), np.iinfo(np.int64).max)
    np.minimum.at(first, group, ids)
    return np.lexsort((first, _random(first, seed, draw, stream), -sizes))


def _random(ids: Array, seed: int, draw: int, stream: int) -> Array:
    keys: Array = sample_keys(seed, draw, stream, torch.from_numpy(np.ascontiguousarray(ids))).numpy()
    return keys

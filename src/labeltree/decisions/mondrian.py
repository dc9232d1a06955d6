"""A promise for every branch: thresholds of categories of labels, and what they mean for each step down."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from labeltree.decisions.conformal import Promise, samples_needed, threshold
from labeltree.decisions.grouping import count_groups
from labeltree.metrics.checks import check_tree
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["bars_of", "categories_of", "thresholds_by_category"]


def categories_of(labels: Tensor, depth: int, taxonomy: AnyTaxonomy) -> Tensor:
    """The category of each label (n,): its ancestor at a depth, or itself where it lies above that."""
    tree = check_tree("categories at a depth", taxonomy)
    return tree.ancestors[labels, tree.depth[labels].clamp(max=depth)]


def thresholds_by_category(
    scores: Tensor, categories: Tensor, promise: Promise, groups: Tensor | None = None
) -> tuple[dict[int, float], float, list[int]]:
    """A threshold for each category of labels, so that the promise holds within each (Mondrian).

    Categories with fewer samples than the promise needs are pooled, and with them, while that is not enough,
    the smallest of the others: the promise then holds for the pool.

    Args:
        scores: (n,).
        categories: (n,) node of each sample's category.
        promise: what is asked.
        groups: (n,) or None.

    Returns:
        threshold by category, the threshold of all categories without samples, and which were pooled.
    """

    def held_by(rows: Tensor) -> int:
        return count_groups(None if groups is None else groups[rows], int(rows.sum()))

    by_size: list[tuple[int, int]] = []
    for category in torch.unique(categories).tolist():
        rows = categories == category
        by_size.append((held_by(rows), category))
    by_size.sort()
    needed, pooled, held = samples_needed(promise), list[int](), 0
    for size, category in by_size:
        if size < needed or (pooled and held < needed):
            pooled.append(category)
            held = held_by(torch.isin(categories, torch.tensor(pooled)))
    found: dict[int, float] = {}
    for _, category in by_size:
        rows = torch.isin(categories, torch.tensor(pooled)) if category in pooled else categories == category
        found[category] = threshold(scores[rows], promise, None if groups is None else groups[rows])
    rest = found[pooled[0]] if pooled else max(found.values(), default=math.inf)
    return found, rest, sorted(pooled)


def bars_of(thresholds: Mapping[int, float], rest: float, depth: int, taxonomy: AnyTaxonomy) -> Tensor:
    """The bar of every node for `Paths.cut` if every category has a threshold of its own: (N,) float64.

    The step to a node loses the labels at or below its parent that are not at or below it. It is taken only
    if the node is more probable than the thresholds of all of those: then, within every category, the labels
    whose score is at most the threshold are never lost.

    Args:
        thresholds: of categories, nodes at `depth` and labels above it.
        rest: of categories that are not named.
        depth: of the categories.
        taxonomy: a tree.
    """
    tree = check_tree("categories at a depth", taxonomy)
    of_category = torch.full((tree.num_nodes,), rest, dtype=torch.float64)
    for named, value in thresholds.items():
        of_category[named] = value
    # of the labels at or below each node; an inner node above the categories is a label only if one has it
    largest = of_category.clone()
    for node in torch.nonzero((tree.depth < depth) & ~tree.is_leaf)[:, 0].tolist():
        largest[node] = thresholds.get(node, -math.inf)
    for node in range(tree.num_nodes - 1, 0, -1):
        parent = int(tree.parent[node])
        if int(tree.depth[node]) <= depth:
            largest[parent] = max(float(largest[parent]), float(largest[node]))
    bars = torch.full((tree.num_nodes,), math.inf, dtype=torch.float64)
    category = categories_of(torch.arange(tree.num_nodes), depth, tree)
    for inner in torch.nonzero(~tree.is_leaf)[:, 0].tolist():
        kids = tree.children(inner)
        if int(tree.depth[inner]) >= depth:
            bars[kids] = of_category[category[inner]]
            continue
        for kid in kids:
            others = [float(largest[other]) for other in kids if other != kid]
            own = [thresholds[inner]] if inner in thresholds else []
            bars[kid] = max([*others, *own], default=-math.inf)
    return bars

"""Conformal thresholds, computed at each `predict` from the calibration scores that `calibrate` stored.

Thresholds come from samples with known labels and have a finite-sample guarantee, for all samples or
within every branch (Mondrian). Samples that belong together, such as those of a patient, form a group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from labeltree.data.held_out_sizes import samples_for_coverage
from labeltree.decisions.answers import Paths
from labeltree.errors import DataError
from labeltree.metrics.metric_checks import check_nodes, check_same_length
from labeltree.options.answer_options import Promise
from labeltree.taxonomy import AnyTaxonomy
from labeltree.taxonomy.dag import check_tree

__all__ = [
    "Promise",
    "ThresholdSteps",
    "advised_coverage",
    "bars_of",
    "categories_of",
    "check_enough",
    "conformal_scores",
    "count_groups",
    "group_codes",
    "largest_coverage",
    "samples_needed",
    "share_of_groups",
    "threshold",
    "threshold_steps",
    "thresholds_by_category",
]


def group_codes(groups: Tensor | None, count: int) -> Tensor:
    """Number the groups of samples 0, 1, …: (n,) int64.

    Args:
        groups: (n,) int64 group ids, -1 for a sample that is a group of its own; None: every sample is.
        count: Number of samples, n.
    """
    if groups is None:
        return torch.arange(count)
    names = groups.clone()
    alone = names < 0
    names[alone] = (int(names.max()) if count else 0) + 1 + torch.arange(int(alone.sum()))
    codes: Tensor = torch.unique(names, return_inverse=True)[1]
    return codes


def count_groups(groups: Tensor | None, count: int) -> int:
    """Number of groups among n samples; see `group_codes`."""
    return len(torch.unique(group_codes(groups, count)))


def share_of_groups(rows: Tensor, groups: Tensor | None, share: float, seed: int) -> Tensor:
    """Draw a share of the groups, rounded down, among those with a selected row: (n,) bool, their samples.

    Args:
        rows: (n,) bool, the selected rows.
        groups: See `group_codes`.
        share: Share of the groups to draw, from 0 to 1.
        seed: Random seed of the draw.
    """
    codes = group_codes(groups, len(rows))
    present = torch.unique(codes[rows])
    order = torch.randperm(len(present), generator=torch.Generator().manual_seed(seed))
    return torch.isin(codes, present[order[: math.floor(share * len(present))]])


def conformal_scores(paths: Paths, labels: Tensor, taxonomy: AnyTaxonomy) -> Tensor:
    """Conformal scores (n,) float64: the smallest threshold at which each answer holds the truth.

    The score of a sample is the probability of the first node on its path that is neither the label nor an
    ancestor of it: the answer holds the truth exactly if the path is cut before that node. It is 0 where the
    whole path holds the truth. Answers at rising thresholds are nested sets of leaves, so this is the score
    of nested conformal prediction (Gupta et al. 2022) for the node-valued sets of Mortier et al. (2025,
    Section 3).

    Args:
        paths: Paths of n samples.
        labels: (n,) nodes, none missing, each deciding whether any answer is right (`ClassNodes.judges`).
        taxonomy: Taxonomy of the nodes, a tree or a DAG.
    """
    check_nodes("labels", labels, taxonomy)
    check_same_length("paths", paths.nodes, "labels", labels)
    if len(labels) and int(labels.min()) < 0:
        raise ValueError("labels holds -1 (missing); leave those samples out")
    # an ancestor of both is an ancestor of the path's node, and of those that node itself is least in height
    holds = (taxonomy.lca(paths.nodes, labels[:, None]) == paths.nodes) & (paths.nodes >= 0)
    leaves = (~holds & (paths.nodes >= 0)).long()
    first = leaves.argmax(1, keepdim=True)
    scores = paths.probabilities.gather(1, first)[:, 0]
    return scores.masked_fill(leaves.sum(1) == 0, 0.0)


def threshold(scores: Tensor, promise: Promise, groups: Tensor | None = None) -> float:
    """The smallest threshold t that keeps the promise when nodes with probability above t are answered.

    Without groups it is the ⌈(n+1)·coverage⌉-th smallest score: the scores of n calibration samples and of a
    new sample are exchangeable, so the new score is at most t with probability at least `coverage`. With
    exchangeable groups, either each sample has weight 1/(size of its group), which gives the same guarantee
    for a random sample of a new group (Lee, Barber & Willett 2023, Section 3), or each group is represented
    by its largest score, which gives it for all samples of a new group at once.

    Args:
        scores: (n,) `conformal_scores`.
        promise: The required coverage.
        groups: (n,) int64 group ids, -1 for a sample that is a group of its own.

    Returns:
        t, infinite if there are too few samples (see `samples_needed`): then only the root is answered.

    Raises:
        ValueError: If `confidence` is requested for single samples of larger groups; there is no such bound.
    """
    if not len(scores):
        return math.inf
    ordered, weights, count = _weigh_groups(scores, promise, groups)
    share = Fraction(str(promise.coverage))
    if promise.confidence is not None and len(ordered) != count:
        raise ValueError(
            "confidence is given, but the coverage of single samples of groups has no such bound; leave it "
            "out, or let counted be 'group'"
        )
    if len(ordered) == count:  # exact, as all count alike
        rank = _rank(count, share, promise)
        return float(ordered[rank - 1]) if rank <= count else math.inf
    wanted = float(share * (count + 1 if promise.method == "conformal" else count))
    reached = np.cumsum(weights) >= wanted - 1e-9 * count
    return float(ordered[int(reached.argmax())]) if bool(reached.any()) else math.inf


@dataclass(frozen=True)
class ThresholdSteps:
    """The thresholds of all coverages, as steps: what other programs need to keep a promise.

    The threshold of a coverage is the first of `thresholds` whose `reached` is at least
    coverage · `total` − `tolerance`; there is none if the coverage needs more samples than there are.

    Attributes:
        reached: (k,) number of calibration samples, or weight of their groups, up to each threshold.
        thresholds: (k,) distinct thresholds, ascending.
        total: Number of samples or groups, and one more for the new sample.
        tolerance: For the rounding of sums of weights; 0 without groups.
    """

    reached: tuple[float, ...]
    thresholds: tuple[float, ...]
    total: int
    tolerance: float


def threshold_steps(scores: Tensor, groups: Tensor | None = None) -> ThresholdSteps:
    """All thresholds that `threshold` can give for conformal promises of single samples.

    Args:
        scores: (n,) `conformal_scores`, n ≥ 1.
        groups: (n,) group ids, see `threshold`.
    """
    ordered, weights, count = _weigh_groups(scores, Promise(), groups)
    alike = len(ordered) == count
    reached = np.arange(1, count + 1, dtype=np.float64) if alike else np.cumsum(weights)
    last = np.append(ordered[1:] > ordered[:-1], True)  # of equal thresholds the last reaches most
    return ThresholdSteps(
        tuple(reached[last].tolist()),
        tuple(ordered[last].tolist()),
        count + 1,
        0.0 if alike else 1e-9 * count,
    )


def samples_needed(promise: Promise) -> int:
    """Number of calibration samples (or groups) that the promise needs to allow answers below the root."""
    if promise.confidence is not None:
        risk = 1 - promise.confidence
        return math.ceil(math.log(risk) / math.log(promise.coverage) - 1e-12)
    return samples_for_coverage(promise.coverage) if promise.method == "conformal" else 1


def largest_coverage(count: int) -> float:
    """The largest coverage, rounded down, that so many calibration samples (or groups) can promise."""
    return math.floor(1e4 * count / (count + 1)) / 1e4


def advised_coverage(count: int) -> float:
    """The coverage to ask for where so many samples (or groups) can promise no more: a twentieth below that.

    At the most that groups can promise, the threshold lets pass all samples of every group, so that the
    hardest of them decides, and answers are coarse.
    """
    return math.floor(95 * count / (count + 1)) / 100


def check_enough(count: int, promise: Promise, what: str = "calibration samples") -> None:
    """Raise a `DataError` that names the required number if `count` is smaller."""
    needed = samples_needed(promise)
    if count < needed:
        sure = "" if promise.confidence is None else f" with confidence {promise.confidence:g}"
        raise DataError(
            f"coverage {promise.coverage:g}{sure} needs at least {needed} {what}, and there are {count}: "
            + (
                f"ask for a coverage of {advised_coverage(count):g} (up to {largest_coverage(count):g} can "
                "be promised, with coarser answers), or calibrate on more"
                if count and not sure
                else "calibrate on more"
            )
        )


def _weigh_groups(
    scores: Tensor, promise: Promise, groups: Tensor | None
) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], np.ndarray[tuple[int], np.dtype[np.float64]], int]:
    """Scores in ascending order, the weight of each, and the number of groups."""
    values = scores.detach().double().numpy()
    codes = group_codes(groups, len(values)).numpy()
    count = int(codes.max()) + 1
    if promise.counted == "group":
        largest = np.full(count, -np.inf)
        np.maximum.at(largest, codes, values)
        values, codes = largest, np.arange(count)
    order = np.argsort(values, kind="stable")
    return values[order], (1.0 / np.bincount(codes))[codes[order]], count


def _rank(count: int, share: Fraction, promise: Promise) -> int:
    """Rank of the threshold among `count` ascending scores, counted from 1."""
    if promise.method == "threshold":
        return math.ceil(share * count)
    if promise.confidence is None:
        return math.ceil(share * (count + 1))
    from scipy.stats import binom

    ranks = np.arange(1, count + 2)
    # the coverage given the calibration samples is at least that of Beta(rank, count + 1 - rank)
    missed = binom.sf(ranks - 1, count, float(share))
    return int(ranks[(missed <= 1 - promise.confidence + 1e-15) | (ranks > count)][0])


def categories_of(labels: Tensor, depth: int, taxonomy: AnyTaxonomy) -> Tensor:
    """The category of each label (n,): its ancestor at the given depth, or the label itself if coarser."""
    tree = check_tree("categories at a depth", taxonomy)
    return tree.ancestors[labels, tree.depth[labels].clamp(max=depth)]


def thresholds_by_category(
    scores: Tensor, categories: Tensor, promise: Promise, groups: Tensor | None = None
) -> tuple[dict[int, float], float, list[int]]:
    """A threshold for each category of labels, so that the promise holds within every category (Mondrian).

    Categories with fewer samples than the promise needs are pooled. As long as the pool is too small, the
    smallest of the other categories joins it. The promise then holds for the pool.

    Args:
        scores: (n,) `conformal_scores`.
        categories: (n,) node of each sample's category.
        promise: The required coverage.
        groups: (n,) group ids or None, see `threshold`.

    Returns:
        The threshold of each category, the threshold of all categories without samples, and the pooled
        categories.
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
    thresholds: dict[int, float] = {}
    for _, category in by_size:
        rows = torch.isin(categories, torch.tensor(pooled)) if category in pooled else categories == category
        thresholds[category] = threshold(scores[rows], promise, None if groups is None else groups[rows])
    rest = thresholds[pooled[0]] if pooled else max(thresholds.values(), default=math.inf)
    return thresholds, rest, sorted(pooled)


def bars_of(thresholds: Mapping[int, float], rest: float, depth: int, taxonomy: AnyTaxonomy) -> Tensor:
    """The bar of every node for `Paths.cut` with one threshold per category: (N,) float64.

    A step from a parent to a node excludes the labels at or below the parent that are not at or below the
    node. The step is taken only if the node's probability exceeds the thresholds of all excluded labels: then
    no category loses a label whose score is at most the category's threshold.

    Args:
        thresholds: Threshold of each category: nodes at `depth`, and labels above it.
        rest: Threshold of all other categories.
        depth: Depth of the categories.
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

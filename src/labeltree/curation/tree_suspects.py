"""Places where a taxonomy does not fit its samples: nodes to move, to dissolve, to merge and to split."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.curation.corrected_p import benjamini_hochberg, holm, more_than_half
from labeltree.curation.out_of_fold import out_of_fold
from labeltree.data.stratified import group_numbers
from labeltree.errors import DataError
from labeltree.metrics.checks import check_embeddings, check_nodes, check_same_length
from labeltree.progress import Progress, silent
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.changes import Change, Guess
from labeltree.taxonomy.mapping_file import write_mapping

__all__ = ["KINDS", "Kind", "TreeSuspect", "TreeSuspects", "find_tree_suspects"]

Kind = Literal["move", "dissolve", "merge", "split"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_FEWEST = 8  # units, below which nothing is called significant
_FEWEST_TO_SPLIT = 24
_NEAREST = 5  # of each leaf, so many leaves are compared with it
_DRAWS = 1999
_GAUSSIAN_DRAWS = 99
_DIRECTIONS = 10
_SEPARATE = 0.25  # the least silhouette of two clusters that are proposed as two leaves
_MOST_OF_A_LEAF = 400
_ROWS = 4096


@dataclass(frozen=True)
class TreeSuspect:
    """One place in the tree that does not fit.

    Attributes:
        kind: ``move`` (the samples lie in another branch), ``dissolve`` (the children do not belong
            together), ``merge`` (two leaves cannot be told apart) or ``split`` (a leaf falls into two).
        node: the node.
        other: the new parent of ``move``, the other leaf of ``merge``; −1 for the others.
        effect: for ``move`` how much nearer the units lie to the other branch, as a share of the distance;
            ``dissolve``: likeness of the children minus that of random ones, in standard deviations;
            ``merge``: the probability of ranking a sample of each right (AUC, 0.5 = chance);
            ``split``: the silhouette of the two clusters.
        p: p value after correction for many nodes.
        units: samples, or cells of a node and a group, that this rests on; children for ``dissolve``.
        significant: whether p is at most the level and there are enough units.
        reason: the evidence in words.
    """

    kind: Kind
    node: int
    other: int
    effect: float
    p: float
    units: int
    significant: bool
    reason: str


@dataclass(frozen=True, eq=False)
class TreeSuspects:
    """What does not fit in a tree.

    Attributes:
        taxonomy: the tree.
        found: the suspects, by kind and then by effect, the strongest first.
        tested: number of nodes (pairs for ``merge``) of each kind that could be tested.
        notes: sentences on what could not be tested.
    """

    taxonomy: Taxonomy
    found: tuple[TreeSuspect, ...]
    tested: dict[str, int]
    notes: tuple[str, ...]

    def of(self, kind: Kind) -> tuple[TreeSuspect, ...]:
        """The suspects of one kind."""
        return tuple(one for one in self.found if one.kind == kind)

    def sentence(self) -> str:
        """How many there are of each kind, in words."""
        parts = []
        for kind in KINDS:
            some = self.of(kind)
            sure = sum(one.significant for one in some)
            if self.tested.get(kind):
                parts.append(f"{kind}: {sure} significant, {len(some) - sure} more, of {self.tested[kind]:,}")
        return "; ".join(parts) or "nothing could be tested"

    def save_mapping(self, path: str | Path, *, only_significant: bool = False) -> int:
        """Write the changes that would mend the tree as guesses, for a person to accept; see `write_mapping`.

        Returns:
            the number of changes written.
        """
        guesses = []
        for one in self.found:
            guess = _guess(self.taxonomy, one) if one.significant or not only_significant else None
            if guess is not None:
                guesses.append(guess)
        write_mapping(path, self.taxonomy, self.taxonomy, [], guesses)
        return len(guesses)


def find_tree_suspects(
    vectors: Tensor,
    nodes: Tensor,
    taxonomy: Taxonomy,
    *,
    groups: Tensor | None = None,
    kinds: tuple[Kind, ...] = KINDS,
    level: float = 0.05,
    apart: float = 0.7,
    seed: int = 0,
    progress: Progress | None = None,
) -> TreeSuspects:
    """Hold a taxonomy against the samples of its nodes.

    Columns are standardised and rows brought to length 1. A unit is a sample or, with groups, the mean of the
    samples that a group has in a node. An encoder that was trained with this tree has put its nodes where
    the tree says, so take one that was trained without it, or samples that it has not learned from.

    - ``move``: for each node from depth 2 on with a sibling, the distance of its units to the mean of its
      siblings' means and to those of the children of every other parent of its depth. Where more than half
      lie nearer to another one and the mean distance is smaller, the node is a suspect: sign test, times the
      number of other parents, after Benjamini & Hochberg over nodes.
    - ``dissolve``: for each inner node with three children or more, the mean cosine of the means of its
      children, about the mean of their depth, beside that of as many random nodes of their depth: permutation
      test. Suspects are nodes whose children are no more alike than random ones (p after Benjamini & Hochberg
      above the level), significant those that are less alike (other side, after Holm). Where the depth
      has too few nodes for a p below the level, nothing is said.
    - ``merge``: for each leaf and its five nearest leaves, the AUC of the out-of-fold log odds of the two.
      Suspects have an AUC below ``apart``; the p value is of that (Hanley & McNeil's standard error
      at that AUC, after Holm over all pairs of leaves).
    - ``split``: two clusters (k-means) of a leaf's units with a silhouette of 0.25 or more, beside Gaussian
      samples of the leaf's covariance (SigClust, Liu et al. 2008, with its normal p value), after Benjamini
      & Hochberg.

    Args:
        vectors: ``(n, d)`` finite features or embeddings.
        nodes: ``(n,)`` int64 labels, leaves or inner nodes; −1 where missing.
        taxonomy: the tree.
        groups: ``(n,)`` int64 group of each sample, −1 for none.
        kinds: what is looked for.
        level: largest corrected p value of what is called significant.
        apart: AUC below which two leaves count as not told apart.
        seed: of folds, clusters and draws.
        progress: called as ``progress(message, done, total)``.

    Raises:
        DataError: if no sample has a label.
        ValueError: for wrong shapes or a setting out of range.
    """
    check_embeddings("vectors", vectors)
    check_same_length("vectors", vectors, "nodes", nodes)
    check_nodes("nodes", nodes, taxonomy)
    if not 0 < level < 1 or not 0.5 < apart < 1:
        raise ValueError(f"level {level} must lie between 0 and 1, apart {apart} between 0.5 and 1")
    if wrong := [kind for kind in kinds if kind not in KINDS]:
        raise ValueError(f"{wrong[0]!r} is no kind of suspect; there are {', '.join(KINDS)}")
    known = (nodes > 0).nonzero()[:, 0]
    if not len(known):
        raise DataError("no sample has a label, so nothing can be said about the tree")
    data = _Data(vectors[known], nodes[known], taxonomy, None if groups is None else groups[known])
    found: list[TreeSuspect] = []
    tested: dict[str, int] = {}
    notes: list[str] = []
    for step, kind in enumerate(kinds):
        (progress or silent)(f"looking for nodes to {kind}", step, len(kinds))
        if kind == "move":
            some, count = _moves(data, level)
        elif kind == "dissolve":
            some, count = _dissolves(data, level, seed)
        elif kind == "split":
            some, count = _splits(data, level, seed)
        else:
            some, count, note = _merges(data, level, apart, seed)
            notes += [note] if note else []
        found += some
        tested[kind] = count
    return TreeSuspects(taxonomy, tuple(found), tested, tuple(notes))


class _Data:
    """Labelled samples as unit vectors, the units of nodes, and the means of nodes."""

    def __init__(self, vectors: Tensor, nodes: Tensor, taxonomy: Taxonomy, groups: Tensor | None) -> None:
        self.raw, self.nodes, self.taxonomy, self.groups = vectors, nodes, taxonomy, groups
        points = vectors.double()
        deviation = points.std(0, correction=0)
        flat = deviation <= 1e-6 * deviation.max()
        points = (points - points.mean(0)) * torch.where(flat, 0.0, 1 / deviation.masked_fill(flat, 1.0))
        self.points = torch.nn.functional.normalize(points, dim=1)
        self.numbers = torch.from_numpy(group_numbers(groups, len(nodes)))
        self.order = nodes.argsort(stable=True)
        self.sorted = nodes[self.order].contiguous()
        self.means = torch.full((taxonomy.num_nodes, points.shape[1]), math.nan, dtype=torch.float64)
        ends = taxonomy.subtree_end
        sums = torch.cat([self.points.new_zeros(1, points.shape[1]), self.points[self.order].cumsum(0)])
        first = torch.searchsorted(self.sorted, torch.arange(taxonomy.num_nodes))
        last = torch.searchsorted(self.sorted, ends)
        self.first, self.count = first, last - first
        there = self.count > 0
        self.means[there] = (sums[last] - sums[first])[there] / self.count[there, None]

    def units(self, node: int) -> Tensor:
        """``(u, d)`` samples at or below a node, those of one group as their mean."""
        start = int(self.first[node])
        rows = self.order[start : start + int(self.count[node])]
        kinds, place = torch.unique(self.numbers[rows], return_inverse=True)
        if len(kinds) == len(rows):
            return self.points[rows]
        sums = self.points.new_zeros(len(kinds), self.points.shape[1]).index_add_(0, place, self.points[rows])
        return sums / torch.bincount(place)[:, None]

    def with_samples(self, depth: int) -> Tensor:
        """The nodes of a depth that have samples."""
        return ((self.taxonomy.depth == depth) & (self.count > 0)).nonzero()[:, 0]

    def name(self, node: int) -> str:
        return " ".join(self.taxonomy.path_name(node).split())


def _moves(data: _Data, level: float) -> tuple[list[TreeSuspect], int]:
    taxonomy = data.taxonomy
    rows: list[tuple[int, int, float, float, int, int]] = []
    for depth in range(2, taxonomy.max_depth + 1):
        here = data.with_samples(depth)
        parent = taxonomy.parent[here]
        parents, place = torch.unique(parent, return_inverse=True)
        if len(parents) < 2:
            continue
        sizes = torch.bincount(place)
        sums = data.means.new_zeros(len(parents), data.means.shape[1]).index_add_(0, place, data.means[here])
        centres = sums / sizes[:, None]
        for node, own in zip(here.tolist(), place.tolist(), strict=True):
            if int(sizes[own]) < 2:
                continue
            units = data.units(node)
            siblings = (sums[own] - data.means[node]) / (sizes[own] - 1)
            to_own = (units - siblings).norm(dim=1)
            to_others = torch.cdist(units, centres)
            to_others[:, own] = math.inf
            nearer = (to_others < to_own[:, None]).sum(0)
            best = int(to_others.mean(0).argmin())
            gain = float((to_own - to_others[:, best]).mean() / to_own.mean().clamp_min(1e-12))
            p = min(1.0, more_than_half(int(nearer[best]), len(units)) * (len(parents) - 1))
            rows.append((node, int(parents[best]), gain, p, int(nearer[best]), len(units)))
    if not rows:
        return [], 0
    corrected = benjamini_hochberg(np.array([row[3] for row in rows]))
    found = []
    for (node, other, gain, _, nearer_count, units_count), p in zip(rows, corrected.tolist(), strict=True):
        if gain > 0 and nearer_count * 2 > units_count:
            few = f"; {units_count} are too few to be sure" if units_count < _FEWEST else ""
            found.append(
                TreeSuspect(
                    "move",
                    node,
                    other,
                    gain,
                    p,
                    units_count,
                    p <= level and units_count >= _FEWEST,
                    f"{nearer_count} of {units_count} lie nearer to {data.name(other)} than to its siblings "
                    f"in {data.name(int(taxonomy.parent[node]))}, by {gain:.0%} of the distance "
                    f"(p {p:.2g}){few}",
                )
            )
    return sorted(found, key=lambda one: (-one.effect, one.node)), len(rows)


def _dissolves(data: _Data, level: float, seed: int) -> tuple[list[TreeSuspect], int]:
    taxonomy = data.taxonomy
    draw = np.random.default_rng(seed)
    rows: list[tuple[int, float, float, float, int]] = []
    for depth in range(2, taxonomy.max_depth + 1):
        here = data.with_samples(depth)
        if len(here) < 6:
            continue
        centred = data.means[here] - data.means[here].mean(0)
        directions = torch.nn.functional.normalize(centred, dim=1).numpy()
        parent = taxonomy.parent[here].numpy()
        at_random: dict[int, NDArray[np.float64]] = {}
        for node in np.unique(parent).tolist():
            children = np.flatnonzero(parent == node)
            size = len(children)
            if not 3 <= size < len(here) - 1 or math.comb(len(here), size) < 2 / level:
                continue
            if size not in at_random:
                at_random[size] = np.array(
                    [_likeness(directions[draw.permutation(len(here))[:size]]) for _ in range(_DRAWS)]
                )
            chance = at_random[size]
            like = _likeness(directions[children])
            alike = (1 + int((chance >= like - 1e-12).sum())) / (_DRAWS + 1)
            unlike = (1 + int((chance <= like + 1e-12).sum())) / (_DRAWS + 1)
            rows.append((node, (like - chance.mean()) / max(chance.std(), 1e-12), alike, unlike, size))
    if not rows:
        return [], 0
    alike_p = benjamini_hochberg(np.array([row[2] for row in rows]))
    unlike_p = holm(np.array([row[3] for row in rows]))
    found = []
    for (node, effect, _, _, size), p, less in zip(rows, alike_p.tolist(), unlike_p.tolist(), strict=True):
        if p > level:
            significant = less <= level
            found.append(
                TreeSuspect(
                    "dissolve",
                    node,
                    -1,
                    effect,
                    less,
                    size,
                    significant,
                    f"its {size} children are {'less' if significant else 'no more'} alike than random nodes "
                    f"of their depth: {effect:+.1f} sd (p {p:.2g} that they are more alike)",
                )
            )
    return sorted(found, key=lambda one: (one.effect, one.node)), len(rows)


def _likeness(directions: NDArray[np.float64]) -> float:
    """The mean cosine of all pairs of k unit vectors: (|Σ|² − k) / k(k − 1)."""
    size = len(directions)
    total = directions.sum(0)
    return float((total @ total - size) / (size * (size - 1)))


def _merges(data: _Data, level: float, apart: float, seed: int) -> tuple[list[TreeSuspect], int, str]:
    taxonomy = data.taxonomy
    try:
        judged = out_of_fold(data.raw, data.nodes, taxonomy, groups=data.groups, folds=5, fewest=3, seed=seed)
    except DataError as error:
        return [], 0, f"pairs of leaves were not compared: {error}"
    leaves = [node for node in judged.classes.nodes.tolist() if bool(taxonomy.is_leaf[node])]
    leaves = [leaf for leaf in leaves if bool((judged.judged == leaf).any())]
    if len(leaves) < 2:
        return [], 0, "pairs of leaves were not compared: fewer than two leaves have three samples"
    where = torch.tensor(leaves)
    columns = [int(judged.classes.place[leaf]) for leaf in leaves]
    apart_by = torch.cdist(data.means[where], data.means[where]).fill_diagonal_(math.inf)
    near = apart_by.topk(min(_NEAREST, len(leaves) - 1), largest=False).indices.tolist()
    pairs = sorted({(min(i, j), max(i, j)) for i, some in enumerate(near) for j in some})
    rows_of = [(data.nodes == leaf).nonzero()[:, 0] for leaf in leaves]
    logs = judged.probabilities.double().clamp_min(1e-12).log()
    rows: list[tuple[int, int, float, float, int]] = []
    for i, j in pairs:
        odds = [
            (logs[some, columns[i]] - logs[some, columns[j]]).numpy() for some in (rows_of[i], rows_of[j])
        ]
        auc = _auc(odds[0], odds[1])
        deviation = _auc_error(apart, len(odds[0]), len(odds[1]))
        p = 0.5 * math.erfc((apart - auc) / deviation / math.sqrt(2))
        rows.append((i, j, auc, p, min(len(odds[0]), len(odds[1]))))
    corrected = holm(np.array([row[3] for row in rows]), len(leaves) * (len(leaves) - 1) // 2)
    found = []
    for (i, j, auc, _, units), p in zip(rows, corrected.tolist(), strict=True):
        if auc < apart:
            small, large = sorted((leaves[i], leaves[j]), key=lambda leaf: (int(data.count[leaf]), -leaf))
            few = f"; {units} samples are too few to be sure" if units < _FEWEST else ""
            found.append(
                TreeSuspect(
                    "merge",
                    small,
                    large,
                    auc,
                    p,
                    units,
                    p <= level and units >= _FEWEST,
                    f"cannot be told from {data.name(large)}: AUC {auc:.2f} over {len(rows_of[i])} and "
                    f"{len(rows_of[j])} samples (p {p:.2g} that it is below {apart:g}){few}",
                )
            )
    note = judged.sentence()
    return sorted(found, key=lambda one: (one.effect, one.node)), len(rows), note


def _auc(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The probability that one of the first is larger than one of the second; ties count half."""
    from scipy.stats import rankdata

    ranks = rankdata(np.concatenate([first, second]))
    count = len(first)
    return float((ranks[:count].sum() - count * (count + 1) / 2) / (count * len(second)))


def _auc_error(auc: float, first: int, second: int) -> float:
    """The standard error of an AUC after Hanley & McNeil (1982), Eq. 1."""
    q1, q2 = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    rest = auc * (1 - auc) + (first - 1) * (q1 - auc**2) + (second - 1) * (q2 - auc**2)
    return math.sqrt(rest / (first * second))


def _splits(data: _Data, level: float, seed: int) -> tuple[list[TreeSuspect], int]:
    from sklearn.metrics import silhouette_score

    taxonomy = data.taxonomy
    draw = np.random.default_rng(seed)
    rows: list[tuple[int, float, float, int, int]] = []
    for leaf in taxonomy.leaves[data.count[taxonomy.leaves] >= _FEWEST_TO_SPLIT].tolist():
        units = data.units(leaf).numpy()
        if len(units) > _MOST_OF_A_LEAF:
            units = units[np.sort(draw.permutation(len(units))[:_MOST_OF_A_LEAF])]
        if len(units) < _FEWEST_TO_SPLIT:
            continue
        units = units - units.mean(0)
        _, sizes, axes = np.linalg.svd(units, full_matrices=False)
        kept = min(_DIRECTIONS, len(sizes), len(units) // 4)
        if sizes[0] <= 1e-9:
            continue
        inside = units @ axes[:kept].T
        index, cluster = _two_means(inside, seed)
        deviation = sizes[:kept] / math.sqrt(len(units) - 1)
        chance = np.array(
            [
                _two_means(draw.standard_normal(inside.shape) * deviation, seed)[0]
                for _ in range(_GAUSSIAN_DRAWS)
            ]
        )
        z = (index - chance.mean()) / max(float(chance.std(ddof=1)), 1e-12)
        few = int(min(cluster.sum(), len(cluster) - cluster.sum()))
        silhouette = float(silhouette_score(inside, cluster)) if few else 0.0
        rows.append((leaf, silhouette, 0.5 * math.erfc(-z / math.sqrt(2)), len(units), few))
    if not rows:
        return [], 0
    corrected = benjamini_hochberg(np.array([row[2] for row in rows]))
    found = []
    for (leaf, silhouette, _, units_count, few), p in zip(rows, corrected.tolist(), strict=True):
        if p <= level and silhouette >= _SEPARATE and few >= 3:
            found.append(
                TreeSuspect(
                    "split",
                    leaf,
                    -1,
                    silhouette,
                    p,
                    units_count,
                    few >= _FEWEST,
                    f"falls into two clusters of {units_count - few} and {few} (silhouette {silhouette:.2f}, "
                    f"p {p:.2g} beside one Gaussian cloud)",
                )
            )
    return sorted(found, key=lambda one: (-one.effect, one.node)), len(rows)


def _two_means(points: NDArray[np.float64], seed: int) -> tuple[float, NDArray[np.int64]]:
    """SigClust's cluster index, sum of squares within two clusters over the total, and the clusters."""
    start = points[:, 0] > np.median(points[:, 0])
    cluster = start.astype(np.int64)
    for _ in range(30):
        if not 0 < cluster.sum() < len(cluster):
            break
        centres = np.stack([points[cluster == side].mean(0) for side in (0, 1)])
        apart = np.square(points[:, None] - centres[None]).sum(2)
        nearer = apart.argmin(1)
        if (nearer == cluster).all():
            break
        cluster = nearer.astype(np.int64)
    total = float(np.square(points - points.mean(0)).sum())
    within = sum(
        float(np.square(points[cluster == side] - points[cluster == side].mean(0)).sum())
        for side in (0, 1)
        if (cluster == side).any()
    )
    return within / max(total, 1e-300), cluster


def _guess(taxonomy: Taxonomy, one: TreeSuspect) -> Guess | None:
    """The change that would mend the tree, as a person may accept it; None if names stand in its way."""
    here = taxonomy.path(one.node)
    if one.kind == "move":
        there = (*taxonomy.path(one.other), here[-1])
        target = taxonomy.follow(there)
        if target is not None and not bool(taxonomy.is_leaf[one.node]):
            return None
        change = Change("move" if target is None else "merge", here, (there,))
        return Guess(one.node, (), change, one.reason)
    if one.kind == "merge":
        return Guess(one.node, (one.other,), Change("merge", here, (taxonomy.path(one.other),)), one.reason)
    if one.kind == "split":
        parts = tuple((*here, f"{here[-1]} {number}") for number in (1, 2))
        return Guess(one.node, (), Change("split", here, parts), one.reason)
    above = here[:-1]
    children = (taxonomy.parent == one.node).nonzero()[:, 0].tolist()
    moves = tuple(
        Change("move", taxonomy.path(child), ((*above, taxonomy.names[child]),)) for child in children
    )
    if any(taxonomy.follow(move.new[0]) is not None for move in moves):
        return None
    return Guess(one.node, (), Change("remove", here), one.reason, moves)

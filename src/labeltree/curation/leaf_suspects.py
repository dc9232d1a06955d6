"""Leaves of a tree that do not fit their samples: pairs to merge, and leaves to split."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import false_discovery_control
from torch import Tensor

from labeltree.curation.out_of_fold import out_of_fold
from labeltree.curation.tree_samples import FEWEST_UNITS, TreeSamples, TreeSuspect
from labeltree.errors import DataError
from labeltree.evaluation.statistics import holm

__all__ = ["auc_within_folds", "leaves_to_merge", "leaves_to_split"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_FEWEST_TO_SPLIT = 24
_NEAREST = 5  # of each leaf, so many leaves are compared with it
_GAUSSIAN_DRAWS = 99
_DIRECTIONS = 10
_SEPARATE = 0.25  # the least silhouette of two clusters that are proposed as two leaves
_MOST_OF_A_LEAF = 400


def leaves_to_merge(
    samples: TreeSamples, level: float, apart: float, seed: int
) -> tuple[list[TreeSuspect], int, str]:
    """Pairs of leaves that a probe cannot tell apart: each leaf and its five nearest leaves.

    Units are samples or, with groups, the means over the samples that a group has in a leaf. Their score is
    the log odds of the two leaves, out of fold. The AUC counts the pairs of units of one fold only, since the
    probes of different folds are not on one scale (across folds an AUC of leaves that are alike even falls
    below 0.5): the mean over folds, weighted by their numbers of pairs. Its standard error at an AUC of
    `apart` is that of Hanley & McNeil (1982) in each fold, folds taken as independent.

    Args:
        samples: The samples of the nodes.
        level: Largest corrected p of what is called significant.
        apart: AUC below which a pair is a suspect; p is that of an AUC of `apart` or more, after Holm over
            all pairs of leaves, because the nearest were chosen by the same samples.
        seed: Of the folds.

    Returns:
        The suspects, the least told apart first; the number of pairs; and a note on what was not compared.
    """
    taxonomy = samples.taxonomy
    try:
        judged = out_of_fold(
            samples.raw, samples.nodes, taxonomy, groups=samples.groups, folds=5, fewest=3, seed=seed
        )
    except DataError as error:
        return [], 0, f"pairs of leaves were not compared: {error}"
    leaves = [node for node in judged.classes.nodes.tolist() if bool(taxonomy.is_leaf[node])]
    leaves = [leaf for leaf in leaves if bool((judged.judged == leaf).any())]
    if len(leaves) < 2:
        return [], 0, "pairs of leaves were not compared: fewer than two leaves have three samples"
    where = torch.tensor(leaves)
    distances = torch.cdist(samples.means[where], samples.means[where]).fill_diagonal_(math.inf)
    near = distances.topk(min(_NEAREST, len(leaves) - 1), largest=False).indices.tolist()
    pairs = sorted({(min(i, j), max(i, j)) for i, some in enumerate(near) for j in some})
    columns = judged.classes.place[where].tolist()
    logs = judged.probabilities.double().clamp_min(1e-12).log()
    members = [_Members.of(samples, judged.folds, leaf) for leaf in leaves]
    rows: list[tuple[int, int, float, float, int, int]] = []
    for i, j in pairs:
        odds = logs[:, columns[i]] - logs[:, columns[j]]
        first, second = members[i].means(odds), members[j].means(odds)
        separation = auc_within_folds(first, members[i].folds, second, members[j].folds, apart)
        if separation is not None:
            auc, deviation, ours, theirs = separation
            rows.append((i, j, auc, 0.5 * math.erfc((apart - auc) / deviation / math.sqrt(2)), ours, theirs))
    corrected = holm(np.array([row[3] for row in rows]), len(leaves) * (len(leaves) - 1) // 2)
    suspects = []
    for (i, j, auc, _, first_units, second_units), p in zip(rows, corrected.tolist(), strict=True):
        if auc < apart:
            small, large = sorted((leaves[i], leaves[j]), key=lambda leaf: (int(samples.count[leaf]), -leaf))
            ours, theirs = (first_units, second_units) if small == leaves[i] else (second_units, first_units)
            units = min(ours, theirs)
            few = f"; {units} are too few to be sure" if units < FEWEST_UNITS else ""
            told = "no better than chance" if auc <= 0.5 else f"AUC {auc:.2f}"
            kind = "samples" if samples.groups is None else "groups and samples without one"
            suspects.append(
                TreeSuspect(
                    "merge",
                    small,
                    large,
                    max(auc, 0.5),
                    p,
                    units,
                    p <= level and units >= FEWEST_UNITS,
                    f"cannot be told from {samples.name(large)}: {told} over {ours} and {theirs} {kind} "
                    f"(p {p:.2g} that the AUC is {apart:g} or more){few}",
                )
            )
    return sorted(suspects, key=lambda one: (one.effect, one.p, one.node)), len(rows), judged.sentence()


@dataclass(frozen=True)
class _Members:
    """Samples of a leaf, `rows (n,)`, the unit of each, `place (n,)`, and the units' `folds (u,)`."""

    rows: Tensor
    place: Tensor
    folds: Ints

    @classmethod
    def of(cls, samples: TreeSamples, folds: Tensor, leaf: int) -> _Members:
        """Of one leaf; a group lies in one fold, so a unit does."""
        rows = (samples.nodes == leaf).nonzero()[:, 0]
        groups, place = torch.unique(samples.numbers[rows], return_inverse=True)
        fold = torch.zeros(len(groups), dtype=torch.int64).index_copy_(0, place, folds[rows])
        return cls(rows, place, fold.numpy())

    def means(self, values: Tensor) -> Floats:
        """The mean value of each unit, `(u,)`."""
        return np.bincount(self.place.numpy(), values[self.rows].numpy()) / np.bincount(self.place.numpy())


def auc_within_folds(
    first: Floats,
    first_fold: Ints,
    second: Floats,
    second_fold: Ints,
    at: float,
) -> tuple[float, float, int, int] | None:
    """The probability that one of the first is larger than one of the second of its fold; ties count half.

    Args:
        first: `(m,)` scores of the one kind.
        first_fold: `(m,)` their folds.
        second: `(n,)` scores of the other kind.
        second_fold: `(n,)` their folds.
        at: AUC at which the standard error is computed.

    Returns:
        The AUC, its standard error, and how many of each kind are in folds that have both; None without
        such a fold.
    """
    wins = variance = 0.0
    pairs = ours = theirs = 0
    for fold in np.intersect1d(first_fold, second_fold).tolist():
        some, others = first[first_fold == fold], second[second_fold == fold]
        number = len(some) * len(others)
        wins += _auc(some, others) * number
        variance += (_auc_error(at, len(some), len(others)) * number) ** 2
        pairs, ours, theirs = pairs + number, ours + len(some), theirs + len(others)
    return (wins / pairs, math.sqrt(variance) / pairs, ours, theirs) if pairs else None


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


def leaves_to_split(samples: TreeSamples, level: float, seed: int) -> tuple[list[TreeSuspect], int]:
    """Leaves whose units fall into two clusters, beside one Gaussian cloud (SigClust, Liu et al. 2008).

    Args:
        samples: The samples of the nodes.
        level: Largest corrected p of what is called significant.
        seed: Of the Gaussian samples.

    Returns:
        The suspects, the best separated first, and the number of leaves with 24 units or more.
    """
    from sklearn.metrics import silhouette_score

    taxonomy = samples.taxonomy
    draw = np.random.default_rng(seed)
    rows: list[tuple[int, float, float, int, int]] = []
    for leaf in taxonomy.leaves[samples.count[taxonomy.leaves] >= _FEWEST_TO_SPLIT].tolist():
        units = samples.units(leaf).numpy()
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
    corrected = false_discovery_control(np.array([row[2] for row in rows]))
    suspects = []
    for (leaf, silhouette, _, units_count, few), p in zip(rows, corrected.tolist(), strict=True):
        if p <= level and silhouette >= _SEPARATE and few >= 3:
            suspects.append(
                TreeSuspect(
                    "split",
                    leaf,
                    -1,
                    silhouette,
                    p,
                    units_count,
                    few >= FEWEST_UNITS,
                    f"falls into two clusters of {units_count - few} and {few} (silhouette {silhouette:.2f}, "
                    f"p {p:.2g} beside one Gaussian cloud)",
                )
            )
    return sorted(suspects, key=lambda one: (-one.effect, one.node)), len(rows)


def _two_means(points: NDArray[np.float64], seed: int) -> tuple[float, Ints]:
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

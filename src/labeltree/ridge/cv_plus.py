"""Answers with guaranteed coverage, from heads that have not seen a fold each: CV+, without a split."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from labeltree.checks import check_integer
from labeltree.decisions.answers import Paths, find_paths
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.decisions.conformal import (
    Promise,
    ThresholdSteps,
    check_enough,
    conformal_scores,
    group_codes,
    threshold_steps,
)
from labeltree.errors import DataError
from labeltree.ridge.fitting import fit_tree_ridge, single_labels
from labeltree.ridge.moments import Moments, clean_labels
from labeltree.ridge.tree_ridge import Nonlinear, TreeRidge
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.check_nodes import as_nodes

__all__ = ["CvPlus", "fit_cv_plus"]


@dataclass(frozen=True, eq=False)
class CvPlus:
    """Heads that have not seen a fold each, and the scores of the samples of that fold (Barber et al. 2021).

    A label is possible for a new sample unless its score, by the head that has not seen fold k, exceeds the
    scores S of enough training samples, each compared by the head that has not seen it (Romano, Sesia &
    Candès 2020): the label set is {y: #{i: S_i < S_{-k(i)}(x, y)} < coverage·(n + 1)}. The score of a label
    is the probability of the first node on the sample's path that is neither the label nor above it, see
    `conformal_scores`; it is defined for labels without samples, too. The answer is the finest node with all
    possible labels at or below it.

    The units are groups, of which each has weight 1, shared evenly by its samples that are labelled at a
    class.

    Attributes:
        heads: K heads, without their sums.
        steps: For each fold the number of units whose score is at most each threshold, without those that the
            head has seen.
        labels: `(l,)` nodes that may be a sample's label, ascending: the leaves, and the classes.
        taxonomy: Of the labels.
    """

    heads: tuple[TreeRidge, ...]
    steps: tuple[ThresholdSteps, ...]
    labels: Tensor
    taxonomy: Taxonomy

    @property
    def num_units(self) -> int:
        """Number n of groups, or of samples that are a group of their own, whose scores are compared."""
        return sum(steps.total - 1 for steps in self.steps)

    def guaranteed_coverage(self, coverage: float) -> float:
        """The share of new samples whose answer is certain to hold the truth, whatever the data and the head.

        1 − 2α − min{2(1 − 1/K)/(n/K + 1), (1 − K/n)/(K + 1)} with α = 1 − coverage, and 0 if that is less
        (Barber et al. 2021, Theorem 4). It is a mean over the draw of the training data and of the new
        sample. These must be exchangeable: as if drawn in the same way, in random order. With groups, the
        groups must be, and the new sample is drawn at random from a new group. Coverage is mostly near what
        is asked for.

        Args:
            coverage: The share that is asked for in `answer`.
        """
        folds, units = len(self.heads), self.num_units
        loss = min(2 * (1 - 1 / folds) / (units / folds + 1), (1 - folds / units) / (folds + 1))
        return max(0.0, 1 - 2 * (1 - Promise(coverage).coverage) - loss)

    def answer(self, vectors: Tensor, coverage: float) -> Tensor:
        """The `covering_nodes` `(n,)` of the label set of each sample.

        Args:
            vectors: `(n, d)`.
            coverage: See `label_sets`.

        Raises:
            DataError: See `label_sets`.
        """
        parts = ClassNodes(self.labels, self.taxonomy).parts(vectors)
        return torch.cat([self.covering_nodes(self.label_sets(part, coverage)) for part in parts])

    def label_sets(self, vectors: Tensor, coverage: float) -> Tensor:
        """Which of `labels` are possible for each sample: `(n, l)` bool.

        Args:
            vectors: `(n, d)`.
            coverage: 1 − α, above 0 and below 1. See `guaranteed_coverage` for what it guarantees.

        Raises:
            DataError: If there are too few units for any label to be impossible; it says how many suffice.
        """
        units = "training samples labelled at a class, or groups of them, in folds of equal size"
        check_enough(self.num_units, Promise(coverage), units)
        below = torch.zeros(len(vectors), len(self.labels), dtype=torch.float64)
        for head, steps in zip(self.heads, self.steps, strict=True):
            classes = ClassNodes(head.classes, self.taxonomy)
            below += self._units_below(find_paths(head.probabilities(vectors), classes), steps)
        wanted = float(Fraction(str(coverage)) * (self.num_units + 1))
        return below < wanted - sum(steps.tolerance for steps in self.steps)

    def _units_below(self, paths: Paths, steps: ThresholdSteps) -> Tensor:
        """Number of units `(n, l)` of a fold whose score is below that of each label."""
        first = torch.searchsorted(torch.tensor(steps.thresholds, dtype=torch.float64), paths.probabilities)
        units = torch.tensor([0.0, *steps.reached], dtype=torch.float64)[first]
        end = units.new_zeros(len(units), 1)  # the score of a label at or below the end of the path is 0
        units = torch.cat([units[:, 1:], end], 1)
        counts = units[:, :1].expand(-1, len(self.labels))
        for depth in range(1, paths.nodes.shape[1]):
            node = paths.nodes[:, depth : depth + 1]
            holds = (self.taxonomy.ancestors[self.labels, depth] == node) & (node >= 0)
            counts = torch.where(holds, units[:, depth : depth + 1], counts)
        return counts

    def covering_nodes(self, sets: Tensor) -> Tensor:
        """The finest node `(n,)` at or above all labels of each set `(n, l)`; the root for an empty one."""
        first = sets.int().argmax(1)  # in preorder, what covers the first and the last covers all
        last = sets.shape[1] - 1 - sets.int().flip(1).argmax(1)
        nodes = self.taxonomy.lca(self.labels[first], self.labels[last])
        return torch.where(sets.any(1), nodes, 0)


def fit_cv_plus(
    vectors: Tensor,
    nodes: Tensor,
    head: TreeRidge,
    *,
    groups: Tensor | None = None,
    penalty: float | None = None,
    nonlinear: Nonlinear = "never",
    folds: int = 5,
    seed: int = 0,
) -> CvPlus:
    """Solve a head without each of K folds, with λ and scale chosen among the other samples alone.

    Slopes and offsets of the classes are left out: they make answers no finer, and take four times as long.
    The folds are drawn without regard to the labels and hold equally many groups, as the guarantee needs. At
    most K − 1 groups that are left over, and those without a sample labelled at a class, are in no fold: all
    heads see them, and they are not among the n units. Labels that are coarser than the classes, or several,
    do not say whether an answer is right; of a group they are left out with it, and not compared.

    Args:
        vectors: See `fit_tree_ridge`.
        nodes: See `fit_tree_ridge`.
        head: Of these samples.
        groups: See `fit_tree_ridge`.
        penalty: See `fit_tree_ridge`.
        nonlinear: See `fit_tree_ridge`; as `head` has it.
        folds: K, and the number of folds that choose the settings of each head, fewer if there are fewer
            groups.
        seed: Of all folds.

    Raises:
        DataError: If there are fewer than two units, or fewer than two classes without one of the folds.
    """
    check_integer("folds", folds, 2)
    check_integer("seed", seed, 0)
    taxonomy = head.taxonomy
    labels, rows = clean_labels(vectors, as_nodes(nodes, taxonomy.num_nodes))
    single = single_labels(labels, taxonomy)
    judged = ClassNodes(head.classes, taxonomy).judges(single)
    codes = group_codes(None if groups is None else groups[rows], len(rows))
    fold = _deal(codes, judged, folds, seed)
    heads, steps = [], []
    for number in range(int(fold.max()) + 1):
        held, rest = fold == number, rows[fold != number]
        own = Moments.of(vectors[rows[held]], labels[held], head.frequencies)
        try:
            other, _ = fit_tree_ridge(
                vectors[rest],
                nodes[rest],
                taxonomy,
                groups=codes[fold != number],
                tree=0.0,
                instance=0.0,
                similarity=head.similarity,
                penalty=penalty,
                nonlinear=nonlinear,
                folds=max(2, min(folds, len(torch.unique(codes[~held])))),
                seed=seed + 1 + number,
                moments=None if nonlinear == "auto" else head.moments - own,
                slopes=False,
            )
        except DataError as error:
            raise DataError(
                f"a guarantee needs a head without each fold, and without fold {number} of "
                f"{int(fold.max()) + 1}: {error}"
            ) from error
        scored = held & judged
        paths = find_paths(other.probabilities(vectors[rows[scored]]), ClassNodes(other.classes, taxonomy))
        scores = conformal_scores(paths, single[scored], taxonomy)
        steps.append(threshold_steps(scores, codes[scored]))
        heads.append(_without_sums(other))
    candidates = torch.unique(torch.cat([taxonomy.leaves, head.classes]))
    return CvPlus(tuple(heads), tuple(steps), candidates, taxonomy)


def _deal(codes: Tensor, judged: Tensor, folds: int, seed: int) -> Tensor:
    """The fold of each sample `(m,)`, −1 for those that all heads see."""
    units = torch.unique(codes[judged])
    if len(units) < 2:
        raise DataError(
            "a guarantee needs at least two groups of training samples labelled at a class, and there are "
            f"{len(units)}"
        )
    count = min(folds, len(units))
    order = np.random.default_rng(seed).permutation(len(units))[: len(units) // count * count]
    fold = torch.full((int(codes.max()) + 1,), -1)
    fold[units[order]] = torch.arange(len(order)) % count
    return fold[codes]


def _without_sums(head: TreeRidge) -> TreeRidge:
    """A head that answers only: of all heads, the sums would take K·d² numbers."""
    sums = head.moments
    return replace(head, moments=Moments(sums.labels[:0], sums.counts[:0], sums.sums[:0], sums.products[:0]))

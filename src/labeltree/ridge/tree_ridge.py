"""The ridge head: a linear solve of vectors onto the classes of a taxonomy, and how certain it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from labeltree.data.stratified import make_folds
from labeltree.errors import DataError
from labeltree.metrics.functional import map_at_r
from labeltree.ridge.class_similarity import SIMILARITIES, Similarity, class_points, class_similarity
from labeltree.ridge.folds import outputs_of_folds
from labeltree.ridge.moments import Moments, clean_labels, unit_rows
from labeltree.ridge.solution import RidgeSystem, class_targets, classes_with_samples
from labeltree.taxonomy import Taxonomy

__all__ = ["PENALTIES", "TREE_SHARES", "FoldOutputs", "TreeRidge", "fit_tree_ridge"]

PENALTIES = tuple(10.0 ** (step / 2) for step in range(-6, 5))
"""The λ that are tried, from 0.001 to 100 (of vectors of unit length)."""
TREE_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
INSTANCES = (0.0, 0.1, 0.2, 0.5, 1.0)
SPACE_SAMPLES = 2000
"""Samples of whole folds, at least, by which the space is chosen."""
_SHARPEST = 1000.0  # the largest scale of the probabilities


@dataclass(frozen=True, eq=False)
class TreeRidge:
    """A linear head from its sums: answers with probabilities, and embeddings ordered by the taxonomy.

    Attributes:
        moments: of the samples that it was solved from.
        taxonomy: of their labels.
        penalty: λ of the answers.
        scale: s of the probabilities softmax(s·F), from samples that the head has not seen.
        tree: how much the tree counts in embeddings, from 0 (classes are equal or different) to 1.
        instance: how much the vectors themselves count beside the classes in `expected_points`, from 0.
        similarity: likeness of classes, see `class_similarity`.
        classes: ``(c,)`` nodes that it answers.
        weight: ``(d, c)`` W.
        bias: ``(c,)`` b.
    """

    moments: Moments
    taxonomy: Taxonomy
    penalty: float
    scale: float
    tree: float
    instance: float
    similarity: Similarity
    classes: Tensor
    weight: Tensor
    bias: Tensor

    @classmethod
    def of(
        cls,
        moments: Moments,
        taxonomy: Taxonomy,
        *,
        penalty: float,
        scale: float,
        tree: float = 0.5,
        instance: float = 0.0,
        similarity: Similarity = "depth",
    ) -> TreeRidge:
        """Solve the head from sums, with settings that are given.

        Raises:
            DataError: if there are samples of fewer than two classes.
            ValueError: if a setting is out of range.
        """
        if penalty <= 0:
            raise ValueError(f"penalty is {penalty}; it must be above 0")
        if instance < 0:
            raise ValueError(f"instance is {instance}; it must not be below 0")
        classes = classes_with_samples(moments.labels, taxonomy)
        class_similarity(classes, taxonomy, similarity, tree)  # raises ValueError
        targets = class_targets(moments.labels, classes, taxonomy)
        weight, bias = RidgeSystem.of(moments, targets).solve(penalty)
        return cls(moments, taxonomy, penalty, scale, tree, instance, similarity, classes, weight, bias)

    def outputs(self, vectors: Tensor) -> Tensor:
        """F ``(n, c)``: what ridge regression gives for each class; each row sums to 1."""
        if vectors.ndim != 2 or vectors.shape[1] != len(self.weight):
            raise DataError(f"the head reads {len(self.weight)} numbers a sample, got {tuple(vectors.shape)}")
        return unit_rows(vectors) @ self.weight + self.bias

    def probabilities(self, vectors: Tensor) -> Tensor:
        """Probabilities ``(n, c)`` of the classes, softmax(s·F), with s fitted on the folds."""
        return (self.scale * self.outputs(vectors)).softmax(1)

    def predict(self, vectors: Tensor) -> Tensor:
        """The most probable class ``(n,)`` of each sample, as nodes."""
        return self.classes[self.outputs(vectors).argmax(1)]

    def embed(self, vectors: Tensor, *, tree: float | None = None) -> Tensor:
        """Linear embeddings ``(n, r)`` whose inner products are F·G·Fᵀ, with the classes' mean at the origin.

        Args:
            vectors: ``(n, d)``.
            tree: how much the tree counts, 0 to 1; None = as chosen. Nothing is solved anew.
        """
        return self.outputs(vectors) @ self._points(tree, centred=True)

    def expected_points(
        self, vectors: Tensor, *, tree: float | None = None, instance: float | None = None
    ) -> Tensor:
        """The posterior space ``(n, r)``: each sample at the mean of the class points by its probabilities.

        The inner product of two samples is then the expected likeness of their classes, pᵀ·G·q: the best
        order on average if the probabilities are right. It cannot tell samples of one class apart:
        ``instance`` puts the unit vectors beside it. Compare the points by cosine.

        Args:
            vectors: ``(n, d)``.
            tree: as in `embed`.
            instance: how much the vectors count beside the classes, from 0; None = as chosen.
        """
        weight = self.instance if instance is None else instance
        if weight < 0:
            raise ValueError(f"instance is {weight}; it must not be below 0")
        points = self.probabilities(vectors) @ self._points(tree, centred=False)
        return beside(points, unit_rows(vectors), weight)

    def add(self, vectors: Tensor, nodes: Tensor) -> TreeRidge:
        """The head with further samples, also of new classes, at the same settings; see `Moments.of`."""
        return self._solve(self.moments + Moments.of(vectors, nodes))

    def forget(self, vectors: Tensor, nodes: Tensor) -> TreeRidge:
        """The head of the samples without these, equal to one that has never seen them, at the same settings.

        Raises:
            DataError: if a label set would have fewer than no samples.
        """
        return self._solve(self.moments - Moments.of(vectors, nodes))

    def pool(self, *others: TreeRidge) -> TreeRidge:
        """The head of the samples of several heads, none of which moves; the settings are those of this one.

        Raises:
            DataError: if their taxonomies or dimensions differ.
        """
        moments = self.moments
        for other in others:
            if other.taxonomy != self.taxonomy:
                raise DataError("heads on different taxonomies cannot be pooled; bring them onto one first")
            moments = moments + other.moments
        return self._solve(moments)

    def on_taxonomy(self, taxonomy: Taxonomy, new_nodes: Tensor) -> TreeRidge:
        """The head after a change of the taxonomy, without any sample.

        Args:
            taxonomy: the new one.
            new_nodes: ``(num_nodes,)`` node of the new taxonomy for each old one, as
                `TaxonomyMapping.new_nodes` has it.
        """
        return replace(self, taxonomy=taxonomy)._solve(self.moments.relabel(new_nodes))

    def _solve(self, moments: Moments) -> TreeRidge:
        return TreeRidge.of(
            moments,
            self.taxonomy,
            penalty=self.penalty,
            scale=self.scale,
            tree=self.tree,
            instance=self.instance,
            similarity=self.similarity,
        )

    def _points(self, tree: float | None, *, centred: bool) -> Tensor:
        share = self.tree if tree is None else tree
        likeness = class_similarity(self.classes, self.taxonomy, self.similarity, share)
        return class_points(likeness, centred=centred)


def beside(points: Tensor, vectors: Tensor, weight: float) -> Tensor:
    """Points ``(n, r)`` with vectors ``(n, d)`` beside them, whose inner products count by the weight."""
    return torch.cat([points, math.sqrt(weight) * vectors], 1) if weight else points


@dataclass(frozen=True, eq=False)
class FoldOutputs:
    """What heads say of samples whose fold they have not seen.

    Attributes:
        rows: ``(m,)`` the samples with a label.
        folds: ``(m,)`` fold of each.
        outputs: ``(m, c)`` F of each, by the head without its fold.
        probabilities: ``(m, c)`` softmax(s·F).
        classes: ``(c,)`` nodes.
    """

    rows: Tensor
    folds: Tensor
    outputs: Tensor
    probabilities: Tensor
    classes: Tensor

    def pick(self, samples: Tensor) -> FoldOutputs:
        """Those of some samples, a mask ``(m,)``."""
        return FoldOutputs(
            self.rows[samples],
            self.folds[samples],
            self.outputs[samples],
            self.probabilities[samples],
            self.classes,
        )


def fit_tree_ridge(
    vectors: Tensor,
    nodes: Tensor,
    taxonomy: Taxonomy,
    *,
    groups: Tensor | None = None,
    tree: float | None = None,
    instance: float | None = None,
    similarity: Similarity | None = None,
    penalty: float | None = None,
    folds: int = 5,
    seed: int = 0,
) -> tuple[TreeRidge, FoldOutputs]:
    """Solve the ridge head of labelled vectors; what is not given is chosen by folds that it has not seen.

    λ and the scale of the probabilities have the least log loss over the folds. The space that is searched is
    judged by MAP@R within each held-out fold: the tree counts as much, and then the vectors as little, as
    keeps it within a standard error of the best.

    Args:
        vectors: ``(n, d)`` features of any encoder, brought to unit length one by one.
        nodes: ``(n,)`` labels, leaves or inner nodes, −1 where missing; or ``(n, k)`` several.
        taxonomy: of the labels.
        groups: ``(n,)`` samples of one group, such as a patient, are in one fold; −1 = a group by itself.
        tree: see `TreeRidge`; None = chosen.
        instance: see `TreeRidge`; None = chosen.
        similarity: None = chosen.
        penalty: λ; None = chosen.
        folds: number of folds, at least 2.
        seed: of the folds.

    Returns:
        The head, and what the folds say of each sample.

    Raises:
        DataError: if there are fewer than two classes, or groups than folds, or a vector is not finite.
        ValueError: if a setting is out of range.
    """
    labels, rows = clean_labels(vectors, nodes)
    moments = Moments.of(vectors[rows], labels)
    classes = classes_with_samples(labels, taxonomy)
    set_targets = class_targets(moments.labels, classes, taxonomy)
    place = torch.unique(labels, dim=0, return_inverse=True)[1]
    known = None if groups is None else groups[rows]
    fold = make_folds(labels[:, 0], taxonomy, folds, groups=known, seed=seed)
    penalties = PENALTIES if penalty is None else (penalty,)
    points = unit_rows(vectors[rows])
    outputs = outputs_of_folds(points, set_targets[place], fold, moments, set_targets, place, penalties)
    sure = (set_targets[place] == 1).any(1)  # one finest label: what log loss is about
    answer = set_targets[place][sure].argmax(1)
    scales = [_best_scale(one[sure], answer) for one in outputs]
    losses = [_log_loss(one[sure], answer, scale) for one, scale in zip(outputs, scales, strict=True)]
    best = int(np.argmin(losses))
    probabilities = (scales[best] * outputs[best]).softmax(1)
    out_of_fold = FoldOutputs(rows, fold, outputs[best], probabilities, classes)
    share, kind, weight = _choose_space(
        out_of_fold.pick(sure),
        points[sure],
        classes[answer],
        taxonomy,
        TREE_SHARES if tree is None else (tree,),
        SIMILARITIES if similarity is None else (similarity,),
        INSTANCES if instance is None else (instance,),
    )
    settings = {"penalty": penalties[best], "scale": scales[best], "tree": share, "instance": weight}
    return TreeRidge.of(moments, taxonomy, similarity=kind, **settings), out_of_fold


def _best_scale(outputs: Tensor, answer: Tensor) -> float:
    best = minimize_scalar(
        lambda log: _log_loss(outputs, answer, math.exp(log)),
        bounds=(0.0, math.log(_SHARPEST)),
        method="bounded",
        options={"xatol": 0.01},  # a hundredth of the scale
    )
    return math.exp(float(best.x))


def _log_loss(outputs: Tensor, answer: Tensor, scale: float) -> float:
    return float(torch.nn.functional.cross_entropy(scale * outputs, answer))


def _choose_space(
    seen: FoldOutputs,
    points: Tensor,
    nodes: Tensor,
    taxonomy: Taxonomy,
    shares: Sequence[float],
    kinds: Sequence[Similarity],
    instances: Sequence[float],
) -> tuple[float, Similarity, float]:
    """How much the tree counts, by which likeness, and how much the vectors count; see `fit_tree_ridge`.

    Args:
        seen: of the samples with one finest label, n of them.
        points: ``(n, d)`` their unit vectors.
        nodes: ``(n,)`` their labels.
        taxonomy: of the labels.
        shares: of the tree, to choose from.
        kinds: of likeness, to choose from.
        instances: weights of the vectors, to choose from.
    """
    folds = _folds_of_samples(seen.folds, SPACE_SAMPLES)

    def precision(share: float, kind: Similarity, instance: float) -> Tensor:
        of_classes = class_points(class_similarity(seen.classes, taxonomy, kind, share), centred=False)
        space = beside(seen.probabilities @ of_classes, points, instance).float()
        parts = [map_at_r(space[rows], nodes[rows], taxonomy=taxonomy, reduction="none") for rows in folds]
        return torch.cat(parts).double()

    tried = [(share, kind, instances[0]) for kind in kinds for share in shares]
    share, kind, _ = _level_with_best(tried, precision)[-1] if len(tried) > 1 else tried[0]
    further = [(share, kind, instance) for instance in instances]
    return _level_with_best(further, precision)[0] if len(further) > 1 else further[0]


def _folds_of_samples(folds: Tensor, enough: int) -> list[Tensor]:
    """Rows of the first folds that have enough samples together, of all if they have fewer."""
    chosen: list[Tensor] = []
    for fold in range(int(folds.max()) + 1):
        if sum(map(len, chosen)) < enough:
            chosen.append((folds == fold).nonzero()[:, 0])
    return chosen


def _level_with_best(
    tried: Sequence[tuple[float, Similarity, float]], measure: Callable[[float, Similarity, float], Tensor]
) -> list[tuple[float, Similarity, float]]:
    """The settings, ascending, whose mean is within a standard error (of the difference) of the greatest."""
    values = {settings: measure(*settings) for settings in tried}
    best = max(values, key=lambda settings: float(values[settings].nanmean()))
    level = []
    for settings, each in values.items():
        behind = (values[best] - each)[~each.isnan()]
        error = float(behind.std()) / math.sqrt(len(behind)) if len(behind) > 1 else math.inf
        if settings == best or float(behind.mean()) <= error:
            level.append(settings)
    return sorted(level, key=lambda settings: (settings[0], settings[2], float(values[settings].nanmean())))

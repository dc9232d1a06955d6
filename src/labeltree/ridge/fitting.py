"""Fits the ridge head: what is not given is chosen by folds that it has not seen."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.checks import check_integer
from labeltree.data.stratified import make_folds
from labeltree.decisions.calibrators import best_temperature, fit_calibrator
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.decisions.conformal import group_codes
from labeltree.errors import DataError
from labeltree.geometry.fourier_features import draw_frequencies, unit_points
from labeltree.ridge.folds import HeldOutFolds, HeldOutSamples
from labeltree.ridge.moments import Moments, clean_labels
from labeltree.ridge.solution import class_targets
from labeltree.ridge.tree_ridge import (
    INSTANCE,
    TREE,
    Nonlinear,
    TreeRidge,
    check_nonlinear,
    check_settings,
    no_calibration,
)
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.check_nodes import as_nodes
from labeltree.taxonomy.class_similarity import Similarity
from labeltree.taxonomy.label_sets import distinct_labels

__all__ = ["FOURIER_FEATURES", "PENALTIES", "FoldOutputs", "fit_tree_ridge", "single_labels"]

PENALTIES = tuple(10.0 ** (step / 2) for step in range(-6, 5))
"""The λ that are tried, from 0.001 to 100 (of vectors of unit length)."""
FOURIER_FEATURES = 4096
"""Features of a nonlinear head, if no number is given."""
CALIBRATION_SAMPLES = 2000
"""Samples of whole folds, at least, to which slopes and offsets of the classes are fitted."""
_BLOCKS = 5  # of folds, at most, that are calibrated on the others
_NUMBERS = 2**20  # whose exponentials are summed at once


@dataclass(frozen=True, eq=False)
class FoldOutputs:
    """What heads say of samples whose fold they have not seen.

    Attributes:
        rows: `(m,)` the samples with a label.
        labels: `(m,)` label of each, −1 where it has several that do not lie above one another.
        folds: `(m,)` fold of each.
        outputs: `(m, c)` F of each, by the head without its fold.
        probabilities: `(m, c)` of each, calibrated on the outputs of the other folds.
        classes: `(c,)` nodes.
    """

    rows: Tensor
    labels: Tensor
    folds: Tensor
    outputs: Tensor
    probabilities: Tensor
    classes: Tensor

    @property
    def log_loss(self) -> float:
        """The mean log loss of the samples whose only label is a class."""
        return float(self.losses.nanmean())

    @property
    def losses(self) -> Tensor:
        """The log loss `(m,)` of each sample whose only label is a class; NaN for the others."""
        ascending, order = self.classes.sort()
        at = order[torch.searchsorted(ascending, self.labels).clamp_max(len(order) - 1)]
        losses = _losses(self.probabilities, at)
        return losses.masked_fill(self.classes[at] != self.labels, torch.nan)

    def of_all(self, count: int, order: Tensor) -> FoldOutputs:
        """The same with a place for each of `count` samples, also for those without a label.

        Args:
            count: Number of samples; those that are not in `rows` get NaN, and −1 as label and fold.
            order: `(c,)` places of the classes in the order that they are to have.
        """

        def spread(values: Tensor, missing: float) -> Tensor:
            every = torch.full((count, *values.shape[1:]), missing, dtype=values.dtype)
            every[self.rows] = values
            return every

        return FoldOutputs(
            self.rows,
            spread(self.labels, -1),
            spread(self.folds, -1),
            spread(self.outputs[:, order], torch.nan),
            spread(self.probabilities[:, order], torch.nan),
            self.classes[order],
        )


def fit_tree_ridge(
    vectors: Tensor,
    nodes: Tensor,
    taxonomy: Taxonomy,
    *,
    groups: Tensor | None = None,
    tree: float = TREE,
    instance: float = INSTANCE,
    similarity: Similarity = "depth",
    penalty: float | None = None,
    nonlinear: Nonlinear = "never",
    folds: int = 5,
    seed: int = 0,
    held: tuple[Tensor, Tensor] | None = None,
    moments: Moments | None = None,
    slopes: bool = True,
) -> tuple[TreeRidge, FoldOutputs]:
    """Solve the ridge head of labelled vectors, with λ and calibration by folds that it has not seen.

    λ and the scale of the probabilities have the least log loss over the folds; a slope and an offset of each
    class are then fitted to the same outputs, see `fit_calibrator`, if those of the other folds lower the log
    loss of each.

    Args:
        vectors: `(n, d)` features of any encoder, brought to unit length one by one.
        nodes: `(n,)` labels, leaves or inner nodes, −1 where missing; or `(n, k)` several.
        taxonomy: Of the labels.
        groups: `(n,)` samples of one group, such as a patient, are in one fold; −1 = of no known group, the
            sample is one by itself.
        tree: See `TreeRidge`.
        instance: See `TreeRidge`.
        similarity: See `TreeRidge`.
        penalty: λ; None = chosen.
        nonlinear: Whether the head reads random Fourier features of the vectors at unit length, for the
            Gaussian kernel of bandwidth 1: `never`, `always` (`FOURIER_FEATURES` of them), or their number;
            `auto`: if the log loss over the folds is then lower by more than one standard error.
        folds: Number of folds, from 2 to the number of groups that have labelled samples.
        seed: Of the folds.
        held: Vectors `(m, d)` and labels of other samples, by which λ and calibration are chosen instead;
            where the encoder was trained on the samples, folds of them say nothing of new ones.
        moments: Of these samples, or of their Fourier features, if they are known; not with `auto`.
        slopes: Whether slopes and offsets may be fitted.

    Returns:
        The head, and what heads that have not seen them say of the samples of the folds, or of those held.

    Raises:
        DataError: If there are fewer than two classes, or groups than folds, no sample has a class as its
            only label, a vector is not finite, shapes differ, or the penalty is too small for the equations
            to have a solution.
        TaxonomyError: If a label is no node.
        ValueError: If a setting is out of range.
    """
    check_nonlinear(nonlinear)
    check_settings(tree=tree, instance=instance, similarity=similarity)
    if penalty is not None:
        check_settings(penalty=penalty)
    check_integer("folds", folds, 2)
    check_integer("seed", seed, 0)
    if groups is not None and (len(groups) != len(vectors) or groups.is_floating_point()):
        raise DataError(
            f"groups must be one integer for each of the {len(vectors)} vectors, -1 where unknown; got "
            f"{len(groups)} of {groups.dtype}"
        )
    if nonlinear == "auto":
        linear, curved = (
            fit_tree_ridge(
                vectors,
                nodes,
                taxonomy,
                groups=groups,
                tree=tree,
                instance=instance,
                similarity=similarity,
                penalty=penalty,
                nonlinear=each,
                folds=folds,
                seed=seed,
                held=held,
                slopes=slopes,
            )
            for each in (0, FOURIER_FEATURES)
        )
        return curved if _pays(linear[1], curved[1], None if held is not None else groups) else linear
    labels, rows = clean_labels(vectors, as_nodes(nodes, taxonomy.num_nodes))
    sets, place = torch.unique(labels, dim=0, return_inverse=True)
    classes, set_targets = class_targets(sets, taxonomy)
    count = {"never": 0, "always": FOURIER_FEATURES}.get(str(nonlinear), nonlinear)
    frequencies = draw_frequencies(vectors.shape[1], int(count)) if count else None
    points = unit_points(vectors[rows], frequencies)
    if moments is None:
        moments = Moments.of_units(points, place, sets)
    if held is not None:
        labels, rows = clean_labels(held[0], as_nodes(held[1], taxonomy.num_nodes))
    single = single_labels(labels, taxonomy)
    judged = ClassNodes(classes, taxonomy).judges(single)
    if not bool(judged.any()):
        raise DataError("no sample has a class as its only label; give some samples one, at its finest")
    known = None if groups is None or held is not None else groups[rows]
    fold = make_folds(labels[:, 0], taxonomy, int(folds), groups=known, seed=int(seed))
    held_out: HeldOutFolds | HeldOutSamples = (
        HeldOutFolds(points, place, fold, moments, set_targets)
        if held is None
        else HeldOutSamples(unit_points(held[0][rows], frequencies), moments, set_targets)
    )
    answers = torch.searchsorted(classes, single[judged])
    penalties = PENALTIES if penalty is None else (float(penalty),)
    chosen, scale, outputs = _choose_penalty(held_out, penalties, judged, answers)
    seen = FoldOutputs(rows, single, fold, outputs, torch.empty(0), classes)
    calibration, probabilities = no_calibration(taxonomy), (scale * outputs).softmax(1)
    if slopes:
        calibration, probabilities = _calibrate(scale, seen, taxonomy, judged, answers)
    seen = FoldOutputs(rows, single, fold, outputs, probabilities, classes)
    head = TreeRidge.of(
        moments,
        taxonomy,
        penalty=chosen,
        scale=scale,
        calibration=calibration,
        tree=tree,
        instance=instance,
        similarity=similarity,
        frequencies=frequencies,
    )
    return head, seen


def _pays(simple: FoldOutputs, other: FoldOutputs, groups: Tensor | None) -> bool:
    """Whether the log loss over the same folds is lower by more than the standard error of the difference.

    Args:
        simple: What one head says.
        other: What another one says of the same samples.
        groups: `(n,)` of all samples that were given, the units of the standard error; None = each sample is.
    """
    gains = simple.losses - other.losses
    judged = ~gains.isnan()
    codes = group_codes(None if groups is None else groups[simple.rows], len(gains))[judged]
    gains = gains[judged]
    mean = gains.mean()
    sums = torch.zeros(int(codes.max()) + 1, dtype=torch.float64).index_add_(0, codes, gains - mean)
    return bool(mean > sums.norm() / len(gains))


def single_labels(labels: Tensor, taxonomy: Taxonomy) -> Tensor:
    """The label `(m,)` of samples with label sets `(m, k)`, −1 for those with several."""
    sets = distinct_labels(labels, taxonomy)
    return torch.where((sets >= 0).sum(1) == 1, sets[:, 0], -1)


def _choose_penalty(
    held_out: HeldOutFolds | HeldOutSamples, penalties: tuple[float, ...], judged: Tensor, answers: Tensor
) -> tuple[float, float, Tensor]:
    """The λ and the scale with the least log loss, and the outputs `(m, c)` at this λ.

    Args:
        held_out: Heads that have not seen a fold.
        penalties: To choose from.
        judged: `(m,)` samples that count, none but those with a class as their only label.
        answers: The column of each of these classes.
    """
    best: tuple[float, float, float, Tensor] | None = None
    for penalty in penalties:
        outputs = held_out.outputs(penalty)
        counted = outputs if bool(judged.all()) else outputs[judged]
        scale, loss = _best_scale(counted, answers)
        if best is None or loss < best[0]:
            best = loss, penalty, scale, outputs
    assert best is not None
    return best[1:]


def _best_scale(outputs: Tensor, answers: Tensor) -> tuple[float, float]:
    """The scale with the least log loss, between 1/1000 and 1000, and this loss."""

    largest = outputs.amax(1, keepdim=True)
    behind = outputs - largest
    missed = float((largest - outputs.gather(1, answers[:, None])).sum())
    parts = torch.split(behind, max(1, _NUMBERS // outputs.shape[1]))
    space = torch.empty_like(parts[0])

    def loss(temperature: float) -> float:
        sums = [
            torch.mul(part, 1 / temperature, out=space[: len(part)]).exp_().sum(1).log_().sum()
            for part in parts
        ]
        return (float(torch.stack(sums).sum()) + missed / temperature) / len(answers)

    temperature = best_temperature(loss, tolerance=0.01)  # a hundredth of the scale
    return 1 / temperature, loss(temperature)


def _calibrate(
    scale: float, seen: FoldOutputs, taxonomy: Taxonomy, judged: Tensor, answers: Tensor
) -> tuple[Tensor, Tensor]:
    """Slopes and offsets as `TreeRidge.calibration` has them, and probabilities `(m, c)` of the samples.

    The probabilities of a fold are calibrated on other folds, so that they have not seen its labels. If their
    log loss is not below that of the scale alone, there are no slopes and offsets.

    Args:
        scale: Of the outputs.
        seen: What the folds say, without probabilities.
        taxonomy: Of the labels.
        judged: See `_choose_penalty`.
        answers: See `_choose_penalty`.
    """
    classes = ClassNodes(seen.classes, taxonomy)
    blocks = seen.folds % _BLOCKS
    probabilities = torch.empty_like(seen.outputs)
    for block in sorted(set(blocks.tolist())):
        rows = (blocks == block).nonzero()[:, 0]
        others = (blocks != block).nonzero()[:, 0]
        slopes = _fit_slopes(scale, seen, others, classes)
        logits = (scale * seen.outputs[rows]).log_softmax(1)
        probabilities[rows] = (logits * slopes[:, 0] + slopes[:, 1]).softmax(1)
    calibration = no_calibration(taxonomy)
    by_scale = (scale * seen.outputs).softmax(1)
    if _log_loss(by_scale[judged], answers) <= _log_loss(probabilities[judged], answers):
        return calibration, by_scale
    calibration[seen.classes] = _fit_slopes(scale, seen, torch.arange(len(seen.rows)), classes)
    return calibration, probabilities


def _log_loss(probabilities: Tensor, answers: Tensor) -> float:
    return float(_losses(probabilities, answers).mean())


def _losses(probabilities: Tensor, answers: Tensor) -> Tensor:
    return -probabilities.gather(1, answers[:, None])[:, 0].clamp_min(1e-300).log()


def _fit_slopes(scale: float, seen: FoldOutputs, rows: Tensor, classes: ClassNodes) -> Tensor:
    """Slope and offset `(c, 2)` of each class, fitted to samples of the first folds among the rows."""
    chosen = rows[torch.cat(rows_of_first_folds(seen.folds[rows], CALIBRATION_SAMPLES))]
    calibrator = fit_calibrator(
        scale * seen.outputs[chosen], seen.labels[chosen], classes, "vector", quick=True
    )
    if calibrator.kind == "none":  # no label among them
        return torch.tensor([1.0, 0.0], dtype=torch.float64).repeat(len(classes), 1)
    return torch.tensor([calibrator.slopes, calibrator.offsets], dtype=torch.float64).T


def rows_of_first_folds(folds: Tensor, enough: int) -> list[Tensor]:
    """Rows of each of the first folds that have enough samples together, of all if they have fewer."""
    chosen: list[Tensor] = []
    for fold in sorted(set(folds.tolist())):
        if sum(map(len, chosen)) < enough:
            chosen.append((folds == fold).nonzero()[:, 0])
    return chosen

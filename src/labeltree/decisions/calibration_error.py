"""Calibration error at every depth, and a held-out check that a calibrator lowers it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from scipy.stats import binom
from torch import Tensor

from labeltree.decisions.calibrators import Calibration, fit_calibrator
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.decisions.conformal import group_codes
from labeltree.metrics.metric_checks import check_nodes, check_positive, check_same_length
from labeltree.taxonomy import AnyTaxonomy, Taxonomy
from labeltree.taxonomy.dag import check_tree
from labeltree.taxonomy.label_sets import shared_depth

__all__ = [
    "LEAST_SAMPLES",
    "CalibrationCheck",
    "DepthCalibration",
    "Reliability",
    "SampleCalibration",
    "calibration_by_depth",
    "check_calibration",
    "expected_calibration_error",
]


@dataclass(frozen=True)
class Reliability:
    """A reliability curve: confidence and accuracy in bins of about equally many samples.

    Attributes:
        confidence: (B,) mean probability of the answers in each bin, ascending.
        accuracy: (B,) share of right answers in each bin.
        count: (B,) number of samples in each bin.
    """

    confidence: Tensor
    accuracy: Tensor
    count: Tensor

    @property
    def error(self) -> float:
        """The expected calibration error: mean of |accuracy − confidence| over the samples."""
        gaps = (self.accuracy - self.confidence).abs()
        return float((self.count * gaps).sum() / self.count.sum())

    @property
    def by_chance(self) -> float:
        """The error that perfectly calibrated answers have on average, as so few samples are measured.

        Each bin is taken for a binomial variable X of its n samples and its mean confidence p, whose mean
        deviation E|X − n p| is 2 k (1 − p) P(X = k) with k = ⌊n p⌋ + 1 (De Moivre 1730). Samples that vary
        within a bin deviate a little less, samples that are alike in groups more.
        """
        n, p = self.count.numpy(), self.confidence.numpy().clip(0, 1)
        k = np.floor(n * p) + 1
        return float((2 * k * (1 - p) * binom.pmf(k, n, p)).sum() / n.sum()) if n.sum() else math.nan


@dataclass(frozen=True)
class DepthCalibration:
    """Calibration at one depth, over the samples whose label is fine enough for this depth.

    If there are no such samples, or all classes share one node (which then has probability 1), all values
    except the number of samples are NaN, and the curve is empty.

    Attributes:
        samples: Number of samples.
        accuracy: Accuracy of the most probable node.
        confidence: Mean probability of the most probable node.
        error: Expected calibration error, see `Reliability`.
        brier: Mean over samples of Σ_v (p_v − [v is the truth])², in [0, 2], over the nodes of the depth.
        nll: Mean of −log p(truth).
        curve: The reliability curve.
        of_samples: The values of each sample; None where calibration is not defined.
    """

    samples: int
    accuracy: float
    confidence: float
    error: float
    brier: float
    nll: float
    curve: Reliability
    of_samples: SampleCalibration | None = None

    @property
    def by_chance(self) -> float:
        """The `error` that perfectly calibrated answers have on average, see `Reliability`."""
        return self.curve.by_chance


class SampleCalibration(NamedTuple):
    """Answer and log-likelihood at one depth for each sample whose label is fine enough for this depth.

    Attributes:
        rows: (m,) indices of the samples.
        confidence: (m,) probability of the answer.
        right: (m,) bool, True where the answer is right.
        nll: (m,) −log p(truth).
    """

    rows: Tensor
    confidence: Tensor
    right: Tensor
    nll: Tensor


def expected_calibration_error(confidence: Tensor, correct: Tensor, bins: int = 15) -> Reliability:
    """Sort answers into bins by confidence, equally many in each (Nguyen & O'Connor 2015).

    With bins of equal width, most bins of a confident classifier would be nearly empty (Nixon et al. 2019).
    Answers of equal confidence share the bin in which the first of them falls, so their order does not
    matter.

    Args:
        confidence: (n,) probabilities of the answers.
        correct: (n,) bool, True where the answer is right.
        bins: Maximum number of bins.

    Example:
        >>> import torch
        >>> sure = torch.tensor([0.5, 0.5, 0.9, 0.9])
        >>> round(expected_calibration_error(sure, torch.tensor([1, 0, 1, 1]).bool(), bins=2).error, 3)
        0.05
    """
    check_positive("bins", bins)
    check_same_length("confidence", confidence, "correct", correct)
    sorted_confidence, order = confidence.double().sort(stable=True)
    n = len(order)
    if not n:
        nothing = torch.zeros(0, dtype=torch.float64)
        return Reliability(nothing, nothing, torch.zeros(0, dtype=torch.int64))
    first = torch.searchsorted(sorted_confidence, sorted_confidence)
    _, inverse, count = torch.unique(first * min(bins, n) // n, return_inverse=True, return_counts=True)
    sums = torch.zeros(2, len(count), dtype=torch.float64)
    sums[0].index_add_(0, inverse, sorted_confidence)
    sums[1].index_add_(0, inverse, correct[order].double())
    return Reliability(sums[0] / count, sums[1] / count, count)


def calibration_by_depth(
    node_probabilities: Tensor,
    labels: Tensor,
    taxonomy: AnyTaxonomy,
    bins: int = 15,
    *,
    classes: Tensor | None = None,
) -> list[DepthCalibration]:
    """Calibration at depth 1 … L.

    The answer at a depth is the most probable node there (ties go to the first); a leaf above that depth
    counts as its own node at the depth. Samples whose label is too coarse for a depth are left out there.

    Args:
        node_probabilities: (n, N), see `ClassNodes.node_probabilities`.
        labels: (n,) nodes, -1 where missing.
        taxonomy: a tree.
        bins: Number of bins of the reliability curves.
        classes: (C,) nodes that the classifier distinguishes; None: all leaves.

    Raises:
        ValueError: For wrong shapes, or labels or classes outside the taxonomy.
        TaxonomyError: For a DAG.
    """
    tree = check_tree("calibration by depth", taxonomy)
    check_nodes("labels", labels, tree)
    check_same_length("node_probabilities", node_probabilities, "labels", labels)
    if node_probabilities.ndim != 2 or node_probabilities.shape[1] != tree.num_nodes:
        raise ValueError(
            f"node_probabilities has shape {tuple(node_probabilities.shape)}; expected "
            f"(n, {tree.num_nodes}), a column a node"
        )
    told_apart = tree.leaves if classes is None else classes
    check_nodes("classes", told_apart, tree)
    shared = shared_depth(told_apart, tree)
    calibrations = []
    for depth, paths in enumerate(tree.paths.unbind(1), start=1):
        truth = torch.where(labels >= 0, paths[labels.clamp(min=0)], -1)
        decided = truth >= 0
        nodes = torch.unique(paths[paths >= 0])
        if depth <= shared or not bool(decided.any()):
            calibrations.append(_undefined(int(decided.sum())))
            continue
        p, truth = node_probabilities[decided][:, nodes].double(), truth[decided]
        calibrations.append(
            _calibration_of(p, torch.searchsorted(nodes, truth), bins, decided.nonzero()[:, 0])
        )
    return calibrations


def _undefined(samples: int) -> DepthCalibration:
    none, nothing = float("nan"), torch.zeros(0)
    curve = expected_calibration_error(nothing, nothing.bool())
    return DepthCalibration(samples, none, none, none, none, none, curve)


def _calibration_of(p: Tensor, truth: Tensor, bins: int, rows: Tensor | None = None) -> DepthCalibration:
    """Calibration of probabilities (m, U) of mutually exclusive nodes; truth (m,) is the true column."""
    confidence, answer = p.max(1)
    correct = answer == truth
    of_truth = p.gather(1, truth[:, None])[:, 0]
    brier = p.square().sum(1) - 2 * of_truth + 1
    curve = expected_calibration_error(confidence, correct, bins)
    rows = torch.arange(len(p)) if rows is None else rows
    nll = -of_truth.clamp(min=1e-300).log()
    return DepthCalibration(
        samples=len(p),
        accuracy=float(correct.double().mean()),
        confidence=float(confidence.mean()),
        error=curve.error,
        brier=float(brier.mean()),
        nll=float(nll.mean()),
        curve=curve,
        of_samples=SampleCalibration(rows, confidence, correct, nll),
    )


LEAST_SAMPLES = 30
"""With fewer samples nobody can tell whether a calibration helps: it is not applied."""

_FOLDS = 5
_PER_BIN = 20  # a reliability curve whose bins have few samples finds errors where there are none
_BINS = 15
_WORDS: dict[Calibration, str] = {
    "none": "none",
    "temperature": "a temperature",
    "vector": "a slope and an offset a class",
    "depth": "a temperature a depth",
}


@dataclass(frozen=True)
class CalibrationCheck:
    """The result of a cross-validated check of a calibration.

    Attributes:
        asked: The requested calibration.
        applied: True if the calibration is used.
        samples: Number of samples in the check.
        before: Calibration at each depth without the calibration; empty if there was no check.
        after: Calibration at each depth with it, each sample calibrated by a fit to the other folds.
    """

    asked: Calibration
    applied: bool
    samples: int
    before: list[DepthCalibration] = field(default_factory=list)
    after: list[DepthCalibration] = field(default_factory=list)

    @property
    def errors(self) -> tuple[float, float]:
        """Calibration error before and after, mean over depths; NaN if there was no check."""
        return _mean_of(self.before, "error"), _mean_of(self.after, "error")

    @property
    def sentence(self) -> str:
        """One sentence: whether the calibration is applied, and why."""
        if self.asked == "none":
            return "Probabilities are those of the classifier as they are: no calibration was asked for."
        what = f"calibration by {_WORDS[self.asked]}"
        if not self.before and self.samples >= LEAST_SAMPLES:
            return (
                f"The {what} is not applied: it cannot be tried where all samples are of one class or group."
            )
        if not self.before:
            return (
                f"The {what} is not applied: {self.samples} labelled samples fall to it, and fewer than "
                f"{LEAST_SAMPLES} cannot tell whether it helps."
            )
        before, after = self.errors
        moved = f"the mean calibration error over depths from {before:.4f} to {after:.4f}"
        where = f"on {self.samples} held-out calibration samples"
        chance = _mean_of(self.after, "by_chance")
        perfect = f"Perfectly calibrated probabilities have {chance:.4f} on so many samples."
        if self.applied:
            return f"The {what} is applied: {where} it brings {moved}. {perfect}"
        return f"The {what} is not applied: {where} it would raise {moved}. {perfect}"

    def to_dict(self) -> dict[str, Any]:
        """The check as a JSON-serialisable dictionary."""
        before, after = self.errors
        return {
            "asked": self.asked,
            "applied": self.applied,
            "held_out_samples": self.samples,
            "error_before": before,
            "error_after": after,
            "error_by_chance": _mean_of(self.after, "by_chance"),
            "sentence": self.sentence,
        }


def check_calibration(
    scores: Tensor,
    labels: Tensor,
    classes: ClassNodes,
    kind: Calibration,
    *,
    groups: Tensor | None = None,
    seed: int = 0,
) -> CalibrationCheck:
    """Check a calibration by cross-validation, with five folds if there are enough groups.

    The calibration is applied unless it makes the expected calibration error on held-out samples larger. The
    error is the mean over the depths of the tree; on a DAG, the error of the most probable class.

    Args:
        scores: Class scores `(n, C)`, of samples that the classifier was not trained on.
        labels: `(n,)` nodes, −1 where missing.
        classes: Classes of the scores.
        kind: Kind of the calibration.
        groups: `(n,)` group ids; folds do not split groups, see `group_codes`.
        seed: Random seed of the folds.
    """
    decides = (labels >= 0) & (classes.counts[labels.clamp(min=0)] > 0)
    codes = group_codes(groups, len(labels))
    folds = min(_FOLDS, len(torch.unique(codes[decides])))
    count = int(decides.sum())
    if kind == "none" or count < LEAST_SAMPLES or folds < 2 or len(classes) < 2:
        return CalibrationCheck(kind, False, count)
    place = torch.empty(int(codes.max()) + 1, dtype=torch.int64)
    place[torch.randperm(len(place), generator=torch.Generator().manual_seed(seed))] = (
        torch.arange(len(place)) % folds
    )
    fold = place[codes]
    raw = torch.softmax(scores.double(), 1)
    tried = raw.clone()
    for number in range(folds):
        rows = fold == number
        if bool(rows.any()):
            fitted = fit_calibrator(scores[~rows], labels[~rows], classes, kind)
            tried[rows] = fitted(scores[rows], classes).exp()
    bins = max(1, min(_BINS, count // _PER_BIN))
    before, after = (_calibrate_depths(p[decides], labels[decides], classes, bins) for p in (raw, tried))
    worse = _mean_of(after, "error") > _mean_of(before, "error")
    return CalibrationCheck(kind, not worse, count, before, after)


def _calibrate_depths(p: Tensor, labels: Tensor, classes: ClassNodes, bins: int) -> list[DepthCalibration]:
    if isinstance(classes.taxonomy, Taxonomy):
        return calibration_by_depth(
            classes.node_probabilities(p), labels, classes.taxonomy, bins, classes=classes.nodes
        )
    column = classes.place[labels]
    return [_calibration_of(p[column >= 0], column[column >= 0], bins)]


def _mean_of(depths: list[DepthCalibration], name: Literal["error", "by_chance"]) -> float:
    values = [value for depth in depths if not math.isnan(value := getattr(depth, name))]
    return sum(values) / len(values) if values else math.nan

"""How far probabilities are from the share of right answers: calibration error, at every depth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import binom
from torch import Tensor

from labeltree.metrics.metric_checks import check_nodes, check_positive, check_same_length
from labeltree.taxonomy import AnyTaxonomy
from labeltree.taxonomy.dag import check_tree
from labeltree.taxonomy.label_sets import shared_depth

__all__ = [
    "DepthCalibration",
    "Reliability",
    "SampleCalibration",
    "calibration_by_depth",
    "expected_calibration_error",
    "measure_calibration",
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
    _, inverse, count = torch.unique(first * bins // n, return_inverse=True, return_counts=True)
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
        truth = paths[labels.clamp(min=0)]  # of the root, as of a missing label, -1
        decided = truth >= 0
        nodes = torch.unique(paths[paths >= 0])
        if depth <= shared or not bool(decided.any()):
            calibrations.append(_undefined(int(decided.sum())))
            continue
        p, truth = node_probabilities[decided][:, nodes].double(), truth[decided]
        calibrations.append(
            measure_calibration(p, torch.searchsorted(nodes, truth), bins, decided.nonzero()[:, 0])
        )
    return calibrations


def _undefined(samples: int) -> DepthCalibration:
    none, nothing = float("nan"), torch.zeros(0)
    curve = expected_calibration_error(nothing, nothing.bool())
    return DepthCalibration(samples, none, none, none, none, none, curve)


def measure_calibration(p: Tensor, truth: Tensor, bins: int, rows: Tensor | None = None) -> DepthCalibration:
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

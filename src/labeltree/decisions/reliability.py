"""Whether probabilities mean what they say, at every depth."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.metrics.checks import check_nodes, check_positive, check_same_length, check_tree
from labeltree.taxonomy import AnyTaxonomy
from labeltree.taxonomy.shared_depths import shared_depth

__all__ = ["DepthCalibration", "Reliability", "calibration_by_depth", "expected_calibration_error"]


@dataclass(frozen=True)
class Reliability:
    """A reliability curve: what was claimed and what came true, in bins of about equally many samples.

    Attributes:
        confidence: (B,) mean probability of the answers in each bin, rising.
        accuracy: (B,) share of them that are right.
        count: (B,) samples.
    """

    confidence: Tensor
    accuracy: Tensor
    count: Tensor

    @property
    def error(self) -> float:
        """The expected calibration error: mean of |accuracy − confidence| over the samples."""
        gaps = (self.accuracy - self.confidence).abs()
        return float((self.count * gaps).sum() / self.count.sum())


@dataclass(frozen=True)
class DepthCalibration:
    """Calibration at one depth, of samples whose label decides it.

    All but the number of samples is NaN, and the curve empty, where there is none of them, and where all
    classes share one node: its probability is 1, and nothing can be wrong.

    Attributes:
        samples: how many.
        accuracy: of the most probable node.
        confidence: mean probability of it.
        error: expected calibration error, see `Reliability`.
        brier: mean over samples of Σ_v (p_v − [v is the truth])², in [0, 2], over the nodes of the depth.
        nll: mean of −log p(truth).
        curve: the bins.
    """

    samples: int
    accuracy: float
    confidence: float
    error: float
    brier: float
    nll: float
    curve: Reliability


def expected_calibration_error(confidence: Tensor, correct: Tensor, bins: int = 15) -> Reliability:
    """Sort answers into bins by confidence, equally many in each (Nguyen & O'Connor 2015).

    Bins of equal width leave most of them nearly empty where a classifier is sure (Nixon et al. 2019).
    Answers of equal confidence share the bin in which the first of them falls, so their order does not
    matter.

    Args:
        confidence: (n,) probabilities.
        correct: (n,) bool.
        bins: at most this many.

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

    The answer at a depth is the most probable node there, of equals the first; a leaf above that depth stands
    for itself. Labels too coarse for a depth are left out of it.

    Args:
        node_probabilities: (n, N), see `ClassNodes.node_probabilities`.
        labels: (n,) nodes, -1 where missing.
        taxonomy: a tree.
        bins: of the reliability curves.
        classes: (C,) the nodes that were told apart; None: all leaves.

    Raises:
        ValueError: for wrong shapes, or labels or classes outside the taxonomy.
        TaxonomyError: for a DAG.
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
    found = []
    for depth, paths in enumerate(tree.paths.unbind(1), start=1):
        truth = torch.where(labels >= 0, paths[labels.clamp(min=0)], -1)
        decided = truth >= 0
        nodes = torch.unique(paths[paths >= 0])
        if depth <= shared or not bool(decided.any()):
            found.append(_undefined(int(decided.sum())))
            continue
        p, truth = node_probabilities[decided][:, nodes].double(), truth[decided]
        found.append(_at_depth(p, torch.searchsorted(nodes, truth), bins))
    return found


def _undefined(samples: int) -> DepthCalibration:
    none, nothing = float("nan"), torch.zeros(0)
    curve = expected_calibration_error(nothing, nothing.bool())
    return DepthCalibration(samples, none, none, none, none, none, curve)


def _at_depth(p: Tensor, truth: Tensor, bins: int) -> DepthCalibration:
    """Calibration of probabilities (m, U) of the nodes of a depth, with the truth's column (m,)."""
    confidence, answer = p.max(1)
    correct = answer == truth
    of_truth = p.gather(1, truth[:, None])[:, 0]
    brier = p.square().sum(1) - 2 * of_truth + 1
    curve = expected_calibration_error(confidence, correct, bins)
    return DepthCalibration(
        samples=len(p),
        accuracy=float(correct.double().mean()),
        confidence=float(confidence.mean()),
        error=curve.error,
        brier=float(brier.mean()),
        nll=float(-of_truth.clamp(min=1e-300).log().mean()),
        curve=curve,
    )

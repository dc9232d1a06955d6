"""Whether a calibration helps: tried on samples that it was not fitted to, and left out where it does not."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from labeltree.decisions.calibrators import Calibration, fit_calibrator
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.decisions.grouping import group_codes
from labeltree.decisions.reliability import DepthCalibration, calibration_by_depth, expected_calibration_error
from labeltree.taxonomy import Taxonomy

__all__ = ["LEAST_SAMPLES", "CalibrationCheck", "check_calibration"]

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
    """What came of trying a calibration on held-out calibration samples.

    Attributes:
        asked: the calibration that was asked for.
        applied: whether the probabilities are calibrated by it.
        samples: how many it was tried on.
        before: calibration at each depth of the probabilities as the classifier gives them; empty where it
            was not tried.
        after: the same with the calibration, each sample's by one that was fitted to other folds.
    """

    asked: Calibration
    applied: bool
    samples: int
    before: list[DepthCalibration] = field(default_factory=list)
    after: list[DepthCalibration] = field(default_factory=list)

    @property
    def errors(self) -> tuple[float, float]:
        """The calibration error before and after, a mean over depths; NaN where it was not tried."""
        return _mean_error(self.before), _mean_error(self.after)

    @property
    def sentence(self) -> str:
        """One sentence for people: applied or not, and why."""
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
        if self.applied:
            return f"The {what} is applied: {where} it brings {moved}."
        return f"The {what} is not applied: {where} it would raise {moved}."

    def to_dict(self) -> dict[str, Any]:
        """What JSON can hold."""
        before, after = self.errors
        return {
            "asked": self.asked,
            "applied": self.applied,
            "held_out_samples": self.samples,
            "error_before": before,
            "error_after": after,
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
    """Fit a calibration to four fifths of the samples and try it on the rest, in turn.

    It is applied unless the expected calibration error on the held-out samples, a mean over the depths of the
    tree, is larger with it than without. On a DAG, which has no depths, it is that of the likeliest class.

    Args:
        scores: ``(n, C)`` of the classifier, of samples that it was not trained on.
        labels: ``(n,)`` nodes, −1 where missing.
        classes: of the scores.
        kind: of the calibration.
        groups: ``(n,)`` samples that folds do not part, see `group_codes`.
        seed: of the folds.
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
    before, after = (_calibration(p[decides], labels[decides], classes, bins) for p in (raw, tried))
    worse = _mean_error(after) > _mean_error(before)
    return CalibrationCheck(kind, not worse, count, before, after)


def _calibration(p: Tensor, labels: Tensor, classes: ClassNodes, bins: int) -> list[DepthCalibration]:
    if isinstance(classes.taxonomy, Taxonomy):
        return calibration_by_depth(
            classes.node_probabilities(p), labels, classes.taxonomy, bins, classes=classes.nodes
        )
    column = classes.place[labels]
    p, column = p[column >= 0], column[column >= 0]
    confidence, answer = p.max(1)
    correct = answer == column
    curve = expected_calibration_error(confidence, correct, bins)
    of_truth = p.gather(1, column[:, None])[:, 0]
    return [
        DepthCalibration(
            samples=len(p),
            accuracy=float(correct.double().mean()),
            confidence=float(confidence.mean()),
            error=curve.error,
            brier=float((p.square().sum(1) - 2 * of_truth + 1).mean()),
            nll=float(-of_truth.clamp(min=1e-300).log().mean()),
            curve=curve,
        )
    ]


def _mean_error(depths: list[DepthCalibration]) -> float:
    found = [depth.error for depth in depths if not math.isnan(depth.error)]
    return sum(found) / len(found) if found else math.nan

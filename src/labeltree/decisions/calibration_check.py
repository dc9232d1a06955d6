"""The held-out check that a calibrator lowers the calibration error, without which it is not applied."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from labeltree.decisions.calibration_error import DepthCalibration, calibration_by_depth, measure_calibration
from labeltree.decisions.calibrators import Calibration, fit_calibrator
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.decisions.conformal import group_codes
from labeltree.taxonomy import Taxonomy

__all__ = ["LEAST_SAMPLES", "CalibrationCheck", "check_calibration"]

_FOLDS = 5
_PER_BIN = 20  # a reliability curve whose bins have few samples finds errors where there are none
_BINS = 15
_WORDS: dict[Calibration, str] = {
    "none": "none",
    "temperature": "a temperature",
    "vector": "a slope and an offset a class",
    "depth": "a temperature a depth",
}

LEAST_SAMPLES = 30
"""With fewer samples nobody can tell whether a calibration helps: it is not applied."""


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
    return [measure_calibration(p[column >= 0], column[column >= 0], bins)]


def _mean_of(depths: list[DepthCalibration], name: Literal["error", "by_chance"]) -> float:
    values = [value for depth in depths if not math.isnan(value := getattr(depth, name))]
    return sum(values) / len(values) if values else math.nan

"""The held-out check that a calibrator lowers the calibration error, without which it is not applied."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from labeltree.counted_nouns import say_count
from labeltree.decisions.calibration_error import DepthCalibration, calibration_by_depth, measure_calibration
from labeltree.decisions.calibrators import (
    Calibration,
    Calibrator,
    fit_calibrator,
    fit_smoothed,
    mean_label_loss,
    smoothed_temperature,
)
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.decisions.conformal import group_codes
from labeltree.taxonomy import Taxonomy

__all__ = ["LEAST_SAMPLES", "CalibrationCheck", "check_calibration", "soften_few"]

_FOLDS = 5
_PER_BIN = 20  # a reliability curve whose bins have few samples finds errors where there are none
_BINS = 15
_FEWEST_TO_WARN, _HARDLY = 10, 0.95  # samples; share of the log loss of guessing
_FEW_FOR_ERRORS = 100
_WORDS: dict[Calibration, str] = {
    "none": "none",
    "temperature": "a temperature",
    "vector": "a slope and an offset a class",
    "depth": "a temperature a depth",
}

LEAST_SAMPLES = 30
"""With fewer samples no calibration error says whether a calibration helps; see `soften_few`."""


@dataclass(frozen=True)
class CalibrationCheck:
    """The result of a cross-validated check of a calibration.

    Attributes:
        asked: The requested calibration.
        applied: True if the calibration is used.
        samples: Number of samples in the check.
        before: Calibration at each depth without the calibration; empty if there was no check.
        after: Calibration at each depth with it, each sample calibrated by a fit to the other folds.
        loss_before: Mean log loss without the calibration; NaN if it was not measured.
        loss_after: The same with it, each sample calibrated by a fit to the others.
        guessing: Log loss of guessing by how often each label occurs among these samples.
        softened: The temperature that softens the probabilities of few samples, which also give the
            thresholds; NaN if there is none.
        uninformative: Depths at which the scores say nothing of the labels, see `Calibrator`; 0 for all.
    """

    asked: Calibration
    applied: bool
    samples: int
    before: list[DepthCalibration] = field(default_factory=list)
    after: list[DepthCalibration] = field(default_factory=list)
    loss_before: float = math.nan
    loss_after: float = math.nan
    guessing: float = math.nan
    softened: float = math.nan
    uninformative: tuple[int, ...] = ()

    @property
    def errors(self) -> tuple[float, float]:
        """Calibration error before and after, mean over depths; NaN if there was no check."""
        return _mean_of(self.before, "error"), _mean_of(self.after, "error")

    @property
    def sentence(self) -> str:
        """One sentence: whether the calibration is applied, and why."""
        if self.asked == "none":
            return "Probabilities are those of the classifier as they are: no calibration was asked for."
        if self.uninformative:
            return self._no_information()
        what = f"calibration by {_WORDS[self.asked]}"
        if not self.before and self.samples >= LEAST_SAMPLES and math.isnan(self.loss_before):
            return (
                f"The {what} is not applied: it cannot be tried where all samples are of one class or group."
            )
        if not self.before:
            return f"{self._few(what)} {self.warning}".rstrip()
        before, after = self.errors
        moved = f"the mean calibration error over depths from {before:.4f} to {after:.4f}"
        where = f"on {self.samples} held-out calibration samples"
        chance = _mean_of(self.after, "by_chance")
        perfect = f"Perfectly calibrated probabilities have {chance:.4f} on so many samples."
        if self.applied and after > before:
            lost = f"the log loss falls from {self.loss_before:.3g} to {self.loss_after:.3g}"
            return (
                f"The {what} is applied: {where} {lost}, below that of guessing by how often each class "
                f"occurs ({self.guessing:.3g}), though it moves {moved}. {perfect} {self.warning}"
            ).rstrip()
        if self.applied:
            return f"The {what} is applied: {where} it brings {moved}. {perfect} {self.warning}".rstrip()
        return f"The {what} is not applied: {where} it would raise {moved}. {perfect} {self.warning}".rstrip()

    def _few(self, what: str) -> str:
        """What was done with too few samples to measure a calibration error."""
        few = say_count(self.samples, "labelled sample")
        if not math.isnan(self.softened):
            return (
                f"The probabilities are softened by one temperature, {self.softened:.3g}: the classifier is "
                f"surer than {few} can support, and these are too few to fit more."
            )
        if math.isnan(self.loss_after):
            return f"The {what} is not applied: {few} cannot tell whether it helps."
        return (
            f"The {what} is not applied: {few} are too few for it, and support the certainty of the "
            "classifier."
        )

    @property
    def warning(self) -> str:
        """A sentence if the scores say nothing, or probabilities hardly more than the frequency of labels."""
        if self.samples < _FEWEST_TO_WARN:
            return ""
        if self.uninformative:
            return self._no_information()
        guess = self._near_guessing()
        if not guess:
            return ""
        return (
            f"The classifier's probabilities are {guess}: "
            "most answers will be coarse; try another one (--classifier), or label more samples."
        )

    def _near_guessing(self) -> str:
        """How the log loss compares with that of guessing; empty if it is clearly lower, or unknown."""
        loss = self.loss_after if self.applied else self.loss_before
        if not loss > _HARDLY * self.guessing:
            return ""
        return (
            f"{'worse' if loss > self.guessing else 'hardly better'} than guessing by how often each class "
            f"occurs (log loss {loss:.3g}, guessing {self.guessing:.3g})"
        )

    def _no_information(self) -> str:
        """That the calibration is at its limit, on how many samples, and what follows."""
        many = say_count(self.samples, "labelled calibration sample")
        these = f"{'this' if self.samples == 1 else 'these'} {many}"
        if self.asked == "vector" and math.isnan(self.softened):
            why = "no class gets likelier where its score is higher"
        else:
            why = "the temperature that fits best is the largest that is tried, which makes all classes alike"
        at = "" if 0 in self.uninformative else f" at depth {' and '.join(map(str, self.uninformative))}"
        guess = self._near_guessing()
        so = f"; the probabilities are {guess}" if guess else ""
        return (
            f"The classifier's scores carry no information{at} on {these}: {why}{so}. Most answers will be "
            "coarse or withheld; check that these labels belong to these samples, try another classifier "
            "(--classifier), or label more samples."
        )

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
            "log_loss_before": self.loss_before,
            "log_loss_after": self.loss_after,
            "log_loss_of_guessing": self.guessing,
            "sentence": self.sentence,
            **({"uninformative_depths": list(self.uninformative)} if self.uninformative else {}),
            **({"warning": self.warning} if self.warning else {}),
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
    error is the mean over the depths of the tree; on a DAG, the error of the most probable class. Of fewer
    than a hundred samples that error is mostly chance, and smallest if a classifier is sure of everything.
    There the calibration is also applied if it brings the log loss from above that of guessing by the
    frequency of labels to below it.

    Args:
        scores: Class scores `(n, C)`, of samples that the classifier was not trained on.
        labels: `(n,)` nodes, −1 where missing.
        classes: Classes of the scores.
        kind: Kind of the calibration.
        groups: `(n,)` group ids; folds do not split groups, see `group_codes`.
        seed: Random seed of the folds.
    """
    decides = classes.narrows(labels)
    codes = group_codes(groups, len(labels))
    folds = min(_FOLDS, len(torch.unique(codes[decides])))
    count = int(decides.sum())
    if kind == "none" or count < LEAST_SAMPLES or folds < 2 or len(classes) < 2:
        return CalibrationCheck(kind, False, count)
    place = torch.empty(int(codes.max()) + 1, dtype=torch.int64)
    place[torch.randperm(len(place), generator=torch.Generator().manual_seed(seed))] = (
        torch.arange(len(place)) % folds
    )
    raw = torch.log_softmax(scores.double(), 1)
    tried = _calibrate_others(scores, labels, classes, place[codes], kind)
    bins = max(1, min(_BINS, count // _PER_BIN))
    before, after = (
        _calibrate_depths(p[decides].exp(), labels[decides], classes, bins) for p in (raw, tried)
    )
    losses = _losses(raw[decides], tried[decides], labels[decides], classes)
    mends = count < _FEW_FOR_ERRORS and losses[1] < losses[2] < losses[0]
    worse = _mean_of(after, "error") > _mean_of(before, "error") and not mends
    return CalibrationCheck(kind, not worse, count, before, after, *losses)


def soften_few(
    scores: Tensor,
    labels: Tensor,
    classes: ClassNodes,
    kind: Calibration,
    *,
    groups: Tensor | None = None,
) -> tuple[Calibrator, CalibrationCheck]:
    """A temperature above 1 for a classifier that is surer than few samples support; else no calibration.

    A classifier may give probabilities of 1 to what is wrong, as discriminants do that were learned from
    fewer samples than dimensions. Then a threshold is 1, and every answer is withheld. The temperature is
    `smoothed_temperature`, at least 1: few samples do not show that a classifier is too unsure. It moves all
    samples alike and hardly changes which is more certain than which, so that thresholds may come from the
    samples that it was fitted to (`benchmarks/few_calibration_samples.py`).

    Args:
        scores: Class scores `(n, C)`, of samples that the classifier was not trained on.
        labels: `(n,)` nodes, −1 where missing.
        classes: Classes of the scores.
        kind: The calibration that was asked for; with `none` nothing is done.
        groups: `(n,)` group ids, see `group_codes`.
    """
    decides = classes.narrows(labels)
    count = int(decides.sum())
    codes = group_codes(groups, len(labels))[decides]
    if kind == "none" or len(torch.unique(codes)) < 2 or len(classes) < 2:
        return Calibrator(), CalibrationCheck(kind, False, count)
    raw, nodes = torch.log_softmax(scores[decides].double(), 1), labels[decides]
    fold = torch.unique(codes, return_inverse=True)[1] % LEAST_SAMPLES
    losses = _losses(raw, _calibrate_others(raw, nodes, classes, fold, None), nodes, classes)
    fitted = fit_smoothed(raw, nodes, classes)
    temperature = max((1.0, *fitted.temperatures))
    if temperature < 1.005:  # as it is shown, nothing is softened
        return Calibrator(), CalibrationCheck(kind, False, count, [], [], *losses)
    check = CalibrationCheck(kind, True, count, [], [], *losses, temperature, fitted.uninformative)
    return Calibrator("temperature", (temperature,)), check


def _softening(scores: Tensor, labels: Tensor, classes: ClassNodes) -> float:
    return max(1.0, smoothed_temperature(scores, labels, classes))


def _calibrate_others(
    scores: Tensor, labels: Tensor, classes: ClassNodes, fold: Tensor, kind: Calibration | None
) -> Tensor:
    """Log-probabilities of each fold, calibrated by a fit to the others; of no kind, softened."""
    tried = torch.log_softmax(scores.double(), 1)
    for number in torch.unique(fold).tolist():
        rows, rest = fold == number, fold != number
        if kind is None:
            tried[rows] = torch.log_softmax(tried[rows] / _softening(scores[rest], labels[rest], classes), 1)
        else:
            tried[rows] = fit_calibrator(scores[rest], labels[rest], classes, kind)(scores[rows], classes)
    return tried


def _losses(raw: Tensor, tried: Tensor, labels: Tensor, classes: ClassNodes) -> tuple[float, float, float]:
    """Mean log loss as it is, calibrated, and of guessing by how often each label occurs.

    The guess for a sample counts the labels of the others, and one more of each class; of few samples it may
    lose more than guessing all classes alike, which then counts.
    """
    _, place, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    before, after = (float(mean_label_loss(p, labels, classes)) for p in (raw, tried))
    guessed = counts[place].double() / (len(labels) - 1 + len(classes))
    return before, after, min(float(-guessed.log().mean()), math.log(len(classes)))


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

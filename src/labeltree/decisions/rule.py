"""A fitted decision rule: from the scores of a classifier to answers that are as fine as is sure."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.decisions.answers import Answers
from labeltree.decisions.calibration_check import CalibrationCheck, check_calibration
from labeltree.decisions.calibrators import Calibration, Calibrator, fit_calibrator
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.decisions.conformal import Promise, check_enough, conformal_scores, threshold
from labeltree.decisions.costs import TreeCost, cheapest
from labeltree.decisions.grouping import count_groups, share_of_groups
from labeltree.decisions.mondrian import bars_of, categories_of, thresholds_by_category
from labeltree.decisions.paths import Descent, find_paths
from labeltree.errors import DataError

__all__ = ["DecisionRule", "Fitted", "fit_rule"]


@dataclass(frozen=True)
class Fitted:
    """Samples by which answers are promised: none of them was used to fit anything else.

    Attributes:
        scores: (m,) float64, see `conformal_scores`.
        labels: (m,) their labels.
        groups: (m,) or None.
    """

    scores: Tensor
    labels: Tensor
    groups: Tensor | None = None

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def num_groups(self) -> int:
        """How many groups there are, a sample without one being its own."""
        return count_groups(self.groups, len(self))


@dataclass(frozen=True)
class DecisionRule:
    """Calibrated probabilities and the scores of calibration samples, from which any promise can be kept.

    Attributes:
        classes: of the scores that answers are made of.
        calibrator: fitted.
        descent: which path answers lie on.
        fitted: by which samples thresholds are found.
        counts: how many samples were used for what, and how many left out.
        check: what came of trying the calibration on samples held out; None where it is not known.
    """

    classes: ClassNodes
    calibrator: Calibrator
    descent: Descent
    fitted: Fitted
    counts: dict[str, int]
    check: CalibrationCheck | None = None

    def probabilities(self, scores: Tensor) -> Tensor:
        """Calibrated (n, C) float64 from scores (n, C) of the classifier."""
        return self.calibrator(scores, self.classes).exp()

    def bars(self, promise: Promise, by_depth: int | None = None) -> Tensor:
        """How probable each node must be at least to be answered, (N,) float64; see `Paths.cut`.

        Args:
            promise: what is asked of the answers.
            by_depth: keep it within every category of labels: the nodes at this depth (on a tree).

        Raises:
            DataError: if there are too few calibration samples; it says how many are needed.
        """
        what = "calibration samples" if self.fitted.groups is None else "groups of calibration samples"
        check_enough(self.fitted.num_groups, promise, what)
        taxonomy = self.classes.taxonomy
        if by_depth is None:
            value = threshold(self.fitted.scores, promise, self.fitted.groups)
            return torch.full((taxonomy.num_nodes,), value, dtype=torch.float64)
        if not 1 <= by_depth <= taxonomy.max_depth:
            raise ValueError(
                f"by_depth is {by_depth}; expected a depth of the taxonomy, 1 to {taxonomy.max_depth}"
            )
        categories = categories_of(self.fitted.labels, by_depth, taxonomy)
        found, rest, _ = thresholds_by_category(self.fitted.scores, categories, promise, self.fitted.groups)
        return bars_of(found, rest, by_depth, taxonomy)

    def answer(
        self, scores: Tensor, promise: Promise | None = None, *, by_depth: int | None = None, top: int = 3
    ) -> Answers:
        """Answer each sample at the depth where the promise holds.

        Args:
            scores: (n, C) of the classifier.
            promise: by default that 90 % of the answers hold the truth.
            by_depth: see `bars`.
            top: how many classes to name beside.
        """
        probabilities = self.probabilities(scores)
        paths = find_paths(probabilities, self.classes, self.descent)
        nodes, certain = paths.cut(self.bars(promise or Promise(), by_depth))
        return self._answers(probabilities, nodes, certain, nodes != paths.ends, top)

    def cheapest(self, scores: Tensor, cost: TreeCost | Tensor, top: int = 3) -> Answers:
        """Answer each sample at least expected cost; see `labeltree.decisions.costs`."""
        probabilities = self.probabilities(scores)
        nodes, costs = cheapest(probabilities, self.classes, cost)
        parts = zip(self.classes.parts(probabilities), self.classes.parts(nodes[:, None]), strict=True)
        certain = torch.cat([self.classes.node_probabilities(p).gather(1, at)[:, 0] for p, at in parts])
        finer = (self.classes.counts - (self.classes.place >= 0).long())[nodes] > 0
        return self._answers(probabilities, nodes, certain, finer, top, costs)

    def _answers(
        self,
        probabilities: Tensor,
        nodes: Tensor,
        certain: Tensor,
        cut: Tensor,
        top: int,
        costs: Tensor | None = None,
    ) -> Answers:
        order = torch.argsort(probabilities, dim=1, descending=True, stable=True)[:, : max(top, 0)]
        guesses, likely = self.classes.nodes[order], probabilities.gather(1, order)
        return Answers(nodes, certain, cut, guesses, likely, costs)


def fit_rule(
    scores: Tensor,
    labels: Tensor,
    classes: ClassNodes,
    *,
    groups: Tensor | None = None,
    calibration: Calibration = "temperature",
    descent: Descent = "child",
    share: float = 0.3,
    seed: int = 0,
) -> DecisionRule:
    """Fit a decision rule to samples that the classifier was not trained on.

    A part of them, whole groups, fits the calibrator; the promises rest on the others alone, so that they
    and new samples are exchangeable. A calibrator that makes the calibration error worse on samples of that
    part that it was not fitted to is not applied, nor is one for which there are too few, see
    `check_calibration`; then all samples go to the promises. The same input gives the same rule.

    Args:
        scores: (n, C) of the classifier.
        labels: (n,) nodes, -1 where missing.
        classes: of the scores.
        groups: (n,) samples with equal group belong together, such as those of a patient; -1 is a group of
            its own. None: each sample is.
        calibration: of the probabilities.
        descent: which path answers lie on.
        share: of the groups that fit the calibrator, 0 to below 1; not used for the calibration `none`.
        seed: of the choice of that part.

    Raises:
        DataError: if no label decides about answers.
    """
    if not 0 <= share < 1:
        raise ValueError(f"share is {share!r}; expected a number from 0 to below 1")
    usable = classes.judges(labels)
    if not bool(usable.any()):
        raise DataError(
            "no calibration sample has a label that decides about answers: each is missing, or coarser than "
            "the classes"
        )
    known = labels >= 0
    fits = torch.zeros(len(labels), dtype=torch.bool)
    check = CalibrationCheck(calibration, False, 0)
    if calibration != "none":
        fits = share_of_groups(known, groups, share, seed)
        check = check_calibration(
            scores[fits],
            labels[fits],
            classes,
            calibration,
            groups=None if groups is None else groups[fits],
            seed=seed,
        )
        if not check.before:
            fits = torch.zeros_like(fits)
        if not bool((usable & ~fits).any()):
            raise DataError(
                f"of {int(known.sum())} calibration samples none would be left for thresholds once a part "
                "fits the probabilities; calibrate on more, or with calibration 'none'"
            )
    applied: Calibration = calibration if check.applied else "none"
    calibrator = fit_calibrator(scores[fits], labels[fits], classes, applied)
    rest = usable & ~fits
    paths = find_paths(calibrator(scores[rest], classes).exp(), classes, descent)
    counts = {
        "calibration samples": len(labels),
        "for the probabilities": int((fits & known).sum()),
        "for the thresholds": int(rest.sum()),
        "left out: no label": int((~known).sum()),
        "left out of the thresholds: label too coarse": int((known & ~usable & ~fits).sum()),
    }
    fitted = Fitted(
        conformal_scores(paths, labels[rest], classes.taxonomy),
        labels[rest],
        None if groups is None else groups[rest],
    )
    return DecisionRule(classes, calibrator, descent, fitted, counts, check)

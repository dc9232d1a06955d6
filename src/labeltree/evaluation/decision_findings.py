"""What answers that are only as fine as is sure come to on test samples."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from labeltree.decisions import (
    Answers,
    ClassNodes,
    DecisionRule,
    Promise,
    TreeCost,
    calibration_by_depth,
    cost_matrix,
    holds_truth,
)
from labeltree.decisions.answers import information
from labeltree.decisions.grouping import group_codes
from labeltree.decisions.summary import answer_scores
from labeltree.errors import DataError
from labeltree.evaluation.evidence import Evidence
from labeltree.evaluation.places import Place
from labeltree.evaluation.subtrees import by_subtree
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.shared_depths import shared_depth

__all__ = ["DecisionFindings"]

_ASKED = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)
_WORTH = ("coverage", "depth", "information", "right_leaf", "root", "accuracy_below_root")


class DecisionFindings:
    """What answers are worth, piece by piece.

    Args:
        rule: calibrated.
        tree: of the labels.
        truth: ``(n,)`` labels that decide about answers.
        groups: ``(n,)`` of the samples, or None.
        evidence: of the samples; gets the intervals.
    """

    def __init__(
        self, rule: DecisionRule, tree: Taxonomy, truth: Tensor, groups: Tensor | None, evidence: Evidence
    ) -> None:
        self.rule, self.tree, self.truth, self.groups = rule, tree, truth, groups
        self.evidence = evidence
        self.scores: dict[str, float] = {}
        self.by_depth: dict[str, list[float]] = {}
        self.by_node: dict[str, dict[str, float]] = {}
        self.curves: dict[str, list[float]] = {}
        self.axes: dict[str, list[float]] = {}
        self.notes: list[str] = []

    def add_promises(
        self, scores: Tensor, coverages: tuple[float, ...], counted: Literal["sample", "group"]
    ) -> None:
        """What the answers are worth at each coverage that is asked for, and at others for the curves."""
        asked = sorted({*_ASKED, *coverages})
        curves: dict[str, list[float]] = {"coverage": [], "depth": [], "information": []}
        for coverage in asked:
            answers = self._answers(scores, Promise(coverage, counted=counted))
            worth = (
                answer_scores(answers.nodes, self.truth, self.tree)
                if answers is not None
                else dict.fromkeys(("coverage", "depth", "information"), math.nan)
            )
            for name, curve in curves.items():
                if answers is not None:
                    place = Place("curves", f"{name}_by_coverage", len(curve))
                    self._hand_over(place, name, answers.nodes)
                curve.append(worth[name])
            if coverage in coverages:
                self._add_promise(coverage, answers, worth)
        self.curves |= {f"{name}_by_coverage": curve for name, curve in curves.items()}
        self.axes |= {f"{name}_by_coverage": asked for name in curves}

    def _answers(self, scores: Tensor, promise: Promise) -> Answers | None:
        try:
            return self.rule.answer(scores, promise, top=1)
        except DataError:
            return None

    def _add_promise(self, coverage: float, answers: Answers | None, worth: dict[str, float]) -> None:
        at = f"{coverage:g}"
        if answers is None:
            self.notes.append(f"There are too few calibration samples to promise a coverage of {at}.")
            return
        self.scores |= {f"{name}_at_{at}": worth[name] for name in _WORTH}
        for name in _WORTH:
            self._hand_over(Place("scores", f"{name}_at_{at}"), name, answers.nodes)
        holds = holds_truth(answers.nodes, self.truth, self.tree)
        if self.groups is not None:
            codes = group_codes(self.groups, len(holds))
            held = (torch.bincount(codes, (~holds).double()) == 0).double()
            self.scores[f"groups_held_at_{at}"] = float(held.mean())
            rows = torch.empty(len(held), dtype=torch.int64).scatter_(0, codes, torch.arange(len(codes)))
            self.evidence.add(Place("scores", f"groups_held_at_{at}"), held, rows=rows)
        depth = self.tree.depth[answers.nodes]
        by_depth = [depth >= level for level in range(1, self.tree.max_depth + 1)]
        right = [self._right_at(answers.nodes, rows, level) for level, rows in enumerate(by_depth, start=1)]
        for name, columns in (
            (f"answered_at_{at}", [rows.double() for rows in by_depth]),
            (f"right_if_answered_at_{at}", right),
        ):
            self.by_depth[name] = [float(torch.nanmean(column)) for column in columns]
            self.evidence.add_depths(name, columns)
        for name, values, share in (("coverage", holds.double(), True), ("depth", depth.double(), False)):
            self.by_node[f"{name}_at_{at}"] = by_subtree(values, self.truth, self.tree)
            self.evidence.add_subtrees(f"{name}_at_{at}", values, self.truth, self.tree, share=share)

    def _hand_over(self, place: Place, name: str, answers: Tensor) -> None:
        """What `answer_scores` is the mean of."""
        holds = holds_truth(answers, self.truth, self.tree).double()
        columns = {
            "coverage": holds,
            "depth": self.tree.depth[answers].double(),
            "information": information(answers, self.tree).double(),
            "right_leaf": (answers == self.truth).double(),
            "root": (answers == 0).double(),
            "accuracy_below_root": holds.masked_fill(answers == 0, torch.nan),
        }
        self.evidence.add(place, columns[name], share=name != "depth")

    def _right_at(self, answers: Tensor, rows: Tensor, level: int) -> Tensor:
        """Whether answers are right down to a depth that they reach, NaN where they do not."""
        right = torch.full((len(answers),), torch.nan, dtype=torch.float64)
        reached = self.tree.ancestors[answers[rows], level]
        if level > self._shared:
            right[rows] = holds_truth(reached, self.truth[rows], self.tree).double()
        return right

    @property
    def _shared(self) -> int:
        """Down to which depth all answers share one node: nothing can be wrong there."""
        return shared_depth(self.rule.classes.nodes, self.tree)

    def add_costs(self, scores: Tensor) -> None:
        """What answers of least expected cost come to, beside always naming the most probable class."""
        probabilities = self.rule.probabilities(scores)
        leaves = self.rule.classes.nodes[probabilities.argmax(1)]
        truths, column = torch.unique(self.truth, return_inverse=True)
        for cost in (TreeCost("height"), TreeCost("edges")):
            prices = cost_matrix(ClassNodes(truths, self.tree), cost)
            cheapest = self.rule.cheapest(scores, cost, top=1).nodes
            for name, answers in (("", cheapest), ("_of_classes", leaves)):
                paid = prices[answers, column].double()
                self.scores[f"cost_{cost.distance}{name}"] = float(paid.mean())
                self.evidence.add(Place("scores", f"cost_{cost.distance}{name}"), paid, share=False)

    def add_calibration(self, scores: Tensor, truth: Tensor, bins: int) -> None:
        """Whether probabilities mean what they say at each depth, before and after calibration."""
        before = torch.softmax(scores.double(), 1)
        classes, shared = self.rule.classes, self._shared
        for name, p in (("before", before), ("after", self.rule.probabilities(scores))):
            depths = calibration_by_depth(
                classes.node_probabilities(p), truth, self.tree, bins, classes=classes.nodes
            )
            for key, attribute in (("ece", "error"), ("brier", "brier"), ("nll", "nll")):
                self.by_depth[f"{key}_{name}"] = [float(getattr(here, attribute)) for here in depths]
            if name == "after":
                self.by_depth["accuracy"] = [here.accuracy for here in depths]
                self.by_depth["confidence"] = [here.confidence for here in depths]
            for level, here in enumerate(depths[shared:], start=shared + 1):
                self.curves[f"reliability_{name}_depth_{level}"] = here.curve.accuracy.tolist()
                self.axes[f"reliability_{name}_depth_{level}"] = here.curve.confidence.tolist()
            self.scores[f"ece_{name}"] = depths[-1].error
            self.scores[f"nll_{name}"] = depths[-1].nll

"""``decisions``: what answers are worth that are only as fine as is sure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from labeltree.decisions import (
    CALIBRATIONS,
    Answers,
    Calibration,
    ClassNodes,
    DecisionRule,
    Promise,
    TreeCost,
    calibration_by_depth,
    cost_matrix,
    fit_rule,
    holds_truth,
)
from labeltree.decisions.classifier import fit_linear, fit_prototypes
from labeltree.decisions.grouping import group_codes, share_of_groups
from labeltree.decisions.paths import Descent
from labeltree.decisions.summary import answer_scores
from labeltree.errors import DataError
from labeltree.evaluation.inputs import Inputs
from labeltree.evaluation.protocol import ProtocolResult, register
from labeltree.taxonomy import Taxonomy

__all__ = ["DecisionOptions", "decisions"]

_ASKED = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)


@dataclass(frozen=True)
class DecisionOptions:
    """What can be chosen.

    Attributes:
        coverages: the shares of answers that shall hold the truth.
        classifier: ``probe`` on the features, or ``prototypes`` of the embeddings.
        calibration: of the probabilities: ``temperature``, ``vector``, ``depth`` or ``none``.
        descent: ``child`` or ``leaf``, see `labeltree.decisions.find_paths`.
        counted: with groups, whether a ``sample`` or all of a ``group`` is promised.
        bins: of the reliability curves.
    """

    coverages: tuple[float, ...] = (0.8, 0.9, 0.95)
    classifier: Literal["probe", "prototypes"] = "probe"
    calibration: Calibration = "temperature"
    descent: Descent = "child"
    counted: Literal["sample", "group"] = "sample"
    bins: int = 15

    def __post_init__(self) -> None:
        if not self.coverages:
            raise ValueError("coverages must be one or more numbers between 0 and 1")
        for coverage in self.coverages:
            Promise(coverage, counted=self.counted)
        for name, choices in (
            ("classifier", ("probe", "prototypes")),
            ("calibration", CALIBRATIONS),
            ("descent", get_args(Descent)),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} is '{getattr(self, name)}', expected one of {', '.join(choices)}")
        if self.bins < 1:
            raise ValueError(f"bins must be at least 1, got {self.bins}")


@register(
    "decisions",
    summary="answers as fine as is sure: coverage, depth and information, calibration by depth",
    source="Goren et al. 2024; Mortier et al. 2025; Guo et al. 2017",
    options=DecisionOptions,
)
def decisions(inputs: Inputs, options: DecisionOptions) -> ProtocolResult:
    """Learn a classifier, calibrate it on validation samples, and answer for the test samples."""
    tree, table = inputs.ground.tree, inputs.table
    held, tested, notes = _samples(inputs)
    labels = torch.full_like(inputs.nodes, -1)
    labels[inputs.learned] = inputs.nodes[inputs.learned]
    scorer = (
        fit_linear(table, labels, standardize=inputs.settings.standardize)
        if options.classifier == "probe"
        else fit_prototypes(table, labels, tree)
    )
    classes = ClassNodes(scorer.classes, tree)
    rule = fit_rule(
        scorer(table.rows(held)),
        inputs.nodes[held],
        classes,
        groups=None if table.groups is None else table.groups[held],
        calibration=options.calibration,
        descent=options.descent,
        seed=inputs.settings.seed,
    )
    scores = scorer(table.rows(tested))
    truth = inputs.nodes[tested]
    judged = classes.judges(truth)
    if not bool(judged.any()):
        raise DataError("no test sample has a label that decides about answers")
    found = _Found(rule, tree, truth[judged], None if table.groups is None else table.groups[tested][judged])
    found.add_promises(scores[judged], options)
    found.add_costs(scores[judged])
    found.add_calibration(scores, truth, options.bins)
    return ProtocolResult(
        "Decisions: answers as fine as is sure",
        scores=found.scores,
        by_depth=found.by_depth,
        by_node=found.by_node,
        curves=found.curves,
        axes=found.axes,
        counts={**rule.counts, "test samples answered": int(judged.sum())},
        notes=notes + found.notes,
    )


def _samples(inputs: Inputs) -> tuple[Tensor, Tensor, list[str]]:
    """Rows to calibrate on, rows to test on, and what to say about them."""
    table, labelled = inputs.table, inputs.nodes > 0
    if table.split is not None and inputs.samples.split != "val":
        held = torch.from_numpy(table.split == "val") & labelled
        if bool(held.any()) and not bool(held[inputs.samples.train].any()):
            return held.nonzero()[:, 0], inputs.samples.test, []
    test = inputs.samples.test
    codes = table.groups if table.groups is not None else table.instances
    half = share_of_groups(
        torch.ones(len(test), dtype=torch.bool),
        None if codes is None else codes[test],
        0.5,
        inputs.settings.seed,
    )
    note = (
        f"There are no validation samples: probabilities and thresholds were fitted on half of the test "
        f"samples ({int(half.sum())}), and tried on the other half ({int((~half).sum())})."
    )
    return test[half], test[~half], [note]


class _Found:
    """What is found, piece by piece."""

    def __init__(self, rule: DecisionRule, tree: Taxonomy, truth: Tensor, groups: Tensor | None) -> None:
        self.rule, self.tree, self.truth, self.groups = rule, tree, truth, groups
        self.scores: dict[str, float] = {}
        self.by_depth: dict[str, list[float]] = {}
        self.by_node: dict[str, dict[str, float]] = {}
        self.curves: dict[str, list[float]] = {}
        self.axes: dict[str, list[float]] = {}
        self.notes: list[str] = []

    def add_promises(self, scores: Tensor, options: DecisionOptions) -> None:
        """What the answers are worth at each coverage that is asked for."""
        asked = sorted({*_ASKED, *options.coverages})
        curves: dict[str, list[float]] = {"coverage": [], "depth": [], "information": []}
        for coverage in asked:
            answers = self._answers(scores, Promise(coverage, counted=options.counted))
            worth = (
                answer_scores(answers.nodes, self.truth, self.tree)
                if answers is not None
                else dict.fromkeys(("coverage", "depth", "information"), math.nan)
            )
            for name, curve in curves.items():
                curve.append(worth[name])
            if coverage in options.coverages:
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
        self.scores |= {
            f"{name}_at_{at}": worth[name]
            for name in ("coverage", "depth", "information", "right_leaf", "root", "accuracy_below_root")
        }
        holds = holds_truth(answers.nodes, self.truth, self.tree)
        if self.groups is not None:
            wrong = torch.bincount(group_codes(self.groups, len(holds)), (~holds).double())
            self.scores[f"groups_held_at_{at}"] = float((wrong == 0).double().mean())
        depth = self.tree.depth[answers.nodes]
        by_depth = [depth >= level for level in range(1, self.tree.max_depth + 1)]
        self.by_depth[f"answered_at_{at}"] = [float(rows.double().mean()) for rows in by_depth]
        self.by_depth[f"right_if_answered_at_{at}"] = [
            float(self._right_at(answers.nodes[rows], self.truth[rows], level).double().mean())
            for level, rows in enumerate(by_depth, start=1)
        ]
        self.by_node[f"coverage_at_{at}"] = self._by_node(holds.double())
        self.by_node[f"depth_at_{at}"] = self._by_node(depth.double())

    def _right_at(self, answers: Tensor, truth: Tensor, level: int) -> Tensor:
        """Whether answers that reach a depth are right down to there."""
        return holds_truth(self.tree.ancestors[answers, level], truth, self.tree)

    def _by_node(self, values: Tensor) -> dict[str, float]:
        """The mean over the samples labelled at or below each node."""
        lines = self.tree.ancestors[self.truth]
        there = lines >= 0
        count = torch.bincount(lines[there], minlength=self.tree.num_nodes)
        total = torch.bincount(lines[there], values[:, None].expand_as(lines)[there], self.tree.num_nodes)
        return {
            self.tree.path_name(node): float(total[node] / count[node])
            for node in torch.nonzero(count)[:, 0].tolist()
        }

    def add_costs(self, scores: Tensor) -> None:
        """What answers of least expected cost come to, beside always naming the most probable class."""
        probabilities = self.rule.probabilities(scores)
        leaves = self.rule.classes.nodes[probabilities.argmax(1)]
        truths, column = torch.unique(self.truth, return_inverse=True)
        for cost in (TreeCost("height"), TreeCost("edges")):
            prices = cost_matrix(ClassNodes(truths, self.tree), cost)
            cheapest = self.rule.cheapest(scores, cost, top=1).nodes
            self.scores[f"cost_{cost.distance}"] = float(prices[cheapest, column].mean())
            self.scores[f"cost_{cost.distance}_of_classes"] = float(prices[leaves, column].mean())

    def add_calibration(self, scores: Tensor, truth: Tensor, bins: int) -> None:
        """Whether probabilities mean what they say at each depth, before and after calibration."""
        before = torch.softmax(scores.double(), 1)
        for name, p in (("before", before), ("after", self.rule.probabilities(scores))):
            depths = calibration_by_depth(self.rule.classes.node_probabilities(p), truth, self.tree, bins)
            for key, attribute in (("ece", "error"), ("brier", "brier"), ("nll", "nll")):
                self.by_depth[f"{key}_{name}"] = [float(getattr(here, attribute)) for here in depths]
            if name == "after":
                self.by_depth["accuracy"] = [here.accuracy for here in depths]
                self.by_depth["confidence"] = [here.confidence for here in depths]
            for level, here in enumerate(depths, start=1):
                self.curves[f"reliability_{name}_depth_{level}"] = here.curve.accuracy.tolist()
                self.axes[f"reliability_{name}_depth_{level}"] = here.curve.confidence.tolist()
            self.scores[f"ece_{name}"] = depths[-1].error
            self.scores[f"nll_{name}"] = depths[-1].nll

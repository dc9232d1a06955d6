"""`decisions`: answers as fine as the classifier's confidence allows, and their quality on test samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.counted_nouns import say_count, say_list
from labeltree.decisions import (
    CALIBRATIONS,
    Calibration,
    ClassNodes,
    DecisionRule,
    Promise,
    TreeCost,
    calibration_by_depth,
    cost_matrix,
    holds_truth,
)
from labeltree.decisions.answers import Descent, information
from labeltree.decisions.choose_classifier import CLASSIFIERS
from labeltree.decisions.classifiers import ClassifierChoice
from labeltree.decisions.conformal import count_groups, largest_coverage
from labeltree.decisions.kept_promises import group_coverage
from labeltree.decisions.promise_samples import (
    CLASSIFIER,
    EPOCH,
    PromiseSamples,
    are_unpromised,
    kept_for_probabilities,
)
from labeltree.errors import DataError
from labeltree.evaluation.protocol_registry import ProtocolResult, register
from labeltree.evaluation.sample_columns import Column
from labeltree.evaluation.scored_samples import (
    class_scores,
    fit_rule_to_rows,
    split_for_calibration,
    stored_rule,
)
from labeltree.evaluation.search_and_answer_columns import Inputs
from labeltree.evaluation.statistics import Statistic
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.label_sets import shared_depth

__all__ = [
    "ASKED",
    "CURVES",
    "LATER",
    "TOO_FEW_TO_PROMISE",
    "DecisionOptions",
    "answer_worth",
    "curve_columns",
    "decisions",
]

ASKED: tuple[float, ...] = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)
CURVES = ("coverage", "depth", "information")
LATER = "test samples of classes added later"
"""The count of samples of classes that were added to a trained run, and for which nothing is promised."""
TOO_FEW_TO_PROMISE = "There are too few calibration samples"
"""How the note begins that names the coverages that cannot be promised."""


@dataclass(frozen=True)
class DecisionOptions:
    """Options of `decisions`.

    Attributes:
        coverages: Target coverages: fractions of answers that should contain the true class.
        classifier: `feature-means`, `prototypes`, `lda`, `probe` or `own`; `auto` uses that of
            the headline numbers.
        calibration: Calibration of the probabilities: `temperature`, `vector`, `depth` or `none`.
        descent: `child` or `leaf`, see `labeltree.decisions.find_paths`.
        counted: Unit of the promised coverage: every `sample`, or every `group` with all its samples.
        bins: Number of bins of the reliability curves.
    """

    coverages: tuple[float, ...] = (0.8, 0.9, 0.95)
    classifier: ClassifierChoice = "auto"
    calibration: Calibration = "temperature"
    descent: Descent = "child"
    counted: Literal["sample", "group"] = "sample"
    bins: int = 15

    def __post_init__(self) -> None:
        if not self.coverages:
            raise ValueError("coverages must be one or more numbers between 0 and 1")
        for coverage in self.coverages:
            Promise(coverage, counted=self.counted)
        check_choice("classifier", self.classifier, CLASSIFIERS)
        check_choice("calibration", self.calibration, CALIBRATIONS)
        check_choice("descent", self.descent, Descent)
        if self.bins < 1:
            raise ValueError(f"bins must be at least 1, got {self.bins}")


@register(
    "decisions",
    summary="answers as fine as is sure: coverage, depth and information, calibration by depth",
    source="Goren et al. 2024; Mortier et al. 2025; Guo et al. 2017",
    options=DecisionOptions,
)
def decisions(inputs: Inputs, options: DecisionOptions) -> ProtocolResult:
    """Fit a classifier, calibrate it on validation samples, and measure its answers to the test samples.

    A run that was calibrated on samples from elsewhere is measured with the rule by which it answers.
    """
    tree, table = inputs.judging.tree, inputs.standard_table
    held, tested, notes = split_for_calibration(inputs)
    scorer, said = class_scores(inputs, options.classifier)
    notes = [*notes, said]
    classes = ClassNodes(scorer.classes, tree)
    usual = (options.calibration, options.descent) == (DecisionOptions.calibration, DecisionOptions.descent)
    stored = stored_rule(inputs, options.classifier) if usual else None
    if stored is None:
        rule = fit_rule_to_rows(
            inputs, scorer, held, calibration=options.calibration, descent=options.descent
        )
        rests_on = _rests_on(inputs, rule, held)
    else:
        rule, rests_on, tested, notes = stored.rule, stored.rests_on, inputs.samples.test, [said]
    notes.append(rests_on.sentence)
    if rule.check is not None:
        notes.append(rule.check.sentence)
    scores = scorer(table.rows(tested))
    truth = inputs.nodes[tested]
    judged = classes.judges(truth)
    if not bool(judged.any()):
        raise DataError("no test sample has a label that decides about answers")
    judged_rows = tested[judged]
    later = torch.zeros(0, dtype=torch.int64)
    if inputs.classifiers.later is not None:
        later = inputs.classifiers.later
        later = later[~torch.isin(later, rule.fitted.labels)]
    unpromised = are_unpromised(truth[judged], later, tree)
    told, sentences = _promises(inputs, rule, scores[judged], judged_rows, options, unpromised)
    columns = [*told, *_costs(inputs, rule, scores[judged], judged_rows)]
    result = inputs.summarise(columns, "Decisions: answers as fine as is sure", by_frequency=False)
    asked = sorted({*ASKED, *options.coverages})
    result.axes.update({f"{name}_by_coverage": asked for name in CURVES})
    _add_calibration(result, rule, tree, scores, inputs.nodes, tested, options.bins)
    result.counts.update(rule.counts | {"test samples answered": int(judged.sum())})
    if table.groups is not None:
        groups = table.groups[judged_rows]
        if rule.fitted.groups is not None:
            result.counts["groups for the thresholds"] = rule.fitted.num_groups
        result.counts["groups of test samples answered"] = count_groups(groups, len(groups))
    result.notes.extend(notes + sentences)
    if bool(unpromised.any()):
        result.counts[LATER] = int(unpromised.sum())
    if unlearned := _unlearned(truth, classes, tree):
        result.counts["test samples of classes that were not learned"] = unlearned
        result.notes.append(
            f"{unlearned} of {len(truth)} test samples are of classes that were not learned: no calibration "
            "sample is like them, so that answers hold the truth less often than is promised, and nll is as "
            "large as numbers allow."
        )
    if not math.isnan(chance := result.scores["ece_by_chance"]):
        result.notes.append(
            f"Even perfectly calibrated probabilities have a calibration error of {chance:.3f} on so many "
            "samples (ece_by_chance)."
        )
    if inputs.resampling is not None:
        result.notes.append(
            "The intervals hold the classifier and its calibration fixed. Calibration errors have none: "
            "those of resampled samples are too large, and bins do not tell by how much. Their difference "
            "between two methods can be compared."
        )
    return result


def _rests_on(inputs: Inputs, rule: DecisionRule, held: Tensor) -> PromiseSamples:
    """The samples that the promises of a rule rest on."""
    split = inputs.table.split
    if split is None or bool(torch.isin(held, inputs.samples.test).any()):
        return PromiseSamples.of(rule, "other", source="the test split")
    set_aside = kept_for_probabilities(inputs.table.rows(held)) is not None
    chose = (*([EPOCH] if inputs.trained_by_epochs else []),)
    chose += (CLASSIFIER,) if inputs.classifiers.chosen.asked == "auto" else ()
    return PromiseSamples.of(rule, "calib" if set_aside else "val", chose=chose)


def _promises(
    inputs: Inputs,
    rule: DecisionRule,
    scores: Tensor,
    rows: Tensor,
    options: DecisionOptions,
    unpromised: Tensor,
) -> tuple[list[Column], list[str]]:
    """Columns of the answers at the requested coverages and along the curves, and notes."""
    truth, notes, missing = inputs.nodes[rows], list[str](), list[str]()
    shared = shared_depth(rule.classes.nodes, inputs.judging.tree)
    columns: list[Column] = []
    for at, coverage in enumerate(sorted({*ASKED, *options.coverages})):
        try:
            answers = rule.answer(scores, Promise(coverage, counted=options.counted), top=1).nodes
        except DataError:
            nothing = torch.full((len(rows),), torch.nan)
            columns += curve_columns({name: Column(name, nothing, rows) for name in CURVES}, at)
            missing += [f"{coverage:g}"] if coverage in options.coverages else []
            continue
        worth = answer_worth(answers, truth, rows, inputs.judging.tree)
        columns += curve_columns(worth, at)
        if coverage in options.coverages:
            columns += [replace(column, name=f"{name}_at_{coverage:g}") for name, column in worth.items()]
            columns += _promise_columns(inputs, answers, rows, shared, f"{coverage:g}")
            columns += _apart(worth["coverage"], unpromised, f"{coverage:g}")
    if missing:
        count, grouped = rule.fitted.num_groups, rule.fitted.groups is not None
        each = say_count(count, "group") if grouped else say_count(count, "sample")
        coverages = say_list(missing).replace(" and ", " or ")
        notes.append(
            f"{TOO_FEW_TO_PROMISE} to promise a coverage of {coverages}: {each} can promise at most "
            f"{largest_coverage(count):g}."
        )
    return columns, notes


def curve_columns(worth: Mapping[str, Column], at: int) -> list[Column]:
    """The columns of one point of each curve."""
    return [worth[name].alone(f"{name}_by_coverage", kind="curves", at=at) for name in CURVES]


def answer_worth(answers: Tensor, truth: Tensor, rows: Tensor, tree: Taxonomy) -> dict[str, Column]:
    """The per-sample values of the scores in `labeltree.decisions.answers.answer_scores`."""
    holds = holds_truth(answers, truth, tree).double()
    columns = (
        Column("coverage", holds, rows, by_node=True),
        Column("depth", tree.depth[answers], rows, by_node=True),
        Column("information", information(answers, tree), rows),
        Column("right_leaf", answers == truth, rows),
        Column("root", answers == 0, rows),
        Column("accuracy_below_root", holds.masked_fill(answers == 0, torch.nan), rows),
    )
    return {column.name: column for column in columns}


def _promise_columns(inputs: Inputs, answers: Tensor, rows: Tensor, shared: int, at: str) -> list[Column]:
    """Columns of groups (with all answers right, and their mean), and of each depth: answered, and right."""
    tree, truth = inputs.judging.tree, inputs.nodes[rows]
    columns = []
    if inputs.table.groups is not None:
        shares, last = group_coverage(holds_truth(answers, truth, tree), inputs.table.groups[rows])
        columns.append(Column(f"groups_held_at_{at}", shares == 1, rows[last]))
        columns.append(Column(f"coverage_of_groups_at_{at}", shares, rows[last]))
    depth = tree.depth[answers]
    for level in range(1, tree.max_depth + 1):
        reach = depth >= level
        columns.append(Column(f"answered_at_{at}", reach, rows, kind="by_depth", at=level - 1))
        right = torch.full((len(answers),), torch.nan, dtype=torch.float64)
        if level > shared:  # no answer can be wrong where all answers share one node
            reached = tree.ancestors[answers[reach], level]
            right[reach] = holds_truth(reached, truth[reach], tree).double()
        columns.append(Column(f"right_if_answered_at_{at}", right, rows, kind="by_depth", at=level - 1))
    return columns


def _apart(holds: Column, unpromised: Tensor, at: str) -> list[Column]:
    """Columns of the samples that a promise is about, and of those of classes that were added later."""
    if not bool(unpromised.any()):
        return []
    assert holds.rows is not None
    parts = {"promised": ~unpromised, "later": unpromised}
    return [
        Column(f"coverage_of_{name}_at_{at}", holds.values[part], holds.rows[part])
        for name, part in parts.items()
        if bool(part.any())
    ]


def _costs(inputs: Inputs, rule: DecisionRule, scores: Tensor, rows: Tensor) -> list[Column]:
    """Costs of the answers with minimum expected cost, and of always predicting the most probable class."""
    tree = inputs.judging.tree
    leaves = rule.classes.nodes[rule.probabilities(scores).argmax(1)]
    truths, place = torch.unique(inputs.nodes[rows], return_inverse=True)
    columns = []
    for cost in (TreeCost("height"), TreeCost("edges")):
        prices = cost_matrix(ClassNodes(truths, tree), cost)
        cheapest = rule.cheapest(scores, cost, top=1).nodes
        columns += [
            Column(f"cost_{cost.distance}{name}", prices[a, place], rows)
            for name, a in (("", cheapest), ("_of_classes", leaves))
        ]
    return columns


def _add_calibration(
    result: ProtocolResult,
    rule: DecisionRule,
    tree: Taxonomy,
    scores: Tensor,
    nodes: Tensor,
    rows: Tensor,
    bins: int,
) -> None:
    """Add calibration errors and reliability curves by depth, before and after calibration, to the result."""
    classes, shared = rule.classes, shared_depth(rule.classes.nodes, tree)
    for name, p in (("before", torch.softmax(scores.double(), 1)), ("after", rule.probabilities(scores))):
        of_nodes = classes.node_probabilities(p)
        depths = calibration_by_depth(of_nodes, nodes[rows], tree, bins, classes=classes.nodes)
        for key, attribute in (("ece", "error"), ("brier", "brier"), ("nll", "nll")):
            result.by_depth[f"{key}_{name}"] = [float(getattr(here, attribute)) for here in depths]
        if name == "after":
            result.by_depth["accuracy"] = [here.accuracy for here in depths]
            result.by_depth["confidence"] = [here.confidence for here in depths]
            result.by_depth["ece_by_chance"] = [here.by_chance for here in depths]
            result.scores["ece_by_chance"] = depths[-1].by_chance
        for level, here in enumerate(depths[shared:], start=shared + 1):
            result.curves[f"reliability_{name}_depth_{level}"] = here.curve.accuracy.tolist()
            result.axes[f"reliability_{name}_depth_{level}"] = here.curve.confidence.tolist()
        result.scores[f"ece_{name}"] = depths[-1].error
        result.scores[f"nll_{name}"] = depths[-1].nll
        finest = depths[-1].of_samples
        if finest is not None:
            at = rows[finest.rows]
            nll = Column(f"nll_{name}", finest.nll, at, kind=None)
            result.columns.append(nll)
            result.statistics.append(
                Statistic(
                    "calibration",
                    (f"ece_{name}",),
                    at.numpy(),
                    {"confidence": finest.confidence.numpy(), "right": finest.right.numpy()},
                    {"bins": np.array([bins])},
                )
            )


def _unlearned(truth: Tensor, classes: ClassNodes, tree: Taxonomy) -> int:
    """Number of labels that have no learned class at, below or above them."""
    line = tree.ancestors[truth]
    of_class = ((line >= 0) & (classes.place[line.clamp_min(0)] >= 0)).any(1)
    return int((~of_class & (classes.counts[truth] == 0)).sum())

"""``decisions``: what answers are worth that are only as fine as is sure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from labeltree.decisions import (
    CALIBRATIONS,
    Calibration,
    ClassNodes,
    Promise,
    fit_rule,
)
from labeltree.decisions.choice import (
    CLASSIFIER_WORDS,
    CLASSIFIERS,
    ClassifierChoice,
    ClassScores,
    fit_classifiers,
)
from labeltree.decisions.grouping import share_of_groups
from labeltree.decisions.paths import Descent
from labeltree.errors import DataError
from labeltree.evaluation.decision_findings import DecisionFindings
from labeltree.evaluation.inputs import Inputs
from labeltree.evaluation.measure import held_rows
from labeltree.evaluation.protocol import ProtocolResult, register
from labeltree.taxonomy import Taxonomy

__all__ = ["DecisionOptions", "decisions"]


@dataclass(frozen=True)
class DecisionOptions:
    """What can be chosen.

    Attributes:
        coverages: the shares of answers that shall hold the truth.
        classifier: ``own``, ``probe`` on the features, or ``prototypes`` of the embeddings; ``auto`` is the
            one that the headline numbers are of.
        calibration: of the probabilities: ``temperature``, ``vector``, ``depth`` or ``none``.
        descent: ``child`` or ``leaf``, see `labeltree.decisions.find_paths`.
        counted: with groups, whether a ``sample`` or all of a ``group`` is promised.
        bins: of the reliability curves.
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
        for name, choices in (
            ("classifier", CLASSIFIERS),
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
    scorer, said = _classifier(inputs, options)
    notes = [*notes, said]
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
    if rule.check is not None:
        notes.append(rule.check.sentence)
    scores = scorer(table.rows(tested))
    truth = inputs.nodes[tested]
    judged = classes.judges(truth)
    if not bool(judged.any()):
        raise DataError("no test sample has a label that decides about answers")
    groups = None if table.groups is None else table.groups[tested][judged]
    evidence = inputs.evidence(tested[judged])
    found = DecisionFindings(rule, tree, truth[judged], groups, evidence)
    found.add_promises(scores[judged], options.coverages, options.counted)
    found.add_costs(scores[judged])
    found.add_calibration(scores, truth, options.bins)
    result = ProtocolResult(
        "Decisions: answers as fine as is sure",
        scores=found.scores,
        by_depth=found.by_depth,
        by_node=found.by_node,
        curves=found.curves,
        axes=found.axes,
        counts={**rule.counts, "test samples answered": int(judged.sum())},
        notes=notes + found.notes,
    )
    if unlearned := _unlearned(truth, classes, tree):
        result.notes.append(
            f"{unlearned} of {len(truth)} test samples are of classes that were not learned: no calibration "
            "sample is like them, so that answers hold the truth less often than is promised, and nll is as "
            "large as numbers allow."
        )
    if evidence.resampling is not None:
        result.notes.append(
            "The intervals hold the classifier and its calibration fixed. Calibration errors have none: "
            "those of samples drawn anew are too large, and bins do not tell by how much."
        )
    return evidence.fill(result)


def _classifier(inputs: Inputs, options: DecisionOptions) -> tuple[ClassScores, str]:
    """What gives classes their scores, and a sentence that says which it is."""
    known = inputs.classifiers
    if known is None:
        known = fit_classifiers(
            inputs.table,
            inputs.ground.tree,
            learned=inputs.learned,
            held=held_rows(inputs.table, inputs.samples),
            standardize=inputs.settings.standardize,
        )
    if options.classifier != "auto":
        name = options.classifier
        if name == "own" and known.own is None:
            raise DataError(
                "the table has no scores of an own classifier; take classifier=probe or prototypes"
            )
        said = "" if name == known.chosen.name else f", not that of the headline ({known.chosen.name})"
        return known.scores(name), f"Answers come from {CLASSIFIER_WORDS[name]}, as was asked for{said}."
    if known.chosen.name != "own" or known.own is not None:
        return known.scores(), known.chosen.sentence
    rest = {key: value for key, value in known.chosen.accuracies.items() if key != "own"}
    name = "prototypes" if rest.get("prototypes", 0) > rest.get("probe", 0) else "probe"
    return known.scores(name), (
        f"The headline is of the answers that came with the table, but it has no probabilities of them: "
        f"these decisions are made with {CLASSIFIER_WORDS[name]}."
    )


def _unlearned(truth: Tensor, classes: ClassNodes, tree: Taxonomy) -> int:
    """How many labels have no class at them, below them or above them."""
    line = tree.ancestors[truth]
    of_class = ((line >= 0) & (classes.place[line.clamp_min(0)] >= 0)).any(1)
    return int((~of_class & (classes.counts[truth] == 0)).sum())


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

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
from labeltree.decisions.classifier import fit_linear, fit_prototypes
from labeltree.decisions.grouping import share_of_groups
from labeltree.decisions.paths import Descent
from labeltree.errors import DataError
from labeltree.evaluation.decision_findings import DecisionFindings
from labeltree.evaluation.inputs import Inputs
from labeltree.evaluation.protocol import ProtocolResult, register
from labeltree.taxonomy import Taxonomy

__all__ = ["DecisionOptions", "decisions"]


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

"""The class scores that a protocol decides by, and the samples to calibrate and to test them on."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.data.source import CALIB
from labeltree.decisions import Calibration, ClassNodes, DecisionRule, fit_rule
from labeltree.decisions.answers import Descent
from labeltree.decisions.choose_classifier import classifier_words
from labeltree.decisions.classifiers import ClassifierChoice, ClassScores
from labeltree.decisions.conformal import share_of_groups
from labeltree.decisions.promise_samples import kept_for_probabilities
from labeltree.errors import DataError
from labeltree.evaluation.chosen_samples import promise_rows
from labeltree.evaluation.search_and_answer_columns import Inputs

__all__ = ["class_scores", "fit_rule_to_rows", "split_for_calibration"]


def class_scores(inputs: Inputs, asked: ClassifierChoice) -> tuple[ClassScores, str]:
    """The class scores of the classifier to use, and a note that names it."""
    known = inputs.classifiers
    features = inputs.table.features is not None
    if asked != "auto":
        name = asked
        if name == "own" and known.own is None:
            raise DataError(
                "the table has no scores of an own classifier; take classifier=probe or prototypes"
            )
        said = "" if name == known.chosen.name else f", not that of the headline ({known.chosen.name})"
        words = classifier_words(name, features=features)
        return known.scores(name), f"Answers come from {words}, as was asked for{said}."
    name = known.with_scores
    if name == known.chosen.name:
        return known.scores(), known.chosen.sentence
    return known.scores(name), (
        f"The headline is of the answers that came with the table, but it has no probabilities of them: "
        f"these decisions are made with {classifier_words(name, features=features)}."
    )


def fit_rule_to_rows(
    inputs: Inputs,
    scorer: ClassScores,
    rows: Tensor,
    *,
    calibration: Calibration = "temperature",
    descent: Descent = "child",
) -> DecisionRule:
    """The decision rule of a classifier, fitted to rows of the table that it has not learned from."""
    table = inputs.table
    held = table.rows(rows)
    return fit_rule(
        scorer(held),
        inputs.nodes[rows],
        ClassNodes(scorer.classes, inputs.judging.tree),
        groups=None if table.groups is None else table.groups[rows],
        calibration=calibration,
        descent=descent,
        seed=inputs.settings.seed,
        for_probabilities=kept_for_probabilities(held),
    )


def split_for_calibration(inputs: Inputs) -> tuple[Tensor, Tensor, list[str]]:
    """Rows for calibration, rows for testing, and notes on them."""
    table, held = inputs.table, promise_rows(inputs.table)
    learned = bool(torch.isin(held, inputs.samples.train).any())
    if len(held) and inputs.samples.split not in ("val", CALIB) and not learned:
        return held, inputs.samples.test, []
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

"""The class scores that a protocol decides by, and the samples to calibrate and to test them on."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

import torch
from torch import Tensor

from labeltree.decisions import Calibration, ClassNodes, DecisionRule, fit_rule
from labeltree.decisions.answers import Descent
from labeltree.decisions.choose_classifier import ClassifierKind, classifier_words
from labeltree.decisions.classifiers import ClassifierChoice, ClassScores
from labeltree.decisions.conformal import share_of_groups
from labeltree.decisions.promise_samples import StoredRule, kept_for_probabilities
from labeltree.errors import DataError
from labeltree.evaluation.chosen_samples import promise_rows
from labeltree.evaluation.fitted_probe import ClassProbabilities, fit_probe
from labeltree.evaluation.representations import ROLES, Reading
from labeltree.evaluation.search_and_answer_columns import Inputs
from labeltree.split_names import CALIB

__all__ = [
    "ANSWERS",
    "AnswerProbabilities",
    "answer_probabilities",
    "check_judged",
    "class_scores",
    "fit_rule_to_rows",
    "judged_readings",
    "probe_probabilities",
    "split_for_calibration",
    "stored_rule",
]


def class_scores(inputs: Inputs, asked: ClassifierChoice) -> tuple[ClassScores, str]:
    """The class scores of the classifier to use, and a note that names it."""
    known = inputs.classifiers
    features = inputs.standard_table.features is not None
    name: ClassifierKind
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
    table = inputs.standard_table
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


def stored_rule(inputs: Inputs, name: ClassifierKind | Literal["auto"]) -> StoredRule | None:
    """The rule with which a run answers, if it was calibrated on samples that are not its own.

    Args:
        inputs: The table and its classifiers.
        name: The classifier that is asked about; `auto` is the one that answers. The rule is that one's.
    """
    known = inputs.classifiers
    return known.calibrated if name in ("auto", known.chosen.name) else None


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


ANSWERS = "answers"
"""The name of the classifier that answers, among the representations that a linear probe reads."""


def check_judged(roles: Sequence[str]) -> None:
    """Check names of what is judged: `answers`, and representations for a linear probe.

    Raises:
        ValueError: If there is no name, or an unknown one.
    """
    if not roles or not set(roles) <= {ANSWERS, *ROLES}:
        raise ValueError(f"roles are {tuple(roles)}; expected some of {ANSWERS}, {', '.join(ROLES)}")


def judged_readings(inputs: Inputs, roles: Sequence[str]) -> dict[str, Reading | None]:
    """What is judged by its name: None for the classifier that answers, else what a linear probe reads."""
    probes = [role for role in roles if role != ANSWERS]
    answers: dict[str, Reading | None] = {ANSWERS: None} if ANSWERS in roles else {}
    return answers | (dict(inputs.chosen(probes)) if probes else {})


@dataclass(frozen=True)
class AnswerProbabilities:
    """Class probabilities of samples by the classifier that answers.

    Attributes:
        given: The probabilities.
        words: Which classifier it is.
        note: What is to be said of it beside the numbers.
        by_probabilities: Whether its answers are the most probable classes; not where only the answers of
            an own classifier are known, and these probabilities are another's.
    """

    given: ClassProbabilities
    words: str
    note: str
    by_probabilities: bool = True


def answer_probabilities(inputs: Inputs, rows: Tensor, learn: Tensor | None = None) -> AnswerProbabilities:
    """The probabilities with which `predict` would answer, calibrated on validation samples if there are any.

    Args:
        inputs: The table and its classifiers.
        rows: `(m,)` rows of the table.
        learn: The rows to learn from, if they are not all training samples; a classifier that was trained
            with the encoder stays as it is.
    """
    known, features = inputs.classifiers, inputs.standard_table.features is not None
    name = known.with_scores
    words = classifier_words(name, features=features)
    note = f"The answers that are judged come from {words}, the classifier that answers."
    if name != known.chosen.name:
        note = (
            "Of the answers that came with the table there are no probabilities: AUROC, average precision "
            f"and operating points are those of {words}."
        )
    scorer = known.scores(name)
    anew = learn is not None and not torch.equal(learn, inputs.learned)
    if learn is not None and anew and name in known.fitted:
        fewer = replace(inputs, samples=replace(inputs.samples, train=learn), given=None)
        scorer = fewer.fit_classifiers(cast(ClassifierChoice, name), validate=False).scores(name)
    scores = scorer(inputs.standard_table.rows(rows)).double()
    p = torch.softmax(scores, 1)
    stored = stored_rule(inputs, name)
    held, _, halved = split_for_calibration(inputs)
    if stored is not None and not anew:
        p = stored.rule.probabilities(scores)
    elif not halved and not anew:
        with contextlib.suppress(DataError):  # no validation sample has a label that decides
            p = fit_rule_to_rows(inputs, scorer, held).probabilities(scores)
    gap = known.gap if name == "probe" else 0.0
    return AnswerProbabilities(
        ClassProbabilities(scorer.classes, p, gap),
        words,
        note,
        name == known.chosen.name or inputs.own_answers is None,
    )


def probe_probabilities(
    inputs: Inputs, reading: Reading, rows: Tensor, role: str, learn: Tensor | None = None
) -> AnswerProbabilities:
    """The probabilities of a linear probe that was asked for, as they are.

    Args:
        inputs: The table.
        reading: The representation that it reads.
        rows: `(m,)` rows of the table.
        role: Name of the representation.
        learn: See `answer_probabilities`.
    """
    if learn is None or torch.equal(learn, inputs.learned):
        fitted = inputs.probe(reading)
    else:
        fitted = fit_probe(reading.vectors[learn], inputs.nodes[learn], inputs.settings)
    words = f"a linear probe on the {role}"
    note = f"The answers that are judged come from {words}, as was asked for."
    return AnswerProbabilities(fitted.probabilities(reading.vectors[rows]), words, note)

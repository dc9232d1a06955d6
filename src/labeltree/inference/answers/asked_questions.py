"""Questions to samples and groups, such as whether they are malignant, scored as `evaluate` scores them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from labeltree.decisions import ClassNodes
from labeltree.inference.answers.format_answers import ROW_NAMES
from labeltree.inference.decider import Decider
from labeltree.metrics.functional import group_probabilities
from labeltree.runs import EmbeddingTable

if TYPE_CHECKING:
    from labeltree.evaluation.protocols.questions import Question

__all__ = ["question_scores", "read_questions"]

_GUESS = re.compile(r"guess_\d+(_probability)?")


def read_questions(words: Sequence[str], classes: ClassNodes) -> list[Question]:
    """Read questions, each `NAME=NODE,NODE`.

    Raises:
        ValueError: If one is not written so, or has the name of a column of answers.
        DataError: If the taxonomy is a DAG, or lacks a node.
    """
    if not words:
        return []
    from labeltree.evaluation.protocols.questions import Question, check_question

    plain = [each.replace(",", "+") for each in words]
    for each in plain:
        check_question(each)
    questions = [Question.of(each, classes.taxonomy, classes.nodes) for each in plain]
    names = [question.name for question in questions]
    for name in names:
        if name in ROW_NAMES or _GUESS.fullmatch(name):
            raise ValueError(f"a question is called '{name}', as a column of answers is; rename it")
        if names.count(name) > 1:
            raise ValueError(f"two questions are called '{name}'; name them apart")
    return questions


def question_scores(
    questions: Sequence[Question],
    decider: Decider,
    table: EmbeddingTable,
    per: str | None,
    unit: str = "sample",
) -> tuple[Mapping[str, Tensor], str]:
    """The score of each question for samples, or for groups in the order of their answers, and what it is.

    Args:
        questions: See `read_questions`.
        decider: The run.
        table: (n, ·) embedded samples.
        per: What has one answer, such as `lesion`; None = every sample.
        unit: What that is called.
    """
    probabilities = decider.rule.probabilities(decider.scores(table))
    if per is None:
        scores = {question.name: question.scores(probabilities) for question in questions}
        names = " and ".join(scores)
        return (
            scores,
            f"{names}: the sum of the probabilities of its classes, as 'labeltree evaluate' scores it.",
        )
    from labeltree.evaluation.protocols.questions import greatest

    units, told = table.units(per), []
    scores, place = {}, _places(units)
    # Of a model that keeps no labelled samples nobody can tell whether groups are of one thing.
    known_to_agree = ", as 'labeltree evaluate' scores it" if decider.labelled_samples else ""
    for question in questions:
        apart = any(
            question.groups_differ(known.nodes, known.units(per)) for known in decider.labelled_samples
        )
        if apart:
            of_samples = question.scores(probabilities)
            scores[question.name] = of_samples[greatest(of_samples, place)]
        else:
            together = group_probabilities(probabilities, units, "logits").probabilities
            scores[question.name] = question.scores(together)
        how = "its most suspicious sample" if apart else "its samples' combined probabilities (logits)"
        told.append(f"{question.name}: the score of each {unit} is that of {how}{known_to_agree}.")
    return scores, "\n".join(told)


def _places(units: Tensor) -> Tensor:
    """The place of each sample's unit among the answers: units ascending, then samples by themselves."""
    named, place = torch.unique(units[units >= 0], return_inverse=True)
    places = torch.empty_like(units)
    places[units >= 0] = place
    places[units < 0] = len(named) + torch.arange(int((units < 0).sum()))
    return places

"""Which of its classifiers a model answers with: one rule for every number and every answer."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, get_args

import torch
from torch import Tensor

from labeltree.decisions.classifier import (
    ClassifierKind,
    LinearScores,
    PrototypeScores,
    fit_linear,
    fit_prototypes,
)
from labeltree.errors import DataError
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

__all__ = [
    "CLASSIFIERS",
    "CLASSIFIER_WORDS",
    "ChosenClassifier",
    "ClassScores",
    "ClassifierChoice",
    "Classifiers",
    "choose_classifier",
    "classify",
    "fit_classifiers",
    "pick",
]

ClassifierChoice = Literal["auto", "own", "probe", "prototypes"]
CLASSIFIERS: tuple[ClassifierChoice, ...] = get_args(ClassifierChoice)
CLASSIFIER_WORDS: dict[ClassifierKind, str] = {
    "own": "the classifier that was trained with the encoder",
    "probe": "a linear probe on the features",
    "prototypes": "the nearest class mean of the embeddings",
}
"""What each is called in a sentence; of equally good ones the first is taken."""


class ClassScores(Protocol):
    """Gives the classes their scores."""

    @property
    def classes(self) -> Tensor:
        """``(C,)`` nodes."""

    def __call__(self, table: EmbeddingTable, /) -> Tensor:
        """``(n, C)`` float64 scores of a table of the same encoder."""


@dataclass(frozen=True)
class ChosenClassifier:
    """Which classifier answers, and why.

    Attributes:
        name: ``own``, ``probe`` or ``prototypes``.
        asked: what was asked for; ``auto`` leaves it to the validation samples.
        accuracies: classifier → share of the validation samples whose class it names; empty without any.
        samples: how many validation samples that are.
        offered: which there were to choose from.
    """

    name: ClassifierKind
    asked: ClassifierChoice = "auto"
    accuracies: dict[str, float] = field(default_factory=dict)
    samples: int = 0
    offered: tuple[str, ...] = ("probe", "prototypes")

    @property
    def sentence(self) -> str:
        """One sentence for people."""
        what = CLASSIFIER_WORDS[self.name]
        others = [
            f"{CLASSIFIER_WORDS[name]} {self.accuracies[name]:.1%}"
            for name in CLASSIFIER_WORDS
            if name in self.accuracies and name != self.name
        ]
        if not self.accuracies:
            why = (
                "as was asked for"
                if self.asked == self.name
                else "there is no validation sample to choose by"
            )
            return f"Answers come from {what}: {why}."
        right = f"{self.accuracies[self.name]:.1%} of {self.samples:,} validation samples"
        beside = f" ({', '.join(others)})" if others else ""
        if self.asked == self.name:
            return f"Answers come from {what}, as was asked for: right for {right}{beside}."
        level = [name for name, share in self.accuracies.items() if share >= self.accuracies[self.name]]
        best = "the best on validation" if len(level) == 1 else "than which none is better on validation"
        return f"Answers come from {what}, {best}: right for {right}{beside}."

    def to_dict(self) -> dict[str, Any]:
        """What JSON can hold, with the sentence."""
        return {**asdict(self), "offered": list(self.offered), "sentence": self.sentence}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> ChosenClassifier:
        """Read what `to_dict` gave.

        Raises:
            ValueError: if it is none.
        """
        name, asked = content.get("name"), content.get("asked")
        accuracies, samples = content.get("accuracies"), content.get("samples")
        offered = content.get("offered")
        if (
            name not in CLASSIFIER_WORDS
            or asked not in CLASSIFIERS
            or not isinstance(accuracies, Mapping)
            or not all(isinstance(value, float | int) for value in accuracies.values())
            or (accuracies and name not in accuracies)
            or not isinstance(samples, int)
            or not isinstance(offered, list | tuple)
        ):
            raise ValueError(f"no choice of a classifier: {content!r}")
        return cls(name, asked, dict(accuracies), samples, tuple(offered))


def choose_classifier(
    answers: Mapping[ClassifierKind, Tensor], truth: Tensor, asked: ClassifierChoice = "auto"
) -> ChosenClassifier:
    """The classifier that answers: what was asked for, else the one that names most validation classes.

    Of equally good ones it is the first of ``own``, ``probe``, ``prototypes``. Without validation samples it
    is the linear probe, which every encoder offers alike, so that methods remain comparable.

    Args:
        answers: of each classifier that there is, ``(m,)`` nodes for the validation samples.
        truth: ``(m,)`` their labels, finest ones.
        asked: for one of them, or ``auto``.

    Raises:
        ValueError: for an unknown choice.
        DataError: if the one that is asked for is not there.

    Example:
        >>> truth = torch.tensor([1, 2, 3, 4])
        >>> found = choose_classifier({"own": torch.tensor([1, 1, 1, 1]), "probe": truth}, truth)
        >>> found.name, found.accuracies
        ('probe', {'own': 0.25, 'probe': 1.0})
    """
    offered = [name for name in CLASSIFIER_WORDS if name in answers]
    accuracies: dict[str, float] = {}
    if len(truth):
        accuracies = {name: float((answers[name] == truth).double().mean()) for name in offered}
    return pick(offered, accuracies, len(truth), asked)


def pick(
    offered: Sequence[ClassifierKind],
    accuracies: Mapping[str, float],
    samples: int,
    asked: ClassifierChoice = "auto",
) -> ChosenClassifier:
    """The rule of `choose_classifier`, from the accuracies on validation samples."""
    if asked not in CLASSIFIERS:
        raise ValueError(f"classifier is {asked!r}; expected one of {', '.join(CLASSIFIERS)}")
    if asked != "auto" and asked not in offered:
        raise DataError(
            f"there is no classifier '{asked}' here; there are {', '.join(offered)}: take one of those, or "
            "'auto'"
        )
    if asked != "auto":
        name = asked
    elif accuracies:
        name = max(offered, key=lambda kind: accuracies[kind])  # the first of equals
    else:
        name = "probe" if "probe" in offered else offered[0]
    return ChosenClassifier(name, asked, dict(accuracies), samples, tuple(offered))


@dataclass(frozen=True)
class Classifiers:
    """The classifiers of an encoder, and which of them answers.

    Attributes:
        probe: linear, on the features.
        prototypes: the class means of the embeddings.
        chosen: which answers.
        own: the one that was trained with the encoder, where it gives classes scores.
        gap: how far above its minimum the probe's objective may be, relatively; 0 where the solver got there.
    """

    probe: LinearScores
    prototypes: PrototypeScores
    chosen: ChosenClassifier
    own: ClassScores | None = None
    gap: float = 0.0

    def scores(self, name: ClassifierKind | None = None) -> ClassScores:
        """What gives the classes their scores; by default that of the chosen classifier.

        Raises:
            DataError: if that is the own classifier, and only its answers are known.
        """
        name = name or self.chosen.name
        found: dict[ClassifierKind, ClassScores | None] = {
            "own": self.own,
            "probe": self.probe,
            "prototypes": self.prototypes,
        }
        chosen = found[name]
        if chosen is None:
            raise DataError(f"classifier '{name}' gives answers alone, and no scores of the classes")
        return chosen


def fit_classifiers(
    table: EmbeddingTable,
    taxonomy: Taxonomy,
    *,
    learned: Tensor,
    held: Tensor,
    asked: ClassifierChoice = "auto",
    own: ClassScores | None = None,
    own_answers: Tensor | None = None,
    standardize: bool = True,
) -> Classifiers:
    """Learn the classifiers of a table, and choose one by its validation samples.

    Args:
        table: of the encoder.
        taxonomy: of the labels.
        learned: rows to learn from, with finest labels.
        held: rows of validation samples with finest labels, none of them learned from; may be empty.
        asked: for one classifier, or ``auto``.
        own: the classifier that was trained with the encoder, if it gives classes scores.
        own_answers: ``(n,)`` nodes that it answers, −1 for none, where only those are known.
        standardize: of the probe, see `fit_linear`.

    Raises:
        DataError: if there is nothing to learn from, or the classifier that is asked for is not there.
    """
    labels = torch.full_like(table.nodes, -1)
    labels[learned] = table.nodes[learned]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="LinearProbe stopped")  # the gap says it
        probe, gap = fit_linear(table, labels, standardize=standardize)
    prototypes = fit_prototypes(table, labels, taxonomy)
    rows = table.rows(held)
    answers: dict[ClassifierKind, Tensor] = {
        "probe": classify(probe, rows),
        "prototypes": classify(prototypes, rows),
    }
    if own is not None:
        answers["own"] = classify(own, rows)
    elif own_answers is not None:
        answers["own"] = own_answers[held]
    chosen = choose_classifier(answers, table.nodes[held], asked)
    return Classifiers(probe, prototypes, chosen, own, gap)


def classify(scores: ClassScores, table: EmbeddingTable) -> Tensor:
    """``(n,)`` the class of the largest score, the first of equals."""
    if not len(table):
        return scores.classes[:0]
    return scores.classes[scores(table).argmax(1)]

"""Classifiers of an embeddings table, and the rule that chooses which of them answers.

Every encoder has a linear probe on its features and the class means of its embeddings; some have a
classifier that was trained with them. One rule chooses for every number and every answer.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Protocol, get_args

import torch
from torch import Tensor

from labeltree.errors import DataError
from labeltree.geometry import get_geometry
from labeltree.metrics.functional import class_prototypes
from labeltree.metrics.probe import LinearProbe
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

__all__ = [
    "CLASSIFIERS",
    "CLASSIFIER_WORDS",
    "ChosenClassifier",
    "ClassScores",
    "ClassifierChoice",
    "ClassifierKind",
    "Classifiers",
    "LinearScores",
    "PrototypeScores",
    "choose_by_accuracy",
    "choose_classifier",
    "classifier_from",
    "classify",
    "fit_classifiers",
    "fit_linear",
    "fit_prototypes",
]

ClassifierKind = Literal["own", "probe", "prototypes"]

_ROWS = 4096


@dataclass(frozen=True)
class LinearScores:
    """Scores x·W + b of the features of a table, or of its embeddings where it has no features.

    Attributes:
        classes: (C,) nodes.
        weight: (d, C) float64.
        bias: (C,) float64.
    """

    classes: Tensor
    weight: Tensor
    bias: Tensor

    def __call__(self, table: EmbeddingTable) -> Tensor:
        """(n, C) float64 scores of a table of the same encoder."""
        vectors = _vectors(table)
        if vectors.shape[1] != len(self.weight):
            raise DataError(
                f"the classifier reads {len(self.weight)} features, the table has {vectors.shape[1]}"
            )
        parts = [part.double() @ self.weight + self.bias for part in torch.split(vectors, _ROWS)]
        return torch.cat(parts)

    def tensors(self) -> dict[str, Tensor]:
        """What `classifier_from` makes it of again."""
        return {"classes": self.classes, "weight": self.weight, "bias": self.bias}


@dataclass(frozen=True)
class PrototypeScores:
    """Scores −d(x, π)² of the embeddings of a table and the mean π of each class, in their geometry.

    Attributes:
        classes: (C,) nodes.
        prototypes: (C, d) float64.
        geometry: `sphere`, `euclidean` or `poincare`.
        curvature: curvature of the ball.
    """

    classes: Tensor
    prototypes: Tensor
    geometry: str
    curvature: float = -1.0

    def __call__(self, table: EmbeddingTable) -> Tensor:
        """(n, C) float64 scores of a table of the same encoder."""
        if table.geometry != self.geometry or table.embeddings.shape[1] != self.prototypes.shape[1]:
            raise DataError(
                f"the classifier reads {self.prototypes.shape[1]}-d embeddings ({self.geometry}), the table "
                f"has {table.embeddings.shape[1]}-d ones ({table.geometry})"
            )
        space = get_geometry(self.geometry, self.curvature)
        parts = [
            -space.pairwise_distance(part.double(), self.prototypes).square()
            for part in torch.split(table.embeddings, _ROWS)
        ]
        return torch.cat(parts)

    def tensors(self) -> dict[str, Tensor]:
        """What `classifier_from` makes it of again, with the geometry."""
        return {"classes": self.classes, "prototypes": self.prototypes}


def fit_linear(
    table: EmbeddingTable, labels: Tensor, *, standardize: bool = True
) -> tuple[LinearScores, float]:
    """Learn the linear probe of the evaluation: balanced logistic regression on standardised features.

    Args:
        table: table of the encoder.
        labels: (n,) class of each row, -1 for rows that are not learned from.
        standardize: give every column mean 0 and deviation 1 first; the scores then take them as they are.

    Returns:
        the classifier, and how far above its minimum the objective may be, relatively; 0 where the solver got
        there.

    Raises:
        DataError: if no row has a class.
    """
    rows = labels >= 0
    if not bool(rows.any()):
        raise DataError("no training sample has a label that a classifier could learn")
    vectors = _vectors(table)[rows]
    mean = torch.zeros(vectors.shape[1], dtype=vectors.dtype)
    scale = torch.ones(vectors.shape[1], dtype=vectors.dtype)
    if standardize:
        mean, deviation = vectors.mean(0), vectors.std(0, correction=0)
        flat = deviation <= 1e-6 * deviation.max()  # dividing such a column would blow up its rounding noise
        scale = torch.where(flat, 0.0, 1 / deviation.masked_fill(flat, 1.0))
    probe = LinearProbe().fit((vectors - mean) * scale, labels[rows])
    weight = probe.weight * scale.double()[:, None]
    scores = LinearScores(probe.classes, weight, probe.bias - mean.double() @ weight)
    return scores, 0.0 if probe.converged else probe.gap


def fit_prototypes(table: EmbeddingTable, labels: Tensor, taxonomy: Taxonomy) -> PrototypeScores:
    """The mean embedding of every class, in the table's geometry.

    Args:
        table: table of the encoder.
        labels: (n,) class of each row, -1 for rows that are not learned from.
        taxonomy: taxonomy of the labels.

    Raises:
        DataError: if no row has a class.
    """
    classes = torch.unique(labels[labels >= 0])
    if not len(classes):
        raise DataError("no training sample has a label that a classifier could learn")
    means = class_prototypes(table.embeddings, labels, taxonomy, table.space)[classes]
    return PrototypeScores(classes, means, table.geometry, table.curvature)


def classifier_from(
    tensors: Mapping[str, Tensor], geometry: str, curvature: float
) -> LinearScores | PrototypeScores:
    """The classifier that these tensors are of.

    Raises:
        DataError: if they are no classifier's: one is missing, or of another shape or kind.
    """
    classes = tensors.get("classes")
    linear = "weight" in tensors
    rest = {"weight": (-1, 0), "bias": (0,)} if linear else {"prototypes": (0, -1)}
    if (
        classes is None
        or classes.ndim != 1
        or classes.dtype != torch.int64
        or set(tensors) != {"classes", *rest}
    ):
        raise DataError("these are no tensors of a classifier: classes with weight and bias, or prototypes")
    for name, axes in rest.items():
        tensor = tensors[name]
        sizes = [
            len(classes) if axis == 0 else tensor.shape[place]
            for place, axis in enumerate(axes[: tensor.ndim])
        ]
        if tensor.ndim != len(axes) or list(tensor.shape) != sizes or tensor.dtype != torch.float64:
            raise DataError(f"the classifier's '{name}' is {tuple(tensor.shape)} for {len(classes)} classes")
    if "weight" in tensors:
        return LinearScores(tensors["classes"], tensors["weight"], tensors["bias"])
    return PrototypeScores(tensors["classes"], tensors["prototypes"], geometry, curvature)


def _vectors(table: EmbeddingTable) -> Tensor:
    """What a linear classifier reads: features, or embeddings; of the ball their image at its centre."""
    if table.features is not None:
        return table.features.float()
    points = table.embeddings.float()
    if table.geometry != "poincare":
        return points
    return table.space.log(torch.zeros_like(points[:1]), points)


ClassifierChoice = Literal["auto", "own", "probe", "prototypes"]
CLASSIFIERS: tuple[ClassifierChoice, ...] = get_args(ClassifierChoice)
CLASSIFIER_WORDS: dict[ClassifierKind, str] = {
    "own": "the classifier that was trained with the encoder",
    "probe": "a linear probe on the features",
    "prototypes": "the nearest class mean of the embeddings",
}
"""The words for each classifier in a sentence; ties go to the first."""


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
        offered: the classifiers to choose from.
        one_class: whether the validation samples are of one class, which tells no classifier from another.
    """

    name: ClassifierKind
    asked: ClassifierChoice = "auto"
    accuracies: dict[str, float] = field(default_factory=dict)
    samples: int = 0
    offered: tuple[str, ...] = ("probe", "prototypes")
    one_class: bool = False

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
        if self.one_class:
            asked = ", as was asked for" if self.asked == self.name else ""
            return (
                f"Answers come from {what}{asked}: all {self.samples:,} validation samples are of one class, "
                "so they cannot tell which classifier is better."
            )
        right = f"{self.accuracies[self.name]:.1%} of {self.samples:,} validation samples"
        beside = f" ({', '.join(others)})" if others else ""
        if self.asked == self.name:
            return f"Answers come from {what}, as was asked for: right for {right}{beside}."
        level = [name for name, share in self.accuracies.items() if share >= self.accuracies[self.name]]
        best = "the best on validation" if len(level) == 1 else "one of the best on validation"
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
        one_class = content.get("one_class") is True  # not there in older files
        return cls(name, asked, dict(accuracies), samples, tuple(offered), one_class)


def choose_classifier(
    answers: Mapping[ClassifierKind, Tensor], truth: Tensor, asked: ClassifierChoice = "auto"
) -> ChosenClassifier:
    """The classifier that answers: what was asked for, else the one that names most validation classes.

    Of equally good ones it is the first of ``own``, ``probe``, ``prototypes``. Without validation samples it
    is the linear probe, which every encoder offers alike, so that methods remain comparable.

    Args:
        answers: classifier → its answers ``(m,)`` to the validation samples, nodes.
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
    chosen = choose_by_accuracy(offered, accuracies, len(truth), asked)
    return replace(chosen, one_class=len(torch.unique(truth)) == 1)


def choose_by_accuracy(
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
        chosen: the one that answers.
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
        table: table of the encoder.
        taxonomy: taxonomy of the labels.
        learned: rows to learn from, with finest labels.
        held: rows of validation samples with finest labels, none of them learned from; may be empty.
        asked: for one classifier, or ``auto``.
        own: the classifier that was trained with the encoder, if it gives classes scores.
        own_answers: ``(n,)`` nodes that it answers, −1 for none, where only those are known.
        standardize: standardisation of the probe, see `fit_linear`.

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

"""Classifiers of an embeddings table.

Every encoder has three classifiers on its features (class means, linear discriminant analysis, a linear
probe) and the class means of its embeddings; some also have a classifier that was trained with them. The same
choice holds for all metrics and all answers: training must not make answers worse than what the features
already give.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from labeltree.decisions.calibrators import mean_label_loss, smoothed_temperature
from labeltree.decisions.choose_classifier import (
    CLASSIFIER_WORDS,
    ChosenClassifier,
    ClassifierKind,
    choose_by_accuracy,
    choose_classifier,
)
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.decisions.lda import fit_discriminants
from labeltree.decisions.promise_samples import StoredRule
from labeltree.decisions.ridge_scores import RidgeScores, ridge_scores_from
from labeltree.errors import DataError
from labeltree.geometry import get_geometry
from labeltree.metrics.functional import class_prototypes
from labeltree.metrics.probe import LinearProbe
from labeltree.metrics.standardisation import column_scale
from labeltree.options.choices import ClassifierChoice
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

__all__ = [
    "ClassScores",
    "ClassifierChoice",
    "Classifiers",
    "FittedScores",
    "LinearScores",
    "MergedScores",
    "PrototypeScores",
    "answer_held_out",
    "classifier_from",
    "classifiers_of_features",
    "classify",
    "features_as_embeddings",
    "fit_classifiers",
    "fit_lda",
    "fit_linear",
    "fit_prototypes",
    "merge_columns",
    "merging_temperature",
    "remap_classes",
]

_ROWS = 4096


@dataclass(frozen=True)
class LinearScores:
    """Scores x·W + b of the features of a table, or of its embeddings where it has no features.

    Attributes:
        classes: (C,) nodes of the classes.
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
        """The tensors that `classifier_from` rebuilds the classifier from."""
        return {"classes": self.classes, "weight": self.weight, "bias": self.bias}


@dataclass(frozen=True)
class PrototypeScores:
    """Scores −s·d(x, π)² of the embeddings x of a table for the class means π, in the table's geometry.

    Attributes:
        classes: (C,) nodes of the classes.
        prototypes: (C, d) float64 class means.
        geometry: `sphere`, `euclidean` or `poincare`.
        curvature: Curvature of the Poincaré ball.
        of_features: Whether x are the features, compared by cosine, and not the embeddings.
        scale: s. Distances alone are no logits: on the sphere they differ by 4 at most, so that all classes
            would come out about equally probable.
    """

    classes: Tensor
    prototypes: Tensor
    geometry: str
    curvature: float = -1.0
    of_features: bool = False
    scale: float = 1.0

    def __call__(self, table: EmbeddingTable) -> Tensor:
        """(n, C) float64 scores of a table of the same encoder."""
        table = features_as_embeddings(table) if self.of_features else table
        if table.geometry != self.geometry or table.embeddings.shape[1] != self.prototypes.shape[1]:
            raise DataError(
                f"the classifier reads {self.prototypes.shape[1]}-d embeddings ({self.geometry}), the table "
                f"has {table.embeddings.shape[1]}-d ones ({table.geometry})"
            )
        space = get_geometry(self.geometry, self.curvature)
        parts = [
            -self.scale * space.pairwise_distance(part.double(), self.prototypes).square()
            for part in torch.split(table.embeddings, _ROWS)
        ]
        return torch.cat(parts)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors that `classifier_from` rebuilds the classifier from, together with the geometry."""
        scale = torch.tensor([self.scale], dtype=torch.float64)
        return {"classes": self.classes, "prototypes": self.prototypes, "scale": scale}


def fit_linear(
    table: EmbeddingTable,
    labels: Tensor,
    *,
    standardize: bool = True,
    balanced: bool = True,
    C: float = 1.0,
) -> tuple[LinearScores, float]:
    """Learn the linear probe of the evaluation: balanced logistic regression on standardised features.

    Args:
        table: Table of the encoder.
        labels: (n,) class of each row, -1 for rows that are not learned from.
        standardize: Standardise every column before the fit; the returned classifier takes raw columns.
        balanced: Give every class the same total weight; see `LinearProbe`.
        C: Inverse strength of the penalty.

    Returns:
        The classifier, and an upper bound of the relative gap between the objective and its minimum; 0 if the
        solver converged.

    Raises:
        DataError: If no row has a class.
    """
    rows = labels >= 0
    if not bool(rows.any()):
        raise DataError("no training sample has a label that a classifier could learn")
    vectors = _vectors(table)[rows]
    mean = torch.zeros(vectors.shape[1], dtype=vectors.dtype)
    scale = torch.ones(vectors.shape[1], dtype=vectors.dtype)
    if standardize:
        mean, scale = column_scale(vectors)
    probe = LinearProbe(C, balanced=balanced).fit((vectors - mean) * scale, labels[rows])
    weight = probe.weight * scale.double()[:, None]
    scores = LinearScores(probe.classes, weight, probe.bias - mean.double() @ weight)
    return scores, 0.0 if probe.converged else probe.gap


def fit_lda(table: EmbeddingTable, labels: Tensor) -> LinearScores:
    """Learn the discriminants of the features, see `fit_discriminants`; the arguments are `fit_linear`'s.

    Raises:
        DataError: If no row has a class.
    """
    rows = labels >= 0
    if not bool(rows.any()):
        raise DataError("no training sample has a label that a classifier could learn")
    return LinearScores(*fit_discriminants(_vectors(table)[rows], labels[rows]))


def features_as_embeddings(table: EmbeddingTable) -> EmbeddingTable:
    """A table whose embeddings are its features, compared by cosine; itself if it has no features."""
    if table.features is None:
        return table
    return replace(table, embeddings=table.features, geometry="sphere")


def fit_prototypes(table: EmbeddingTable, labels: Tensor, taxonomy: Taxonomy) -> PrototypeScores:
    """The mean embedding of every class, in the table's geometry.

    Args:
        table: Table of the encoder.
        labels: (n,) class of each row, -1 for rows that are not learned from.
        taxonomy: Taxonomy of the labels.

    Raises:
        DataError: If no row has a class.
    """
    classes = torch.unique(labels[labels >= 0])
    if not len(classes):
        raise DataError("no training sample has a label that a classifier could learn")
    means = class_prototypes(table.embeddings, labels, taxonomy, table.space)[classes]
    return PrototypeScores(classes, means, table.geometry, table.curvature)


FittedScores: TypeAlias = LinearScores | PrototypeScores | RidgeScores
"""Classifiers that are made of tensors."""


def classifier_from(
    tensors: Mapping[str, Tensor], geometry: str, curvature: float, *, of_features: bool = False
) -> FittedScores:
    """Rebuild a classifier from its `tensors`; for the other arguments see `PrototypeScores`.

    Raises:
        DataError: If a tensor is missing, or has the wrong shape or dtype.
    """
    if "columns" in tensors:
        return ridge_scores_from(tensors)
    classes = tensors.get("classes")
    linear = "weight" in tensors
    rest = {"weight": (-1, 0), "bias": (0,)} if linear else {"prototypes": (0, -1)}
    scale = None if linear else tensors.get("scale")  # not in runs of earlier versions
    if scale is not None:
        if scale.numel() != 1 or scale.dtype != torch.float64 or not bool((scale > 0).all()):
            raise DataError("the scale of a classifier's class means is not one number above 0")
        tensors = {name: tensor for name, tensor in tensors.items() if name != "scale"}
    if (
        classes is None
        or classes.ndim != 1
        or classes.dtype != torch.int64
        or set(tensors) != {"classes", *rest}
    ):
        raise DataError("these are not tensors of a classifier: classes with weight and bias, or prototypes")
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
    means = PrototypeScores(
        tensors["classes"],
        tensors["prototypes"],
        "sphere" if of_features else geometry,
        curvature,
        of_features,
    )
    return means if scale is None else replace(means, scale=float(scale))


def _vectors(table: EmbeddingTable) -> Tensor:
    """Input of a linear classifier: features, else embeddings (of the ball: in the tangent space at 0)."""
    if table.features is not None:
        return table.features.float()
    points = table.embeddings.float()
    if table.geometry != "poincare":
        return points
    return table.space.log(torch.zeros_like(points[:1]), points)


class ClassScores(Protocol):
    """Computes class scores of embeddings tables."""

    @property
    def classes(self) -> Tensor:
        """`(C,)` nodes of the classes."""

    def __call__(self, table: EmbeddingTable, /) -> Tensor:
        """Class scores `(n, C)` float64 of a table of the same encoder."""


@dataclass(frozen=True)
class MergedScores:
    """A classifier some of whose classes are the same node: their probabilities add up.

    Attributes:
        scores: The classifier.
        classes: `(C,)` distinct nodes.
        columns: `(K,)` for each class of `scores` the position of its node in `classes`.
        temperature: What scores are divided by to be logits of probabilities, see `merging_temperature`. If
            all classes came out about equally probable, the merged ones would always win.
    """

    scores: ClassScores
    classes: Tensor
    columns: Tensor
    temperature: float = 1.0

    def __call__(self, table: EmbeddingTable, /) -> Tensor:
        """Class scores `(n, C)` float64 of a table of the same encoder."""
        return merge_columns(self.scores(table).double() / self.temperature, self.columns, len(self.classes))


def merge_columns(scores: Tensor, columns: Tensor, count: int) -> Tensor:
    """Scores `(n, count)` whose softmax is that of `scores` with the probabilities of classes added up.

    Args:
        scores: Class scores `(n, K)` float64.
        columns: `(K,)` new column of each class; every new column has at least one.
        count: Number of new columns.
    """
    largest = scores.new_full((scores.shape[0], count), -1e300)
    largest = largest.scatter_reduce(1, columns.expand(scores.shape[0], -1), scores, "amax")
    sums = torch.zeros_like(largest).index_add(1, columns, (scores - largest[:, columns]).exp())
    return sums.log() + largest


def merging_temperature(scores: ClassScores, held: EmbeddingTable, taxonomy: Taxonomy) -> float:
    """The temperature at which a classifier's scores are probabilities, so that classes can be merged.

    Few samples, all answered rightly, do not make it sure of everything: see `smoothed_temperature`.

    Args:
        scores: The classifier.
        held: Labelled samples that it has not learned from; without any, the temperature is 1.
        taxonomy: Taxonomy of its classes and of the labels.
    """
    if not len(held):
        return 1.0
    return smoothed_temperature(scores(held), held.nodes, ClassNodes(scores.classes, taxonomy))


def remap_classes(scores: ClassScores, nodes: Tensor | None = None, temperature: float = 1.0) -> ClassScores:
    """The classifier with other nodes for its classes, each node one class; see `MergedScores`.

    Args:
        scores: The classifier.
        nodes: `(K,)` the node of each class; None: those that it has.
        temperature: See `merging_temperature`; it matters only where classes are merged. Those that were
            merged before keep the one of then.

    Example:
        >>> means = PrototypeScores(torch.tensor([1, 2, 3]), torch.eye(3).double(), "euclidean")
        >>> merged = remap_classes(means, torch.tensor([5, 4, 4]))
        >>> merged.classes
        tensor([4, 5])
        >>> table = EmbeddingTable(torch.eye(3), torch.full((3,), -1), geometry="euclidean")
        >>> before, after = means(table).softmax(1), merged(table).softmax(1)
        >>> bool(torch.allclose(before[:, 1] + before[:, 2], after[:, 0]))
        True
    """
    given = scores.classes if nodes is None else nodes
    if isinstance(scores, MergedScores):
        return remap_classes(scores.scores, given[scores.columns], scores.temperature)
    classes, columns = torch.unique(given, return_inverse=True)
    if len(classes) == len(given) and (nodes is None or is_dataclass(scores)):
        return scores if nodes is None else replace(scores, classes=nodes)
    return MergedScores(scores, classes, columns, temperature)


@dataclass(frozen=True)
class Classifiers:
    """The classifiers of an encoder, and the choice of the one that answers.

    Attributes:
        fitted: The classifiers that were learned from the training samples, by kind; `own` is among them in
            an extension of a run whose own one could be extended, and then stands for `own`.
        chosen: The classifier that answers.
        own: The classifier that was trained with the encoder; None if there is none or it has no scores.
        gap: Upper bound of the relative gap between the probe's objective and its minimum; 0 if the solver
            converged.
        temperatures: By name of a classifier, what its scores are divided by before classes of one node are
            merged; 1 where there is none.
        calibrated: The rule with which the chosen one answers; None = it is fitted to validation samples.
        later: Nodes of the classes that were added after the training; None without any.
    """

    fitted: Mapping[ClassifierKind, FittedScores]
    chosen: ChosenClassifier
    own: ClassScores | None = None
    gap: float = 0.0
    temperatures: Mapping[str, float] = field(default_factory=dict)
    calibrated: StoredRule | None = None
    later: Tensor | None = None

    @property
    def probe(self) -> LinearScores:
        """The linear probe on the features."""
        probe = self.fitted["probe"]
        assert isinstance(probe, LinearScores)
        return probe

    @property
    def prototypes(self) -> PrototypeScores:
        """The nearest class mean of the embeddings."""
        prototypes = self.fitted["prototypes"]
        assert isinstance(prototypes, PrototypeScores)
        return prototypes

    @property
    def with_scores(self) -> ClassifierKind:
        """The chosen classifier or, if only its answers are known, the best of the fitted ones."""
        if self.chosen.name != "own" or self.own is not None or "own" in self.fitted:
            return self.chosen.name
        scores = self.chosen.hierarchical_f1 or self.chosen.accuracies
        offered = [kind for kind in CLASSIFIER_WORDS if kind in self.fitted]
        return max(offered, key=lambda kind: scores.get(kind, 0)) if scores else "probe"

    def scores(self, name: ClassifierKind | None = None) -> ClassScores:
        """The function that computes class scores; by default that of the chosen classifier.

        Raises:
            DataError: If the encoder's own classifier is meant, and only its answers are known.
        """
        name = name or self.chosen.name
        chosen = self.fitted.get(name, self.own if name == "own" else None)
        if chosen is None:
            raise DataError(f"classifier '{name}' gives answers alone, and no scores of the classes")
        return remap_classes(chosen, temperature=self.temperatures.get(name, 1.0))


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
    """Learn the classifiers of a table, and choose one by hierarchical F1 on validation.

    Args:
        table: Table of the encoder.
        taxonomy: Taxonomy of the labels.
        learned: Rows to learn from, with finest labels.
        held: Validation rows, with finest labels and not in `learned`; may be empty.
        asked: The requested classifier, or `auto`.
        own: The classifier that was trained with the encoder, if it computes class scores.
        own_answers: `(n,)` nodes that the own classifier answers, −1 for none, if it has no scores.
        standardize: Standardise the features for the probe, see `fit_linear`.

    Raises:
        DataError: If there is nothing to learn from, or the requested classifier is not available.
    """
    labels = torch.full_like(table.nodes, -1)
    labels[learned] = table.nodes[learned]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="LinearProbe stopped")  # the gap says it
        probe, gap = fit_linear(table, labels, standardize=standardize)
    fitted: dict[ClassifierKind, LinearScores | PrototypeScores] = {
        "prototypes": fit_prototypes(table, labels, taxonomy),
        "lda": fit_lda(table, labels),
        "probe": probe,
    }
    if table.features is not None:
        means = fit_prototypes(features_as_embeddings(table), labels, taxonomy)
        fitted["feature-means"] = replace(means, of_features=True)
    rows = table.rows(held)
    for kind, each in fitted.items():
        if isinstance(each, PrototypeScores):
            fitted[kind] = replace(each, scale=1 / merging_temperature(each, rows, taxonomy))
    scored: dict[ClassifierKind, ClassScores] = fitted | ({} if own is None else {"own": own})
    answers, losses = answer_held_out(scored, rows, taxonomy)
    if own is None and own_answers is not None:
        answers["own"] = own_answers[held]
    chosen = choose_classifier(answers, table.nodes[held], taxonomy, asked, losses)
    chosen = replace(chosen, features=table.features is not None)
    return Classifiers(fitted, chosen, own, gap)


def answer_held_out(
    scored: Mapping[ClassifierKind, ClassScores], held: EmbeddingTable, taxonomy: Taxonomy
) -> tuple[dict[ClassifierKind, Tensor], dict[str, float]]:
    """What `choose_classifier` chooses by: the answers `(m,)` of each classifier, and its log loss.

    The loss is that with the temperature that suits these samples; there is none without a sample of a class.
    """
    answers: dict[ClassifierKind, Tensor] = {}
    losses = dict[str, float]()
    for kind, scorer in scored.items():
        if not len(held):
            answers[kind] = scorer.classes[:0]
            continue
        scores, classes = scorer(held), ClassNodes(scorer.classes, taxonomy)
        answers[kind] = scorer.classes[scores.argmax(1)]
        known = classes.place[held.nodes] >= 0
        if bool(known.any()):
            raw, truth = torch.log_softmax(scores[known].double(), 1), held.nodes[known]
            temperature = smoothed_temperature(raw, truth, classes)
            losses[kind] = float(mean_label_loss(raw / temperature, truth, classes))
    return answers, losses


def classifiers_of_features(known: Classifiers) -> Classifiers:
    """The classifiers of the same features without a head: their embeddings are the features themselves.

    Args:
        known: The classifiers of a table with these features.
    """
    means = known.fitted.get("feature-means")
    if not isinstance(means, PrototypeScores):
        raise ValueError("there are no class means of the features among the classifiers")
    fitted: dict[ClassifierKind, FittedScores] = {
        kind: each for kind, each in known.fitted.items() if kind != "prototypes"
    }
    fitted["prototypes"] = replace(means, of_features=False)
    offered = [kind for kind in CLASSIFIER_WORDS if kind in fitted]
    before = known.chosen

    def moved(scores: Mapping[str, float]) -> dict[str, float]:
        alike = {"prototypes": "feature-means"}
        return {kind: scores[alike.get(kind, kind)] for kind in offered if scores}

    right, f1 = moved(before.accuracies), moved(before.hierarchical_f1)
    chosen = choose_by_accuracy(offered, right, before.samples, "auto", f1, moved(before.losses))
    return Classifiers(fitted, replace(chosen, one_class=before.one_class), None, known.gap)


def classify(scores: ClassScores, table: EmbeddingTable) -> Tensor:
    """The class of the largest score, `(n,)`; ties go to the first class."""
    if not len(table):
        return scores.classes[:0]
    return scores.classes[scores(table).argmax(1)]

"""Classifiers of an embeddings table: what gives classes their scores where a model has none of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from labeltree.errors import DataError
from labeltree.geometry import get_geometry
from labeltree.metrics.functional import class_prototypes
from labeltree.metrics.probe import LinearProbe
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

__all__ = [
    "ClassifierKind",
    "LinearScores",
    "PrototypeScores",
    "classifier_from",
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
        curvature: of the ball.
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
        table: of the encoder.
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
        table: of the encoder.
        labels: (n,) class of each row, -1 for rows that are not learned from.
        taxonomy: of the labels.

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

"""The scores of a ridge head that was extended by classes, as a classifier beside an encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.errors import DataError
from labeltree.geometry.fourier_features import fourier_features
from labeltree.geometry.unit_vectors import unit_vectors
from labeltree.runs import EmbeddingTable

__all__ = ["RidgeScores", "ridge_scores_from"]

_ROWS = 4096


@dataclass(frozen=True)
class RidgeScores:
    """Log-probabilities of features at unit length, by a head of K classes of which some answer.

    Attributes:
        classes: (C,) nodes of the classes that answer.
        columns: (C,) int64 their columns.
        weight: (d, K) float64; with `bias`, the outputs times their scale. (2k, K) with Fourier features.
        bias: (K,) float64.
        calibration: (2, K) float64, slope and offset of each class.
        frequencies: (d, k) float64 of 2k Fourier features that the head reads; None = it reads the features.
    """

    classes: Tensor
    columns: Tensor
    weight: Tensor
    bias: Tensor
    calibration: Tensor
    frequencies: Tensor | None = None

    def __call__(self, table: EmbeddingTable) -> Tensor:
        """(n, C) float64 scores of a table of the same encoder."""
        vectors = table.embeddings if table.features is None else table.features
        width = len(self.weight if self.frequencies is None else self.frequencies)
        if vectors.shape[1] != width:
            raise DataError(f"the classifier reads {width} features, the table has {vectors.shape[1]}")
        parts = [self.of_unit_vectors(unit_vectors(part)) for part in torch.split(vectors, _ROWS)]
        return torch.cat(parts)

    def of_unit_vectors(self, vectors: Tensor) -> Tensor:
        """(n, C) scores of features (n, d) float64 of length 1."""
        if self.frequencies is not None:
            vectors = fourier_features(vectors, self.frequencies)
        outputs = torch.log_softmax(vectors @ self.weight + self.bias, 1)
        return (outputs * self.calibration[0] + self.calibration[1])[:, self.columns]

    def tensors(self) -> dict[str, Tensor]:
        """The tensors that `ridge_scores_from` rebuilds the classifier from."""
        names = _NAMES if self.frequencies is None else (*_NAMES, "frequencies")
        return {name: getattr(self, name) for name in names}


_NAMES = ("classes", "columns", "weight", "bias", "calibration")


def ridge_scores_from(tensors: Mapping[str, Tensor]) -> RidgeScores:
    """Rebuild a classifier from its `tensors`.

    Raises:
        DataError: If a tensor is missing, or has the wrong shape or dtype.
    """
    if set(tensors) - {"frequencies"} != set(_NAMES):
        raise DataError("these are not tensors of the scores of a ridge head")
    scores = RidgeScores(**tensors)
    count = scores.weight.shape[-1]
    wanted = {"columns": (len(scores.classes),), "bias": (count,), "calibration": (2, count)}
    whole = all(tensors[name].dtype == torch.int64 for name in ("classes", "columns"))
    of_numbers = ("weight", "bias", "calibration", *(() if scores.frequencies is None else ("frequencies",)))
    numbers = all(tensors[name].dtype == torch.float64 for name in of_numbers)
    if scores.frequencies is not None:
        wanted["weight"] = (2 * scores.frequencies.shape[-1], count)
    shapes = all(tuple(tensors[name].shape) == shape for name, shape in wanted.items())
    fits = whole and numbers and shapes and scores.weight.ndim == 2 and scores.classes.ndim == 1
    if not fits or bool(((scores.columns < 0) | (scores.columns >= count)).any()):
        raise DataError("the tensors of the scores of a ridge head do not go together")
    return scores

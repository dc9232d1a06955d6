"""Ridge regression of vectors onto indicator targets, solved from sums."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.errors import DataError
from labeltree.ridge.moments import Moments
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.label_sets import finest_labels

__all__ = ["RidgeSystem", "class_targets", "classes_with_samples"]


def classes_with_samples(labels: Tensor, taxonomy: Taxonomy) -> Tensor:
    """The classes ``(c,)`` of label sets ``(s, k)``: labels with no other label below them, ascending.

    Raises:
        DataError: if there are fewer than two.
    """
    given = labels[labels > 0]
    classes = finest_labels(given, taxonomy).nonzero()[:, 0]
    if len(classes) < 2:
        raise DataError(f"there must be samples of at least two classes; there are samples of {len(classes)}")
    return classes


def class_targets(labels: Tensor, classes: Tensor, taxonomy: Taxonomy) -> Tensor:
    """Targets ``(s, c)`` of label sets ``(s, k)``: each label is shared evenly by the classes at or below it.

    The labels of a set count equally; −1 is no label. A label without a class at or below it, which cannot be
    where the classes are those of the labels, counts for nothing.
    """
    ends = taxonomy.subtree_end
    targets = torch.zeros(len(labels), len(classes), dtype=torch.float64)
    for column in labels.T:
        node = column.clamp_min(0)
        below = (
            (classes[None] >= node[:, None]) & (classes[None] < ends[node][:, None]) & (column > 0)[:, None]
        )
        targets += below / below.sum(1, keepdim=True).clamp_min(1)
    return targets / (labels > 0).sum(1, keepdim=True).clamp_min(1)


@dataclass(frozen=True, eq=False)
class RidgeSystem:
    """The normal equations of outputs F = x·W + b that minimise Σ‖F − T‖² + λ‖W‖².

    The intercept b is not penalised, so that the outputs of a sample sum to 1, as its targets do.

    Attributes:
        mean: ``(d,)`` mean vector.
        rates: ``(c,)`` mean target.
        spread: ``(d, d)`` Σ (x − mean)(x − mean)ᵀ.
        slopes: ``(d, c)`` Σ (x − mean) Tᵀ.
    """

    mean: Tensor
    rates: Tensor
    spread: Tensor
    slopes: Tensor

    @classmethod
    def of(cls, moments: Moments, targets: Tensor) -> RidgeSystem:
        """The system of samples with the given moments.

        Args:
            moments: with s label sets.
            targets: ``(s, c)`` target of each label set, see `class_targets`.
        """
        count = moments.counts.sum()
        mean = moments.sums.sum(0) / count
        rates = (moments.counts[:, None] * targets).sum(0) / count
        spread = moments.products - count * torch.outer(mean, mean)
        slopes = moments.sums.T @ targets - count * torch.outer(mean, rates)
        return cls(mean, rates, (spread + spread.T) / 2, slopes)

    def solve(self, penalty: float) -> tuple[Tensor, Tensor]:
        """W ``(d, c)`` and b ``(c,)`` for a penalty λ above 0."""
        system = self.spread.clone()
        system.diagonal().add_(penalty)
        weight = torch.cholesky_solve(self.slopes, torch.linalg.cholesky(system))
        return weight, self.rates - self.mean @ weight

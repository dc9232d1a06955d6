"""Metrics as ratios of sums over groups: all that resampling needs to know of the samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "GroupSums", "number_groups"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GroupSums:
    """Numerators and denominators of metrics, summed within each group of samples.

    Every metric is Σ w·v / Σ w over the samples that count in it. Samples of one group (a patient, an item)
    are no independent evidence: a group is drawn as a whole, so its sums are all that matters.

    Attributes:
        numerators: ``(G, r, m)`` of G groups, r runs and m metrics.
        denominators: ``(G, r, m)``.
    """

    numerators: Floats
    denominators: Floats

    @classmethod
    def of(
        cls, values: Floats, groups: NDArray[np.int64] | None = None, weights: Floats | None = None
    ) -> GroupSums:
        """Add up values per sample.

        Args:
            values: ``(n, r, m)``, NaN where a sample does not count.
            groups: ``(n,)`` group of each sample, −1 a group of its own; None = each is one.
            weights: ``(n, r, m)``, at least 0; None = 1 for every sample that counts.

        Raises:
            ValueError: if the shapes do not fit, or a weight is negative.
        """
        if values.ndim != 3 or (weights is not None and weights.shape != values.shape):
            shape = None if weights is None else weights.shape
            raise ValueError(
                f"values have shape {values.shape} and weights {shape}; expected (n, r, m) of both"
            )
        counted = ~np.isnan(values)
        weight = counted.astype(np.float64) if weights is None else np.where(counted, weights, 0.0)
        if weight.size and weight.min() < 0:
            raise ValueError(f"weights hold {weight.min()}; expected 0 or more")
        weighted = np.where(counted, values, 0.0) * weight
        if groups is None:
            return cls(weighted, weight)
        if len(groups) != len(values):
            raise ValueError(f"groups name {len(groups)} samples and values {len(values)}; expected as many")
        numbers = number_groups(groups)
        order = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
        return cls(np.add.reduceat(weighted[order], starts), np.add.reduceat(weight[order], starts))

    def __len__(self) -> int:
        return len(self.numerators)

    @property
    def ratios(self) -> Floats:
        """``(r, m)`` the metrics themselves; NaN where no sample counts."""
        return divided(self.numerators.sum(axis=0), self.denominators.sum(axis=0))

    def runs(self, chosen: list[int]) -> GroupSums:
        """The sums of some of the runs."""
        return GroupSums(self.numerators[:, chosen], self.denominators[:, chosen])


def number_groups(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number groups without gaps from 0; every −1 is a group of its own.

    Example:
        >>> number_groups(np.array([7, -1, 7, -1, 3])).tolist()
        [1, 2, 1, 3, 0]
    """
    alone = groups < 0
    _, numbers = np.unique(groups[~alone], return_inverse=True)
    result = np.empty(len(groups), dtype=np.int64)
    result[~alone] = numbers
    result[alone] = np.arange(alone.sum()) + (numbers.max() + 1 if len(numbers) else 0)
    return result


def divided(numerators: Floats, denominators: Floats) -> Floats:
    """The quotients; NaN where a denominator is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(denominators > 0, numerators / denominators, np.nan)

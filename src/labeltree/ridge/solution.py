"""Ridge regression of vectors onto indicator targets, solved from sums."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.errors import DataError
from labeltree.ridge.moments import Moments
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.label_sets import distinct_labels, finest_classes

__all__ = ["RidgeSystem", "class_targets", "is_singular", "no_solution"]

_NAMED = 3  # constant columns that a message names
_COLUMNS = 448  # that are eliminated at once


def class_targets(labels: Tensor, taxonomy: Taxonomy) -> tuple[Tensor, Tensor]:
    """The classes `(c,)` of label sets `(s, k)`, ascending, and the target `(s, c)` of each set.

    Classes are the labels with no other label below them. A label is shared evenly by the classes at or below
    it; the labels of a set count equally, except that one above another of them says nothing further.

    Args:
        labels: Nodes, −1 where there is no further one; each set has a label below the root.
        taxonomy: Of the labels.

    Raises:
        DataError: If there are fewer than two classes, or a label is no node of the taxonomy.
    """
    if labels.numel() and int(labels.max()) >= taxonomy.num_nodes:
        raise DataError(
            f"a label is {int(labels.max())}, but the taxonomy has the nodes 0 to {taxonomy.num_nodes - 1}"
        )
    classes = finest_classes(labels, taxonomy)
    if len(classes) < 2:
        few = "all are of one" if len(classes) else "no sample has a label"
        raise DataError(f"the ridge head needs samples of at least two classes; {few}")
    sets = distinct_labels(labels, taxonomy)
    targets = torch.zeros(len(sets), len(classes), dtype=torch.float64)
    for column in sets.T:
        node = column.clamp_min(0)[:, None]
        below = (classes >= node) & (classes < taxonomy.subtree_end[node]) & (column > 0)[:, None]
        targets += below / below.sum(1, keepdim=True).clamp_min(1)
    return classes, targets / (sets > 0).sum(1, keepdim=True)


@dataclass(frozen=True, eq=False)
class RidgeSystem:
    """The normal equations of outputs F = x·W + b that minimise Σ‖F − T‖² + λ‖W‖².

    The intercept b is not penalised, so that the outputs of a sample sum to 1, as its targets do.

    Attributes:
        mean: `(d,)` mean vector.
        rates: `(c,)` mean target.
        spread: `(d, d)` Σ (x − mean)(x − mean)ᵀ.
        slopes: `(d, c)` Σ (x − mean) Tᵀ.
    """

    mean: Tensor
    rates: Tensor
    spread: Tensor
    slopes: Tensor

    @classmethod
    def of(cls, moments: Moments, targets: Tensor) -> RidgeSystem:
        """The system of samples with the given moments.

        Args:
            moments: With s label sets.
            targets: `(s, c)` target of each label set, see `class_targets`.
        """
        count = moments.counts.sum()
        mean = moments.sums.sum(0) / count
        rates = (moments.counts[:, None] * targets).sum(0) / count
        spread = moments.products.addr(mean, mean, alpha=-float(count))
        slopes = moments.sums.T @ targets - count * torch.outer(mean, rates)
        return cls(mean, rates, spread, slopes)

    def solve(self, penalty: float) -> tuple[Tensor, Tensor]:
        """W `(d, c)` and b `(c,)` for a penalty λ above 0.

        Raises:
            DataError: If the penalty is too small for the equations to have a solution in float64.
        """
        system = self.spread.clone()
        system.diagonal().add_(penalty)
        if not _factor(system) or is_singular(system.diagonal().square()):
            raise no_solution(penalty, self.spread)
        half = torch.linalg.solve_triangular(system, self.slopes, upper=False)
        weight = torch.linalg.solve_triangular(system.T, half, upper=True)
        return weight, self.rates - self.mean @ weight


def _factor(system: Tensor) -> bool:
    """Put the Cholesky factor into the lower half of a symmetric matrix; False if it has none.

    By blocks of columns, most of the time goes into products of matrices: twice as fast as `cholesky_ex`.
    """
    size = len(system)
    for start in range(0, size, _COLUMNS):
        stop = min(start + _COLUMNS, size)
        corner, failed = torch.linalg.cholesky_ex(system[start:stop, start:stop])
        if int(failed):
            return False
        system[start:stop, start:stop] = corner
        below = torch.linalg.solve_triangular(corner, system[stop:, start:stop].T, upper=False)
        system[stop:, start:stop] = below.T
        for first in range(stop, size, _COLUMNS):
            rest = below[:, first - stop :]
            system[first:, first : first + _COLUMNS].addmm_(rest.T, rest[:, :_COLUMNS], alpha=-1)
    return True


def is_singular(values: Tensor) -> bool:
    """Whether eigenvalues, or squares of the diagonal of a Cholesky factor, are too far apart."""
    return float(values.min()) < 1e-14 * float(values.max())


def no_solution(penalty: float, spread: Tensor) -> DataError:
    """The error of a system that is singular, which names the columns that are constant."""
    diagonal = spread.diagonal()
    constant = (diagonal <= 1e-12 * diagonal.max().clamp_min(1e-300)).nonzero()[:, 0].tolist()
    named = ", ".join(map(str, constant[:_NAMED]))
    if constant[_NAMED:]:
        named += f" and {len(constant) - _NAMED} more"
    why = f"; leave out columns that are constant ({named})" if constant else ""
    return DataError(
        f"the equations have no solution at penalty {penalty:g}, which is too small for these vectors{why}; "
        "give a larger penalty, such as 0.001, or none, so that it is chosen"
    )

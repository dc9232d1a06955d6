"""Sums of labelled vectors from which the ridge head is solved: they add, subtract and follow a taxonomy."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.errors import DataError
from labeltree.geometry.fourier_features import unit_points
from labeltree.geometry.unit_vectors import check_finite

__all__ = ["Moments", "clean_labels"]

_ROWS = 4096  # rows that are widened to float64 at once
_COLUMNS = 384  # of the products, which are symmetric, only the upper blocks are computed
_ROUNDING = 1e-6  # of sums of unit vectors in float64, or of a vector that was computed anew in float32


@dataclass(frozen=True, eq=False)
class Moments:
    """Counts, sums and products of n labelled unit vectors of d dimensions, float64.

    Whatever has the same moments has the same head: two data sets are pooled by `+`, samples are taken out
    by `-`, and a change of the taxonomy needs nothing else. Moments are not anonymous: the sum of a label
    with one sample is that sample.

    Attributes:
        labels: `(s, k)` int64 distinct label sets, ascending in each row, −1 after the last label.
        counts: `(s,)` samples with each label set.
        sums: `(s, d)` sum of their vectors.
        products: `(d, d)` Σ x xᵀ over all samples.
    """

    labels: Tensor
    counts: Tensor
    sums: Tensor
    products: Tensor

    @classmethod
    def of(cls, vectors: Tensor, nodes: Tensor, frequencies: Tensor | None = None) -> Moments:
        """The moments of labelled samples.

        Args:
            vectors: `(n, d)` numbers, brought to unit length one by one.
            nodes: `(n,)` int64 labels, −1 where missing, or `(n, k)` several labels, −1 where there is no
                further one. Samples without a label, or with the root alone, are left out.
            frequencies: `(d, k)`; the moments are then those of 2k Fourier features of the unit vectors.

        Raises:
            DataError: If the shapes differ, labels are not integers from −1, or a vector holds NaN or
                infinity.
        """
        labels, kept = clean_labels(vectors, nodes)
        distinct, place = _distinct_sets(labels)
        dim = vectors.shape[1] if frequencies is None else 2 * frequencies.shape[1]
        counts = torch.bincount(place, minlength=len(distinct)).double()
        sums = torch.zeros(len(distinct), dim, dtype=torch.float64)
        products = torch.zeros(dim, dim, dtype=torch.float64)
        every = len(kept) == len(vectors)
        blocks = (
            torch.split(vectors, _ROWS) if every else (vectors[rows] for rows in torch.split(kept, _ROWS))
        )
        for block, places in zip(blocks, torch.split(place, _ROWS), strict=True):
            points = unit_points(block, frequencies)
            sums.index_add_(0, places, points)
            _add_products(products, points)
        return cls(distinct, counts, sums, _both_halves(products))

    @classmethod
    def of_units(cls, points: Tensor, place: Tensor, labels: Tensor) -> Moments:
        """The moments of unit vectors, with a row for each label set, though some may have no sample.

        Args:
            points: `(n, d)` float64, of unit length.
            place: `(n,)` row of the label set of each.
            labels: `(s, k)` label sets, see `Moments`.
        """
        counts = torch.bincount(place, minlength=len(labels)).double()
        dim = points.shape[1]
        sums = torch.zeros(len(labels), dim, dtype=torch.float64).index_add_(0, place, points)
        products = torch.zeros(dim, dim, dtype=torch.float64)
        _add_products(products, points)
        return cls(labels, counts, sums, _both_halves(products))

    @property
    def count(self) -> int:
        """Number of samples."""
        return round(float(self.counts.sum()))

    @property
    def dim(self) -> int:
        """Number of dimensions of the vectors."""
        return self.products.shape[0]

    def __add__(self, other: Moments) -> Moments:
        return self._combine(other, 1.0)

    def __sub__(self, other: Moments) -> Moments:
        """The moments without samples that are among them.

        Raises:
            DataError: If no samples can have what would be left: a label set has fewer than none, or sums
                and products contradict each other. Vectors that are alike enough to others of their label to
                leave possible sums are not noticed.
        """
        rest = self._combine(other, -1.0)
        rest._check_possible()
        return rest

    def plus(self, other: Moments, sign: float = 1.0) -> Moments:
        """The sum with, or at −1 the difference from, moments of the same label sets, row by row."""
        return Moments(
            self.labels,
            self.counts + sign * other.counts,
            self.sums.add(other.sums, alpha=sign),
            self.products.add(other.products, alpha=sign),
        )

    def relabel(self, new_nodes: Tensor) -> Moments:
        """The moments after a change of the taxonomy, without the samples.

        Args:
            new_nodes: `(num_nodes,)` int64 node of the new taxonomy for each old one.

        Raises:
            DataError: If a label with samples leads nowhere, or has no place among the new nodes.
        """
        if self.labels.numel() and int(self.labels.max()) >= len(new_nodes):
            raise DataError(
                f"new_nodes has {len(new_nodes)} entries, but there are samples of node "
                f"{int(self.labels.max())}; give one for each node of the old taxonomy"
            )
        moved = torch.where(self.labels >= 0, new_nodes[self.labels.clamp_min(0)], -1)
        lost = (moved <= 0).all(1)
        if bool(lost.any()):
            raise DataError(
                f"{int(self.counts[lost].sum())} samples have labels for which the new taxonomy has no node "
                "below its root; map these labels to a node, or forget the samples first"
            )
        return Moments(_sorted_sets(moved), self.counts, self.sums, self.products)._gather()

    def _combine(self, other: Moments, sign: float) -> Moments:
        if self.dim != other.dim:
            raise DataError(f"moments of {self.dim} and of {other.dim} dimensions cannot be combined")
        width = max(self.labels.shape[1], other.labels.shape[1])
        labels = torch.cat([_widen(self.labels, width), _widen(other.labels, width)])
        return Moments(
            labels,
            torch.cat([self.counts, sign * other.counts]),
            torch.cat([self.sums, sign * other.sums]),
            self.products + sign * other.products,
        )._gather()

    def _gather(self) -> Moments:
        """The same with one row for each label set that has samples."""
        labels, place = _distinct_sets(self.labels)
        counts = torch.zeros(len(labels), dtype=torch.float64).index_add_(0, place, self.counts)
        sums = torch.zeros(len(labels), self.dim, dtype=torch.float64).index_add_(0, place, self.sums)
        kept = counts > 0.5
        if bool((counts < -0.5).any()) or bool((sums[~kept].norm(dim=1) > _ROUNDING).any()):
            raise DataError(_NEVER_ADDED)
        return Moments(labels[kept], counts[kept].round(), sums[kept], self.products)

    def _check_possible(self) -> None:
        """Raise a `DataError` if no unit vectors have these moments, though every count is above 0."""
        scatter = self.products - self.sums.T @ (self.sums / self.counts[:, None])
        scatter.diagonal().add_(_ROUNDING)
        failed = int(torch.linalg.cholesky_ex(scatter)[1])
        if failed or float(self.products.trace()) > float(self.counts.sum()) + _ROUNDING:
            raise DataError(_NEVER_ADDED)


_NEVER_ADDED = (
    "some of these samples are not among these moments: pass the vectors and labels that were added, after a "
    "change of the taxonomy with their new labels"
)


def _add_products(products: Tensor, points: Tensor) -> None:
    """Add Σ x xᵀ of points `(n, d)` to the upper half of products `(d, d)`."""
    for start in range(0, len(products), _COLUMNS):
        end = start + _COLUMNS
        products[start:end, start:].addmm_(points[:, start:end].T, points[:, start:])


def _both_halves(products: Tensor) -> Tensor:
    return products.triu() + products.triu(1).T


def clean_labels(vectors: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Label sets `(m, k)` of the samples that have labels below the root, and the rows `(m,)` of these.

    Raises:
        DataError: See `Moments.of`.
    """
    if vectors.ndim != 2 or nodes.ndim not in (1, 2) or len(vectors) != len(nodes):
        raise DataError(
            f"vectors must be (n, d) with one label each, or a row of labels; got {tuple(vectors.shape)} and "
            f"{len(nodes)} labels"
        )
    if nodes.is_floating_point() or nodes.dtype == torch.bool or bool((nodes < -1).any()):
        raise DataError("labels are nodes of the taxonomy, integers of at least 0, or -1 where missing")
    check_finite(vectors)
    sets = nodes[:, None] if nodes.ndim == 1 else nodes
    sets = _sorted_sets(torch.where(sets > 0, sets, -1))
    kept = (sets[:, 0] >= 0).nonzero()[:, 0]
    return sets[kept], kept


def _distinct_sets(sets: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct rows of label sets, ascending, and the place of each row among them."""
    if sets.shape[1] != 1:
        distinct, place = torch.unique(sets, dim=0, return_inverse=True)
        return distinct, place
    distinct, place = torch.unique(sets[:, 0], return_inverse=True)  # four times as fast
    return distinct[:, None], place


def _sorted_sets(sets: Tensor) -> Tensor:
    """Label sets with their labels ascending, each once, −1 at the end."""
    last = torch.iinfo(torch.int64).max
    ordered = torch.where(sets > 0, sets, last).sort(dim=1).values
    ordered[:, 1:][ordered[:, 1:] == ordered[:, :-1]] = last
    ordered = ordered.sort(dim=1).values
    return torch.where(ordered == last, -1, ordered)


def _widen(labels: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(labels, (0, width - labels.shape[1]), value=-1)

"""Sums of labelled vectors from which the ridge head is solved: they add, subtract and follow a taxonomy."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.errors import DataError

__all__ = ["Moments", "unit_rows"]

_ROWS = 16384  # rows that are widened to float64 at once


def unit_rows(vectors: Tensor) -> Tensor:
    """Vectors ``(n, d)`` as float64, each divided by its own length; a vector of zeros stays."""
    wide = vectors.double()
    lengths: Tensor = torch.linalg.vector_norm(wide, dim=1, keepdim=True)
    return wide / torch.where(lengths > 0, lengths, 1.0)


@dataclass(frozen=True, eq=False)
class Moments:
    """Counts, sums and products of n labelled unit vectors of d dimensions, float64.

    Whatever has the same moments has the same head: two data sets are pooled by ``+``, samples are taken out
    by ``-``, and a change of the taxonomy needs nothing else. Moments are not anonymous: the sum of a label
    with one sample is that sample.

    Attributes:
        labels: ``(s, k)`` int64 distinct label sets, ascending in each row, −1 after the last label.
        counts: ``(s,)`` samples with each label set.
        sums: ``(s, d)`` sum of their vectors.
        products: ``(d, d)`` Σ x xᵀ over all samples.
    """

    labels: Tensor
    counts: Tensor
    sums: Tensor
    products: Tensor

    @classmethod
    def of(cls, vectors: Tensor, nodes: Tensor) -> Moments:
        """The moments of labelled samples.

        Args:
            vectors: ``(n, d)`` numbers, brought to unit length one by one.
            nodes: ``(n,)`` int64 labels, −1 where missing, or ``(n, k)`` several labels, −1 where there is no
                further one. Samples without a label, or with the root alone, are left out.

        Raises:
            DataError: if the shapes differ, or a vector holds NaN or infinity.
        """
        labels, kept = clean_labels(vectors, nodes)
        distinct, place = torch.unique(labels, dim=0, return_inverse=True)
        dim = vectors.shape[1]
        counts = torch.bincount(place, minlength=len(distinct)).double()
        sums = torch.zeros(len(distinct), dim, dtype=torch.float64)
        products = torch.zeros(dim, dim, dtype=torch.float64)
        for rows, places in zip(torch.split(kept, _ROWS), torch.split(place, _ROWS), strict=True):
            part = unit_rows(vectors[rows])
            sums.index_add_(0, places, part)
            products.addmm_(part.T, part)
        return cls(distinct, counts, sums, products)

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
            DataError: if they are not: a label set would have fewer than no samples.
        """
        return self._combine(other, -1.0)

    def relabel(self, new_nodes: Tensor) -> Moments:
        """The moments after a change of the taxonomy, without the samples.

        Args:
            new_nodes: ``(num_nodes,)`` int64 node of the new taxonomy for each old one.

        Raises:
            DataError: if a label with samples leads nowhere.
        """
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
        labels, place = torch.unique(self.labels, dim=0, return_inverse=True)
        counts = torch.zeros(len(labels), dtype=torch.float64).index_add_(0, place, self.counts)
        sums = torch.zeros(len(labels), self.dim, dtype=torch.float64).index_add_(0, place, self.sums)
        if bool((counts < -0.5).any()):
            raise DataError("samples are taken out that are not among these moments")
        kept = counts > 0.5
        return Moments(labels[kept], counts[kept].round(), sums[kept], self.products)


def clean_labels(vectors: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Label sets ``(m, k)`` of the samples that have labels below the root, and the rows ``(m,)`` of these.

    Raises:
        DataError: see `Moments.of`.
    """
    if vectors.ndim != 2 or len(vectors) != len(nodes):
        raise DataError(
            f"vectors must be (n, d) with one label each; got {tuple(vectors.shape)} and {len(nodes)} labels"
        )
    if not bool(vectors.isfinite().all()):
        row = int((~vectors.isfinite()).any(1).nonzero()[0])
        raise DataError(f"vector {row} holds NaN or infinity; leave such rows out")
    sets = nodes[:, None] if nodes.ndim == 1 else nodes
    sets = _sorted_sets(torch.where(sets > 0, sets, -1))
    kept = (sets[:, 0] >= 0).nonzero()[:, 0]
    return sets[kept], kept


def _sorted_sets(sets: Tensor) -> Tensor:
    """Label sets with their labels ascending, each once, −1 at the end."""
    last = torch.iinfo(torch.int64).max
    ordered = torch.where(sets > 0, sets, last).sort(dim=1).values
    ordered[:, 1:][ordered[:, 1:] == ordered[:, :-1]] = last
    ordered = ordered.sort(dim=1).values
    return torch.where(ordered == last, -1, ordered)


def _widen(labels: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(labels, (0, width - labels.shape[1]), value=-1)

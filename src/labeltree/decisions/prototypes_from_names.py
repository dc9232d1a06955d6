"""Prototypes of classes from their names, and how samples take over from a name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from labeltree.errors import DataError

__all__ = ["NameEvidence", "NamedClasses", "name_prototypes", "shrink_to_means", "weigh_names"]


def name_prototypes(
    texts: Sequence[Sequence[str]], embed: Callable[[list[str]], Tensor], *, unit: bool = True
) -> Tensor:
    """The prototype of each class from its names: the mean of their vectors.

    Args:
        texts: The texts of each of C classes, at least one each; see `name_texts`.
        embed: Gives the vectors `(n, d)` of n texts.
        unit: Bring the vectors of texts to unit length before, and their means after.

    Returns:
        `(C, d)` float64.

    Example:
        >>> name_prototypes([["ab", "c"], ["c"]], lambda texts: torch.tensor([[len(t), 1.0] for t in texts]))
        tensor([[0.8112, 0.5847],
                [0.7071, 0.7071]], dtype=torch.float64)
    """
    every = list(dict.fromkeys(text for each in texts for text in each))
    place = {text: row for row, text in enumerate(every)}
    vectors = embed(every).double()
    vectors = normalize(vectors, dim=1) if unit else vectors
    means = torch.stack([vectors[[place[text] for text in each]].mean(0) for each in texts])
    return normalize(means, dim=1) if unit else means


@dataclass(frozen=True)
class NameEvidence:
    """What known classes say of names.

    Attributes:
        weight: m, the number of samples that a name is worth; infinite if means of classes lie as near to
            their names as can be told.
        shift: `(d,)` what the mean of a class has and the vector of its name has not, on average.
        classes: Number of classes that say it.
    """

    weight: float
    shift: Tensor
    classes: int


@dataclass(frozen=True)
class NamedClasses:
    """Classes that have names in the space of samples.

    Attributes:
        nodes: `(C,)` the classes, ascending.
        names: `(C, d)` float64 vectors of their names.
        evidence: What these are worth.
        unit: Whether vectors are compared at unit length.
    """

    nodes: Tensor
    names: Tensor
    evidence: NameEvidence
    unit: bool

    def prototypes(self, points: Tensor, labels: Tensor) -> Tensor:
        """The prototypes `(C, d)` of the classes from names and samples, see `shrink_to_means`.

        Args:
            points: `(n, d)` vectors of samples.
            labels: `(n,)` nodes; those of other classes count for nothing.
        """
        return shrink_to_means(self.names, *self._sums(points, labels), self.evidence, unit=self.unit)

    def means(self, points: Tensor, labels: Tensor) -> Tensor:
        """The means `(C, d)` of samples, not brought to unit length; see `prototypes` for the arguments."""
        sums, counts = self._sums(points, labels)
        return sums / counts.clamp(min=1)[:, None]

    def _sums(self, points: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        rows = torch.isin(labels, self.nodes)
        places = torch.searchsorted(self.nodes, labels[rows])
        some = points[rows].double()
        some = normalize(some, dim=1) if self.unit else some
        sums = torch.zeros_like(self.names).index_add_(0, places, some)
        return sums, torch.bincount(places, minlength=len(self.nodes))


def weigh_names(names: Tensor, points: Tensor, labels: Tensor) -> NameEvidence:
    """How many samples a name is worth, from classes that have both.

    Of each class in turn, the shift is that of the others: τ² is the mean squared distance of the mean of its
    samples from its name so shifted, less what the number of samples explains, and σ² is the variance of a
    sample around the mean of its class. The best weighted mean of a name and n samples then has the weights
    m = σ²/τ² and n: the name is one more observation of the mean, with the variance τ² (empirical Bayes,
    Efron & Morris 1973). It is at most the number of samples.

    Args:
        names: `(C, d)` vectors of the names of known classes.
        points: `(n, d)` vectors of their samples.
        labels: `(n,)` row in `names` of each sample.

    Raises:
        DataError: If fewer than three classes have samples, or no class has two.
    """
    names, points = names.double(), points.double()
    counts = torch.bincount(labels, minlength=len(names)).double()
    sums = torch.zeros_like(names).index_add_(0, labels, points)
    means = sums / counts.clamp(min=1)[:, None]
    free = float((counts - 1).clamp(min=0).sum())
    there = counts > 0
    known = int(there.sum())
    if known < 3 or not free:
        raise DataError(
            "how much names are worth is learned from the classes that have samples: it takes three of them, "
            "and one with two samples"
        )
    variance = float((points - means[labels]).square().sum()) / free
    gaps = (means - names)[there]
    shift = gaps.mean(0)
    # gap − mean of the others = (gap − shift)·K/(K − 1), whose expected square is (τ² + σ²/n)·K/(K − 1)
    apart = (gaps - shift).square().sum(1) * known / (known - 1)
    off = float((apart - variance / counts[there]).mean())
    most = float(counts.sum())  # more cannot be told from as many samples
    return NameEvidence(min(variance / off, most) if off > 0 else most, shift, known)


def shrink_to_means(
    names: Tensor, sums: Tensor, counts: Tensor, evidence: NameEvidence, *, unit: bool = True
) -> Tensor:
    """Prototypes `(m·name + n·mean) / (m + n)` of classes with names and some samples, or none.

    Args:
        names: `(C, d)` vectors of the names, before the shift.
        sums: `(C, d)` sum of the vectors of samples.
        counts: `(C,)` n, the number of samples.
        evidence: m, and the shift of names.
        unit: Bring the prototypes to unit length.

    Returns:
        `(C, d)` float64.
    """
    shifted = names.double() + evidence.shift
    if evidence.weight == float("inf"):
        mixed = shifted
    else:
        m, n = evidence.weight, counts.double()[:, None]
        mixed = (m * shifted + sums.double()) / (m + n)
    return normalize(mixed, dim=1) if unit else mixed

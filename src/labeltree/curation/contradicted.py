"""How many labels classifier and neighbours contradict together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from labeltree.curation.neighbour_evidence import Evidence
from labeltree.curation.out_of_fold import OutOfFold

__all__ = ["Contradicted", "count_contradicted"]

_FEWEST = 100  # samples below which a count says nothing
_LEAST_AGREEMENT = 0.7  # of a classifier that agreed with 55 %, six times as many were contradicted as wrong


@dataclass(frozen=True)
class Contradicted:
    """The number of labels that classifier and neighbours contradict.

    Attributes:
        count: The number; None if the classifier is too weak, or the labels too few, for it to say anything.
        samples: Number of labels that it is about.
        agreement: Share of the labels, also of those that are not counted, that the out-of-fold classifier
            gives first.
        reason: Why there is no count; empty if there is one.
    """

    count: int | None
    samples: int
    agreement: float
    reason: str = ""

    def sentence(self, judged: int | None = None) -> str:
        """For people: the count and what it is worth, or why there is none.

        Args:
            judged: Number of labels that were looked at; why there are fewer here is said. None = as many.
        """
        if self.count is None:
            return f"how many labels are wrong in all cannot be said: {self.reason}"
        judged = self.samples if judged is None else judged
        coarse = judged - self.samples
        are = f"{coarse:,} of the {judged:,} {'is' if coarse == 1 else 'are'}"
        but = f" ({are} not counted here, as other labels divide {'it' if coarse == 1 else 'them'} further)"
        return (
            f"classifier and neighbours confidently agree on another class for {self.count:,} of "
            f"{self.samples:,} labels{but if coarse > 0 else ''}; that is no estimate of how many are "
            "wrong (in our trials 0.9 to 1.9 times as many as were planted)"
        )


def count_contradicted(
    predictions: OutOfFold, evidence: Evidence, asked: Tensor | None = None
) -> Contradicted:
    """Count the labels that are contradicted, among those that are classes of the out-of-fold classifier.

    A sample confidently belongs to the most probable class among those whose probability is at least the mean
    probability of that class over the samples labelled with it (Northcutt et al. 2021, Confident Learning,
    Section 3.1). Counted are the samples that confidently belong to another class by the classifier, and
    confidently to the same one by the neighbours: what the classifier alone confuses is mostly not counted.
    It is no estimate of the number of wrong labels: classes that look alike add to it, and wrong labels that
    the classifier has learned are missing (`benchmarks/suspects.py`).

    Args:
        predictions: out-of-fold probabilities.
        evidence: The same with the neighbours, from `weigh`.
        asked: `(n,)` bool, the samples that are counted; all tell what is confident. None = all.
    """
    place = predictions.classes.place[predictions.judged.clamp(min=0)]
    rows = ((predictions.judged > 0) & (place >= 0)).nonzero()[:, 0]
    labels = place[rows].numpy()
    counted = np.ones(len(rows), bool) if asked is None else asked[rows].numpy()
    n = int(counted.sum())
    if n < _FEWEST:
        labels_are = "label" if n == 1 else "labels"
        reason = f"{n} {labels_are} can be judged, and {_FEWEST} are the least"
        return Contradicted(None, n, float("nan"), reason)
    probabilities = predictions.probabilities[rows].numpy()
    agreement = float((probabilities.argmax(1) == labels).mean())
    if agreement < _LEAST_AGREEMENT:
        reason = f"the classifier agrees with {agreement:.0%} of them, so it is too often wrong itself"
        return Contradicted(None, n, agreement, reason)
    sure = confident_classes(probabilities, labels)
    by_votes = confident_classes(evidence.class_votes[rows].numpy(), labels)
    wrong = (sure >= 0) & (sure != labels) & (sure == by_votes) & counted
    return Contradicted(int(wrong.sum()), n, agreement)


def confident_classes(probabilities: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The class that each sample confidently belongs to, `(n,)`; −1 where there is none.

    Args:
        probabilities: `(n, C)`.
        labels: `(n,)` columns.
    """
    size = probabilities.shape[1]
    own = probabilities[np.arange(len(labels)), labels].astype(np.float64)
    counts = np.bincount(labels, minlength=size)
    threshold = np.bincount(labels, weights=own, minlength=size) / np.maximum(counts, 1)
    threshold[counts == 0] = np.inf
    above = probabilities >= threshold - 1e-6
    best = np.where(above, probabilities, -1.0).argmax(1)
    return np.where(above.any(1), best, -1)

"""AUROC and average precision of nodes whose samples count several times, for many such counts at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

__all__ = ["RankedNodes"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class RankedNodes:
    """The ranking of the samples of some nodes, found once, and what it is worth for any counts of groups.

    A *step* is a distinct score of a positive sample, a node's steps coming from the highest down. Negative
    samples matter only by the step that they lie above or at; those below the lowest step take no part.

    Attributes:
        nodes: (b,) nodes.
        first: (b,) place of each one's first step.
        positive: (s, G) how many positive samples of each group have the score of a step.
        between: (s, G) how many negative ones lie above it and below the step before.
        tied: (s, G) how many negative ones have just this score; None where none of the nodes has any.
        positives: (b, G) all positive samples.
        other: (b, G) those and the samples that leave the node open: all that are not negative.
        known: (G,) samples whose label says anything.
    """

    nodes: IntArray
    first: IntArray
    positive: csr_array
    between: csr_array
    tied: csr_array | None
    positives: csr_array
    other: csr_array
    known: NDArray[np.floating[Any]]

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """Of the counts: float32 where their sums are exact in it."""
        return self.known.dtype.type

    def weighted(self, counts: NDArray[np.floating[Any]]) -> tuple[FloatArray, FloatArray]:
        """(b, d) AUROC and average precision where group g counts `counts[g, j]` times in draw j.

        They equal those of the samples written down as often; NaN where a node has no positive or no negative
        sample among them.
        """
        one = self._product(self.positives, counts)
        rest = (self.known @ counts).astype(np.float64) - self._product(self.other, counts)
        positive, true, above, tied = self._steps(counts)
        false = above if tied is None else above + tied
        middle = above if tied is None else above + tied / 2
        node = np.repeat(np.arange(len(self.nodes)), self._sizes)
        pairs = self._summed(positive * (rest[node] - middle))
        with np.errstate(invalid="ignore", divide="ignore"):
            precision = np.where(positive > 0, positive * true / (true + false), 0.0)
            auroc = np.where((one > 0) & (rest > 0), pairs / (one * rest), np.nan)
            average = np.where((one > 0) & (rest > 0), self._summed(precision) / one, np.nan)
        return auroc, average

    def influence(self) -> tuple[FloatArray, FloatArray]:
        """(b, G) by how much AUROC and average precision would change with the count of each group, by its
        derivative where every group counts once.
        """
        once = np.ones((len(self.known), 1))
        one = self._product(self.positives, once)[:, 0]
        rest = self.known.sum(dtype=np.float64) - self._product(self.other, once)[:, 0]
        steps = self._steps(once)
        positive, true, above = (part[:, 0] for part in steps[:3])
        level = np.zeros_like(above) if steps[3] is None else steps[3][:, 0]
        node = np.repeat(np.arange(len(self.nodes)), self._sizes)
        auroc, average = (found[:, 0] for found in self.weighted(once))
        ends = np.append(self.first[1:], len(node))

        def upward(values: FloatArray) -> FloatArray:
            """Sums of a step and of all below it, within each node."""
            total = np.append(np.cumsum(values[::-1])[::-1], 0.0)
            found: FloatArray = total[:-1] - total[ends][node]
            return found

        won = rest[node] - above - level / 2  # of the negatives, by each positive sample of a step
        pair = one[node] * rest[node]
        all_said = true + above + level
        lower = upward(positive)  # positives at or below a step
        false_there = upward(positive * (above + level) / all_said**2)
        true_there = upward(positive * true / all_said**2)
        share = one[node]
        of_auroc = [won / pair, -lower / pair, -(lower - positive / 2) / pair]
        of_average = [true / all_said / share + false_there / share, -true_there / share, -true_there / share]
        found = []
        for parts, value in ((of_auroc, auroc), (of_average, average)):
            sums = _spread(self.positive, node, parts[0], len(self.nodes))
            sums += _spread(self.between, node, parts[1], len(self.nodes))
            if self.tied is not None:
                sums += _spread(self.tied, node, parts[2], len(self.nodes))
            found.append((sums, value))
        # every negative sample is won by all positives but those at or below it
        every = self.known - self.other.toarray().astype(np.float64)
        (wins, area), (precision, mean) = found
        wins += every / rest[:, None]
        wins -= area[:, None] * (self.positives.toarray() / one[:, None] + every / rest[:, None])
        precision -= mean[:, None] * self.positives.toarray() / one[:, None]
        return wins, precision

    def groups(self) -> FloatArray:
        """(b,) groups with a positive sample or groups with a negative one, whichever are fewer."""
        positive = np.diff(self.positives.indptr)
        negative = (self.known - self.other.toarray() > 0).sum(axis=1)
        found: FloatArray = np.minimum(positive, negative).astype(np.float64)
        return found

    @property
    def _sizes(self) -> IntArray:
        return np.diff(np.append(self.first, self.positive.shape[0]))

    def _steps(
        self, counts: NDArray[np.floating[Any]]
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray | None]:
        """(s, d) positives at each step, positives at it or above, negatives above it, negatives at it."""
        positive = self._product(self.positive, counts)
        between = self._product(self.between, counts)
        tied = None if self.tied is None else self._product(self.tied, counts)
        if tied is None:
            return positive, self._running(positive), self._running(between), None
        return positive, self._running(positive), self._running(between + tied) - tied, tied

    def _product(self, matrix: csr_array, counts: NDArray[np.floating[Any]]) -> FloatArray:
        found: FloatArray = (matrix @ counts).astype(np.float64)
        return found

    def _running(self, values: FloatArray) -> FloatArray:
        """Sums from a node's first step on."""
        total = np.cumsum(values, axis=0)
        before = np.where((self.first > 0)[:, None], total[self.first - 1], 0.0)
        total -= np.repeat(before, self._sizes, axis=0)
        return total

    def _summed(self, values: FloatArray) -> FloatArray:
        found: FloatArray = np.add.reduceat(values, self.first, axis=0)
        return found


def _spread(matrix: csr_array, node: IntArray, weight: FloatArray, nodes: int) -> FloatArray:
    """(b, G) entries (s, G) times the weight of their step, added up within each node."""
    step = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    shape = (nodes, matrix.shape[1])
    place = node[step] * shape[1] + matrix.indices
    sums = np.bincount(place, matrix.data * weight[step], minlength=shape[0] * shape[1])
    found: FloatArray = sums.reshape(shape).astype(np.float64)
    return found

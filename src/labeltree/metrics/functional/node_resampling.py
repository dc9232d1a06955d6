"""Metrics of nodes for resampled groups: each group of samples counts as often as it was drawn.

For AUROC and average precision, the samples of each node are ranked once for all draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, vstack
from torch import Tensor

from labeltree.metrics.functional.node_decisions import node_rates
from labeltree.metrics.functional.node_labels import NodeLabels, lines, scored_rows
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["RATES", "CountedNodes", "Influence", "RankedNodes", "decided_nodes", "nodes_at", "ranked_nodes"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
RATES = ("sensitivity", "specificity", "ppv", "npv", "balanced_accuracy")
_ELEMENTS = 2**20
# entries of the matrices of a block of nodes, so that they fit in the cache
_ENTRIES = 2**17
# float32 adds up integers exactly below this
_EXACT = 2**24


class Influence(NamedTuple):
    """How a rate of some nodes depends on single groups.

    Attributes:
        change: (b, G) derivative of the rate with respect to the count of each group.
        groups: (b,) number of groups that count in the rate.
    """

    change: FloatArray
    groups: FloatArray


@dataclass(frozen=True)
class CountedNodes:
    """Binary decisions for every node, as counts of samples by group.

    Attributes:
        true: (N, G) number of positive samples that are predicted positive.
        false: (N, G) number of negative samples that are predicted positive.
        positive: (N, G) number of positive samples.
        other: (N, G) number of samples that are not negative: positive, or leaving the node open.
        known: (G,) number of samples with a label below the root.
    """

    true: csr_array
    false: csr_array
    positive: csr_array
    other: csr_array
    known: FloatArray

    def blocks(self) -> Iterator[tuple[slice, CountedNodes]]:
        """Split into blocks of nodes, few enough for matrices (b, G)."""
        step = max(1, _ELEMENTS // max(len(self.known), 1))
        count = self.true.shape[0]
        for start in range(0, count, step):
            rows = slice(start, min(start + step, count))
            yield (
                rows,
                CountedNodes(
                    self.true[rows], self.false[rows], self.positive[rows], self.other[rows], self.known
                ),
            )

    def prepared(self) -> csr_array:
        """The four matrices stacked, for `weighted`."""
        return csr_array(vstack([self.true, self.false, self.positive, self.other]))

    def weighted(self, counts: FloatArray, prepared: csr_array) -> dict[str, FloatArray]:
        """(N, d) rates as in `node_rates`, where group g counts `counts[g, j]` times in draw j."""
        true, false, positive, other = np.split(prepared @ counts, 4)
        given = (torch.from_numpy(part) for part in (true, false, positive, self.known @ counts - other))
        rates = node_rates(*given)
        return {name: rates[name].numpy() for name in RATES}

    def shares(self) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Of each rate that is a share of cases, as matrices (b, G): how many were right, and of how many."""
        true, false, positive, other = (
            part.toarray() for part in (self.true, self.false, self.positive, self.other)
        )
        negative = self.known - other
        cleared = negative - false
        return {
            "sensitivity": (true, positive),
            "specificity": (cleared, negative),
            "ppv": (true, true + false),
            "npv": (cleared, cleared + positive - true),
        }

    def influence(self) -> dict[str, Influence]:
        """The influence of each group on each rate, as matrices (b, G); call it on `blocks`."""
        influences = {name: _ratio(*parts) for name, parts in self.shares().items()}
        both = influences["sensitivity"], influences["specificity"]
        fewest = np.minimum(both[0].groups, both[1].groups)
        influences["balanced_accuracy"] = Influence((both[0].change + both[1].change) / 2, fewest)
        return influences


def decided_nodes(
    predicted_nodes: Tensor, target_nodes: Tensor, taxonomy: AnyTaxonomy, groups: IntArray, count: int
) -> CountedNodes:
    """The counts, by group, behind `labeltree.metrics.functional.node_decision_metrics`.

    Args:
        predicted_nodes: (n,) nodes.
        target_nodes: (n,) nodes, -1 for a missing label.
        taxonomy: a tree or a DAG.
        groups: (n,) index of each sample's group, 0 … G − 1.
        count: G, the number of groups.
    """
    labels = NodeLabels.of("target_nodes", target_nodes, taxonomy)
    predicted = predicted_nodes.cpu().numpy().astype(np.int64)[labels.known]
    answers, answer = np.unique(predicted, return_inverse=True)
    place, node = lines(answers, taxonomy)
    yes = coo_array((np.ones(len(place)), (place, node)), shape=(len(answers), taxonomy.num_nodes)).tocsr()
    said = yes[answer.reshape(-1)].tocoo()
    sample, named = said.coords
    return _counted(labels, sample.astype(np.int64), named.astype(np.int64), groups, count)


def nodes_at(
    thresholds: Tensor,
    probabilities: Tensor,
    target_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    groups: IntArray,
    count: int,
    *,
    classes: Tensor | None = None,
) -> CountedNodes:
    """The counts, by group, behind `labeltree.metrics.functional.node_metrics_at`; arguments as there and in
    `decided_nodes`.
    """
    labels = NodeLabels.of("target_nodes", target_nodes, taxonomy)
    place = np.full(len(target_nodes), -1)
    place[labels.known] = np.arange(len(labels.known))
    limits = thresholds.detach().cpu().double().numpy()
    samples, named = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for node, scores, positive, negative in scored_rows(probabilities, target_nodes, taxonomy, classes):
        rows = np.concatenate([positive, negative])
        rows = rows[scores[rows] >= limits[node]]
        samples.append(place[rows])
        named.append(np.full(len(rows), node))
    return _counted(labels, np.concatenate(samples), np.concatenate(named), groups, count)


def _counted(
    labels: NodeLabels, sample: IntArray, node: IntArray, groups: IntArray, count: int
) -> CountedNodes:
    """Count by group, from pairs of a known sample and a node that is predicted positive for it."""
    shape, m = (labels.num_nodes, count), max(len(labels.labels), 1)
    groups = groups[labels.known]

    def matrix(sample: IntArray, node: IntArray) -> csr_array:
        return coo_array((np.ones(len(sample)), (node, groups[sample])), shape=shape).tocsr()

    def every(keys: IntArray) -> csr_array:
        """Number of samples by node and group for the keys `node * m + label`."""
        nodes, label = np.divmod(keys, m)
        by_label = coo_array((np.ones(len(keys)), (nodes, label)), shape=(labels.num_nodes, m)).tocsr()
        of_label = coo_array((np.ones(len(groups)), (labels.label, groups)), shape=(m, count)).tocsr()
        return by_label @ of_label

    key = node * m + labels.label[sample]
    right = np.isin(key, labels.positive)
    wrong = ~right & ~np.isin(key, labels.open)
    positive = every(labels.positive)
    return CountedNodes(
        matrix(sample[right], node[right]),
        matrix(sample[wrong], node[wrong]),
        positive,
        positive + every(labels.open),
        np.bincount(groups, minlength=count).astype(np.float64),
    )


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> Influence:
    """Influence on the ratio of the sums of `part` to the sums of `whole`."""
    total = whole.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        change = (part - part.sum(axis=1, keepdims=True) / total * whole) / total
    return Influence(change, (whole > 0).sum(axis=1).astype(np.float64))


@dataclass(frozen=True)
class RankedNodes:
    """The ranking of the samples of some nodes, and its AUROC and average precision for any counts of groups.

    A *step* is a distinct score of a positive sample, a node's steps coming from the highest down. A negative
    sample matters only through the step that it lies above or at; samples below the lowest step are ignored.

    Attributes:
        nodes: (b,) node ids.
        first: (b,) index of each node's first step.
        positive: (s, G) number of positive samples of each group with the score of a step.
        between: (s, G) number of negative samples above that score and below the previous step.
        tied: (s, G) number of negative samples with exactly that score; None if there are none.
        positives: (b, G) number of positive samples.
        other: (b, G) number of samples that are not negative: positive, or leaving the node open.
        known: (G,) number of samples with a label below the root.
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
        """The dtype of the counts: float32 if their sums are exact in float32, else float64."""
        return self.known.dtype.type

    def weighted(self, counts: NDArray[np.floating[Any]]) -> tuple[FloatArray, FloatArray]:
        """(b, d) AUROC and average precision where group g counts `counts[g, j]` times in draw j.

        They equal the values for samples repeated that often; NaN where a node then has no positive or no
        negative sample.
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
        """(b, G) each: derivatives of AUROC and average precision with respect to the count of each group,
        where every group counts once.
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
            """Sums over a step and all lower steps, within each node."""
            total = np.append(np.cumsum(values[::-1])[::-1], 0.0)
            above: FloatArray = total[:-1] - total[ends][node]
            return above

        won = rest[node] - above - level / 2  # negatives outranked by each positive of a step
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
        # every negative sample is outranked by all positives except those at or below it
        every = self.known - self.other.toarray().astype(np.float64)
        (wins, area), (precision, mean) = found
        wins += every / rest[:, None]
        wins -= area[:, None] * (self.positives.toarray() / one[:, None] + every / rest[:, None])
        precision -= mean[:, None] * self.positives.toarray() / one[:, None]
        return wins, precision

    def groups(self) -> FloatArray:
        """(b,) number of groups with a positive sample or with a negative sample, whichever is smaller."""
        counts: FloatArray = self.rarer().sum(axis=1).astype(np.float64)
        return counts

    def rarer(self) -> NDArray[np.bool_]:
        """(b, G) which groups have a positive sample, or a negative one: the smaller number of both."""
        positive, negative = self.positives.toarray() > 0, self.known - self.other.toarray() > 0
        fewer = positive.sum(axis=1) <= negative.sum(axis=1)
        return np.where(fewer[:, None], positive, negative)

    @property
    def _sizes(self) -> IntArray:
        return np.diff(np.append(self.first, self.positive.shape[0]))

    def _steps(
        self, counts: NDArray[np.floating[Any]]
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray | None]:
        """(s, d) each: positives at a step, positives at or above it, negatives above it, negatives at it."""
        positive = self._product(self.positive, counts)
        between = self._product(self.between, counts)
        tied = None if self.tied is None else self._product(self.tied, counts)
        if tied is None:
            return positive, self._running(positive), self._running(between), None
        return positive, self._running(positive), self._running(between + tied) - tied, tied

    def _product(self, matrix: csr_array, counts: NDArray[np.floating[Any]]) -> FloatArray:
        product: FloatArray = (matrix @ counts).astype(np.float64)
        return product

    def _running(self, values: FloatArray) -> FloatArray:
        """Cumulative sums from a node's first step."""
        total = np.cumsum(values, axis=0)
        before = np.where((self.first > 0)[:, None], total[self.first - 1], 0.0)
        total -= np.repeat(before, self._sizes, axis=0)
        return total

    def _summed(self, values: FloatArray) -> FloatArray:
        sums: FloatArray = np.add.reduceat(values, self.first, axis=0)
        return sums


def _spread(matrix: csr_array, node: IntArray, weight: FloatArray, nodes: int) -> FloatArray:
    """(b, G) entries (s, G) weighted by step and summed within each node."""
    step = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    shape = (nodes, matrix.shape[1])
    place = node[step] * shape[1] + matrix.indices
    sums = np.bincount(place, matrix.data * weight[step], minlength=shape[0] * shape[1])
    spread_sums: FloatArray = sums.reshape(shape).astype(np.float64)
    return spread_sums


def ranked_nodes(
    probabilities: Tensor,
    target_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    groups: IntArray,
    count: int,
    *,
    classes: Tensor | None = None,
) -> Iterator[RankedNodes]:
    """Rank the samples of every node that has an AUROC, a block of nodes at a time.

    Args:
        probabilities: (n, c), see `labeltree.metrics.functional.node_auroc`.
        target_nodes: (n,) nodes, -1 for a missing label.
        taxonomy: a tree or a DAG.
        groups: (n,) index of each sample's group, 0 … G − 1.
        count: G, the number of groups.
        classes: (c,) nodes of the columns; default the leaves.
    """
    rows_known = (target_nodes.reshape(len(target_nodes), -1) > 0).any(1).cpu().numpy()
    largest = int(np.bincount(groups, minlength=count).max(initial=1))
    dtype: type[np.floating[Any]] = np.float32 if count * largest < _EXACT else np.float64
    known: NDArray[np.floating[Any]] = np.bincount(groups[rows_known], minlength=count).astype(dtype)
    block = _Block(count, known)
    for node, scores, positive, negative in scored_rows(probabilities, target_nodes, taxonomy, classes):
        undecided = rows_known.copy()
        undecided[positive] = undecided[negative] = False
        steps, step = np.unique(-scores[positive], return_inverse=True)
        at = np.searchsorted(steps, -scores[negative], "left")
        within = at < len(steps)
        negative, at = negative[within], at[within]
        tie = steps[at] == -scores[negative]
        block.add(
            node,
            len(steps),
            (step.reshape(-1), groups[positive]),
            (at[~tie], groups[negative[~tie]]),
            (at[tie], groups[negative[tie]]),
            groups[undecided],
        )
        if block.entries > _ENTRIES:
            yield block.made()
            block = _Block(count, known)
    if block.nodes:
        yield block.made()


class _Block:
    """Collects nodes until there are enough for a block."""

    def __init__(self, count: int, known: NDArray[np.floating[Any]]) -> None:
        self.count, self.known = count, known
        self.nodes: list[int] = []
        self.first: list[int] = []
        self.steps = 0
        self.entries = 0
        self.pairs: dict[str, list[tuple[IntArray, IntArray]]] = {
            name: [] for name in ("positive", "between", "tied", "positives", "other")
        }

    def add(
        self,
        node: int,
        steps: int,
        positive: tuple[IntArray, IntArray],
        between: tuple[IntArray, IntArray],
        tied: tuple[IntArray, IntArray],
        undecided: IntArray,
    ) -> None:
        """Add one node: its steps and the groups of its samples."""
        for name, (step, group) in (("positive", positive), ("between", between), ("tied", tied)):
            self.pairs[name].append((step + self.steps, group))
            self.entries += len(step)
        number = len(self.nodes)
        for name, group in (
            ("positives", positive[1]),
            ("other", np.concatenate([positive[1], undecided])),
        ):
            self.pairs[name].append((np.full(len(group), number), group))
        self.nodes.append(node)
        self.first.append(self.steps)
        self.steps += steps

    def made(self) -> RankedNodes:
        """The collected nodes as `RankedNodes`."""
        size = {"positives": len(self.nodes), "other": len(self.nodes)}
        matrices = {}
        for name, pairs in self.pairs.items():
            row, group = (np.concatenate([pair[i] for pair in pairs]) for i in (0, 1))
            ones = np.ones(len(row), dtype=self.known.dtype)
            shape = (size.get(name, self.steps), self.count)
            matrices[name] = coo_array((ones, (row, group)), shape=shape).tocsr()
        tied = matrices.pop("tied")
        return RankedNodes(
            np.array(self.nodes),
            np.array(self.first),
            tied=tied if tied.nnz else None,
            known=self.known,
            **matrices,
        )

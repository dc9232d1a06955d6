"""Sensitivity, specificity and their like of nodes whose samples count several times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, vstack
from torch import Tensor

from labeltree.metrics.functional.node_labels import NodeLabels, lines
from labeltree.metrics.functional.node_rates import node_rates
from labeltree.metrics.functional.node_scores import scored_rows
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["RATES", "CountedNodes", "Influence", "decided_nodes", "nodes_at"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

RATES = ("sensitivity", "specificity", "ppv", "npv", "balanced_accuracy")
_ELEMENTS = 2**20


class Influence(NamedTuple):
    """How a rate of some nodes depends on single groups.

    Attributes:
        change: (b, G) derivative with respect to the count of each group.
        groups: (b,) how many groups count in it.
    """

    change: FloatArray
    groups: FloatArray


@dataclass(frozen=True)
class CountedNodes:
    """A yes or no for every node, as counts of groups.

    Attributes:
        true: (N, G) positive samples that were said to be positive.
        false: (N, G) negative samples that were.
        positive: (N, G) positive samples.
        other: (N, G) those and the samples that leave the node open: all that are not negative.
        known: (G,) samples whose label says anything.
    """

    true: csr_array
    false: csr_array
    positive: csr_array
    other: csr_array
    known: FloatArray

    def blocks(self) -> Iterator[tuple[slice, CountedNodes]]:
        """Some nodes at a time, few enough for matrices (b, G)."""
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
        """The four matrices above each other, for `weighted`."""
        return csr_array(vstack([self.true, self.false, self.positive, self.other]))

    def weighted(self, counts: FloatArray, prepared: csr_array) -> dict[str, FloatArray]:
        """(N, d) rates where group g counts `counts[g, j]` times in draw j, as `node_rates` has them."""
        true, false, positive, other = np.split(prepared @ counts, 4)
        given = (torch.from_numpy(part) for part in (true, false, positive, self.known @ counts - other))
        rates = node_rates(*given)
        return {name: rates[name].numpy() for name in RATES}

    def influence(self) -> dict[str, Influence]:
        """By rate, of matrices (b, G): use `blocks`."""
        true, false, positive, other = (
            part.toarray() for part in (self.true, self.false, self.positive, self.other)
        )
        negative = self.known - other
        found = {
            "sensitivity": _ratio(true, positive),
            "specificity": _ratio(negative - false, negative),
            "ppv": _ratio(true, true + false),
            "npv": _ratio(negative - false, negative - false + positive - true),
        }
        both = found["sensitivity"], found["specificity"]
        fewest = np.minimum(both[0].groups, both[1].groups)
        found["balanced_accuracy"] = Influence((both[0].change + both[1].change) / 2, fewest)
        return found


def decided_nodes(
    predicted_nodes: Tensor, target_nodes: Tensor, taxonomy: AnyTaxonomy, groups: IntArray, count: int
) -> CountedNodes:
    """What `labeltree.metrics.functional.node_decision_metrics` counts.

    Args:
        predicted_nodes: (n,) nodes.
        target_nodes: (n,) nodes, -1 for a missing label.
        taxonomy: a tree or a DAG.
        groups: (n,) number of each sample's group.
        count: G, how many groups there are.
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
    """What `labeltree.metrics.functional.node_metrics_at` counts; its arguments, and those of
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
    """From pairs of a known sample and a node that is said of it."""
    shape, m = (labels.num_nodes, count), max(len(labels.labels), 1)
    groups = groups[labels.known]

    def matrix(sample: IntArray, node: IntArray) -> csr_array:
        return coo_array((np.ones(len(sample)), (node, groups[sample])), shape=shape).tocsr()

    def every(keys: IntArray) -> csr_array:
        """All samples of the labels in ``node * m + label``."""
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
    """Of the sums of ``part`` over those of ``whole``."""
    total = whole.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        change = (part - part.sum(axis=1, keepdims=True) / total * whole) / total
    return Influence(change, (whole > 0).sum(axis=1).astype(np.float64))

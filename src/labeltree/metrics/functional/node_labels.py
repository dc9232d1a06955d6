"""What a label says of every node: it lies at or below the node (positive), elsewhere (negative), or it
leaves that open.

A label is positive for itself and for all its ancestors; on a DAG, along all paths. An inner-node label
leaves open the nodes below it, and on a DAG every other node that shares a descendant with it: a sample
labelled "vehicle" may be the golf cart that lies below "golf" too. Samples that leave a node open are left
out of that node's numbers. A sample without a label (-1), or labelled at the root, says nothing of any node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.metrics.checks import check_nodes
from labeltree.taxonomy import AnyTaxonomy, Taxonomy

__all__ = ["NodeLabels", "lines"]

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class NodeLabels:
    """The labels of n samples, one against the rest for every node.

    Attributes:
        num_nodes: N, the root included.
        known: (k,) rows of the samples whose label says anything.
        labels: (m,) their distinct labels, ascending.
        label: (k,) place of each one's label among those.
        positive: (p,) ascending keys ``node * m + label`` of the nodes that a label is positive for.
        open: (o,) likewise, of the nodes that it leaves open.
    """

    num_nodes: int
    known: IntArray
    labels: IntArray
    label: IntArray
    positive: IntArray
    open: IntArray

    @classmethod
    def of(cls, name: str, target_nodes: Tensor, taxonomy: AnyTaxonomy) -> NodeLabels:
        """Read the labels (n,); `name` is what an error calls them.

        Raises:
            ValueError: for a wrong shape or dtype, or entries outside the taxonomy.
        """
        check_nodes(name, target_nodes, taxonomy)
        target = target_nodes.detach().cpu().numpy().astype(np.int64)
        known = np.flatnonzero(target > 0)
        labels, label = np.unique(target[known], return_inverse=True)
        place, node = lines(labels, taxonomy)
        positive = np.sort(node * len(labels) + place)
        unsaid = [_open(int(u), taxonomy) * len(labels) + i for i, u in enumerate(labels)]
        undecided = np.sort(np.concatenate(unsaid)) if unsaid else np.empty(0, dtype=np.int64)
        return cls(taxonomy.num_nodes, known, labels, label.reshape(-1), positive, undecided)

    def states(self, nodes: slice) -> NDArray[np.int8]:
        """(b, m) what each label says of each node of a range: 1 positive, 0 negative, -1 open."""
        width, first = len(self.labels), nodes.start
        states = np.zeros((nodes.stop - first, width), dtype=np.int8)
        for keys, state in ((self.positive, 1), (self.open, -1)):
            start, end = np.searchsorted(keys, [first * width, nodes.stop * width])
            states.reshape(-1)[keys[start:end] - first * width] = state
        return states

    def totals(self) -> tuple[IntArray, IntArray]:
        """(N,) how many samples are positive, and how many negative, for each node."""
        size = np.bincount(self.label, minlength=len(self.labels))
        positive, undecided = (self._summed(keys, size) for keys in (self.positive, self.open))
        return positive, len(self.known) - positive - undecided

    def _summed(self, keys: IntArray, size: NDArray[Any]) -> IntArray:
        node, label = np.divmod(keys, max(len(self.labels), 1))
        totals = np.zeros(self.num_nodes, dtype=np.int64)
        np.add.at(totals, node, size[label])
        return totals


def lines(nodes: IntArray, taxonomy: AnyTaxonomy) -> tuple[IntArray, IntArray]:
    """All pairs (p,), (p,) of a place in `nodes` (m,), and the node there or one of its ancestors."""
    found = [[*taxonomy.ancestors_of(node), node] for node in nodes.tolist()]
    place = np.repeat(np.arange(len(found)), [len(line) for line in found])
    return place, np.fromiter((node for line in found for node in line), dtype=np.int64, count=len(place))


def _open(label: int, taxonomy: AnyTaxonomy) -> IntArray:
    """The nodes that a label leaves open."""
    if isinstance(taxonomy, Taxonomy):
        return np.arange(label + 1, int(taxonomy.subtree_end[label]), dtype=np.int64)
    below = taxonomy.descendant_leaves(label).numpy()
    touched = torch.from_numpy(lines(below, taxonomy)[1]).unique().numpy()  # type: ignore[no-untyped-call]
    own: IntArray = np.setdiff1d(touched, [*taxonomy.ancestors_of(label), label])
    return own

"""Labels and scores of every node, one against the rest.

A label is positive for itself and for all its ancestors; on a DAG, along all paths. An inner-node label
leaves open (undecided) the nodes below it, and on a DAG every other node that shares a descendant with it: a
sample labelled "vehicle" may be the golf cart that lies below "golf" too. Samples that leave a node open are
left out of that node's numbers. A sample with several labels (n, k) is positive for a node if any of them
is, and leaves open what one of them leaves open and none is positive for. A sample without a label (-1), or
labelled at the root, counts for no node. The score of a node is the sum of the probabilities of the classes
at or below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.metrics.metric_checks import check_labels, check_nodes, check_same_length
from labeltree.taxonomy import AnyTaxonomy, Taxonomy

__all__ = [
    "Below",
    "NodeLabels",
    "check_probabilities",
    "lines",
    "node_scores",
    "one_against_rest",
    "scored_rows",
]

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
# scores in memory at once: 16 MiB of float64
_BLOCK = 2**21


@dataclass(frozen=True)
class NodeLabels:
    """The labels of n samples, one against the rest for every node.

    Attributes:
        num_nodes: N, the root included.
        known: (k,) rows of the samples with a label below the root.
        labels: (m,) distinct labels of these samples, ascending; or (m, k) distinct sets of labels.
        label: (k,) index in `labels` of each sample's label.
        positive: (p,) ascending keys `node * m + label` of the nodes that a label is positive for.
        open: (o,) keys, in the same form, of the nodes that a label leaves open.
    """

    num_nodes: int
    known: IntArray
    labels: IntArray
    label: IntArray
    positive: IntArray
    open: IntArray

    @classmethod
    def of(cls, name: str, target_nodes: Tensor, taxonomy: AnyTaxonomy) -> NodeLabels:
        """Read the labels (n,), or (n, k) with -1 for no further one, called `name` in error messages.

        Raises:
            ValueError: For a wrong shape or dtype, or entries outside the taxonomy.
        """
        if target_nodes.ndim == 2:
            return cls._read_sets(name, target_nodes, taxonomy)
        check_nodes(name, target_nodes, taxonomy)
        target = target_nodes.detach().cpu().numpy().astype(np.int64)
        known = np.flatnonzero(target > 0)
        labels, label = np.unique(target[known], return_inverse=True)
        place, node = lines(labels, taxonomy)
        positive = np.sort(node * len(labels) + place)
        unsaid = [_open(int(u), taxonomy) * len(labels) + i for i, u in enumerate(labels)]
        undecided = np.sort(np.concatenate(unsaid)) if unsaid else np.empty(0, dtype=np.int64)
        return cls(taxonomy.num_nodes, known, labels, label.reshape(-1), positive, undecided)

    @classmethod
    def _read_sets(cls, name: str, label_sets: Tensor, taxonomy: AnyTaxonomy) -> NodeLabels:
        """Read several labels (n, k) a sample; a set of labels then takes the place of a label."""
        check_nodes(name, label_sets.flatten(), taxonomy)
        sets = np.sort(label_sets.detach().cpu().numpy().astype(np.int64), axis=1)
        known = np.flatnonzero((sets > 0).any(axis=1))
        kinds, label = np.unique(sets[known], axis=0, return_inverse=True)
        kind, column = np.nonzero(kinds > 0)
        place, node = lines(kinds[kind, column], taxonomy)
        positive = np.unique(node * len(kinds) + kind[place])
        unsaid = [
            _open(int(kinds[at]), taxonomy) * len(kinds) + at[0] for at in zip(kind, column, strict=True)
        ]
        undecided = np.concatenate(unsaid) if unsaid else np.empty(0, dtype=np.int64)
        undecided = np.setdiff1d(undecided, positive)
        return cls(taxonomy.num_nodes, known, kinds, label.reshape(-1), positive, undecided)

    def states(self, nodes: slice) -> NDArray[np.int8]:
        """(b, m) state of each node of a range under each label: 1 positive, 0 negative, -1 open."""
        width, first = len(self.labels), nodes.start
        states = np.zeros((nodes.stop - first, width), dtype=np.int8)
        for keys, state in ((self.positive, 1), (self.open, -1)):
            start, end = np.searchsorted(keys, [first * width, nodes.stop * width])
            states.reshape(-1)[keys[start:end] - first * width] = state
        return states

    def totals(self) -> tuple[IntArray, IntArray]:
        """(N,) each: number of positive and of negative samples of each node."""
        size = np.bincount(self.label, minlength=len(self.labels))
        positive, undecided = (self._summed(keys, size) for keys in (self.positive, self.open))
        return positive, len(self.known) - positive - undecided

    def _summed(self, keys: IntArray, size: NDArray[Any]) -> IntArray:
        node, label = np.divmod(keys, max(len(self.labels), 1))
        totals = np.zeros(self.num_nodes, dtype=np.int64)
        np.add.at(totals, node, size[label])
        return totals


def lines(nodes: IntArray, taxonomy: AnyTaxonomy) -> tuple[IntArray, IntArray]:
    """All pairs (p,), (p,) of an index into `nodes` (m,), and that node or one of its ancestors."""
    paths = [[*taxonomy.ancestors_of(node), node] for node in nodes.tolist()]
    place = np.repeat(np.arange(len(paths)), [len(line) for line in paths])
    return place, np.fromiter((node for line in paths for node in line), dtype=np.int64, count=len(place))


def _open(label: int, taxonomy: AnyTaxonomy) -> IntArray:
    """The nodes that a label leaves open."""
    if isinstance(taxonomy, Taxonomy):
        return np.arange(label + 1, int(taxonomy.subtree_end[label]), dtype=np.int64)
    below = taxonomy.descendant_leaves(label).numpy()
    touched = torch.from_numpy(lines(below, taxonomy)[1]).unique().numpy()  # type: ignore[no-untyped-call]
    own: IntArray = np.setdiff1d(touched, [*taxonomy.ancestors_of(label), label])
    return own


class Below:
    """The classes at or below each node.

    Args:
        classes: (c,) distinct nodes, one per column of the probabilities; None for the leaves.
        taxonomy: The taxonomy of the classes.

    Attributes:
        classes: (c,) int64.
        count: (N,) number of classes at or below each node.

    Raises:
        ValueError: If the classes are not distinct nodes of the taxonomy.
    """

    def __init__(self, classes: Tensor | None, taxonomy: AnyTaxonomy) -> None:
        from scipy.sparse import csr_array

        chosen = taxonomy.leaves if classes is None else classes
        check_labels("classes", chosen)
        self.classes = chosen.detach().cpu().numpy().astype(np.int64)
        wrong = (self.classes < 0) | (self.classes >= taxonomy.num_nodes)
        if wrong.any():
            raise ValueError(
                f"classes holds {self.classes[wrong][0]}; expected nodes of the taxonomy, 0 to "
                f"{taxonomy.num_nodes - 1}, one for each column of the probabilities"
            )
        values, counts = np.unique(self.classes, return_counts=True)
        if (counts > 1).any():
            raise ValueError(f"classes holds {values[counts > 1][0]} twice; expected distinct nodes")
        column, node = lines(self.classes, taxonomy)
        shape = (taxonomy.num_nodes, len(self.classes))
        self._matrix = csr_array((np.ones(len(node)), (node, column)), shape=shape)
        self._matrix.sort_indices()  # so that sums always add their terms in the order of the columns
        self.count = np.bincount(node, minlength=taxonomy.num_nodes)

    def scores(self, columns: FloatArray, nodes: slice) -> FloatArray:
        """(b, n) scores of a range of nodes, for probabilities given as their columns (c, n)."""
        return np.asarray(self._matrix[nodes.start : nodes.stop] @ columns, dtype=np.float64)


def node_scores(probabilities: Tensor, taxonomy: AnyTaxonomy, *, classes: Tensor | None = None) -> Tensor:
    """The probability of every node: the sum over the classes at or below it.

    Args:
        probabilities: (n, c) of the classes, each 0 or more.
        taxonomy: a tree or a DAG; on a DAG a class counts once for a node, however many paths lead to it.
        classes: (c,) distinct nodes that the columns stand for; default the leaves, ascending.

    Returns:
        (n, N) float64; 0 where no class lies at or below a node.

    Raises:
        ValueError: For wrong shapes or dtypes, negative or infinite probabilities, classes that are not
            distinct nodes.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> scores = node_scores(torch.tensor([[0.5, 0.25, 0.25]]), taxonomy)
        >>> scores[0, taxonomy.encode(["mammal", "fish", "cat"])].tolist()
        [0.75, 0.25, 0.25]

    """
    below = Below(classes, taxonomy)
    columns = check_probabilities(probabilities, below)
    summed = below.scores(columns, slice(0, taxonomy.num_nodes))
    return torch.from_numpy(np.ascontiguousarray(summed.T)).to(probabilities.device)


def check_probabilities(probabilities: Tensor, below: Below) -> FloatArray:
    """Check class probabilities (n, c) and return them as float64 columns (c, n).

    Raises:
        ValueError: For a wrong shape or dtype, or an entry that is not a probability.
    """
    width = len(below.classes)
    if probabilities.ndim != 2 or not probabilities.is_floating_point() or probabilities.shape[1] != width:
        raise ValueError(
            f"probabilities has shape {tuple(probabilities.shape)} and dtype {probabilities.dtype}; expected "
            f"floating-point numbers of shape (n, {width}), a column for each of {width} classes"
        )
    columns: FloatArray = np.ascontiguousarray(probabilities.detach().cpu().double().numpy().T)
    wrong = ~(np.isfinite(columns) & (columns >= 0))
    if wrong.any():
        column, row = (int(x[0]) for x in np.nonzero(wrong))
        raise ValueError(
            f"probabilities holds {columns[column, row]:g} in row {row}; expected finite numbers of at least "
            "0: give the softmax of logits"
        )
    return columns


def one_against_rest(
    probabilities: Tensor, target_nodes: Tensor, taxonomy: AnyTaxonomy, classes: Tensor | None
) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    """For each node with both positive and negative samples, and a class at or below it: the node, and the
    scores of its positive and of its negative samples; see `scored_rows`.
    """
    for node, scores, positive, negative in scored_rows(probabilities, target_nodes, taxonomy, classes):
        yield node, scores[positive], scores[negative]


def scored_rows(
    probabilities: Tensor, target_nodes: Tensor, taxonomy: AnyTaxonomy, classes: Tensor | None
) -> Iterator[tuple[int, FloatArray, IntArray, IntArray]]:
    """For each node with both positive and negative samples, and a class at or below it: the node, the scores
    (n,) of all samples, and the rows of its positive and of its negative ones. The arguments are those of
    `node_scores`, and labels (n,), -1 where missing.

    Scores are made for a block of nodes at a time: the memory beside the probabilities does not grow with
    the number of nodes.
    """
    below = Below(classes, taxonomy)
    columns = check_probabilities(probabilities, below)
    check_same_length("probabilities", probabilities, "target_nodes", target_nodes)
    labels = NodeLabels.of("target_nodes", target_nodes, taxonomy)
    positives, negatives = labels.totals()
    step = max(1, _BLOCK // max(len(target_nodes), 1))
    for first in range(0, taxonomy.num_nodes, step):
        block = slice(first, min(first + step, taxonomy.num_nodes))
        wanted: NDArray[Any] = np.arange(block.start, block.stop)
        wanted = wanted[(positives[block] > 0) & (negatives[block] > 0) & (below.count[block] > 0)]
        if not len(wanted):
            continue
        scores, states = below.scores(columns, block), labels.states(block)
        for node in wanted.tolist():
            state = states[node - first][labels.label]
            yield node, scores[node - first], labels.known[state == 1], labels.known[state == 0]

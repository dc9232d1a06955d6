"""How likely each sample is to lie at or below each node: the probabilities of the classes there, summed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.metrics.checks import check_labels, check_same_length
from labeltree.metrics.functional.node_labels import NodeLabels, lines
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["Below", "check_probabilities", "node_scores", "one_against_rest", "scored_rows"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# scores that are held at once: 16 MiB of float64
_BLOCK = 2**21


class Below:
    """Which classes lie at or below each node.

    Args:
        classes: (c,) distinct nodes, one per column of the probabilities; None for the leaves.
        taxonomy: of the nodes.

    Attributes:
        classes: (c,) int64.
        count: (N,) how many classes lie at or below each node.

    Raises:
        ValueError: if the classes are no distinct nodes of the taxonomy.
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
        self._matrix.sort_indices()  # so that the terms of a sum always come in the order of the columns
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
        ValueError: for wrong shapes or dtypes, negative or infinite probabilities, classes that are no
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
    found = below.scores(columns, slice(0, taxonomy.num_nodes))
    return torch.from_numpy(np.ascontiguousarray(found.T)).to(probabilities.device)


def check_probabilities(probabilities: Tensor, below: Below) -> FloatArray:
    """The columns (c, n) of the probabilities (n, c) of the classes, float64.

    Raises:
        ValueError: for a wrong shape or dtype, or an entry that is no probability.
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

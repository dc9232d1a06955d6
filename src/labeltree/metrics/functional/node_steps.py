"""The ranking of every node's samples, made once for any counts of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from torch import Tensor

from labeltree.metrics.functional.node_scores import scored_rows
from labeltree.metrics.functional.node_weighted import RankedNodes
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["ranked_nodes"]

IntArray = NDArray[np.int64]

# entries of the matrices of a block of nodes, which then stay in the cache
_ENTRIES = 2**17
# float32 adds up whole numbers exactly below this
_EXACT = 2**24


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
        groups: (n,) number of each sample's group.
        count: G, how many groups there are.
        classes: (c,) nodes that the columns stand for; default the leaves.
    """
    rows_known = (target_nodes > 0).cpu().numpy()
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
    """Collects nodes until there are enough of them."""

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
        """Steps and groups of samples of one more node."""
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
        """What they are together."""
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

"""The classes of a classifier as nodes of a taxonomy, and node probabilities from class probabilities."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.metrics.metric_checks import check_nodes
from labeltree.taxonomy import AnyTaxonomy, Taxonomy

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["ClassNodes", "node_probabilities"]

IntArray = NDArray[np.int64]

_AT_ONCE = 2**23  # node probabilities held in memory at once


class ClassNodes:
    """The nodes that a classifier tells apart, and their ancestors.

    Args:
        nodes: (C,) distinct nodes, leaves or inner ones: a class may be an ancestor of another.
        taxonomy: a tree or a DAG.

    Raises:
        ValueError: If there is no class, or a class is missing (-1), given twice or outside the taxonomy.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> classes = ClassNodes(taxonomy.encode(["dog", "cat", "trout"]), taxonomy)
        >>> probabilities = classes.node_probabilities(torch.tensor([[0.5, 0.25, 0.25]]))
        >>> float(probabilities[0, taxonomy.find("mammal")])
        0.75
    """

    def __init__(self, nodes: Tensor, taxonomy: AnyTaxonomy) -> None:
        check_nodes("classes", nodes, taxonomy)
        if not len(nodes) or int(nodes.min()) < 0 or len(torch.unique(nodes)) < len(nodes):
            raise ValueError(
                f"classes must be one or more distinct nodes, none missing; got {len(nodes)} of which "
                f"{len(torch.unique(nodes[nodes >= 0]))} are distinct nodes"
            )
        self.nodes = nodes.long()
        self.taxonomy = taxonomy

    def __len__(self) -> int:
        return len(self.nodes)

    def parts(self, probabilities: Tensor) -> tuple[Tensor, ...]:
        """Split the rows of (n, C) so that the float64 node probabilities of a part take at most 64 MiB."""
        rows = max(1, _AT_ONCE // self.taxonomy.num_nodes)
        parts: tuple[Tensor, ...] = torch.split(probabilities, rows)
        return parts

    @cached_property
    def above(self) -> csr_array:
        """Ancestor matrix (N, C) float64: 1 where the class is the node or lies below it, on any path."""
        from scipy.sparse import csr_array

        if isinstance(self.taxonomy, Taxonomy):
            lists = self.taxonomy.ancestors[self.nodes].numpy()
            column = np.broadcast_to(np.arange(len(self))[:, None], lists.shape)[lists >= 0]
            row = lists[lists >= 0]
        else:
            sets = [[*self.taxonomy.ancestors_of(node), node] for node in self.nodes.tolist()]
            row = np.concatenate([np.asarray(nodes) for nodes in sets])
            column = np.repeat(np.arange(len(self)), [len(nodes) for nodes in sets])
        shape = (self.taxonomy.num_nodes, len(self))
        return csr_array((np.ones(len(row)), (row, column)), shape=shape)

    @cached_property
    def counts(self) -> Tensor:
        """Number of classes at or below each node, (N,) int64."""
        return torch.from_numpy(np.diff(self.above.indptr).astype(np.int64))

    @cached_property
    def place(self) -> Tensor:
        """Column of each node that is a class, -1 for other nodes, (N,) int64."""
        place = torch.full((self.taxonomy.num_nodes,), -1)
        place[self.nodes] = torch.arange(len(self))
        return place

    def children(self, node: int) -> IntArray:
        """The children of a node that have a class at or below them, ascending."""
        children = self._children.get(node)
        if children is None:
            kids = np.asarray(self.taxonomy.children(node), dtype=np.int64)
            children = self._children[node] = kids[self.counts.numpy()[kids] > 0]
        return children

    @cached_property
    def _children(self) -> dict[int, IntArray]:
        return {}

    def below(self, labels: Tensor) -> Tensor:
        """Which classes lie at or below each label: (n, C) bool from labels (n,), none missing."""
        return torch.from_numpy(self.above[labels.numpy()].toarray() > 0)

    def judges(self, labels: Tensor) -> Tensor:
        """Which labels decide whether any answer is right: those with no class strictly below, (n,) bool.

        A coarser label leaves open whether a finer answer is right; a missing label (-1) decides nothing.
        """
        finer = self.counts - (self.place >= 0).long()
        return (labels >= 0) & (finer[labels.clamp(min=0)] == 0)

    def narrows(self, labels: Tensor) -> Tensor:
        """Which labels say something of the class, (n,) bool: those at or above some classes, not all.

        The root has all of them, and a missing label (-1) has none. Of a single class every label but these
        says what there is to say.
        """
        possible = self.counts[labels.clamp(min=0)]
        return (labels > 0) & (possible > 0) & (possible < max(len(self), 2))

    def node_probabilities(self, probabilities: Tensor) -> Tensor:
        """The probability of every node: the sum over the distinct classes at or below it.

        Args:
            probabilities: Class probabilities of shape (n, C), not negative.

        Returns:
            (n, N) float64.

        Raises:
            ValueError: For another shape, negative entries, NaN, or rows that sum to more than 1.
        """
        given = self.check_probabilities(probabilities)
        return torch.from_numpy(np.ascontiguousarray((self.above @ given.numpy().T).T))

    def check_probabilities(self, probabilities: Tensor) -> Tensor:
        """Class probabilities of shape (n, C) as float64.

        Raises:
            ValueError: For another shape, negative entries, NaN, or rows that sum to more than 1.
        """
        if probabilities.ndim != 2 or probabilities.shape[1] != len(self):
            raise ValueError(
                f"probabilities has shape {tuple(probabilities.shape)}; expected (n, {len(self)}), a column "
                "a class"
            )
        given = probabilities.detach().double()
        if bool((given < 0).any()) or not bool((given.sum(1) <= 1 + 1e-5).all()):
            raise ValueError("probabilities must be at least 0, and sum to 1 in each row")
        return given


def node_probabilities(probabilities: Tensor, classes: Tensor, taxonomy: AnyTaxonomy) -> Tensor:
    """Probabilities (n, N) of all nodes from probabilities (n, C) of classes (C,); see `ClassNodes`."""
    return ClassNodes(classes, taxonomy).node_probabilities(probabilities)

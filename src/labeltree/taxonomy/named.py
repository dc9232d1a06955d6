"""Nodes with names: labels as people write them, to nodes and back."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.labels import Label, LabelIndex
from labeltree.taxonomy.nodes import NodesLike, as_node, as_nodes

__all__ = ["NamedNodes"]


class NamedNodes:
    """What a tree and a DAG answer alike about names.

    Attributes:
        names: the name of each node.
    """

    names: list[str]
    num_nodes: int

    if TYPE_CHECKING:

        @property
        def _labels(self) -> LabelIndex: ...

    def path(self, node: int) -> tuple[str, ...]:
        """The names from depth 1 to the node; the root's path is ()."""
        return self._labels.path(as_node(node, self.num_nodes))

    def path_name(self, node: int) -> str:
        r"""The path as one string, `a/b/c`, which `find` reads back.

        A `/` within a name is written `\/`; the root is `/`; a leading `/` marks a path that might be taken
        for a name.
        """
        return self._labels.path_name(as_node(node, self.num_nodes))

    def find(self, label: Label) -> int:
        """The node of a label: a name that only one node has, or a path (`a/b/c` or a tuple of names).

        Raises:
            TaxonomyError: if there is none, with the nearest names; or more than one, with their paths.
        """
        return self._labels.find(label)

    def follow(self, path: Sequence[str]) -> int | None:
        """The node at the end of a path of names from depth 1, or None if there is none."""
        return self._labels.follow(path)

    def encode(self, labels: Iterable[object]) -> Tensor:
        """The nodes of labels, int64 of shape (n,); -1 for a missing one (None, NaN or an empty string).

        Args:
            labels: names or paths, as `find` takes them.

        Raises:
            TaxonomyError: if a label is ambiguous or not in the taxonomy.
        """
        return self._labels.encode(labels)

    def nodes_of(self, class_names: Sequence[Label]) -> Tensor:
        """The node of every class of a data set, int64 of shape (C,), for its class numbers to index.

        Class numbers are no nodes: node 0 is the root. `taxonomy.nodes_of(dataset.classes)[class_numbers]`
        are the nodes of labels that a data set gives as numbers, all at least 0.

        Args:
            class_names: a name or a path for each class, in the order of their numbers.

        Raises:
            TaxonomyError: if one is missing, ambiguous (give its path), not in the taxonomy, or the node of
                another class too.

        Example:
            >>> from labeltree.taxonomy import Taxonomy
            >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
            >>> nodes = taxonomy.nodes_of(["cat", "dog", "oak"])  # classes 0, 1 and 2
            >>> taxonomy.decode(nodes[torch.tensor([2, 0, 0])])
            ['plant/oak', 'animal/cat', 'animal/cat']
        """
        nodes = self.encode(class_names)
        first: dict[int, int] = {}
        for number, node in enumerate(nodes.tolist()):
            if node < 0:
                raise TaxonomyError(f"class {number} has no name; give one for each class number")
            if (other := first.setdefault(node, number)) != number:
                raise TaxonomyError(
                    f"classes {other} and {number} are both {self.path_name(node)!r}; give each class a node "
                    "of its own, by its path where names repeat"
                )
        return nodes

    def decode(self, nodes: NodesLike) -> list[str | None]:
        """The path names of nodes, shape (n,); None for -1. `encode` reads them back."""
        tensor = as_nodes(nodes, self.num_nodes)
        if tensor.ndim != 1:
            raise ValueError(f"nodes has shape {tuple(tensor.shape)}, expected (n,)")
        unique, inverse = torch.unique(tensor, return_inverse=True)
        texts = [None if node < 0 else self._labels.path_name(node) for node in unique.tolist()]
        return [texts[i] for i in inverse.tolist()]

"""The taxonomy: an immutable tree of named nodes."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.build import Entries
from labeltree.taxonomy.embedded import EmbeddedClasses
from labeltree.taxonomy.labels import LabelIndex
from labeltree.taxonomy.named import NamedNodes
from labeltree.taxonomy.naming import clean_name, tidy
from labeltree.taxonomy.numbering import number
from labeltree.taxonomy.render import render_lines
from labeltree.taxonomy.review import review
from labeltree.taxonomy.sources import TreeSources
from labeltree.taxonomy.structure import TreeStructure

__all__ = ["Taxonomy"]


class Taxonomy(TreeSources, EmbeddedClasses, NamedNodes, TreeStructure):
    """A tree of named nodes; a label is one of them.

    Nodes are numbered depth first from the root, 0, children in the order in which they were given. Names
    need be unique under one parent only. Make one with `from_edges`, `from_paths`, `from_nested`,
    `from_folders` or `from_file`.

    Args:
        names: a name for each node, in any order of nodes.
        parents: for each node, the index of its parent in `names`; -1 for the root.

    Raises:
        TaxonomyError: if this is not a tree of named nodes; the message says what is wrong and where.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "trout"), ("plant", "oak")])
        >>> taxonomy
        Taxonomy(6 nodes, 3 leaves, depth 2)
        >>> dog, trout, oak = taxonomy.encode(["dog", "trout", "plant/oak"])
        >>> taxonomy.decode([taxonomy.lca(dog, trout), taxonomy.lca(dog, oak)])
        ['animal', '/']
        >>> taxonomy.path_length(dog, [trout, oak]).tolist()
        [2, 4]
    """

    def __init__(self, names: Sequence[str], parents: Sequence[int]) -> None:
        _check_lengths(names, parents)
        names = [tidy(name) or clean_name(name, f"node {i}") for i, name in enumerate(names)]
        numbering = number(names, parents)
        if len(names) < 2:
            raise TaxonomyError("the taxonomy has no node below the root; give it at least one")
        TreeStructure.__init__(self, numbering)
        self.__dict__["names"] = [names[i] for i in numbering.order]
        self._check_siblings(numbering.parent.tolist())

    @cached_property
    def _labels(self) -> LabelIndex:
        return LabelIndex(self.names, self.parent.tolist())

    def entries(self) -> Entries:
        """Names and parents of the nodes: what `Taxonomy` was made of, in its own order."""
        return Entries(list(self.names), self.parent.tolist())

    def cut(self, depth: int) -> tuple[Self, Tensor]:
        """The taxonomy down to a depth, and the node there of each node here.

        Args:
            depth: the depth of the finest nodes that stay, at least 1.

        Returns:
            The coarser taxonomy, and for each node of this one, shape (N,), its node in the coarser one:
            itself, or its ancestor at `depth`.
        """
        if depth < 1:
            raise ValueError(f"depth={depth}, expected at least 1")
        stays = self.depth <= depth
        mapping = stays.cumsum(0) - 1  # in preorder, what is cut off follows the ancestor that stays
        kept = torch.nonzero(stays).flatten().tolist()
        parents = [-1, *mapping[self.parent[stays][1:]].tolist()]
        return type(self)([self.names[node] for node in kept], parents), mapping

    def check(self, nodes: Tensor | None = None) -> list[str]:
        """Warnings about what may be unintended, one sentence each.

        Among them: nodes with a single child, leaves at different depths, names that occur more than once,
        siblings whose names look alike, a single leaf, classes called ``unknown`` and the like.

        Args:
            nodes: labels of samples ``(n,)``, to say how many are of a class called ``unknown``.
        """
        return review(self, nodes)

    def render(self, max_depth: int | None = None, max_children: int | None = None) -> str:
        """The tree as indented text, one line a node; what is left out is counted.

        Args:
            max_depth: the depth of the finest nodes shown (None: all, down to depth 200).
            max_children: how many children of each node are shown (None: all).
        """
        return "\n".join(render_lines(self, self.names, max_depth, max_children))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Taxonomy):
            return NotImplemented
        return self.names == other.names and torch.equal(self.parent, other.parent)

    @cached_property
    def _hash(self) -> int:
        return hash((tuple(self.names), tuple(self.parent.tolist())))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.names, self.parent.tolist())

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.num_nodes} nodes, {self.num_leaves} leaves, depth {self.max_depth})"
        )

    def _check_siblings(self, parent: list[int]) -> None:
        seen: set[tuple[int, str]] = set()
        for node in range(1, self.num_nodes):
            key = (parent[node], self.names[node])
            if key in seen:
                above = repr(self.path_name(key[0])) if key[0] else "the root"
                raise TaxonomyError(
                    f"{above} has two children named {key[1]!r}; names may repeat, but not under one parent"
                )
            seen.add(key)


def _check_lengths(names: Sequence[str], parents: Sequence[int]) -> None:
    if len(names) != len(parents):
        raise TaxonomyError(
            f"there are {len(names)} names for {len(parents)} parents; every node needs one of each"
        )
    for node, parent in enumerate(parents):
        if not -1 <= parent < len(names):
            raise TaxonomyError(
                f"node {names[node]!r} has the unknown parent {parent}: there are {len(names)} nodes"
            )

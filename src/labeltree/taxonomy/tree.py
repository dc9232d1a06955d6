"""The taxonomy that losses, samplers and reports run on: a tree of named nodes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from labeltree.errors import TaxonomyError
from labeltree.lazy import torch
from labeltree.taxonomy.check_nodes import NodesLike, as_node
from labeltree.taxonomy.class_embeddings import (
    EmbeddingMethod,
    as_classes,
    class_vectors,
    means_of_classes,
    sparse_vectors,
)
from labeltree.taxonomy.description import render, review
from labeltree.taxonomy.files.entries import (
    entries_from_folders,
    entries_from_paths,
    entries_of_tree,
)
from labeltree.taxonomy.files.nested import entries_from_nested
from labeltree.taxonomy.files.taxonomy_files import log_notes
from labeltree.taxonomy.html_tree import html_tree
from labeltree.taxonomy.lca import RangeMinima
from labeltree.taxonomy.numbering import IntArray, subtree_end
from labeltree.taxonomy.relations import ANCESTOR, APART, SAME, RelationTable, unknown_relation
from labeltree.taxonomy.taxonomy_graph import Graph

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Taxonomy"]

LARGEST_TABLE = 2**28  # entries of the path table; 2 GiB of int64


class Taxonomy(Graph):
    """A tree of named nodes; a label is one of them.

    Nodes are numbered depth first from the root, 0, children in the order in which they were given, so that
    the subtree of v is `range(v, subtree_end[v])`. Names need to be unique only among the children of one
    parent. Make one with `from_edges`, `from_paths`, `from_nested`, `from_folders` or `from_file`.

    Args:
        names: a name for each node, in any order of nodes.
        parents: For each node, the index of its parent in `names`; -1 for the root.

    Its attributes are `parent`, `subtree_end`, `names`, `depth`, `height`, `is_leaf`, `leaves`, `num_nodes`,
    `num_leaves`, `max_depth` (L) and `max_height` (H, here equal to L).

    Queries on pairs, such as `lca`, `lca_height` and `path_length`, take nodes of any shapes that broadcast:
    `taxonomy.lca_height(leaves[:, None], leaves[None])` has a row and a column for each leaf.

    Raises:
        TaxonomyError: If this is not a tree of named nodes; the message says what is wrong and where.

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

    _several_parents: ClassVar[bool] = False

    def __init__(self, names: Sequence[str], parents: Sequence[int]) -> None:
        super().__init__(entries_of_tree(names, parents))

    @property
    def parent(self) -> Tensor:
        """(N,) the parent of each node, -1 for the root."""
        return self.main_parent

    @cached_property
    def subtree_end(self) -> Tensor:
        """(N,) one past the last node of each subtree."""
        return torch.from_numpy(self._subtree_end)

    @cached_property
    def _subtree_end(self) -> IntArray:
        return np.array(subtree_end(self.numbering.main_parent.tolist()))

    @classmethod
    def from_paths(cls, paths: Iterable[str | Sequence[object]], root_name: str | None = "root") -> Self:
        r"""Make a taxonomy from paths of names, coarse to fine, without the root.

        Args:
            paths: Each a sequence of names or a string `a/b/c` (`\/` for a `/` in a name). Paths may differ
                in length, the finest names may be missing (None or NaN), and a path may be given more than
                once.
            root_name: The name of the root above the paths; None if the paths begin with the root.

        Raises:
            TaxonomyError: If a path is empty, has a gap or an empty name.
        """
        return cls._of(entries_from_paths(paths, root_name))

    @classmethod
    def from_nested(cls, data: object, root_name: str | None = "root") -> Self:
        """Make a taxonomy from nested mappings, lists and names, as in YAML and JSON.

        A key is a node with its children under it; an item of a list is a leaf, or a mapping with one node
        per key; None (or an empty mapping or list) under a key makes it a leaf, a single name under a key is
        its only child.

        Args:
            data: The nested data below the root.
            root_name: The name of the root above the data; None if the only outermost key is the root.

        Raises:
            TaxonomyError: If the nesting is not a tree.

        Example:
            >>> print(Taxonomy.from_nested({"animal": {"mammal": ["dog", "cat"]}, "plant": None}).render())
            root
            ├── animal
            │   └── mammal
            │       ├── dog
            │       └── cat
            └── plant
        """
        return cls._of(entries_from_nested(data, root_name))

    @classmethod
    def from_folders(cls, path: str | os.PathLike[str], root_name: str = "root") -> Self:
        """Make a taxonomy from nested folders: each is a node, children sorted by name.

        Files are ignored, so a folder that holds both files and folders is an inner node. Folders such as
        `.git`, `__MACOSX` and `@eaDir` are skipped (see `is_system_file`); links to folders are followed.

        Raises:
            TaxonomyError: If the folder is missing or has no subfolders, or a link leads back to a folder
            above it.
        """
        entries = entries_from_folders(path, root_name)
        log_notes(path, entries)
        return cls._of(entries)

    def cut(self, depth: int) -> tuple[Self, Tensor]:
        """The taxonomy down to a depth, and the node in it of each node of this taxonomy.

        Args:
            depth: The depth of the finest nodes that stay, at least 1.

        Returns:
            The coarser taxonomy, and for each node of this one, shape (N,), its node in the coarser one: the
            node itself, or its ancestor at `depth`.
        """
        if depth < 1:
            raise ValueError(f"depth={depth}, expected at least 1")
        stays = self.depth <= depth
        coarse, _ = self.subgraph(torch.nonzero(stays).flatten())
        return coarse, stays.cumsum(0) - 1  # in preorder, removed nodes follow the ancestor that stays

    def collapse(self, keep: Container[str] = ()) -> Self:
        """Replace every inner node that has a single child by that child, including the root.

        Args:
            keep: Names of nodes that stay, such as classes.

        Example:
            >>> tree = Taxonomy(["entity", "animal", "canine", "dog", "wolf"], [-1, 0, 1, 2, 2])
            >>> tree.collapse().names
            ['canine', 'dog', 'wolf']
        """
        parent = self.numbering.main_parent.tolist()
        children = Counter(parent)
        place = [-1] * self.num_nodes
        kept: list[int] = []
        parents: list[int] = []
        for node, name in enumerate(self.names):
            above = place[parent[node]] if node else -1
            if children[node] == 1 and name not in keep:
                place[node] = above
            else:
                place[node] = len(kept)
                kept.append(node)
                parents.append(above)
        aliases = [self.aliases[node] for node in kept] if self.aliases else ()
        entries = entries_of_tree([self.names[node] for node in kept], parents)
        return self._of(entries._replace(aliases=aliases))

    def check(self, nodes: Tensor | None = None) -> list[str]:
        """Warnings about what may be unintended, one sentence each.

        Among them: nodes with a single child, leaves at different depths, names that occur more than once,
        siblings whose names look alike, a single leaf, classes called `unknown` and the like.

        Args:
            nodes: Labels of samples `(n,)`, to count those of classes such as `unknown`.
        """
        return review(self, nodes)

    def render(self, max_depth: int | None = None, max_children: int | None = None) -> str:
        """The tree as indented text, one line per node; the number of omitted nodes is shown.

        Args:
            max_depth: The depth of the finest nodes shown (None: all, down to depth 200).
            max_children: Largest number of children of each node shown (None: all).
        """
        return render(self, max_depth, max_children)

    def _repr_html_(self) -> str:
        return html_tree(self)

    # Queries that are faster on a tree than on a DAG

    def ancestors_of(self, node: int) -> list[int]:
        """The proper ancestors of a node from the root to its parent; the root has none."""
        node = as_node(node, self.num_nodes)
        ancestors, parent = [], self.numbering.main_parent
        while node > 0:
            node = int(parent[node])
            ancestors.append(node)
        return ancestors[::-1]

    def num_below(self, node: int) -> int:
        """The number of nodes below a node."""
        node = as_node(node, self.num_nodes)
        return int(self._subtree_end[node]) - node - 1

    def _subtree(self, node: int) -> IntArray:
        return np.arange(node, self._subtree_end[node])

    def descendant_leaves(self, node: int) -> Tensor:
        """The leaves of a node's subtree, ascending; for a leaf, the leaf itself."""
        node = as_node(node, self.num_nodes)
        first, last = torch.searchsorted(
            self.leaves, torch.stack([torch.tensor(node), self.subtree_end[node]])
        )
        return self.leaves[first:last]

    @cached_property
    def ancestor_count(self) -> Tensor:
        """(N,) number of ancestors of each node, including the node itself: its depth + 1."""
        return self.depth + 1

    def cut_to_labels(self, nodes: Tensor, labels: Tensor) -> Tensor:
        """Truncate nodes (n,) to what labels (n,) decide: with an inner-node label, to its depth.

        Args:
            nodes: (n,) nodes, none missing.
            labels: (n,) labels, none missing; a leaf label leaves a node unchanged.
        """
        depth, is_leaf = self.depth.to(labels.device), self.is_leaf.to(labels.device)
        cut = torch.where(is_leaf[labels], depth[nodes], torch.minimum(depth[nodes], depth[labels]))
        return self.ancestors.to(labels.device)[nodes, cut]

    @cached_property
    def _range_minima(self) -> RangeMinima:
        return RangeMinima(self.parent)

    def _lca_of(self, u: Tensor, v: Tensor) -> Tensor:
        return self._range_minima(u, v)

    def _edges_between(self, u: Tensor, v: Tensor) -> Tensor:
        return self.depth[u] + self.depth[v] - 2 * self.depth[self._lca_of(u, v)]

    def _shared_ancestors(self, u: Tensor, v: Tensor) -> Tensor:
        return self.depth[self._lca_of(u, v)] + 1

    # Paths and relations

    @cached_property
    def ancestors(self) -> Tensor:
        """(N, L+1) the ancestor at depth 0 ... L, the node itself at its own depth, -1 below it."""
        if self.num_nodes * (self.max_depth + 1) > LARGEST_TABLE:
            raise TaxonomyError(
                f"the table of paths of {self.num_nodes} nodes down to depth {self.max_depth} would take "
                f"{self.num_nodes * (self.max_depth + 1) / 2**27:.0f} GiB; shorten the tree with cut(depth)"
            )
        nodes, depth = np.arange(self.num_nodes), self.depth.numpy()
        table = np.full((self.num_nodes, self.max_depth + 1), -1, dtype=np.int64)
        for level in range(self.max_depth + 1):
            # In preorder the last node of a depth at or before v is v's ancestor, if v lies that deep at all.
            latest = np.maximum.accumulate(np.where(depth == level, nodes, -1))
            table[:, level] = np.where(depth >= level, latest, -1)
        return torch.from_numpy(table)

    @cached_property
    def paths(self) -> Tensor:
        """(N, L) the node on the path at depth 1 ... L; a shallow leaf repeats itself, an inner node has -1.

        Two labels agree at depth l if and only if `paths[u, l-1] == paths[v, l-1] != -1`. They differ at
        depth l if two entries other than -1 differ at depth l or coarser; in all other cases their agreement
        is undecided. The root's row is all -1.
        """
        paths = self.ancestors[:, 1:]
        own = torch.arange(self.num_nodes)[:, None]
        return torch.where((paths < 0) & self.is_leaf[:, None], own, paths)

    def relation(self, u: NodesLike, v: NodesLike) -> Tensor:
        """Relation codes of pairs of labels, int64, elementwise after broadcasting; never INSTANCE.

        `Taxonomy.relations` gives the meaning of each code.
        """
        u, v, device = self._pair(u, v)
        ancestor = self.lca(u, v)
        kind = torch.where((ancestor == u) | (ancestor == v), ANCESTOR, APART)
        kind.masked_fill_((u == v) & self.is_leaf[u], SAME)
        codes = kind * (self.max_depth + 1) + self.depth[ancestor]
        return codes.masked_fill_(ancestor < 0, unknown_relation(self.max_depth)).to(device)

    @cached_property
    def relations(self) -> RelationTable:
        """The meaning of the codes of `relation`."""
        return RelationTable(self.max_depth)

    # Class embeddings

    def class_embeddings(
        self,
        classes: NodesLike | None = None,
        dim: int | None = None,
        normalize: bool = False,
        method: EmbeddingMethod | None = None,
    ) -> Tensor:
        """Vectors of classes whose inner products are their similarities `1 - lca_height_dissimilarity`.

        - `cholesky` (the default): the lower Cholesky factor of the similarities, exactly Algorithm 1 of
          Barz & Denzler. Unit vectors, no entry negative, one dimension per leaf. They depend on the order of
          the classes; their inner products do not.
        - `eigen` (the default where `dim` is given): the leading eigenpairs, the best approximation in
          `dim` dimensions. Not of unit length, unless normalised.

        An inner node gets the normalised mean of the vectors of the leaves below it. These leaves are
        embedded together with the classes, so there may be more dimensions than classes.

        Args:
            classes: (C,) distinct nodes below the root; all leaves by default.
            dim: The number of dimensions, at most that of the exact embedding; None for the exact embedding.
            normalize: Give `eigen` vectors unit length.
            method: `cholesky` or `eigen`; the default depends on `dim`, see above.

        Returns:
            (C, D) float64, one row per class, in the order given.

        Raises:
            TaxonomyError: If a class is missing, the root, or given twice; if two inner nodes stand for the
                same leaves; or if a vector is 0 and cannot be normalised.
            ValueError: If `dim` is out of range or does not go with the method.

        Example:
            >>> tree = Taxonomy.from_paths(["animal/mammal/dog", "animal/mammal/cat", "animal/fish/trout"])
            >>> vectors = tree.class_embeddings()
            >>> (vectors @ vectors.T).mul(3).round().tolist()  # heights of the LCAs: 1, 2; H = 3
            [[3.0, 2.0, 1.0], [2.0, 3.0, 1.0], [1.0, 1.0, 3.0]]
        """
        return class_vectors(self, as_classes(classes, self), dim, normalize, method)

    def sparse_class_embeddings(self, classes: NodesLike | None = None) -> Tensor:
        """Exact class embeddings in closed form, one dimension per node: `φ(c)_a = √(s(a) - s(parent a))`.

        Here a is a node on the path of c, `s(a) = 1 - height(a) / H`. The inner products are those of
        `class_embeddings`; the cost is O(C · depth), without the matrix of all pairs. An inner node gets the
        part that all classes below it share, of length `√s`.

        Args:
            classes: (C,) distinct nodes below the root; all leaves by default.

        Returns:
            (C, N) float64, sparse (COO, coalesced).

        Raises:
            TaxonomyError: If a class is missing, the root, or given twice.
        """
        return sparse_vectors(self, as_classes(classes, self))

    def node_embeddings(
        self,
        classes: NodesLike | None = None,
        dim: int | None = None,
        normalize: bool = False,
        method: EmbeddingMethod | None = None,
    ) -> Tensor:
        """A vector for every node: for a class its own vector, above the classes their normalised mean.

        Args:
            classes: (C,) classes; all arguments are as in `class_embeddings`.

        Returns:
            (N, D) float64; zeros for nodes that are not a class and have no class below them.
        """
        nodes = as_classes(classes, self)
        vectors = class_vectors(self, nodes, dim, normalize, method)
        means = means_of_classes(self, vectors, nodes)
        means[nodes] = vectors
        return means

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.num_nodes} nodes, {self.num_leaves} leaves, depth {self.max_depth})"
        )

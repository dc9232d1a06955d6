"""A graph of nodes with names: read, written, and asked for nodes by name."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import numpy as np

from labeltree.errors import TaxonomyError
from labeltree.lazy import torch
from labeltree.taxonomy.check_nodes import NodesLike, as_node, as_nodes
from labeltree.taxonomy.files.entries import Entries, entries_from_edges
from labeltree.taxonomy.files.saved_document import document_from, entries_from_document
from labeltree.taxonomy.files.taxonomy_files import read_taxonomy, write_taxonomy
from labeltree.taxonomy.label_index import Label, LabelIndex
from labeltree.taxonomy.naming import clean_names, repeated_siblings
from labeltree.taxonomy.numbering import IntArray, Numbering, number
from labeltree.taxonomy.version_history import Revision, checked_release

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["NamedGraph"]


class NamedGraph:
    """Named nodes, numbered so that the root is 0 and every node comes after its parents; immutable.

    A label is a node. Queries on pairs take node ids of any shapes that broadcast, -1 where a label is
    missing, and return tensors on the same device. Tensors are int64 on the CPU unless stated otherwise, and
    must not be modified.

    Depth is the length of the shortest path from the root, height the length of the longest path to a leaf.
    With this height (Barz & Denzler's) an ancestor is always taller than its descendants, so the common
    ancestor of least height is a lowest one. On a DAG a child may be no deeper than one of its parents.

    Args:
        entries: Names and edges of the nodes, in any order.

    Attributes:
        names: The name of each node.
        num_nodes: N, the number of nodes, including the root.
        num_edges: E, the number of edges.
        num_leaves: Number of leaves.
        max_depth: L, the largest depth of a node.
        max_height: H, the height of the root.
        release: What people call this version of the taxonomy, such as `2024`; None if nobody said. It
            matters neither for equality nor for `digest`, and only `.json` files keep it.
        history: The versions up to this one, the earliest first; perhaps none.
        aliases: What else each node is called, such as an id or synonyms of an ontology; empty for none.
            `find` takes an alias that is no node's name. Only `.json` files keep them.
        considered: For ids and names of former classes, the ids that may be meant instead, as an ontology
            says; for a person to decide. Only `.json` files keep them.
        numbering: The arrays behind the tensors, for what is done without torch.

    Raises:
        TaxonomyError: If the nodes do not form such a graph; the message says what is wrong and where.
    """

    names: list[str]
    num_nodes: int
    num_edges: int
    num_leaves: int
    max_depth: int
    max_height: int
    release: str | None
    history: tuple[Revision, ...]
    considered: Mapping[str, tuple[str, ...]]
    numbering: Numbering
    _given_aliases: Sequence[Sequence[str]]

    _several_parents: ClassVar[bool] = True
    """Whether a node may have more than one parent."""

    def __init__(self, entries: Entries) -> None:
        names = clean_names(entries.names)
        children, parents = _checked_edges(names, entries)
        numbering = number(names, children, parents)
        if len(names) < 2:
            raise TaxonomyError("the taxonomy has no node below the root; give it at least one")
        self.__dict__.update(
            numbering=numbering,
            names=[names[i] for i in numbering.order.tolist()],
            num_nodes=len(names),
            num_edges=len(numbering.parents),
            num_leaves=int(numbering.is_leaf.sum()),
            max_depth=int(numbering.depth.max()),
            max_height=int(numbering.height[0]),
            release=entries.release,
            history=tuple(entries.history),
            considered={id: tuple(instead) for id, instead in entries.considered.items()},
            _given_aliases=entries.aliases,
        )
        self._check_siblings()

    @cached_property
    def aliases(self) -> tuple[tuple[str, ...], ...]:
        """What else each node is called, such as an id or synonyms; empty if nothing says it."""
        given = self._given_aliases
        return tuple(tuple(given[i]) for i in self.numbering.order.tolist()) if len(given) else ()

    def aliases_of(self, node: int) -> Sequence[str]:
        """What else one node is called, without the memory of `aliases`."""
        given = self._given_aliases
        return given[self.numbering.order[node]] if len(given) else ()

    @cached_property
    def main_parent(self) -> Tensor:
        """(N,) the parent nearest the root, ties going to the first; -1 for the root."""
        return torch.from_numpy(self.numbering.main_parent)

    @cached_property
    def depth(self) -> Tensor:
        """(N,) number of edges of the shortest path from the root."""
        return torch.from_numpy(self.numbering.depth)

    @cached_property
    def height(self) -> Tensor:
        """(N,) number of edges of the longest path down to a leaf."""
        return torch.from_numpy(self.numbering.height)

    @cached_property
    def is_leaf(self) -> Tensor:
        """(N,) bool, whether a node is a leaf."""
        return torch.from_numpy(self.numbering.is_leaf)

    @cached_property
    def leaves(self) -> Tensor:
        """(num_leaves,) the leaves, ascending."""
        return torch.from_numpy(np.flatnonzero(self.numbering.is_leaf))

    @classmethod
    def _of(cls, entries: Entries) -> Self:
        taxonomy = cls.__new__(cls)
        NamedGraph.__init__(taxonomy, entries)
        return taxonomy

    @classmethod
    def from_edges(
        cls,
        pairs: Iterable[Sequence[Hashable]],
        root: Hashable = None,
        names: Mapping[Hashable, object] | None = None,
    ) -> Self:
        """Make a taxonomy from pairs of child and parent; in a DAG, one pair for every parent of a child.

        Args:
            pairs: `(child, parent)`, each any hashable id. `(root, None)` may be given for the root.
            root: The root's id; by default the one node without a parent.
            names: The name of each id; by default the id written as text.

        Raises:
            TaxonomyError: If the pairs do not form a tree, or for a `TaxonomyDAG` a DAG with one root.
        """
        return cls._of(entries_from_edges(pairs, root, names, several_parents=cls._several_parents))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], root_name: str | None = "root") -> Self:
        """Read a taxonomy from a file, in a form that its content tells.

        Nested names, edges, a column per depth, paths, codes, checklists of taxa, Newick, ontologies, class
        indices and others; `docs/taxonomy-files.md` lists them. How the file was read is logged
        (`labeltree.data`), a sentence for each decision. Ids, synonyms and vernacular names become `aliases`.
        YAML is read literally (`no` and `1.0` are names). An inner node of Newick without a name is named
        after its first and last leaf, `dog … trout`.

        Only `TaxonomyDAG` reads several parents of a node.

        Args:
            path: The file.
            root_name: The name of the root above nested names or paths; None if they begin with the root.

        Raises:
            TaxonomyError: If the file is missing, unreadable or holds no such taxonomy; the message gives the
                line.
        """
        return read_taxonomy(path, root_name, cls._of, cls._several_parents)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Make the taxonomy from the plain data that `to_dict` returns.

        Raises:
            TaxonomyError: If the data are not a saved taxonomy of this class.
        """
        return cls._of(entries_from_document(document, cls._several_parents))

    def entries(self) -> Entries:
        """Names and edges of the nodes, numbered as in the taxonomy."""
        child, parent = self.numbering.edges
        return Entries(
            list(self.names),
            child.tolist(),
            parent.tolist(),
            self.release,
            self.history,
            self.aliases,
            considered=self.considered,
        )

    def with_release(self, release: str | None, history: Sequence[Revision] | None = None) -> Self:
        """The same taxonomy under the name of a version; see `release` and `history`.

        Args:
            release: Such as `2024`; None for no name.
            history: The versions up to this one; None keeps those of this taxonomy.

        Raises:
            TaxonomyError: If the release is empty or not one line of text.
        """
        release = None if release is None else checked_release(release)
        kept = self.history if history is None else tuple(history)
        return self._of(self.entries()._replace(release=release, history=kept))

    def with_aliases(self, aliases: Sequence[Sequence[str]]) -> Self:
        """The same taxonomy with these further names, for each node; see `aliases`."""
        return self._of(self.entries()._replace(aliases=aliases))

    @cached_property
    def digest(self) -> str:
        """A fingerprint of the names and parents of all nodes; release and history do not matter."""
        child, parent = (ends.tolist() for ends in self.numbering.edges)
        document = document_from(Entries(self.names, child, parent), self._several_parents)
        return hashlib.sha256(json.dumps([document["names"], document["parents"]]).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """The taxonomy as plain data, as `.json` files hold it."""
        return document_from(self.entries(), self._several_parents)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the taxonomy in the format of the suffix, atomically.

        `.json` (our own format), `.csv` and `.tsv` (edges) keep everything, and so do `.nwk`, `.newick` and
        `.tree` for trees. `.yaml`, `.yml` (nested names) and `.txt` (paths), for trees only, keep everything
        except the root's name.

        Raises:
            TaxonomyError: If the suffix is unknown or the file cannot be written.
        """
        write_taxonomy(path, self.entries(), self._several_parents)

    @property
    def order(self) -> Tensor:
        """(N,) for each node, its index in the names and parents that the taxonomy was made from."""
        return torch.from_numpy(self.numbering.order)

    @cached_property
    def _labels(self) -> LabelIndex:
        child, parent = self.numbering.edges
        return LabelIndex(
            self.names, self.numbering.main_parent, parent, child, lambda: self.aliases, self.considered
        )

    def path(self, node: int) -> tuple[str, ...]:
        """The names from depth 1 to the node, of the shortest path; the root's path is ()."""
        return self._labels.path(as_node(node, self.num_nodes))

    def path_name(self, node: int) -> str:
        r"""The path as one string, `a/b/c`, which `find` accepts.

        A `/` within a name is written `\/`; the root is `/`; a leading `/` marks a path that could be
        mistaken for a name.
        """
        return self._labels.path_name(as_node(node, self.num_nodes))

    def find(self, label: Label) -> int:
        """The node of a label: a unique name or alias, or a path (`a/b/c` or a tuple of names).

        Raises:
            TaxonomyError: If there is no such node (the message gives similar names) or several (their
                paths).
        """
        return self._labels.find(label)

    def candidates(self, label: Label) -> list[int]:
        """All nodes that a label, a name or a path, may refer to, ascending; perhaps none."""
        return self._labels.candidates(label)

    def reading(self, labels: LabelIndex) -> Self:
        """The same taxonomy, which looks labels up in another index."""
        copied = copy.copy(self)
        copied.__dict__["_labels"] = labels  # in place of the cached one
        return copied

    @property
    def versions(self) -> tuple[LabelIndex, ...]:
        """The labels that `find` reads: those of this taxonomy, or of an older version and of this one."""
        return self._labels.versions

    def why_coarser(self, label: Label) -> str | None:
        """Why the node of a label is coarser than the label says; None if it is not, see `LabelsOfBoth`."""
        return self._labels.why_coarser(label)

    def say_instead(self, label: object) -> str:
        """What the taxonomy says may be meant by the label of a former class; empty if it says nothing."""
        return self._labels.say_instead(label)

    def follow(self, path: Sequence[str]) -> int | None:
        """The node at the end of a path of names from depth 1, or None if there is none."""
        return self._labels.follow(path)

    def nearest_path(self, path: Sequence[str]) -> int | None:
        """The node whose path is spelt most similarly to names from depth 1, each below the one before it.

        None if a name is similar to no child of the node before it.
        """
        return self._labels.nearest_path(path)

    def encode(self, labels: Iterable[object]) -> Tensor:
        """The nodes of labels, int64 of shape (n,); -1 for a missing one (None, NaN or an empty string).

        Args:
            labels: Names or paths, as in `find`.

        Raises:
            TaxonomyError: If a label is ambiguous or not in the taxonomy.
        """
        return self._labels.encode(labels)

    def nodes_of(self, class_names: Sequence[Label]) -> Tensor:
        """The node of every class of a data set, int64 of shape (C,), to be indexed by class numbers.

        Class numbers are not nodes: node 0 is the root. If a data set gives labels as class numbers, all at
        least 0, their nodes are `taxonomy.nodes_of(dataset.classes)[class_numbers]`.

        Args:
            class_names: a name or a path for each class, in the order of their numbers.

        Raises:
            TaxonomyError: If one is missing, ambiguous (give its path), not in the taxonomy, or two classes
                have the same node.

        Example:
            >>> from labeltree.taxonomy import Taxonomy
            >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
            >>> nodes = taxonomy.nodes_of(["cat", "dog", "oak"])  # classes 0, 1 and 2
            >>> taxonomy.decode(nodes[torch.tensor([2, 0, 0])])
            ['plant/oak', 'animal/cat', 'animal/cat']
        """
        nodes = self.encode(class_names)
        first: dict[int, int] = {}
        for row, node in enumerate(nodes.tolist()):
            if node < 0:
                raise TaxonomyError(f"class {row} has no name; give one for each class number")
            if (other := first.setdefault(node, row)) != row:
                raise TaxonomyError(
                    f"classes {other} and {row} are both {self.path_name(node)!r}; give each class a "
                    "different node, by its path if names repeat"
                )
        return nodes

    def decode(self, nodes: NodesLike) -> list[str | None]:
        """The path names of nodes, shape (n,); None for -1. `encode` is the inverse."""
        tensor = as_nodes(nodes, self.num_nodes)
        if tensor.ndim != 1:
            raise ValueError(f"nodes has shape {tuple(tensor.shape)}, expected (n,)")
        unique, inverse = torch.unique(tensor, return_inverse=True)
        texts = [None if node < 0 else self._labels.path_name(node) for node in unique.tolist()]
        return [texts[i] for i in inverse.tolist()]

    def __len__(self) -> int:
        return self.num_nodes

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is immutable; {name!r} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is immutable; {name!r} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NamedGraph) or self._several_parents != other._several_parents:
            return NotImplemented
        mine, theirs = self.numbering, other.numbering
        return (
            self.names == other.names
            and np.array_equal(mine.parent_start, theirs.parent_start)
            and np.array_equal(mine.parents, theirs.parents)
        )

    @cached_property
    def _hash(self) -> int:
        return hash((tuple(self.names), *(tuple(ends.tolist()) for ends in self.numbering.edges)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._of, (self.entries(),)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.num_nodes} nodes, {self.num_edges} edges, "
            f"{self.num_leaves} leaves, depth {self.max_depth})"
        )

    def _check_siblings(self) -> None:
        children, parents = self.numbering.edges
        if len(repeated_siblings(self.names, children, parents)):
            edges = zip(children.tolist(), parents.tolist(), strict=True)
            (parent, name), _ = Counter((above, self.names[node]) for node, above in edges).most_common(1)[0]
            above = repr(self.path_name(parent)) if parent else "the root"
            raise TaxonomyError(
                f"{above} has two children named {name!r}; names may repeat, but not under one parent"
            )


def _checked_edges(names: Sequence[str], entries: Entries) -> tuple[IntArray, IntArray]:
    """The child and the parent of each edge; refuses unknown parents and repeated edges."""
    try:
        children, parents = (np.asarray(ends, dtype=np.int64) for ends in (entries.children, entries.parents))
    except OverflowError:
        parent = max(entries.parents, key=abs)
        raise TaxonomyError(f"a node has the unknown parent {parent}: there are {len(names)} nodes") from None
    if len(wrong := np.flatnonzero((parents < 0) | (parents >= len(names)))):
        raise TaxonomyError(
            f"node {names[children[wrong[0]]]!r} has the unknown parent {parents[wrong[0]]}: there are "
            f"{len(names)} nodes"
        )
    edges = children * len(names) + parents
    if len(parents) >= len(names) and len(np.unique(edges)) < len(edges):  # more edges than a tree has
        (child, _), _ = Counter(zip(children.tolist(), parents.tolist(), strict=True)).most_common(1)[0]
        raise TaxonomyError(f"node {names[child]!r} has the same parent twice; remove one of the edges")
    return children, parents

"""The taxonomy: an immutable tree of named nodes."""

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.build import Entries, entries_from_edges, entries_from_paths
from labeltree.taxonomy.embedded import EmbeddedClasses
from labeltree.taxonomy.files import read_entries, write_entries
from labeltree.taxonomy.folders import entries_from_folders
from labeltree.taxonomy.json_text import document_from_entries, entries_from_document
from labeltree.taxonomy.labels import Label, LabelIndex
from labeltree.taxonomy.naming import clean_name, tidy
from labeltree.taxonomy.nested import entries_from_nested
from labeltree.taxonomy.nodes import NodesLike, as_node, as_nodes
from labeltree.taxonomy.numbering import number
from labeltree.taxonomy.render import render_lines
from labeltree.taxonomy.review import review
from labeltree.taxonomy.structure import TreeStructure

__all__ = ["Taxonomy"]


class Taxonomy(EmbeddedClasses, TreeStructure):
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

    names: list[str]

    def __init__(self, names: Sequence[str], parents: Sequence[int]) -> None:
        _check_lengths(names, parents)
        names = [tidy(name) or clean_name(name, f"node {i}") for i, name in enumerate(names)]
        numbering = number(names, parents)
        if len(names) < 2:
            raise TaxonomyError("the taxonomy has no node below the root; give it at least one")
        super().__init__(numbering)
        self.__dict__["names"] = [names[i] for i in numbering.order]
        self._check_siblings(numbering.parent.tolist())

    @classmethod
    def from_edges(
        cls,
        pairs: Iterable[Sequence[Hashable]],
        root: Hashable = None,
        names: Mapping[Hashable, object] | None = None,
    ) -> Self:
        """Make a taxonomy from pairs of a child and its parent.

        Args:
            pairs: `(child, parent)`, each any hashable id. `(root, None)` may be given for the root.
            root: the root's id; by default the one node without a parent.
            names: the name of each id; by default the id written as text.

        Raises:
            TaxonomyError: if the pairs form no tree.
        """
        return cls(*entries_from_edges(pairs, root, names))

    @classmethod
    def from_paths(cls, paths: Iterable[str | Sequence[object]], root_name: str | None = "root") -> Self:
        r"""Make a taxonomy from paths of names, coarse to fine, without the root.

        Args:
            paths: each a sequence of names or a string `a/b/c` (`\/` for a `/` in a name). Paths may differ
                in length, the finest names may be missing (None or NaN), and a path may be given more than
                once.
            root_name: the name of the root above them; None if the paths begin with the root.

        Raises:
            TaxonomyError: if a path is empty, has a gap or an empty name.
        """
        return cls(*entries_from_paths(paths, root_name))

    @classmethod
    def from_nested(cls, data: object, root_name: str | None = "root") -> Self:
        """Make a taxonomy from nested mappings, lists and names, as YAML and JSON have them.

        A key is a node with its children under it; an item of a list is a leaf, or a mapping with one node
        per key; None (or an empty mapping or list) under a key makes it a leaf, a single name there is its
        one child.

        Args:
            data: the nested data below the root.
            root_name: the name of the root above them; None if the one outermost key is the root.

        Raises:
            TaxonomyError: if the nesting is no tree.

        Example:
            >>> print(Taxonomy.from_nested({"animal": {"mammal": ["dog", "cat"]}, "plant": None}).render())
            root
            ├── animal
            │   └── mammal
            │       ├── dog
            │       └── cat
            └── plant
        """
        return cls(*entries_from_nested(data, root_name))

    @classmethod
    def from_folders(cls, path: str | os.PathLike[str], root_name: str = "root") -> Self:
        """Make a taxonomy from nested folders: each is a node, children sorted by name.

        Files are ignored, so a folder that holds both files and folders is an inner node. Folders whose
        name begins with a dot are skipped; links to folders are followed.

        Raises:
            TaxonomyError: if the folder is missing or has no subfolders, or a link leads back to a folder
            above it.
        """
        return cls(*entries_from_folders(path, root_name))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], root_name: str | None = "root") -> Self:
        """Read a taxonomy from a UTF-8 file, in the format of its suffix.

        - `.json`: what `save` wrote, or nested names.
        - `.yaml`, `.yml`: nested names, taken as they are written (`no` and `1.0` are names).
        - `.csv`, `.tsv`: edges where line 1 names columns `child` and `parent` (and `name` if these are
        ids), an empty
          parent marking the root; otherwise paths, one column per depth, coarse to fine, under a line of
          column names.
        - `.txt`: one path `a/b/c` a line.

        Args:
            path: the file.
            root_name: the name of the root above nested names or paths; None if they begin with the root.

        Raises:
            TaxonomyError: if the file is missing, unreadable or holds no tree; with the line.
        """
        entries = read_entries(path, root_name)
        try:
            return cls(*entries)
        except TaxonomyError as error:
            raise TaxonomyError(f"{path}: {error}") from None

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Undo `to_dict`.

        Raises:
            TaxonomyError: if this is no saved taxonomy.
        """
        return cls(*entries_from_document(document))

    def to_dict(self) -> dict[str, Any]:
        """The taxonomy as plain data, as `.json` files hold it."""
        return document_from_entries(self._entries())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the taxonomy in the format of the suffix, replacing a file as a whole or not at all.

        `.json` (our own format) and `.csv`, `.tsv` (edges) hold everything; `.yaml`, `.yml` (nested names)
        and `.txt` (paths) hold all but the root's name.

        Raises:
            TaxonomyError: if the suffix is unknown or the file cannot be written.
        """
        write_entries(path, self._entries())

    def _entries(self) -> Entries:
        return Entries(list(self.names), self.parent.tolist())

    @cached_property
    def _labels(self) -> LabelIndex:
        return LabelIndex(self.names, self.parent.tolist())

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

    def encode(self, labels: Iterable[object]) -> Tensor:
        """The nodes of labels, int64 of shape (n,); -1 for a missing one (None, NaN or an empty string).

        Args:
            labels: names or paths, as `find` takes them.

        Raises:
            TaxonomyError: if a label is ambiguous or not in the taxonomy.
        """
        return self._labels.encode(labels)

    def decode(self, nodes: NodesLike) -> list[str | None]:
        """The path names of nodes, shape (n,); None for -1. `encode` reads them back."""
        tensor = as_nodes(nodes, self.num_nodes)
        if tensor.ndim != 1:
            raise ValueError(f"nodes has shape {tuple(tensor.shape)}, expected (n,)")
        unique, inverse = torch.unique(tensor, return_inverse=True)
        texts = [None if node < 0 else self._labels.path_name(node) for node in unique.tolist()]
        return [texts[i] for i in inverse.tolist()]

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

    def check(self) -> list[str]:
        """Warnings about what may be unintended, one sentence each.

        Among them: nodes with a single child, leaves at different depths, names that occur more than once,
        siblings whose names look alike, a single leaf.
        """
        return review(self)

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

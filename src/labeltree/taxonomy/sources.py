"""The ways into a taxonomy and out of it: edges, paths, nested names, folders, files."""

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Self

from torch import Tensor

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.build import Entries, entries_from_edges, entries_from_paths
from labeltree.taxonomy.files import read_entries, write_entries
from labeltree.taxonomy.folders import entries_from_folders
from labeltree.taxonomy.json_text import document_from_entries, entries_from_document
from labeltree.taxonomy.nested import entries_from_nested
from labeltree.taxonomy.projection import ProjectionRule

__all__ = ["TreeSources"]


class TreeSources:
    """The constructors of `Taxonomy`, and what undoes them."""

    names: list[str]
    parent: Tensor

    def __init__(self, names: Sequence[str], parents: Sequence[int]) -> None:
        raise NotImplementedError

    def entries(self) -> Entries:
        """Names and parents of the nodes, numbered in preorder."""
        raise NotImplementedError

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
          ids), an empty parent marking the root; otherwise paths, one column per depth, coarse to fine,
          under a line of column names.
        - `.txt`: one path `a/b/c` a line.
        - `.nwk`, `.newick`, `.tree`: one Newick tree, without its branch lengths; an inner node without a
          name is called by its first and last leaf, `dog … trout`.

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
    def from_wordnet(
        cls,
        names: Iterable[str],
        folder: str | os.PathLike[str],
        senses: Mapping[str, str] | None = None,
        rule: ProjectionRule = "yolo9000",
    ) -> Self:
        """Make a taxonomy of class names from what WordNet knows to be above them.

        Every class is a node with the name given; those above it are synsets, named as `carnivore.n.01`.

        Args:
            names: of the classes, each a noun of WordNet or its plural (`_` and `-` may be a space), a synset
                as `crane.n.04`, or an ImageNet id as `n02012849`.
            folder: with `data.noun` and `index.noun` of WordNet 3.x; Debian's package `wordnet-base` puts
                them into `/usr/share/wordnet`.
            senses: name → synset, for names with several senses, and those that WordNet calls otherwise.
            rule: by which the DAG of the classes and of what is above them becomes a tree; see
                `TaxonomyDAG.project`.

        Raises:
            TaxonomyError: if names are unknown or ambiguous, with all of them and their senses; if two names
                mean one synset; or if a file is missing or damaged.
        """
        from labeltree.taxonomy.wordnet_classes import tree_from_wordnet

        return cls(*tree_from_wordnet(names, folder, senses, rule))

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Undo `to_dict`.

        Raises:
            TaxonomyError: if this is no saved taxonomy.
        """
        return cls(*entries_from_document(document))

    def to_dict(self) -> dict[str, Any]:
        """The taxonomy as plain data, as `.json` files hold it."""
        return document_from_entries(self.entries())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the taxonomy in the format of the suffix, replacing a file as a whole or not at all.

        `.json` (our own format), `.csv` and `.tsv` (edges), `.nwk`, `.newick` and `.tree` hold everything;
        `.yaml`, `.yml` (nested names) and `.txt` (paths) hold all but the root's name.

        Raises:
            TaxonomyError: if the suffix is unknown or the file cannot be written.
        """
        write_entries(path, self.entries())

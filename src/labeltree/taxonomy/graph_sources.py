"""The ways into a DAG and out of it: edges, trees, files, WordNet."""

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Self

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.graph_build import GraphEntries, as_graph, graph_from_edges
from labeltree.taxonomy.graph_files import document_from_graph, graph_from_document, read_graph, write_graph
from labeltree.taxonomy.tree import Taxonomy
from labeltree.taxonomy.wordnet import graph_from_wordnet

__all__ = ["GraphSources"]


class GraphSources:
    """The constructors of `TaxonomyDAG`, and what undoes them."""

    names: list[str]

    def __init__(self, names: Sequence[str], parents: Sequence[Sequence[int]]) -> None:
        raise NotImplementedError

    def entries(self) -> GraphEntries:
        """Names and parents of the nodes, in topological order."""
        raise NotImplementedError

    @classmethod
    def from_edges(
        cls,
        pairs: Iterable[Sequence[Hashable]],
        root: Hashable = None,
        names: Mapping[Hashable, object] | None = None,
    ) -> Self:
        """Make a DAG from pairs of a child and a parent, one for every parent of a child.

        Args:
            pairs: `(child, parent)`, each any hashable id. `(root, None)` may be given for the root.
            root: the root's id; by default the one node without a parent.
            names: the name of each id; by default the id written as text.

        Raises:
            TaxonomyError: if the pairs form no DAG with one root, or an edge is given twice.
        """
        return cls(*graph_from_edges(pairs, root, names))

    @classmethod
    def from_tree(cls, tree: Taxonomy) -> Self:
        """A tree as a DAG, with the same nodes."""
        return cls(*as_graph(tree.entries()))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], root_name: str | None = "root") -> Self:
        """Read a DAG from a UTF-8 file, in the format of its suffix.

        - `.csv`, `.tsv`: edges, as for `Taxonomy.from_file`, with a line for every parent of a child.
        - `.json`: what `save` wrote.
        - whatever `Taxonomy.from_file` reads: a tree is a DAG.

        Args:
            path: the file.
            root_name: the name of the root above nested names or paths; None if they begin with the root.

        Raises:
            TaxonomyError: if the file is missing, unreadable or holds no DAG; with the line.
        """
        entries = read_graph(path, root_name)
        try:
            return cls(*entries)
        except TaxonomyError as error:
            raise TaxonomyError(f"{path}: {error}") from None

    @classmethod
    def from_wordnet(
        cls, folder: str | os.PathLike[str], root: str = "entity.n.01", instances: bool = True
    ) -> Self:
        """Read the nouns of WordNet, a node a synset, named as `dog.n.01` (word, noun, sense of the word).

        Args:
            folder: with `data.noun` and `index.noun` of WordNet 3.x; Debian's package `wordnet-base` puts
                them into `/usr/share/wordnet`.
            root: the synset whose hyponyms are read, by such a name or as an ImageNet id (`n00001740`).
                Hypernyms outside are left out.
            instances: whether instances, as `paris.n.01` of `national_capital.n.01`, are nodes too.

        Raises:
            TaxonomyError: if a file is missing or damaged, or there is no such synset.
        """
        return cls(*graph_from_wordnet(folder, root, instances))

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Undo `to_dict`.

        Raises:
            TaxonomyError: if this is no saved DAG.
        """
        return cls(*graph_from_document(document))

    def to_dict(self) -> dict[str, Any]:
        """The DAG as plain data, as `.json` files hold it."""
        return document_from_graph(self.entries())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the DAG as `.json` or as edges, `.csv` or `.tsv`, replacing a file as a whole or not at all.

        Raises:
            TaxonomyError: if the suffix is another or the file cannot be written.
        """
        write_graph(path, self.entries())

"""Read a taxonomy file, whatever it holds: a tree or a DAG."""

from __future__ import annotations

import os

from labeltree.taxonomy.dag import TaxonomyDAG
from labeltree.taxonomy.files.entries import Entries
from labeltree.taxonomy.files.taxonomy_files import read_taxonomy
from labeltree.taxonomy.tree import Taxonomy

__all__ = ["AnyTaxonomy", "load_taxonomy"]

AnyTaxonomy = Taxonomy | TaxonomyDAG
"""A tree or a DAG: what metrics accept."""


def load_taxonomy(path: str | os.PathLike[str], root_name: str | None = "root") -> AnyTaxonomy:
    """Read a taxonomy file: a `Taxonomy` if every node has one parent, else a `TaxonomyDAG`.

    Args:
        path: as for `Taxonomy.from_file` and `TaxonomyDAG.from_file`.
        root_name: the name of the root above nested names or paths; None if they begin with the root.

    Raises:
        TaxonomyError: if the file is missing, unreadable or holds neither.
    """
    return read_taxonomy(path, root_name, tree_or_dag, several_parents=True)


def tree_or_dag(entries: Entries) -> AnyTaxonomy:
    """A tree if every node has one parent, else a DAG."""
    # so many edges are those of a tree; or there are several roots, which both classes refuse
    is_tree = len(entries.parents) < len(entries.names)
    return Taxonomy._of(entries) if is_tree else TaxonomyDAG._of(entries)

"""A taxonomy file of which it is not known whether it holds a tree or a DAG."""

import os

from labeltree.taxonomy.graph import TaxonomyDAG
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
    dag = TaxonomyDAG.from_file(path, root_name)
    return dag.to_tree() if dag.is_tree else dag

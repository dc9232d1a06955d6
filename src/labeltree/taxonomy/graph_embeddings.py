"""Class embeddings on a DAG: there where its similarities have any."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.class_embeddings import Matrix, as_classes
from labeltree.taxonomy.nodes import NodesLike

if TYPE_CHECKING:
    from labeltree.taxonomy.graph import TaxonomyDAG

__all__ = ["cholesky_of_graph"]


def cholesky_of_graph(dag: TaxonomyDAG, classes: NodesLike | None) -> Tensor:
    """The lower Cholesky factor of the classes' similarities; see `TaxonomyDAG.class_embeddings`."""
    from scipy.linalg.lapack import dpotrf

    nodes = as_classes(classes, dag)
    inner = nodes[~dag.is_leaf[nodes]]
    if len(inner):
        raise TaxonomyError(
            f"class {dag.path_name(int(inner[0]))!r} is no leaf; on a DAG only leaves have class embeddings"
        )
    s = 1.0 - dag.lca_height_dissimilarity(nodes[:, None], nodes).numpy()
    upper, failed = dpotrf(s.T, lower=0, clean=1)
    if failed:
        raise TaxonomyError(_blame(dag, nodes, s, failed - 1))
    return torch.from_numpy(upper.T)


def _blame(dag: TaxonomyDAG, nodes: Tensor, s: Matrix, row: int) -> str:
    """Name the first class that has no place among those before it, and two of those that it is like.

    On a tree s(u, v) is at least the smaller of s(u, w) and s(w, v): the two for which that fails most.
    """
    like = np.flatnonzero(s[row, :row])
    shortfall = np.minimum(s[row, like][:, None], s[row, like]) - s[np.ix_(like, like)]
    u, v = (int(like[i]) for i in np.unravel_index(shortfall.argmax(), shortfall.shape))
    this, first, second = (repr(dag.names[int(nodes[i])]) for i in (row, u, v))
    return (
        f"there are no class embeddings on this DAG: {this} is like {first} ({s[row, u]:.3g}) and {second} "
        f"({s[row, v]:.3g}), which are less like each other ({s[u, v]:.3g}). project('odir') or "
        "project('yolo9000') makes a tree, on which there are"
    )

"""Vectors of classes whose inner products are the classes' similarities in the taxonomy."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.nodes import NodesLike, as_nodes

if TYPE_CHECKING:
    from labeltree.taxonomy.graph import TaxonomyDAG
    from labeltree.taxonomy.tree import Taxonomy

__all__ = ["as_classes", "cholesky_rows", "means_of_classes", "similarity", "sparse_rows"]

Matrix = NDArray[np.float64]


def as_classes(classes: NodesLike | None, taxonomy: Taxonomy | TaxonomyDAG) -> Tensor:
    """The classes as distinct nodes (C,); None takes all leaves.

    Raises:
        TaxonomyError: if they are no nodes, one is missing or the root, or one occurs twice.
        ValueError: if their shape is not (C,), or there is none.
    """
    if classes is None:
        return taxonomy.leaves
    nodes = as_nodes(classes, taxonomy.num_nodes, "classes").cpu()
    if nodes.ndim != 1 or not len(nodes):
        raise ValueError(f"classes has shape {tuple(nodes.shape)}, expected (C,), at least one class")
    if bool((nodes <= 0).any()):
        row = int((nodes <= 0).nonzero()[0])
        what = "the root" if int(nodes[row]) == 0 else "a missing label"
        raise TaxonomyError(f"classes[{row}] is {what}, which has no class embedding")
    first: dict[int, int] = {}
    for row, node in enumerate(nodes.tolist()):
        if first.setdefault(node, row) != row:
            raise TaxonomyError(
                f"class {taxonomy.path_name(node)!r} is given twice, as classes[{first[node]}] and "
                f"classes[{row}]; two classes cannot have one embedding"
            )
    return nodes


def similarity(taxonomy: Taxonomy, leaves: Tensor) -> Matrix:
    """`s(u, v) = 1 - height(lca(u, v)) / H` of all pairs of leaves, (n, n) (Eq. 2 of Barz & Denzler 2019).

    Between neighbours in preorder, the LCA of two leaves is the tallest of those of the neighbours: no pair
    is looked up but those.
    """
    ordered, order = torch.sort(leaves)
    nearest = 1.0 - taxonomy.lca_height_dissimilarity(ordered[:-1], ordered[1:]).numpy()
    n = len(leaves)
    place = torch.argsort(order).numpy()
    found, row = np.empty((n, n)), np.ones(n)
    for i, row_number in enumerate(order.tolist()):
        row[i] = 1.0
        row[:i][::-1] = np.minimum.accumulate(nearest[:i][::-1])
        row[i + 1 :] = np.minimum.accumulate(nearest[i:])
        np.take(row, place, out=found[row_number], mode="clip")  # "raise" would copy each row once more
    return found


def cholesky_rows(taxonomy: Taxonomy, leaves: Tensor) -> Tensor:
    """The lower Cholesky factor of the leaves' similarities, (n, n) float64: Algorithm 1 of the paper.

    Leaves of different children of the root have the similarity 0, and so has what the factor says of them:
    each branch is factored by itself.
    """
    from scipy.linalg.lapack import dpotrf

    branch = torch.searchsorted(torch.tensor(taxonomy.children(0)), leaves, right=True)
    one = bool((branch == branch[0]).all())
    factor = torch.zeros(0 if one else len(leaves), len(leaves), dtype=torch.float64)
    for child in torch.unique(branch):
        rows = torch.nonzero(branch == child).flatten()
        # the transpose is in LAPACK's own order, so that it works in place
        upper, _ = dpotrf(similarity(taxonomy, leaves[rows]).T, lower=0, overwrite_a=1, clean=1)
        block = torch.from_numpy(upper.T)
        if one:  # no second matrix of this size
            return block
        factor[rows[:, None], rows] = block
    return factor


class Steps(NamedTuple):
    """The entries of the closed form: one for each class and each node of its path."""

    rows: Tensor
    nodes: Tensor
    values: Tensor


def sparse_steps(taxonomy: Taxonomy, classes: Tensor) -> Steps:
    """`φ(c)_a = √(s(a) - s(parent a))` for the nodes a on the path of c, s(a) = 1 - height(a) / H.

    The sum of the squares from the root down to a is s(a), so the inner product of two classes is the s of
    their LCA.
    """
    rise = torch.zeros(taxonomy.num_nodes, dtype=torch.float64)
    steps = taxonomy.height[taxonomy.parent[1:]] - taxonomy.height[1:]
    rise[1:] = (steps.to(torch.float64) / taxonomy.max_height).sqrt()
    at, rows = classes, torch.arange(len(classes))
    found_rows, found_nodes = [], []
    while len(rows):
        found_rows.append(rows)
        found_nodes.append(at)
        above = taxonomy.parent[at]
        at, rows = above[above > 0], rows[above > 0]
    nodes = torch.cat(found_nodes)
    return Steps(torch.cat(found_rows), nodes, rise[nodes])


def sparse_rows(taxonomy: Taxonomy, classes: Tensor) -> Tensor:
    """The closed form as a sparse tensor (C, N)."""
    rows, nodes, values = sparse_steps(taxonomy, classes)
    shape = (len(classes), taxonomy.num_nodes)
    return torch.sparse_coo_tensor(
        torch.stack([rows, nodes]), values, shape, check_invariants=False
    ).coalesce()


def means_of_classes(taxonomy: Taxonomy, vectors: Tensor, classes: Tensor) -> Tensor:
    """For every node the normalised mean of the vectors of the classes at or below it, (N, D).

    A class that has no class below it keeps its vector as it is. A node without classes, or whose mean is 0,
    has zeros.
    """
    order = torch.argsort(classes)
    ordered, rows = classes[order].contiguous(), vectors[order]
    first = torch.searchsorted(ordered, torch.arange(taxonomy.num_nodes))
    last = torch.searchsorted(ordered, taxonomy.subtree_end)
    count = last - first
    own = torch.zeros(taxonomy.num_nodes, vectors.shape[1], dtype=vectors.dtype)
    own[ordered] = rows
    sums = own.clone()
    for depth in range(taxonomy.max_depth, 0, -1):
        here = torch.nonzero(taxonomy.depth == depth).flatten()
        sums.index_add_(0, taxonomy.parent[here], sums[here])
    length = sums.norm(dim=1, keepdim=True)
    # a mean that is 0 but for rounding has no direction
    means = torch.where(length > 1e-9 * count.clamp(min=1)[:, None], sums / length, 0.0)
    alone = count[ordered] == 1
    means[ordered[alone]] = own[ordered[alone]]
    return means

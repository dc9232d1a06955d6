"""Class embeddings: vectors whose inner products are the classes' similarities (Barz & Denzler 2019)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from labeltree.checks import check_choice
from labeltree.errors import TaxonomyError
from labeltree.lazy import torch
from labeltree.taxonomy.check_nodes import NodesLike, as_nodes
from labeltree.taxonomy.taxonomy_graph import Graph

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "EmbeddingMethod",
    "as_classes",
    "cholesky_of_dag",
    "class_vectors",
    "means_of_classes",
    "sparse_vectors",
]

EmbeddingMethod = Literal["cholesky", "eigen"]
Matrix = NDArray[np.float64]

SMALL = 1000  # up to this many classes, all eigenpairs are computed at once


def as_classes(classes: NodesLike | None, taxonomy: Graph) -> Tensor:
    """The classes as distinct nodes (C,); None means all leaves.

    Raises:
        TaxonomyError: If a class is not a node, is missing, is the root or occurs twice.
        ValueError: If the shape is not (C,), or there are no classes.
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


def class_vectors(
    tree: Graph, classes: Tensor, dim: int | None, normalize: bool, method: EmbeddingMethod | None
) -> Tensor:
    """The vectors of classes (C,), (C, D) float64; see `Taxonomy.class_embeddings`."""
    leaves = _leaves_of(tree, classes)
    check_choice("method", method, (None, "cholesky", "eigen"))
    if (method or ("cholesky" if dim is None else "eigen")) == "cholesky":
        if dim not in (None, len(leaves)):
            raise ValueError(
                f"dim={dim}, but the Cholesky factor of {len(leaves)} leaves has {len(leaves)} "
                "dimensions; method='eigen' gives fewer"
            )
        vectors = _cholesky(tree, leaves)
    else:
        dim = len(leaves) if dim is None else dim
        if not 1 <= dim <= len(leaves):
            raise ValueError(
                f"dim={dim}, expected 1 to {len(leaves)}: so many dimensions hold {len(leaves)} leaves "
                "exactly"
            )
        vectors = _eigenvectors(tree, leaves, dim)
        if normalize:
            vectors = _normalize(tree, vectors, leaves)
    if leaves is classes:
        return vectors
    return means_of_classes(tree, vectors, leaves)[classes]


def _leaves_of(tree: Graph, classes: Tensor) -> Tensor:
    """The leaves at or below the classes, ordered by their first class; the classes if all are leaves."""
    inner = ~tree.is_leaf[classes]
    if not bool(inner.any()):
        return classes
    spans: dict[tuple[int, int], int] = {}
    leaves: dict[int, None] = {}
    for node in classes.tolist():
        below = tree.descendant_leaves(node).tolist()
        other = spans.setdefault((below[0], below[-1]), node)
        if other != node:
            raise TaxonomyError(
                f"classes {tree.path_name(other)!r} and {tree.path_name(node)!r} have the same "
                "leaves below them and would get the same embedding; leave one out"
            )
        leaves.update(dict.fromkeys(below))
    return torch.tensor(list(leaves))


def means_of_classes(tree: Graph, vectors: Tensor, classes: Tensor) -> Tensor:
    """The normalised mean of the vectors of the classes at or below each node, (N, D).

    A class that has no class below it keeps its vector as it is. A node without classes, or whose mean is 0,
    has zeros.
    """
    order = torch.argsort(classes)
    ordered, rows = classes[order], vectors[order]
    own = torch.zeros(tree.num_nodes, vectors.shape[1], dtype=vectors.dtype)
    own[ordered] = rows
    sums = own.clone()
    count = torch.zeros(tree.num_nodes, dtype=torch.int64)
    count[ordered] = 1
    for depth in range(tree.max_depth, 0, -1):
        here = torch.nonzero(tree.depth == depth).flatten()
        sums.index_add_(0, tree.main_parent[here], sums[here])
        count.index_add_(0, tree.main_parent[here], count[here])
    length = sums.norm(dim=1, keepdim=True)
    # a mean that is 0 up to rounding has no direction
    means = torch.where(length > 1e-9 * count.clamp(min=1)[:, None], sums / length, 0.0)
    alone = count[ordered] == 1
    means[ordered[alone]] = own[ordered[alone]]
    return means


def _cholesky(tree: Graph, leaves: Tensor) -> Tensor:
    """The lower Cholesky factor of the leaves' similarities, (n, n) float64: Algorithm 1 of the paper.

    Leaves of different children of the root have similarity 0, so the factor is block diagonal and each
    branch is factored separately.
    """
    from scipy.linalg.lapack import dpotrf

    branch = torch.searchsorted(torch.tensor(tree.children(0)), leaves, right=True)
    one = bool((branch == branch[0]).all())
    factor = torch.zeros(0 if one else len(leaves), len(leaves), dtype=torch.float64)
    for child in torch.unique(branch):
        rows = torch.nonzero(branch == child).flatten()
        # the transpose is in LAPACK's order, so the factorisation works in place
        upper, _ = dpotrf(_similarity(tree, leaves[rows]).T, lower=0, overwrite_a=1, clean=1)
        block = torch.from_numpy(upper.T)
        if one:  # no second matrix of this size
            return block
        factor[rows[:, None], rows] = block
    return factor


def _similarity(tree: Graph, leaves: Tensor) -> Matrix:
    """`s(u, v) = 1 - height(lca(u, v)) / H` of all pairs of leaves, (n, n) (Eq. 2 of Barz & Denzler 2019).

    The LCA of two leaves is the tallest of the LCAs of neighbouring leaves between them in preorder, so only
    the LCAs of neighbours are looked up.
    """
    ordered, order = torch.sort(leaves)
    nearest = 1.0 - tree.lca_height_dissimilarity(ordered[:-1], ordered[1:]).numpy()
    n = len(leaves)
    place = torch.argsort(order).numpy()
    similarity, row = np.empty((n, n)), np.ones(n)
    for i, row_number in enumerate(order.tolist()):
        row[i] = 1.0
        row[:i][::-1] = np.minimum.accumulate(nearest[:i][::-1])
        row[i + 1 :] = np.minimum.accumulate(nearest[i:])
        np.take(row, place, out=similarity[row_number], mode="clip")  # "raise" would copy each row once more
    return similarity


def sparse_vectors(tree: Graph, classes: Tensor) -> Tensor:
    """The closed form as a sparse tensor (C, N)."""
    rows, nodes, values = _steps(tree, classes)
    shape = (len(classes), tree.num_nodes)
    return torch.sparse_coo_tensor(
        torch.stack([rows, nodes]), values, shape, check_invariants=False
    ).coalesce()


def _steps(tree: Graph, classes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`φ(c)_a = √(s(a) - s(parent a))` for the nodes a on the path of c, s(a) = 1 - height(a) / H.

    The sum of the squares from the root down to a is s(a), so the inner product of two classes is the s of
    their LCA.

    Returns:
        (E,) each: the row of each entry (a class), its column (a node), and its value.
    """
    rise = torch.zeros(tree.num_nodes, dtype=torch.float64)
    steps = tree.height[tree.main_parent[1:]] - tree.height[1:]
    rise[1:] = (steps.to(torch.float64) / tree.max_height).sqrt()
    at, rows = classes, torch.arange(len(classes))
    found_rows, found_nodes = [], []
    while len(rows):
        found_rows.append(rows)
        found_nodes.append(at)
        above = tree.main_parent[at]
        at, rows = above[above > 0], rows[above > 0]
    nodes = torch.cat(found_nodes)
    return torch.cat(found_rows), nodes, rise[nodes]


def _eigenvectors(tree: Graph, leaves: Tensor, dim: int) -> Tensor:
    """`Q √Λ` of the `dim` largest eigenvalues of S = Q Λ Qᵀ, (n, dim) float64 (Eq. 7 of Barz & Denzler 2019).

    Their inner products are the best approximation of S by vectors of this width. The largest eigenvalue
    comes first; the entry of each eigenvector that is largest in magnitude is positive.
    """
    if len(leaves) <= SMALL or 4 * dim >= len(leaves):
        pairs = _all_pairs(tree, leaves, dim)
    else:
        pairs = _leading_pairs(tree, leaves, dim)
    values, vectors = pairs
    largest = np.abs(vectors).argmax(axis=0)
    vectors = vectors * np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return torch.from_numpy(vectors * np.sqrt(np.maximum(values, 0.0)))


def _all_pairs(tree: Graph, leaves: Tensor, dim: int) -> tuple[Matrix, Matrix]:
    values, vectors = torch.linalg.eigh(torch.from_numpy(_similarity(tree, leaves)))
    return values.flip(0)[:dim].numpy(), vectors.flip(1)[:, :dim].numpy()


def _leading_pairs(tree: Graph, leaves: Tensor, dim: int) -> tuple[Matrix, Matrix]:
    """The largest eigenpairs by Lanczos on S = Φ Φᵀ, Φ sparse; if it misses one, by computing all pairs."""
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import LinearOperator, eigsh

    rows, nodes, entries = _steps(tree, leaves)
    n = len(leaves)
    phi = csr_array((entries.numpy(), (rows.numpy(), nodes.numpy())), shape=(n, tree.num_nodes))
    back = phi.T.tocsr()
    start = np.random.default_rng(0).standard_normal(n)
    whole = LinearOperator((n, n), matvec=lambda x: phi @ (back @ x), dtype=np.float64)
    values, vectors = eigsh(whole, k=dim, v0=start)
    order = np.argsort(-values)
    values, vectors = values[order], vectors[:, order]

    def rest(x: Any) -> Any:
        return phi @ (back @ x) - vectors @ (values * (vectors.T @ x))

    # equal eigenvalues are common in a taxonomy, and Lanczos may miss a copy
    missed = eigsh(LinearOperator((n, n), matvec=rest, dtype=np.float64), k=1, v0=start, which="LA")[0][0]
    if missed > values[-1] * (1 + 1e-8):
        return _all_pairs(tree, leaves, dim)
    return values, vectors


def _normalize(tree: Graph, vectors: Tensor, classes: Tensor) -> Tensor:
    """The vectors (C, D) scaled to unit length.

    Raises:
        TaxonomyError: If a vector is 0; the message names its class.
    """
    length = vectors.norm(dim=1, keepdim=True)
    empty = torch.nonzero(length[:, 0] < 1e-7).flatten()
    if len(empty):
        raise TaxonomyError(
            f"class {tree.path_name(int(classes[empty[0]]))!r} has no part in the {vectors.shape[1]} "
            f"leading eigenvectors{f', nor have {len(empty) - 1} more classes' if len(empty) > 1 else ''}: "
            "its embedding is 0 and cannot be normalised; give a larger dim, or none"
        )
    units: Tensor = vectors / length
    return units


def cholesky_of_dag(dag: Graph, classes: NodesLike | None) -> Tensor:
    """The lower Cholesky factor of the classes' similarities; see `TaxonomyDAG.class_embeddings`."""
    from scipy.linalg.lapack import dpotrf

    nodes = as_classes(classes, dag)
    inner = nodes[~dag.is_leaf[nodes]]
    if len(inner):
        raise TaxonomyError(
            f"class {dag.path_name(int(inner[0]))!r} is not a leaf; "
            "on a DAG only leaves have class embeddings"
        )
    s = 1.0 - dag.lca_height_dissimilarity(nodes[:, None], nodes).numpy()
    upper, failed = dpotrf(s.T, lower=0, clean=1)
    if failed:
        raise TaxonomyError(_blame(dag, nodes, s, failed - 1))
    return torch.from_numpy(upper.T)


def _blame(dag: Graph, nodes: Tensor, s: Matrix, row: int) -> str:
    """Error text: the first class that does not fit the classes before it, and two of those similar to it.

    On a tree s(u, v) is at least the smaller of s(u, w) and s(w, v); the two classes that violate this most
    are named.
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

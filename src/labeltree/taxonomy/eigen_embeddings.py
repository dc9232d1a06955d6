"""Low-dimensional class embeddings: the leading eigenpairs of the classes' similarities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.class_embeddings import Matrix, similarity, sparse_steps

if TYPE_CHECKING:
    from labeltree.taxonomy.tree import Taxonomy

__all__ = ["eigen_rows", "unit_rows"]

SMALL = 1000  # up to so many classes, all eigenpairs are found at once


def eigen_rows(taxonomy: Taxonomy, leaves: Tensor, dim: int) -> Tensor:
    """`Q √Λ` of the `dim` largest eigenvalues of S = Q Λ Qᵀ, (n, dim) float64 (Eq. 7 of Barz & Denzler 2019).

    Of all vectors of this width, their inner products come nearest to S. Largest eigenvalue first; the entry
    of each eigenvector that is largest in magnitude is positive.
    """
    if len(leaves) <= SMALL or 4 * dim >= len(leaves):
        found = _all_pairs(taxonomy, leaves, dim)
    else:
        found = _leading_pairs(taxonomy, leaves, dim)
    values, vectors = found
    largest = np.abs(vectors).argmax(axis=0)
    vectors = vectors * np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return torch.from_numpy(vectors * np.sqrt(np.maximum(values, 0.0)))


def _all_pairs(taxonomy: Taxonomy, leaves: Tensor, dim: int) -> tuple[Matrix, Matrix]:
    values, vectors = torch.linalg.eigh(torch.from_numpy(similarity(taxonomy, leaves)))
    return values.flip(0)[:dim].numpy(), vectors.flip(1)[:, :dim].numpy()


def _leading_pairs(taxonomy: Taxonomy, leaves: Tensor, dim: int) -> tuple[Matrix, Matrix]:
    """By Lanczos steps on S = Φ Φᵀ with the sparse Φ; if a pair was missed, by all pairs after all."""
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import LinearOperator, eigsh

    rows, nodes, entries = sparse_steps(taxonomy, leaves)
    n = len(leaves)
    phi = csr_array((entries.numpy(), (rows.numpy(), nodes.numpy())), shape=(n, taxonomy.num_nodes))
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
        return _all_pairs(taxonomy, leaves, dim)
    return values, vectors


def unit_rows(taxonomy: Taxonomy, vectors: Tensor, classes: Tensor) -> Tensor:
    """The vectors (C, D) at length 1.

    Raises:
        TaxonomyError: if one is 0, naming its class.
    """
    length = vectors.norm(dim=1, keepdim=True)
    empty = torch.nonzero(length[:, 0] < 1e-7).flatten()
    if len(empty):
        raise TaxonomyError(
            f"class {taxonomy.path_name(int(classes[empty[0]]))!r} has no part in the {vectors.shape[1]} "
            f"leading eigenvectors{f', nor have {len(empty) - 1} more classes' if len(empty) > 1 else ''}: "
            "its embedding is 0 and cannot be normalised; give a larger dim, or none"
        )
    units: Tensor = vectors / length
    return units

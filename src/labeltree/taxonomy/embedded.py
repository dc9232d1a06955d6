"""The tree with its class embeddings: which classes, which method, and what an inner node gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

import torch
from torch import Tensor

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.class_embeddings import as_classes, cholesky_rows, means_of_classes, sparse_rows
from labeltree.taxonomy.nodes import NodesLike

if TYPE_CHECKING:
    from labeltree.taxonomy.tree import Taxonomy

__all__ = ["EmbeddedClasses", "EmbeddingMethod"]

EmbeddingMethod = Literal["cholesky", "eigen"]


class EmbeddedClasses:
    """What a `Taxonomy` says of its classes as vectors (Barz & Denzler 2019, Section 3)."""

    def class_embeddings(
        self,
        classes: NodesLike | None = None,
        dim: int | None = None,
        normalize: bool = False,
        method: EmbeddingMethod | None = None,
    ) -> Tensor:
        """Vectors of classes whose inner products are their similarities `1 - lca_height_dissimilarity`.

        - `cholesky` (the default): the lower Cholesky factor of the similarities, exactly Algorithm 1 of
          Barz & Denzler. Unit vectors, no entry negative, one dimension a leaf. They depend on the order of
          the classes; their inner products do not.
        - `eigen` (the default where `dim` is given): the leading eigenpairs, the best approximation in
          `dim` dimensions. Not of unit length, unless normalised.

        An inner node gets the normalised mean of the vectors of the leaves below it. These are embedded with
        the leaves among the classes, so that there may be more dimensions than classes.

        Args:
            classes: (C,) distinct nodes below the root; all leaves by default.
            dim: the number of dimensions, at most that of the exact embedding; None for the exact one.
            normalize: give `eigen` vectors unit length.
            method: by default the one that `dim` suggests.

        Returns:
            (C, D) float64, one row a class in the order given.

        Raises:
            TaxonomyError: if a class is missing, the root, or given twice; if two inner nodes stand for the
                same leaves; or if a vector is 0 and cannot be normalised.
            ValueError: if `dim` is out of range or does not go with the method.

        Example:
            >>> from labeltree import Taxonomy
            >>> tree = Taxonomy.from_paths(["animal/mammal/dog", "animal/mammal/cat", "animal/fish/trout"])
            >>> vectors = tree.class_embeddings()
            >>> (vectors @ vectors.T).mul(3).round().tolist()  # heights of the LCAs: 1, 2; H = 3
            [[3.0, 2.0, 1.0], [2.0, 3.0, 1.0], [1.0, 1.0, 3.0]]
        """
        taxonomy = cast("Taxonomy", self)
        nodes = as_classes(classes, taxonomy)
        leaves = _leaves_of(taxonomy, nodes)
        if method not in (None, "cholesky", "eigen"):
            raise ValueError(f"method is {method!r}; expected 'cholesky' or 'eigen'")
        if (method or ("cholesky" if dim is None else "eigen")) == "cholesky":
            if dim not in (None, len(leaves)):
                raise ValueError(
                    f"dim={dim}, but the Cholesky factor of {len(leaves)} leaves has {len(leaves)} "
                    "dimensions; method='eigen' gives fewer"
                )
            vectors = cholesky_rows(taxonomy, leaves)
        else:
            from labeltree.taxonomy.eigen_embeddings import eigen_rows, unit_rows

            dim = len(leaves) if dim is None else dim
            if not 1 <= dim <= len(leaves):
                raise ValueError(
                    f"dim={dim}, expected 1 to {len(leaves)}: so many dimensions hold {len(leaves)} leaves "
                    "exactly"
                )
            vectors = eigen_rows(taxonomy, leaves, dim)
            if normalize:
                vectors = unit_rows(taxonomy, vectors, leaves)
        if leaves is nodes:
            return vectors
        return means_of_classes(taxonomy, vectors, leaves)[nodes]

    def sparse_class_embeddings(self, classes: NodesLike | None = None) -> Tensor:
        """The exact class embeddings in closed form, one dimension a node: `φ(c)_a = √(s(a) - s(parent a))`.

        Here a is a node on the path of c, `s(a) = 1 - height(a) / H`. The inner products are those of
        `class_embeddings`; in O(C · depth), without the matrix of all pairs. An inner node gets the part
        that all classes below it share, of length `√s`.

        Args:
            classes: (C,) distinct nodes below the root; all leaves by default.

        Returns:
            (C, N) float64, sparse (COO, coalesced).

        Raises:
            TaxonomyError: if a class is missing, the root, or given twice.
        """
        taxonomy = cast("Taxonomy", self)
        return sparse_rows(taxonomy, as_classes(classes, taxonomy))

    def node_embeddings(
        self,
        classes: NodesLike | None = None,
        dim: int | None = None,
        normalize: bool = False,
        method: EmbeddingMethod | None = None,
    ) -> Tensor:
        """The vector of every node as a label: of a class its own, above the classes the normalised mean.

        Args:
            classes: (C,) as for `class_embeddings`, and so are the others.

        Returns:
            (N, D) float64; zeros for nodes that are no class and have none below.
        """
        taxonomy = cast("Taxonomy", self)
        nodes = as_classes(classes, taxonomy)
        vectors = self.class_embeddings(nodes, dim, normalize, method)
        means = means_of_classes(taxonomy, vectors, nodes)
        means[nodes] = vectors
        return means


def _leaves_of(taxonomy: Taxonomy, classes: Tensor) -> Tensor:
    """The leaves at or below the classes, in order of their first class; the classes if all are leaves."""
    inner = ~taxonomy.is_leaf[classes]
    if not bool(inner.any()):
        return classes
    spans: dict[tuple[int, int], int] = {}
    found: dict[int, None] = {}
    for node in classes.tolist():
        below = taxonomy.descendant_leaves(node).tolist()
        other = spans.setdefault((below[0], below[-1]), node)
        if other != node:
            raise TaxonomyError(
                f"classes {taxonomy.path_name(other)!r} and {taxonomy.path_name(node)!r} have the same "
                "leaves below them and would get the same embedding; leave one out"
            )
        found.update(dict.fromkeys(below))
    return torch.tensor(list(found))

"""How alike classes are on a taxonomy, with a dial for how much the taxonomy counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from labeltree.checks import check_choice, check_number
from labeltree.lazy import torch
from labeltree.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SIMILARITIES", "Similarity", "check_tree_share", "class_points", "class_similarity"]

Similarity = Literal["height", "depth"]
SIMILARITIES: tuple[Similarity, ...] = get_args(Similarity)


def check_tree_share(tree: object) -> None:
    """Raise a ValueError unless `tree` is a number from 0 to 1."""
    check_number("tree", tree, "a number from 0 (no tree) to 1 (the tree alone)", 0, 1)


def class_similarity(
    classes: Tensor, taxonomy: Taxonomy, similarity: Similarity = "depth", tree: float = 1.0
) -> Tensor:
    """The matrix G = tree·S + (1 − tree)·I of the similarities of classes.

    S is 1 − height(lca)/H (Barz & Denzler 2019, Eq. 1) or depth(lca)/L (ρ of Zhang et al. 2022), with ones
    on the diagonal. Both are sums over common ancestors, so that G is positive definite on every tree: the
    rows of its Cholesky factor are embeddings of the classes. At `height` and tree = 1 these are
    `Taxonomy.class_embeddings`, for classes that are leaves.

    Args:
        classes: `(c,)` distinct nodes, none missing and none above another.
        taxonomy: Of the classes.
        similarity: `height` or `depth`.
        tree: From 0 (classes are equal or different) to 1 (the tree alone).

    Returns:
        `(c, c)` float64.

    Raises:
        ValueError: If `tree` is not in [0, 1], or the similarity is unknown.
    """
    check_tree_share(tree)
    check_choice("similarity", similarity, SIMILARITIES)
    one, other = classes[:, None], classes[None, :]
    if similarity == "height":
        likeness = 1 - taxonomy.lca_height_dissimilarity(one, other)
    else:
        likeness = 1 - taxonomy.lca_depth_dissimilarity(one, other)
    likeness.fill_diagonal_(1.0)
    return tree * likeness + (1 - tree) * torch.eye(len(classes), dtype=torch.float64)


def class_points(
    classes: Tensor, taxonomy: Taxonomy, similarity: Similarity = "depth", tree: float = 1.0
) -> Tensor:
    """Embeddings `(c, c)` float64 of classes, with the products of `class_similarity`; arguments as there."""
    points: Tensor = torch.linalg.cholesky(class_similarity(classes, taxonomy, similarity, tree))
    return points

"""How alike classes are on a taxonomy, and points whose inner products are that likeness."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.taxonomy import Taxonomy

__all__ = ["SIMILARITIES", "Similarity", "class_points", "class_similarity"]

Similarity = Literal["height", "depth"]
SIMILARITIES: tuple[Similarity, ...] = get_args(Similarity)


def class_similarity(
    classes: Tensor, taxonomy: Taxonomy, similarity: Similarity = "depth", tree: float = 1.0
) -> Tensor:
    """The matrix G = tree·S + (1 − tree)·I of the likeness of classes.

    S is 1 − height(lca)/H (Barz & Denzler 2019, Eq. 1) or depth(lca)/L (ρ of Zhang et al. 2022), with ones
    on the diagonal. Both are sums over common ancestors, so that G is positive semi-definite on every tree.

    Args:
        classes: ``(c,)`` distinct nodes, none missing.
        taxonomy: of the classes.
        similarity: ``height`` or ``depth``.
        tree: from 0 (classes are equal or different) to 1 (the tree alone).

    Returns:
        ``(c, c)`` float64.

    Raises:
        ValueError: if ``tree`` is not in [0, 1], or the similarity is unknown.
    """
    if not 0 <= tree <= 1:
        raise ValueError(f"tree is {tree}; it lies between 0 (no tree) and 1 (the tree alone)")
    check_choice("similarity", similarity, SIMILARITIES)
    one, other = classes[:, None], classes[None, :]
    if similarity == "height":
        likeness = 1 - taxonomy.lca_height_dissimilarity(one, other)
    else:
        likeness = 1 - taxonomy.lca_depth_dissimilarity(one, other)
    likeness.fill_diagonal_(1.0)
    return tree * likeness + (1 - tree) * torch.eye(len(classes), dtype=torch.float64)


def class_points(likeness: Tensor, *, centred: bool) -> Tensor:
    """Points ``(c, r)`` whose inner products are the likeness ``(c, c)`` of the classes.

    Args:
        likeness: positive semi-definite, see `class_similarity`.
        centred: subtract the mean of the points, so that the products are those of the centred matrix.
    """
    if centred:
        likeness = likeness - likeness.mean(0) - likeness.mean(1)[:, None] + likeness.mean()
    values, vectors = torch.linalg.eigh(likeness)
    kept = values > 1e-12 * values.max().clamp_min(1e-300)
    vectors = vectors[:, kept]
    largest = vectors.abs().argmax(
        0
    )  # the sign of an eigenvector is the solver's choice: make the largest entry > 0
    vectors = vectors * vectors[largest, torch.arange(vectors.shape[1])].sign()
    points: Tensor = vectors * values[kept].sqrt()
    return points

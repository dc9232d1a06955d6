"""The posterior space: the probabilities of a classifier as points that follow the order of the taxonomy."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from labeltree.checks import check_number
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.geometry.unit_vectors import unit_vectors
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.class_similarity import Similarity, class_points

__all__ = ["check_instance", "posterior_embeddings"]


def check_instance(instance: object) -> None:
    """Raise a ValueError unless `instance`, a weight, is a number from 0."""
    check_number("instance", instance, "a number from 0 (the classes alone)", 0)


def posterior_embeddings(
    probabilities: Tensor,
    classes: Tensor,
    taxonomy: Taxonomy,
    *,
    similarity: Similarity = "depth",
    tree: float = 0.5,
    vectors: Tensor | None = None,
    instance: float = 0.0,
) -> Tensor:
    """Embed each sample at the mean of the class embeddings by its probabilities, z = Σ_c p(c | x)·φ_c.

    The inner product of two samples is the expected similarity of their classes, pᵀ·G·q. If the probabilities
    are right and the samples independent, no order of the results has a larger expected sum of similarities
    among the first k, for any k. If the probabilities are too certain or too uncertain, this does not hold:
    calibrate them (`fit_calibrator`) on samples that the classifier was not trained on. Samples with the same
    probabilities lie at one point, and a class without training samples has none; `instance` puts vectors
    beside the classes, which tell such samples apart.

    The mean of class embeddings by probabilities is ConSE (Norouzi et al. 2014, Zero-Shot Learning by Convex
    Combination of Semantic Embeddings), here over all classes and with embeddings of the taxonomy (Barz &
    Denzler 2019, Hierarchy-Based Image Embeddings for Semantic Image Retrieval).

    Args:
        probabilities: `(n, c)` of the classes, calibrated.
        classes: `(c,)` distinct nodes, none above another.
        taxonomy: a tree.
        similarity: Of two classes, by the `height` or the `depth` of their lowest common ancestor.
        tree: How much the taxonomy counts, from 0 (classes are equal or different) to 1.
        vectors: `(n, d)` of the same samples, such as the features of an encoder, which are brought to unit
            length; None = nothing beside the classes.
        instance: Weight of the inner products of these vectors, from 0.

    Returns:
        `(n, c)` float64, or `(n, c + d)` with vectors of a weight above 0; compare them by inner product
        or cosine.

    Raises:
        ValueError: If a shape, a setting or a probability is out of range, or a class occurs twice.
        DataError: If a vector holds NaN or infinity.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("pet", "dog"), ("pet", "cat"), ("fish", "trout")])
        >>> sure = torch.eye(3, dtype=torch.float64)
        >>> z = posterior_embeddings(sure, taxonomy.leaves, taxonomy, tree=1.0)
        >>> (z @ z.T).mul(2).round().tolist()  # twice the depths of the LCAs over 2
        [[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 2.0]]
    """
    given = ClassNodes(classes, taxonomy).check_probabilities(probabilities)
    check_instance(instance)
    embeddings: Tensor = given @ class_points(classes, taxonomy, similarity, tree)
    if vectors is None or not instance:
        return embeddings
    if vectors.ndim != 2 or len(vectors) != len(given):
        raise ValueError(f"vectors has shape {tuple(vectors.shape)}; expected ({len(given)}, d)")
    return torch.cat([embeddings, math.sqrt(instance) * unit_vectors(vectors)], 1)

"""Prototypes: the mean embedding of every node of a taxonomy."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.geometry import Geometry, as_geometry
from labeltree.metrics.checks import check_embeddings, check_nodes, check_same_length, check_tree
from labeltree.taxonomy import Taxonomy

__all__ = ["class_prototypes"]


def class_prototypes(
    embeddings: Tensor,
    nodes: Tensor,
    taxonomy: Taxonomy,
    geometry: Geometry | str | None = None,
    *,
    steps: int = 3,
) -> Tensor:
    """Mean embedding of every node: of the samples labelled with it or with one of its descendants.

    The mean is that of the geometry: normalised on the sphere, arithmetic in Euclidean space, Karcher's on
    the Poincaré ball (Section 4.4 of Climbing the Label Tree). A sample labelled at an inner node counts for
    it and for its ancestors; one without a label counts for none.

    Args:
        embeddings: (n, d) points of the geometry, usually those of the training split.
        nodes: (n,) nodes, -1 for a missing label.
        taxonomy: the tree.
        geometry: or its name; default `Sphere()`.
        steps: fixed-point steps of a Karcher mean.

    Returns:
        (num_nodes, d) float64; rows of nodes without a sample are NaN.

    Raises:
        ValueError: for wrong shapes or dtypes, embeddings that are not finite, labels outside the taxonomy.

    Example:
        >>> import torch
        >>> from labeltree.geometry import Euclidean
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> nodes = taxonomy.encode(["dog", "cat"])
        >>> prototypes = class_prototypes(torch.eye(2), nodes, taxonomy, Euclidean())
        >>> prototypes[taxonomy.find("mammal")]
        tensor([0.5000, 0.5000], dtype=torch.float64)

    """
    check_embeddings("embeddings", embeddings)
    check_tree("prototypes of inner nodes", taxonomy)
    check_nodes("nodes", nodes, taxonomy)
    check_same_length("embeddings", embeddings, "nodes", nodes)
    geometry = as_geometry(geometry)
    points = embeddings.detach().double()
    ancestors = taxonomy.ancestors.to(nodes.device)[nodes.clamp(min=0)]
    ancestors[nodes < 0] = -1
    prototypes = points.new_full((taxonomy.num_nodes, points.shape[1]), torch.nan)
    for column in ancestors.unbind(dim=1):
        here = column >= 0
        present, groups = torch.unique(column[here], return_inverse=True)
        if len(present):
            prototypes[present] = geometry.group_means(points[here], groups, len(present), steps=steps)
    return prototypes

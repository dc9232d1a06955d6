"""How many violations of the tree there are among the validation samples, epoch by epoch."""

from __future__ import annotations

from torch import Tensor

from labeltree.geometry import Geometry
from labeltree.metrics.functional import class_prototypes, pair_violations, parent_violations
from labeltree.taxonomy import Taxonomy

__all__ = ["violations"]

_MAX_PAIRS = 2**15


def violations(embeddings: Tensor, nodes: Tensor, taxonomy: Taxonomy, geometry: Geometry) -> dict[str, float]:
    """``pair_violations`` and ``parent_violations`` of some samples, NaN where they are not defined.

    The prototypes of parents are the means of these samples themselves: no others are embedded after an
    epoch. An evaluation takes them from the training samples and finds somewhat more violations.

    Args:
        embeddings: ``(n, d)`` points of the geometry.
        nodes: ``(n,)``, −1 where missing.
        taxonomy: of the nodes.
        geometry: of the embeddings.
    """
    known = nodes >= 0
    points, labels = embeddings[known], nodes[known]
    pairs = pair_violations(points, labels, taxonomy, geometry, max_pairs=_MAX_PAIRS)
    prototypes = class_prototypes(points, labels, taxonomy, geometry)
    parents = parent_violations(points, labels, taxonomy, prototypes, geometry=geometry)
    return {"pair_violations": float(pairs), "parent_violations": float(parents)}

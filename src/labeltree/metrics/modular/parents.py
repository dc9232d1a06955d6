"""Parent violations and PC-Order, over batches and ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labeltree.geometry import Geometry, as_geometry
from labeltree.metrics.functional.parents import parent_violations
from labeltree.metrics.modular.mean import SampleMean
from labeltree.taxonomy import Taxonomy

__all__ = ["ParentOrderAccuracy", "ParentViolations"]


class ParentViolations(SampleMean):
    """Parent violations against given prototypes; see `labeltree.metrics.functional.parent_violations`.

    Args:
        taxonomy: the tree.
        prototypes: (num_nodes, d), as `labeltree.metrics.functional.class_prototypes` gives them.
        geometry: of embeddings and prototypes; default the sphere.
        distance: None, "unit", "raw", "cosine" or "poincare".
        **kwargs: of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> from labeltree.metrics.functional import class_prototypes
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> nodes = taxonomy.encode(["dog", "cat", "trout"])
        >>> metric = ParentViolations(taxonomy, class_prototypes(torch.eye(3), nodes, taxonomy))
        >>> metric(torch.eye(3), nodes).item()
        0.0

    """

    higher_is_better = False

    def __init__(
        self,
        taxonomy: Taxonomy,
        prototypes: Tensor,
        geometry: Geometry | str | None = None,
        *,
        distance: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.taxonomy, self.prototypes = taxonomy, prototypes
        self.geometry, self.distance = as_geometry(geometry), distance
        type(self).update(
            self, torch.zeros(1, prototypes.shape[-1]), torch.tensor([-1])
        )  # refuses what makes no sense

    def update(self, embeddings: Tensor, nodes: Tensor) -> None:
        """Add embeddings (b, d) and labels (b,)."""
        self.add(
            parent_violations(
                embeddings,
                nodes,
                self.taxonomy,
                self.prototypes,
                geometry=self.geometry,
                distance=self.distance,
                reduction="none",
            )
        )


class ParentOrderAccuracy(ParentViolations):
    """PC-Order, 1 − `ParentViolations`, with the same arguments.

    Example:
        >>> import torch
        >>> from labeltree.metrics.functional import class_prototypes
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> nodes = taxonomy.encode(["dog", "cat", "trout"])
        >>> metric = ParentOrderAccuracy(taxonomy, class_prototypes(torch.eye(3), nodes, taxonomy))
        >>> metric(torch.eye(3), nodes).item()
        1.0

    """

    higher_is_better = True

    def compute(self) -> Tensor:
        """Float64 scalar; NaN if no sample counts."""
        return 1.0 - super().compute()

"""How well a space or a clustering follows the taxonomy, over batches and ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labeltree.geometry import Geometry, as_geometry
from labeltree.metrics import functional
from labeltree.metrics.checks import check_labels, check_same_length
from labeltree.metrics.functional.parent_prototypes import parent_violations
from labeltree.metrics.modular.state import Collected, CollectedSamples, SampleMean
from labeltree.taxonomy import AnyTaxonomy, Taxonomy

__all__ = ["NormalizedMutualInformation", "PairViolations", "ParentOrderAccuracy", "ParentViolations"]


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


class PairViolations(CollectedSamples):
    """Hierarchy violations among pairs; see `labeltree.metrics.functional.pair_violations`.

    Args:
        taxonomy: a tree or a DAG.
        geometry: or its name; default the sphere.
        reading: "comparisons", "triplets", "pairs" or "finer_pairs".
        ties: "ignore" or "count".
        max_pairs: how many pairs are drawn at most.
        seed: of that draw.
        **kwargs: of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = PairViolations(taxonomy)
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
        >>> metric(embeddings, taxonomy.encode(["dog", "cat", "trout"])).item()
        0.0

    """

    higher_is_better = False

    def __init__(
        self,
        taxonomy: AnyTaxonomy,
        *,
        geometry: Geometry | str | None = None,
        reading: str = "comparisons",
        ties: str = "ignore",
        max_pairs: int = 1_000_000,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.taxonomy, self.geometry = taxonomy, as_geometry(geometry)
        self.reading, self.ties, self.max_pairs, self.seed = reading, ties, max_pairs, seed
        self.try_out()

    def value(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        """The metric of samples (n, d) and their labels (n,)."""
        return functional.pair_violations(
            embeddings,
            nodes,
            self.taxonomy,
            self.geometry,
            reading=self.reading,
            ties=self.ties,
            max_pairs=self.max_pairs,
            seed=self.seed,
        )


class NormalizedMutualInformation(Collected):
    """NMI of labels and clusters; see `labeltree.metrics.functional.normalized_mutual_information`.

    Args:
        average: of the two entropies: "arithmetic", "geometric", "min" or "max".
        **kwargs: of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> NormalizedMutualInformation()(torch.tensor([5, 5, 9]), torch.tensor([1, 1, 0])).item()
        1.0

    """

    labels: list[Tensor]
    clusters: list[Tensor]

    def __init__(self, average: str = "arithmetic", **kwargs: Any) -> None:
        super().__init__(("labels", "clusters"), **kwargs)
        self.average = average
        nothing = torch.empty(0, dtype=torch.int64)
        functional.normalized_mutual_information(nothing, nothing, average=average)

    def update(self, labels: Tensor, clusters: Tensor, *, instances: Tensor | None = None) -> None:
        """Add labels (b,), -1 where missing, and clusters (b,); rows of one instance (b,) count once."""
        check_labels("labels", labels)
        check_labels("clusters", clusters)
        check_same_length("labels", labels, "clusters", clusters)
        self.labels.append(labels.long())
        self.clusters.append(clusters.long())
        self.add_instances(instances, labels)

    def compute(self) -> Tensor:
        """Float64 scalar; NaN if no row has a label."""
        return functional.normalized_mutual_information(
            self.rows("labels"), self.rows("clusters"), average=self.average
        )

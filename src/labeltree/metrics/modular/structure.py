"""How well a space or a clustering follows the taxonomy, over batches and ranks."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from labeltree.geometry import Geometry, as_geometry
from labeltree.metrics import functional
from labeltree.metrics.metric_checks import check_labels, check_same_length, mean_of_counted
from labeltree.metrics.modular.state import Collected, CollectedSamples
from labeltree.taxonomy import AnyTaxonomy, Taxonomy

__all__ = [
    "CopheneticCorrelation",
    "NormalizedMutualInformation",
    "PairViolations",
    "ParentOrderAccuracy",
    "ParentViolations",
]


class ParentViolations(Collected):
    """Parent violations against given prototypes; see `labeltree.metrics.functional.parent_violations`.

    Args:
        taxonomy: The tree.
        prototypes: (num_nodes, d), see `labeltree.metrics.functional.class_prototypes`.
        geometry: Geometry of embeddings and prototypes, or its name; default the sphere.
        distance: None, "unit", "raw", "cosine" or "poincare".
        **kwargs: Arguments of `torchmetrics.Metric`.

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

    function = staticmethod(functional.parent_violations)
    values: list[Tensor]

    def __init__(
        self,
        taxonomy: Taxonomy,
        prototypes: Tensor,
        geometry: Geometry | str | None = None,
        *,
        distance: str | None = None,
        **kwargs: Any,
    ) -> None:
        settings = {"taxonomy": taxonomy, "prototypes": prototypes, "distance": distance}
        super().__init__(("values",), {**settings, "geometry": as_geometry(geometry)}, **kwargs)
        # a sample without a label, so that invalid settings raise an error at once
        nothing = torch.zeros(1, prototypes.shape[-1]), torch.tensor([-1])
        self.function(*nothing, **self.settings)
        # values of other settings may be alike in a first batch, and a MetricCollection takes them for one
        own = repr((distance, self.geometry, prototypes.double().sum().item(), len(taxonomy)))
        self.add_state("of_settings", torch.tensor(crc32(own.encode())), dist_reduce_fx="max")

    def update(self, embeddings: Tensor, nodes: Tensor, *, instances: Tensor | None = None) -> None:
        """Add embeddings (b, d) and labels (b,); rows with equal `instances` (b,) count once."""
        self.values.append(self.function(embeddings, nodes, **self.settings, reduction="none"))
        self.add_instances(instances, nodes)

    def compute(self) -> Tensor:
        """Float64 scalar; NaN if no sample counts."""
        return mean_of_counted(self.rows("values"))


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

    key = "parent_order_accuracy"

    def compute(self) -> Tensor:
        """Float64 scalar; NaN if no sample counts."""
        return 1.0 - super().compute()


class CopheneticCorrelation(CollectedSamples):
    """CPCC of class means; see `labeltree.metrics.functional.cophenetic_correlation`.

    Args:
        taxonomy: a tree or a DAG.
        geometry: Geometry of the embeddings, or its name; default the sphere.
        max_pairs: Largest number of pairs of classes that are drawn.
        seed: Seed of the random draw.
        **kwargs: Arguments of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = CopheneticCorrelation(taxonomy, geometry="euclidean")
        >>> line = torch.tensor([[0.0], [2.0], [4.0]])
        >>> round(metric(line, taxonomy.encode(["dog", "cat", "trout"])).item(), 4)
        0.5

    """

    function = staticmethod(functional.cophenetic_correlation)
    key = "cpcc"

    def __init__(
        self,
        taxonomy: AnyTaxonomy,
        *,
        geometry: Geometry | str | None = None,
        max_pairs: int = 1_000_000,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        settings = {"max_pairs": max_pairs, "seed": seed}
        super().__init__({"taxonomy": taxonomy, "geometry": as_geometry(geometry), **settings}, **kwargs)


class PairViolations(CollectedSamples):
    """Hierarchy violations among pairs; see `labeltree.metrics.functional.pair_violations`.

    Args:
        taxonomy: a tree or a DAG.
        geometry: Geometry of the embeddings, or its name; default the sphere.
        reading: "comparisons", "triplets", "pairs" or "finer_pairs".
        ties: "ignore" or "count".
        max_pairs: Largest number of pairs that are drawn.
        seed: Seed of the random draw.
        **kwargs: Arguments of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = PairViolations(taxonomy)
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
        >>> metric(embeddings, taxonomy.encode(["dog", "cat", "trout"])).item()
        0.0

    """

    function = staticmethod(functional.pair_violations)

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
        settings = {"reading": reading, "ties": ties, "max_pairs": max_pairs, "seed": seed}
        super().__init__({"taxonomy": taxonomy, "geometry": as_geometry(geometry), **settings}, **kwargs)


class NormalizedMutualInformation(Collected):
    """NMI of labels and clusters; see `labeltree.metrics.functional.normalized_mutual_information`.

    Args:
        average: The mean of the two entropies: "arithmetic", "geometric", "min" or "max".
        **kwargs: Arguments of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> NormalizedMutualInformation()(torch.tensor([5, 5, 9]), torch.tensor([1, 1, 0])).item()
        1.0

    """

    function = staticmethod(functional.normalized_mutual_information)
    key = "nmi"
    labels: list[Tensor]
    clusters: list[Tensor]

    def __init__(self, average: str = "arithmetic", **kwargs: Any) -> None:
        super().__init__(("labels", "clusters"), {"average": average}, **kwargs)
        nothing = torch.empty(0, dtype=torch.int64)
        self.value(nothing, nothing)  # so that an invalid average raises an error at once

    def update(self, labels: Tensor, clusters: Tensor, *, instances: Tensor | None = None) -> None:
        """Add labels (b,), -1 where missing, and clusters (b,); rows with equal instances count once."""
        check_labels("labels", labels)
        check_labels("clusters", clusters)
        check_same_length("labels", labels, "clusters", clusters)
        self.labels.append(labels.long())
        self.clusters.append(clusters.long())
        self.add_instances(instances, labels)

"""Metrics that need all samples at once: embeddings and labels are collected over batches and ranks.

All rank leaving one out: every sample searches all others, those of other batches and ranks included. Equal
similarities are ranked in the order of rank, then of arrival. A sample must arrive once: a sampler that pads
its last batch with repetitions would let a sample find itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.distributed import gather_all_tensors

from labeltree.geometry import Geometry
from labeltree.metrics import functional
from labeltree.metrics.checks import check_embeddings, check_labels, check_same_length
from labeltree.taxonomy import Taxonomy

__all__ = [
    "AverageHierarchicalPrecision",
    "HierarchicalPrecisionAtK",
    "MAPAtR",
    "MeanAveragePrecision",
    "NormalizedMutualInformation",
    "PairViolations",
    "RecallAtK",
    "RetrievalMetrics",
]


class _Collected(Metric):
    """Collects one row of each state per sample; a rank without samples takes part in the synchronisation."""

    is_differentiable = False
    full_state_update = False
    higher_is_better: bool | None = True

    def __init__(self, names: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.names = tuple(names)
        for name in self.names:
            self.add_state(name, [], dist_reduce_fx="cat")

    def _rows(self, name: str) -> Tensor:
        """All rows of a state: a list while collecting, one tensor after a synchronisation."""
        state: Tensor | list[Tensor] = getattr(self, name)
        if isinstance(state, Tensor):
            return state
        return torch.cat(state) if state else self._no_rows(name, 0)

    def _no_rows(self, name: str, dimension: int) -> Tensor:
        if name == "embeddings":
            return torch.empty(0, dimension, device=self.device)
        return torch.empty(0, dtype=torch.int64, device=self.device)

    def _sync_dist(
        self, dist_sync_fn: Callable[..., Any] = gather_all_tensors, process_group: Any | None = None
    ) -> None:
        # torchmetrics stands in for a rank without rows with an empty float vector, which fits neither the
        # dtype of ids nor the shape of embeddings. Other ranks' rows tell what an empty state looks like.
        rows = {name: self._rows(name) for name in self.names}
        widths = [row.shape[1] if row.ndim == 2 else 0 for row in rows.values()]
        double = [int(row.dtype == torch.float64) for row in rows.values()]
        mine = torch.tensor([widths, double], device=self.device)
        everywhere = torch.stack(dist_sync_fn(mine, group=process_group or self.process_group)).amax(dim=0)
        for name, width, wide in zip(self.names, *everywhere.tolist(), strict=True):
            row = rows[name] if len(rows[name]) else self._no_rows(name, width)
            setattr(self, name, [row.double() if wide else row])
        super()._sync_dist(dist_sync_fn, process_group)


class _CollectedSamples(_Collected):
    """Collects embeddings and nodes; subclasses define the value of a whole collection."""

    embeddings: list[Tensor]
    nodes: list[Tensor]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(("embeddings", "nodes"), **kwargs)

    def update(self, embeddings: Tensor, nodes: Tensor) -> None:
        """Add embeddings (b, d) and labels (b,)."""
        check_embeddings("embeddings", embeddings)
        check_labels("nodes", nodes)
        check_same_length("embeddings", embeddings, "nodes", nodes)
        exact = torch.promote_types(embeddings.dtype, torch.float32)
        self.embeddings.append(embeddings.detach().to(exact))
        self.nodes.append(nodes.long())

    def compute(self) -> Any:
        """The metric of all collected samples."""
        return self._value(self._rows("embeddings"), self._rows("nodes"))

    def _value(self, embeddings: Tensor, nodes: Tensor) -> Any:
        raise NotImplementedError


class RecallAtK(_CollectedSamples):
    """Recall@k for one k; see `labeltree.metrics.functional.recall_at_k`.

    Args:
        k: number of results looked at.
        geometry: default the sphere.
        taxonomy: needed with `depth`.
        depth: cut all labels to this depth first.
        **kwargs: of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> metric = RecallAtK(1)
        >>> metric.update(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([4, 5]))
        >>> metric.update(torch.tensor([[0.9, 0.1], [0.8, 0.2]]), torch.tensor([4, 5]))
        >>> metric.compute().item()
        0.75

    """

    def __init__(
        self,
        k: int = 1,
        geometry: Geometry | None = None,
        *,
        taxonomy: Taxonomy | None = None,
        depth: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.k, self.geometry, self.taxonomy, self.depth = k, geometry, taxonomy, depth

    def _value(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        return functional.recall_at_k(
            embeddings, nodes, ks=(self.k,), geometry=self.geometry, taxonomy=self.taxonomy, depth=self.depth
        )[self.k]


class _FlatRetrieval(_CollectedSamples):
    def __init__(
        self,
        geometry: Geometry | None = None,
        *,
        taxonomy: Taxonomy | None = None,
        depth: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.geometry, self.taxonomy, self.depth = geometry, taxonomy, depth


class MAPAtR(_FlatRetrieval):
    """MAP@R; see `labeltree.metrics.functional.map_at_r`.

    Args:
        geometry: default the sphere.
        taxonomy: needed with `depth`.
        depth: cut all labels to this depth first.
        **kwargs: of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> MAPAtR()(torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), torch.tensor([4, 4, 5])).item()
        1.0

    """

    def _value(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        return functional.map_at_r(
            embeddings, nodes, geometry=self.geometry, taxonomy=self.taxonomy, depth=self.depth
        )


class MeanAveragePrecision(_FlatRetrieval):
    """mAP of whole rankings; see `labeltree.metrics.functional.mean_average_precision`.

    Args:
        geometry: default the sphere.
        taxonomy: needed with `depth`.
        depth: cut all labels to this depth first.
        **kwargs: of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> metric = MeanAveragePrecision()
        >>> metric(torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), torch.tensor([4, 5, 4])).item()
        0.5

    """

    def _value(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        return functional.mean_average_precision(
            embeddings, nodes, geometry=self.geometry, taxonomy=self.taxonomy, depth=self.depth
        )


class HierarchicalPrecisionAtK(_CollectedSamples):
    """HP@k for one k; see `labeltree.metrics.functional.hierarchical_precision_at_k`.

    Args:
        taxonomy: the tree.
        k: number of results looked at.
        geometry: default the sphere.
        **kwargs: of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = HierarchicalPrecisionAtK(taxonomy, k=1)
        >>> metric(torch.tensor([[1.0, 0.0], [0.9, 0.1]]), taxonomy.encode(["dog", "cat"])).item()
        1.0

    """

    def __init__(
        self, taxonomy: Taxonomy, k: int = 1, geometry: Geometry | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.taxonomy, self.k, self.geometry = taxonomy, k, geometry

    def _value(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        return functional.hierarchical_precision_at_k(
            embeddings, nodes, self.taxonomy, ks=(self.k,), geometry=self.geometry
        )[self.k]


class AverageHierarchicalPrecision(_CollectedSamples):
    """AHP@K; see `labeltree.metrics.functional.average_hierarchical_precision`.

    Args:
        taxonomy: the tree.
        k: K, up to which HP@k is averaged.
        rule: "mean" or "trapezoid".
        geometry: default the sphere.
        **kwargs: of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = AverageHierarchicalPrecision(taxonomy, k=2)
        >>> metric(torch.tensor([[1.0, 0.0], [0.9, 0.1]]), taxonomy.encode(["dog", "cat"])).item()
        1.0

    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        k: int = 250,
        rule: str = "mean",
        geometry: Geometry | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.taxonomy, self.k, self.rule, self.geometry = taxonomy, k, rule, geometry

    def _value(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        return functional.average_hierarchical_precision(
            embeddings, nodes, self.taxonomy, k=self.k, rule=self.rule, geometry=self.geometry
        )


class RetrievalMetrics(_CollectedSamples):
    """All retrieval metrics from one ranking, as a dict; see
    `labeltree.metrics.functional.retrieval_metrics`.

    Args:
        taxonomy: the tree.
        ks: for recall@k and HP@k.
        ahp_k: K of AHP@K and of the curve.
        depths: depths at which recall@k, MAP@R and mAP are given besides.
        geometry: default the sphere.
        **kwargs: of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = RetrievalMetrics(taxonomy, ks=(1,), depths=(1,))
        >>> metric.update(torch.tensor([[1.0, 0.0], [0.9, 0.1]]), taxonomy.encode(["dog", "cat"]))
        >>> values = metric.compute()
        >>> values["recall@1"].item(), values["recall@1/depth1"].item()
        (0.0, 1.0)

    """

    higher_is_better = None

    def __init__(
        self,
        taxonomy: Taxonomy,
        *,
        ks: Sequence[int] = (1, 2, 5, 10),
        ahp_k: int = 250,
        depths: Sequence[int] = (),
        geometry: Geometry | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.taxonomy, self.ks, self.ahp_k = taxonomy, tuple(ks), ahp_k
        self.depths, self.geometry = tuple(depths), geometry

    def _value(self, embeddings: Tensor, nodes: Tensor) -> dict[str, Tensor]:
        return functional.retrieval_metrics(
            embeddings,
            nodes,
            self.taxonomy,
            ks=self.ks,
            ahp_k=self.ahp_k,
            depths=self.depths,
            geometry=self.geometry,
        )


class PairViolations(_CollectedSamples):
    """Hierarchy violations among pairs; see `labeltree.metrics.functional.pair_violations`.

    Args:
        taxonomy: the tree.
        geometry: default the sphere.
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
        taxonomy: Taxonomy,
        geometry: Geometry | None = None,
        *,
        reading: str = "comparisons",
        ties: str = "ignore",
        max_pairs: int = 1_000_000,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.taxonomy, self.geometry = taxonomy, geometry
        self.reading, self.ties, self.max_pairs, self.seed = reading, ties, max_pairs, seed

    def _value(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
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


class NormalizedMutualInformation(_Collected):
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

    def update(self, labels: Tensor, clusters: Tensor) -> None:
        """Add labels (b,), -1 where missing, and clusters (b,)."""
        check_labels("labels", labels)
        check_labels("clusters", clusters)
        check_same_length("labels", labels, "clusters", clusters)
        self.labels.append(labels.long())
        self.clusters.append(clusters.long())

    def compute(self) -> Tensor:
        """Float64 scalar; NaN if no row has a label."""
        return functional.normalized_mutual_information(
            self._rows("labels"), self._rows("clusters"), average=self.average
        )

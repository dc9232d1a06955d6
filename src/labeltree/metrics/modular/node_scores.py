"""Every node against the rest, over batches and ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from labeltree.metrics import functional
from labeltree.metrics.checks import check_nodes, check_same_length
from labeltree.metrics.functional.node_decisions import node_decision_counts, node_rates
from labeltree.metrics.functional.node_labels import Below, check_probabilities
from labeltree.metrics.modular.state import Collected
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["NodeAUROC", "NodeAveragePrecision", "NodeDecisionMetrics", "NodeMetricsAt"]


class _CollectedProbabilities(Collected):
    """Collects probabilities of classes and labels; subclasses define the value of a whole collection."""

    probabilities: list[Tensor]
    nodes: list[Tensor]

    def __init__(self, taxonomy: AnyTaxonomy, classes: Tensor | None, **kwargs: Any) -> None:
        super().__init__(("probabilities", "nodes"), **kwargs)
        self.taxonomy, self.classes = taxonomy, classes
        self._below = Below(classes, taxonomy)

    def update(self, probabilities: Tensor, target_nodes: Tensor, *, instances: Tensor | None = None) -> None:
        """Add probabilities (b, c) of the classes, and labels (b,); rows of one instance (b,) count once."""
        check_probabilities(probabilities, self._below)
        check_nodes("target_nodes", target_nodes, self.taxonomy)
        check_same_length("probabilities", probabilities, "target_nodes", target_nodes)
        exact = torch.promote_types(probabilities.dtype, torch.float32)
        self.probabilities.append(probabilities.detach().to(exact))
        self.nodes.append(target_nodes.long())
        self.add_instances(instances, target_nodes)

    def compute(self) -> Any:
        """The metric of all collected samples."""
        return self.value(self.rows("probabilities"), self.rows("nodes"))

    def value(self, probabilities: Tensor, target_nodes: Tensor) -> Any:
        """The metric of samples (n, c) and their labels (n,)."""
        raise NotImplementedError

    def _no_rows(self, name: str, dimension: int) -> Tensor:
        if name == "probabilities":
            return torch.empty(0, len(self._below.classes), device=self.device)
        return super()._no_rows(name, dimension)


class NodeAUROC(_CollectedProbabilities):
    """AUROC of every node; see `labeltree.metrics.functional.node_auroc`.

    Args:
        taxonomy: a tree or a DAG.
        classes: (c,) distinct nodes that the columns of the probabilities stand for; default the leaves.
        **kwargs: of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = NodeAUROC(taxonomy)
        >>> metric.update(torch.tensor([[0.6, 0.2, 0.2]]), taxonomy.encode(["dog"]))
        >>> metric.update(torch.tensor([[0.3, 0.2, 0.5]]), taxonomy.encode(["trout"]))
        >>> metric.compute()[taxonomy.find("mammal")].item()
        1.0

    """

    def __init__(self, taxonomy: AnyTaxonomy, *, classes: Tensor | None = None, **kwargs: Any) -> None:
        super().__init__(taxonomy, classes, **kwargs)

    def value(self, probabilities: Tensor, target_nodes: Tensor) -> Tensor:
        """(N,) float64 of samples (n, c) and their labels (n,)."""
        return functional.node_auroc(probabilities, target_nodes, self.taxonomy, classes=self.classes)


class NodeAveragePrecision(_CollectedProbabilities):
    """Average precision of every node; see `labeltree.metrics.functional.node_average_precision`.

    Args:
        taxonomy: a tree or a DAG.
        classes: (c,) distinct nodes that the columns of the probabilities stand for; default the leaves.
        **kwargs: of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = NodeAveragePrecision(taxonomy)
        >>> metric.update(torch.tensor([[0.6, 0.2, 0.2]]), taxonomy.encode(["trout"]))
        >>> metric.update(torch.tensor([[0.3, 0.2, 0.5]]), taxonomy.encode(["dog"]))
        >>> metric.compute()[taxonomy.find("dog")].item()
        0.5

    """

    def __init__(self, taxonomy: AnyTaxonomy, *, classes: Tensor | None = None, **kwargs: Any) -> None:
        super().__init__(taxonomy, classes, **kwargs)

    def value(self, probabilities: Tensor, target_nodes: Tensor) -> Tensor:
        """(N,) float64 of samples (n, c) and their labels (n,)."""
        return functional.node_average_precision(
            probabilities, target_nodes, self.taxonomy, classes=self.classes
        )


class NodeMetricsAt(_CollectedProbabilities):
    """Sensitivity, specificity and their like at operating points; see
    `labeltree.metrics.functional.node_metrics_at`.

    Args:
        taxonomy: a tree or a DAG.
        thresholds: (N,) from `labeltree.metrics.functional.node_decisions` of validation samples.
        classes: (c,) distinct nodes that the columns of the probabilities stand for; default the leaves.
        **kwargs: of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths(["benign", "malignant"])
        >>> metric = NodeMetricsAt(taxonomy, torch.full((3,), 0.25))
        >>> metric.update(torch.tensor([[0.7, 0.3], [0.5, 0.5]]), taxonomy.encode(["malignant", "benign"]))
        >>> metric.compute()["ppv"][taxonomy.find("malignant")].item()
        0.5

    """

    def __init__(
        self, taxonomy: AnyTaxonomy, thresholds: Tensor, *, classes: Tensor | None = None, **kwargs: Any
    ) -> None:
        super().__init__(taxonomy, classes, **kwargs)
        self.thresholds = thresholds

    def value(self, probabilities: Tensor, target_nodes: Tensor) -> dict[str, Tensor]:
        """(N,) rates and counts by name, of samples (n, c) and their labels (n,)."""
        return functional.node_metrics_at(
            self.thresholds, probabilities, target_nodes, self.taxonomy, classes=self.classes
        )


class NodeDecisionMetrics(Metric):
    """Sensitivity, specificity and their like of predicted nodes; see
    `labeltree.metrics.functional.node_decision_metrics`.

    Args:
        taxonomy: a tree or a DAG.
        **kwargs: of `torchmetrics.Metric`.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = NodeDecisionMetrics(taxonomy)
        >>> metric.update(taxonomy.encode(["dog", "cat"]), taxonomy.encode(["dog", "dog"]))
        >>> metric.update(taxonomy.encode(["cat"]), taxonomy.encode(["trout"]))
        >>> metric.compute()["sensitivity"][taxonomy.encode(["mammal", "dog", "fish"])].tolist()
        [1.0, 0.5, 0.0]

    """

    is_differentiable = False
    full_state_update = False
    higher_is_better = True
    states: Sequence[str] = ("true_positives", "false_positives", "positives", "negatives")

    def __init__(self, taxonomy: AnyTaxonomy, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.taxonomy = taxonomy
        for name in self.states:
            nothing = torch.zeros(taxonomy.num_nodes, dtype=torch.int64)
            self.add_state(name, nothing, dist_reduce_fx="sum")

    def update(self, predicted_nodes: Tensor, target_nodes: Tensor) -> None:
        """Add predictions (b,) and labels (b,)."""
        counts = node_decision_counts(predicted_nodes, target_nodes, self.taxonomy)
        for name, count in zip(self.states, counts, strict=True):
            setattr(self, name, getattr(self, name) + count)

    def compute(self) -> dict[str, Tensor]:
        """(N,) rates and counts by name."""
        return node_rates(*(getattr(self, name) for name in self.states))

"""Every node against the rest, over batches and ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from labeltree.metrics import functional
from labeltree.metrics.functional.node_labels import Below, check_probabilities
from labeltree.metrics.metric_checks import check_nodes, check_same_length
from labeltree.metrics.modular.state import Collected
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["NodeAUROC", "NodeAveragePrecision", "NodeMetricsAt"]


class _CollectedProbabilities(Collected):
    """Collects class probabilities and labels."""

    probabilities: list[Tensor]
    nodes: list[Tensor]

    def __init__(
        self,
        taxonomy: AnyTaxonomy,
        *,
        classes: Tensor | None = None,
        settings: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        settings = {"taxonomy": taxonomy, "classes": classes, **(settings or {})}
        super().__init__(("probabilities", "nodes"), settings, **kwargs)
        self._below = Below(classes, taxonomy)

    def update(self, probabilities: Tensor, target_nodes: Tensor, *, instances: Tensor | None = None) -> None:
        """Add class probabilities (b, c) and labels (b,); rows with equal `instances` (b,) count once."""
        check_probabilities(probabilities, self._below)
        check_nodes("target_nodes", target_nodes, self.settings["taxonomy"])
        check_same_length("probabilities", probabilities, "target_nodes", target_nodes)
        exact = torch.promote_types(probabilities.dtype, torch.float32)
        self.probabilities.append(probabilities.detach().to(exact))
        self.nodes.append(target_nodes.long())
        self.add_instances(instances, target_nodes)

    def value(self, samples: Tensor, labels: Tensor) -> Any:
        """Compute the metric from probabilities (n, c) and labels (n,)."""
        return type(self).function(probabilities=samples, target_nodes=labels, **self.settings)

    def _no_rows(self, name: str, dimension: int) -> Tensor:
        if name == "probabilities":
            return torch.empty(0, len(self._below.classes), device=self.device)
        return super()._no_rows(name, dimension)


class NodeAUROC(_CollectedProbabilities):
    """AUROC of every node; see `labeltree.metrics.functional.node_auroc`.

    Args:
        taxonomy: a tree or a DAG.
        classes: (c,) distinct nodes that the columns of the probabilities stand for; default the leaves.
        **kwargs: Arguments of `torchmetrics.Metric`.

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

    function = staticmethod(functional.node_auroc)
    key = "auroc"

    def __init__(self, taxonomy: AnyTaxonomy, *, classes: Tensor | None = None, **kwargs: Any) -> None:
        super().__init__(taxonomy, classes=classes, **kwargs)


class NodeAveragePrecision(_CollectedProbabilities):
    """Average precision of every node; see `labeltree.metrics.functional.node_average_precision`.

    Args:
        taxonomy: a tree or a DAG.
        classes: (c,) distinct nodes that the columns of the probabilities stand for; default the leaves.
        **kwargs: Arguments of `torchmetrics.Metric`.

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

    function = staticmethod(functional.node_average_precision)
    key = "average_precision"

    def __init__(self, taxonomy: AnyTaxonomy, *, classes: Tensor | None = None, **kwargs: Any) -> None:
        super().__init__(taxonomy, classes=classes, **kwargs)


class NodeMetricsAt(_CollectedProbabilities):
    """Sensitivity, specificity, PPV, NPV and balanced accuracy at operating points; see
    `labeltree.metrics.functional.node_metrics_at`.

    Args:
        taxonomy: a tree or a DAG.
        thresholds: (N,) operating points, from `labeltree.metrics.functional.node_thresholds` on validation
            samples.
        classes: (c,) distinct nodes that the columns of the probabilities stand for; default the leaves.
        **kwargs: Arguments of `torchmetrics.Metric`.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths(["benign", "malignant"])
        >>> metric = NodeMetricsAt(taxonomy, torch.full((3,), 0.25))
        >>> metric.update(torch.tensor([[0.7, 0.3], [0.5, 0.5]]), taxonomy.encode(["malignant", "benign"]))
        >>> metric.compute()["ppv"][taxonomy.find("malignant")].item()
        0.5

    """

    function = staticmethod(functional.node_metrics_at)

    def __init__(
        self, taxonomy: AnyTaxonomy, thresholds: Tensor, *, classes: Tensor | None = None, **kwargs: Any
    ) -> None:
        super().__init__(taxonomy, classes=classes, settings={"thresholds": thresholds}, **kwargs)

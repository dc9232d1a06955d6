"""Metrics that are means over samples: a sum and a count are all the state they need."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from labeltree.geometry import Geometry
from labeltree.metrics.functional.classification import (
    Undecided,
    correct_by_depth,
    hierarchical_f1,
    mistake_severity,
    tree_accuracy,
)
from labeltree.metrics.functional.prototypes import parent_violations
from labeltree.taxonomy import Taxonomy

__all__ = [
    "AccuracyByDepth",
    "HierarchicalF1",
    "MistakeSeverity",
    "ParentOrderAccuracy",
    "ParentViolations",
    "TreeAccuracy",
]


class _Mean(Metric):
    """Mean of values per sample, NaN where a sample is left out.

    State: `total` and `count` of the counted samples, and how many were `left_out`.
    """

    is_differentiable = False
    full_state_update = False
    total: Tensor
    count: Tensor
    left_out: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("total", torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("left_out", torch.tensor(0), dist_reduce_fx="sum")

    def _add(self, values: Tensor) -> None:
        left_out = values.isnan()
        self.total += values.nansum()
        self.count += (~left_out).sum()
        self.left_out += left_out.sum()

    def compute(self) -> Tensor:
        """Float64 scalar; NaN if no sample counts."""
        return self.total / self.count


class HierarchicalF1(_Mean):
    """HF1 of predicted nodes; see `labeltree.metrics.functional.hierarchical_f1`.

    Args:
        taxonomy: the tree.
        include_root: whether the root is in the ancestor sets.
        undecided: how inner-node labels judge finer predictions, "ignore" or "negative".
        **kwargs: of `torchmetrics.Metric`.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = HierarchicalF1(taxonomy)
        >>> metric.update(taxonomy.encode(["dog", "cat"]), taxonomy.encode(["dog", "dog"]))
        >>> metric.update(taxonomy.encode(["trout"]), taxonomy.encode(["dog"]))
        >>> metric.compute().item()
        0.5

    """

    higher_is_better = True

    def __init__(
        self,
        taxonomy: Taxonomy,
        include_root: bool = False,
        *,
        undecided: Undecided = "ignore",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.taxonomy, self.include_root, self.undecided = taxonomy, include_root, undecided

    def update(self, predicted_nodes: Tensor, target_nodes: Tensor) -> None:
        """Add predictions (b,) and labels (b,)."""
        self._add(
            hierarchical_f1(
                predicted_nodes,
                target_nodes,
                self.taxonomy,
                self.include_root,
                undecided=self.undecided,
                reduction="none",
            )
        )


class TreeAccuracy(_Mean):
    """H-Acc of predicted nodes; see `labeltree.metrics.functional.tree_accuracy`.

    Args:
        taxonomy: the tree.
        undecided: how inner-node labels judge finer predictions, "ignore" or "negative".
        **kwargs: of `torchmetrics.Metric`.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = TreeAccuracy(taxonomy)
        >>> metric(taxonomy.encode(["dog", "cat"]), taxonomy.encode(["dog", "dog"])).item()
        0.75

    """

    higher_is_better = True

    def __init__(self, taxonomy: Taxonomy, *, undecided: Undecided = "ignore", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.taxonomy, self.undecided = taxonomy, undecided

    def update(self, predicted_nodes: Tensor, target_nodes: Tensor) -> None:
        """Add predictions (b,) and labels (b,)."""
        self._add(
            tree_accuracy(
                predicted_nodes, target_nodes, self.taxonomy, undecided=self.undecided, reduction="none"
            )
        )


class MistakeSeverity(_Mean):
    """Mean LCA height of the mistakes; see `labeltree.metrics.functional.mistake_severity`.

    `count` is the number of mistakes; right predictions are in `left_out`.

    Args:
        taxonomy: the tree.
        undecided: how inner-node labels judge finer predictions, "ignore" or "negative".
        **kwargs: of `torchmetrics.Metric`.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = MistakeSeverity(taxonomy)
        >>> metric(taxonomy.encode(["dog", "cat"]), taxonomy.encode(["dog", "dog"])).item()
        1.0

    """

    higher_is_better = False

    def __init__(self, taxonomy: Taxonomy, *, undecided: Undecided = "ignore", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.taxonomy, self.undecided = taxonomy, undecided

    def update(self, predicted_nodes: Tensor, target_nodes: Tensor) -> None:
        """Add predictions (b,) and labels (b,)."""
        self._add(
            mistake_severity(
                predicted_nodes, target_nodes, self.taxonomy, undecided=self.undecided, reduction="none"
            )
        )


class AccuracyByDepth(Metric):
    """Accuracy at every depth; see `labeltree.metrics.functional.accuracy_by_depth`.

    Args:
        taxonomy: the tree.
        **kwargs: of `torchmetrics.Metric`.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = AccuracyByDepth(taxonomy)
        >>> metric(taxonomy.encode(["dog", "cat"]), taxonomy.encode(["dog", "dog"]))
        tensor([1.0000, 0.5000], dtype=torch.float64)

    """

    is_differentiable = False
    full_state_update = False
    higher_is_better = True
    correct: Tensor
    decided: Tensor

    def __init__(self, taxonomy: Taxonomy, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.taxonomy = taxonomy
        nothing = torch.zeros(taxonomy.max_depth, dtype=torch.int64)
        self.add_state("correct", nothing, dist_reduce_fx="sum")
        self.add_state("decided", nothing.clone(), dist_reduce_fx="sum")

    def update(self, predicted_nodes: Tensor, target_nodes: Tensor) -> None:
        """Add predictions (b,) and labels (b,)."""
        correct, decided = correct_by_depth(predicted_nodes, target_nodes, self.taxonomy)
        self.correct += correct
        self.decided += decided

    def compute(self) -> Tensor:
        """(L,) float64, coarse to fine; NaN at a depth that no label decides."""
        return self.correct.double() / self.decided.double()


class ParentViolations(_Mean):
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
        geometry: Geometry | None = None,
        *,
        distance: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.taxonomy, self.prototypes = taxonomy, prototypes
        self.geometry, self.distance = geometry, distance

    def update(self, embeddings: Tensor, nodes: Tensor) -> None:
        """Add embeddings (b, d) and labels (b,)."""
        self._add(
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

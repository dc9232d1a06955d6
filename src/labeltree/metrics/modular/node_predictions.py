"""Predicted nodes against true nodes, over batches and ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from labeltree.metrics.checks import check_tree
from labeltree.metrics.functional.classification import (
    Undecided,
    correct_by_depth,
    hierarchical_f1,
    mistake_severity,
    tree_accuracy,
)
from labeltree.metrics.modular.state import SampleMean
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["AccuracyByDepth", "HierarchicalF1", "MistakeSeverity", "TreeAccuracy"]


class HierarchicalF1(SampleMean):
    """HF1 of predicted nodes; see `labeltree.metrics.functional.hierarchical_f1`.

    Args:
        taxonomy: a tree or a DAG.
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
        taxonomy: AnyTaxonomy,
        include_root: bool = False,
        *,
        undecided: Undecided = "ignore",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.taxonomy, self.include_root, self.undecided = taxonomy, include_root, undecided
        self.try_out()

    def update(self, predicted_nodes: Tensor, target_nodes: Tensor) -> None:
        """Add predictions (b,) and labels (b,)."""
        self.add(
            hierarchical_f1(
                predicted_nodes,
                target_nodes,
                self.taxonomy,
                self.include_root,
                undecided=self.undecided,
                reduction="none",
            )
        )


class TreeAccuracy(SampleMean):
    """H-Acc of predicted nodes; see `labeltree.metrics.functional.tree_accuracy`.

    Args:
        taxonomy: a tree or a DAG.
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

    def __init__(self, taxonomy: AnyTaxonomy, *, undecided: Undecided = "ignore", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.taxonomy, self.undecided = taxonomy, undecided
        self.try_out()

    def update(self, predicted_nodes: Tensor, target_nodes: Tensor) -> None:
        """Add predictions (b,) and labels (b,)."""
        self.add(
            tree_accuracy(
                predicted_nodes, target_nodes, self.taxonomy, undecided=self.undecided, reduction="none"
            )
        )


class MistakeSeverity(SampleMean):
    """Mean LCA height of the mistakes; see `labeltree.metrics.functional.mistake_severity`.

    `count` is the number of mistakes; right predictions are in `left_out`.

    Args:
        taxonomy: a tree or a DAG.
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

    def __init__(self, taxonomy: AnyTaxonomy, *, undecided: Undecided = "ignore", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.taxonomy, self.undecided = taxonomy, undecided
        self.try_out()

    def update(self, predicted_nodes: Tensor, target_nodes: Tensor) -> None:
        """Add predictions (b,) and labels (b,)."""
        self.add(
            mistake_severity(
                predicted_nodes, target_nodes, self.taxonomy, undecided=self.undecided, reduction="none"
            )
        )


class AccuracyByDepth(Metric):
    """Accuracy at every depth; see `labeltree.metrics.functional.accuracy_by_depth`.

    Args:
        taxonomy: a tree.
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

    def __init__(self, taxonomy: AnyTaxonomy, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.taxonomy = check_tree("accuracies by depth", taxonomy)
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

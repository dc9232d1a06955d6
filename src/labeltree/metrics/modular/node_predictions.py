"""Predicted nodes against true nodes, over batches and ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labeltree.metrics import functional
from labeltree.metrics.checks import check_tree
from labeltree.metrics.functional.classification import Undecided, correct_by_depth
from labeltree.metrics.functional.node_decisions import node_decision_counts, node_rates
from labeltree.metrics.modular.state import CountedPredictions, SampleMean
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["AccuracyByDepth", "HierarchicalF1", "MistakeSeverity", "NodeDecisionMetrics", "TreeAccuracy"]


class _PredictionMean(SampleMean):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        nothing = torch.empty(0, dtype=torch.int64)
        self.add(nothing, nothing)  # so that invalid settings raise an error at once

    def update(self, predicted_nodes: Tensor, target_nodes: Tensor) -> None:
        """Add predictions (b,) and labels (b,)."""
        self.add(predicted_nodes, target_nodes)


class HierarchicalF1(_PredictionMean):
    """HF1 of predicted nodes; see `labeltree.metrics.functional.hierarchical_f1`.

    Args:
        taxonomy: a tree or a DAG.
        include_root: whether the root is in the ancestor sets.
        undecided: how finer predictions count for inner-node labels, "ignore" or "negative".
        **kwargs: arguments of `torchmetrics.Metric`.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = HierarchicalF1(taxonomy)
        >>> metric.update(taxonomy.encode(["dog", "cat"]), taxonomy.encode(["dog", "dog"]))
        >>> metric.update(taxonomy.encode(["trout"]), taxonomy.encode(["dog"]))
        >>> metric.compute().item()
        0.5

    """

    function = staticmethod(functional.hierarchical_f1)

    def __init__(
        self,
        taxonomy: AnyTaxonomy,
        include_root: bool = False,
        *,
        undecided: Undecided = "ignore",
        **kwargs: Any,
    ) -> None:
        settings = {"taxonomy": taxonomy, "include_root": include_root, "undecided": undecided}
        super().__init__(settings=settings, **kwargs)


class TreeAccuracy(_PredictionMean):
    """H-Acc of predicted nodes; see `labeltree.metrics.functional.tree_accuracy`.

    Args:
        taxonomy: a tree or a DAG.
        undecided: how finer predictions count for inner-node labels, "ignore" or "negative".
        **kwargs: arguments of `torchmetrics.Metric`.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = TreeAccuracy(taxonomy)
        >>> metric(taxonomy.encode(["dog", "cat"]), taxonomy.encode(["dog", "dog"])).item()
        0.75

    """

    function = staticmethod(functional.tree_accuracy)

    def __init__(self, taxonomy: AnyTaxonomy, *, undecided: Undecided = "ignore", **kwargs: Any) -> None:
        super().__init__(settings={"taxonomy": taxonomy, "undecided": undecided}, **kwargs)


class MistakeSeverity(_PredictionMean):
    """Mean LCA height of the mistakes; see `labeltree.metrics.functional.mistake_severity`.

    `count` is the number of mistakes; correct predictions are counted in `left_out`.

    Args:
        taxonomy: a tree or a DAG.
        undecided: how finer predictions count for inner-node labels, "ignore" or "negative".
        **kwargs: arguments of `torchmetrics.Metric`.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = MistakeSeverity(taxonomy)
        >>> metric(taxonomy.encode(["dog", "cat"]), taxonomy.encode(["dog", "dog"])).item()
        1.0

    """

    higher_is_better = False
    function = staticmethod(functional.mistake_severity)

    def __init__(self, taxonomy: AnyTaxonomy, *, undecided: Undecided = "ignore", **kwargs: Any) -> None:
        super().__init__(settings={"taxonomy": taxonomy, "undecided": undecided}, **kwargs)


class AccuracyByDepth(CountedPredictions):
    """Accuracy at every depth; see `labeltree.metrics.functional.accuracy_by_depth`.

    Args:
        taxonomy: a tree.
        **kwargs: arguments of `torchmetrics.Metric`.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = AccuracyByDepth(taxonomy)
        >>> metric(taxonomy.encode(["dog", "cat"]), taxonomy.encode(["dog", "dog"]))
        tensor([1.0000, 0.5000], dtype=torch.float64)

    """

    states = ("correct", "decided")
    counts = staticmethod(correct_by_depth)
    correct: Tensor
    decided: Tensor

    def __init__(self, taxonomy: AnyTaxonomy, **kwargs: Any) -> None:
        super().__init__(check_tree("accuracies by depth", taxonomy), taxonomy.max_depth, **kwargs)

    @staticmethod
    def rates(correct: Tensor, decided: Tensor) -> Tensor:
        """(L,) float64, coarse to fine; NaN at a depth that no label decides."""
        return correct.double() / decided.double()


class NodeDecisionMetrics(CountedPredictions):
    """Sensitivity, specificity, PPV, NPV and balanced accuracy of predicted nodes; see
    `labeltree.metrics.functional.node_decision_metrics`.

    Args:
        taxonomy: a tree or a DAG.
        **kwargs: arguments of `torchmetrics.Metric`.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = NodeDecisionMetrics(taxonomy)
        >>> metric.update(taxonomy.encode(["dog", "cat"]), taxonomy.encode(["dog", "dog"]))
        >>> metric.update(taxonomy.encode(["cat"]), taxonomy.encode(["trout"]))
        >>> metric.compute()["sensitivity"][taxonomy.encode(["mammal", "dog", "fish"])].tolist()
        [1.0, 0.5, 0.0]

    """

    states = ("true_positives", "false_positives", "positives", "negatives")
    counts = staticmethod(node_decision_counts)
    rates = staticmethod(node_rates)

    def __init__(self, taxonomy: AnyTaxonomy, **kwargs: Any) -> None:
        super().__init__(taxonomy, taxonomy.num_nodes, **kwargs)

"""Predicted nodes against true nodes, over batches and ranks."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from labeltree.metrics import functional
from labeltree.metrics.functional.classification import Undecided
from labeltree.metrics.modular.state import CollectedPredictions
from labeltree.taxonomy import AnyTaxonomy
from labeltree.taxonomy.dag import check_tree

__all__ = ["AccuracyByDepth", "HierarchicalF1", "MistakeSeverity", "NodeDecisionMetrics", "TreeAccuracy"]


class _PredictionMean(CollectedPredictions):
    def _values(self) -> Tensor:
        pair = self.rows("predicted"), self.rows("target")
        values: Tensor = type(self).function(*pair, **self.settings, reduction="none")
        return values

    @property
    def count(self) -> Tensor:
        """Number of samples that count."""
        return (~self._values().isnan()).sum()

    @property
    def left_out(self) -> Tensor:
        """Number of samples that are left out."""
        return self._values().isnan().sum()


class HierarchicalF1(_PredictionMean):
    """HF1 of predicted nodes; see `labeltree.metrics.functional.hierarchical_f1`.

    Args:
        taxonomy: a tree or a DAG.
        include_root: Whether the root is in the ancestor sets.
        undecided: How finer predictions count for inner-node labels, "ignore" or "negative".
        **kwargs: Arguments of `torchmetrics.Metric`.

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
        undecided: How finer predictions count for inner-node labels, "ignore" or "negative".
        **kwargs: Arguments of `torchmetrics.Metric`.

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
        undecided: How finer predictions count for inner-node labels, "ignore" or "negative".
        **kwargs: Arguments of `torchmetrics.Metric`.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = MistakeSeverity(taxonomy)
        >>> metric(taxonomy.encode(["dog", "cat"]), taxonomy.encode(["dog", "dog"])).item()
        1.0

    """

    function = staticmethod(functional.mistake_severity)

    def __init__(self, taxonomy: AnyTaxonomy, *, undecided: Undecided = "ignore", **kwargs: Any) -> None:
        super().__init__(settings={"taxonomy": taxonomy, "undecided": undecided}, **kwargs)


class AccuracyByDepth(CollectedPredictions):
    """Accuracy at every depth; see `labeltree.metrics.functional.accuracy_by_depth`.

    Args:
        taxonomy: a tree.
        **kwargs: Arguments of `torchmetrics.Metric`.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = AccuracyByDepth(taxonomy)
        >>> metric(taxonomy.encode(["dog", "cat"]), taxonomy.encode(["dog", "dog"]))
        tensor([1.0000, 0.5000], dtype=torch.float64)

    """

    function = staticmethod(functional.accuracy_by_depth)

    def __init__(self, taxonomy: AnyTaxonomy, **kwargs: Any) -> None:
        super().__init__({"taxonomy": check_tree("accuracies by depth", taxonomy)}, **kwargs)


class NodeDecisionMetrics(CollectedPredictions):
    """Sensitivity, specificity, PPV, NPV and balanced accuracy of predicted nodes; see
    `labeltree.metrics.functional.node_decision_metrics`.

    Args:
        taxonomy: a tree or a DAG.
        **kwargs: Arguments of `torchmetrics.Metric`.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> metric = NodeDecisionMetrics(taxonomy)
        >>> metric.update(taxonomy.encode(["dog", "cat"]), taxonomy.encode(["dog", "dog"]))
        >>> metric.update(taxonomy.encode(["cat"]), taxonomy.encode(["trout"]))
        >>> metric.compute()["sensitivity"][taxonomy.encode(["mammal", "dog", "fish"])].tolist()
        [1.0, 0.5, 0.0]

    """

    function = staticmethod(functional.node_decision_metrics)

    def __init__(self, taxonomy: AnyTaxonomy, **kwargs: Any) -> None:
        super().__init__({"taxonomy": taxonomy}, **kwargs)

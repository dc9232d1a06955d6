"""Metrics of hierarchy-faithfulness, retrieval, clustering and classification.

`labeltree.metrics.functional` has the metrics as functions, this module as torchmetrics classes. torchmetrics
is imported on first use of a class.
"""

from typing import TYPE_CHECKING

from labeltree.metrics import functional
from labeltree.metrics.catalogue import Metric, find_metric, list_metrics, register_metric
from labeltree.metrics.probe import LinearProbe
from labeltree.metrics.probe_by_sgd import SGDProbe
from labeltree.metrics.retrieval import Retrieval

if TYPE_CHECKING:
    from labeltree.metrics.modular import (
        HAP,
        NDCG,
        AccuracyByDepth,
        AverageHierarchicalPrecision,
        AverageSetIntersection,
        CopheneticCorrelation,
        HierarchicalF1,
        HierarchicalPrecisionAtK,
        MAPAtR,
        MeanAveragePrecision,
        MistakeSeverity,
        NodeAUROC,
        NodeAveragePrecision,
        NodeDecisionMetrics,
        NodeMetricsAt,
        NormalizedMutualInformation,
        PairViolations,
        ParentOrderAccuracy,
        ParentViolations,
        RecallAtK,
        RetrievalMetrics,
        TreeAccuracy,
    )

__all__ = [
    "HAP",
    "NDCG",
    "AccuracyByDepth",
    "AverageHierarchicalPrecision",
    "AverageSetIntersection",
    "CopheneticCorrelation",
    "HierarchicalF1",
    "HierarchicalPrecisionAtK",
    "LinearProbe",
    "MAPAtR",
    "MeanAveragePrecision",
    "Metric",
    "MistakeSeverity",
    "NodeAUROC",
    "NodeAveragePrecision",
    "NodeDecisionMetrics",
    "NodeMetricsAt",
    "NormalizedMutualInformation",
    "PairViolations",
    "ParentOrderAccuracy",
    "ParentViolations",
    "RecallAtK",
    "Retrieval",
    "RetrievalMetrics",
    "SGDProbe",
    "TreeAccuracy",
    "find_metric",
    "functional",
    "list_metrics",
    "register_metric",
]


def __getattr__(name: str) -> object:
    if name in __all__:
        from labeltree.metrics import modular

        return getattr(modular, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

"""Metrics of hierarchy-faithfulness, retrieval, clustering and classification.

`labeltree.metrics.functional` has the metrics as functions, this module as torchmetrics classes. The
catalogue of metrics is read without torch; torch and torchmetrics are imported on first use of what needs
them.
"""

import importlib
from typing import TYPE_CHECKING

from labeltree.metrics.catalogue import Metric, find_metric, list_metrics, register_metric

if TYPE_CHECKING:
    from labeltree.metrics import functional
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
    from labeltree.metrics.probe import LinearProbe
    from labeltree.metrics.probe_by_sgd import SGDProbe
    from labeltree.metrics.retrieval import Retrieval

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


_MODULES = {"LinearProbe": "probe", "SGDProbe": "probe_by_sgd", "Retrieval": "retrieval"}


def __getattr__(name: str) -> object:
    if name == "functional":
        return importlib.import_module("labeltree.metrics.functional")
    if name in __all__:
        return getattr(importlib.import_module(f"labeltree.metrics.{_MODULES.get(name, 'modular')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

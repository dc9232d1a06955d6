"""The metrics as torchmetrics classes: state over batches and ranks, computed by the functions."""

from labeltree.metrics.modular.node_predictions import (
    AccuracyByDepth,
    HierarchicalF1,
    MistakeSeverity,
    NodeDecisionMetrics,
    TreeAccuracy,
)
from labeltree.metrics.modular.node_score_metrics import (
    NodeAUROC,
    NodeAveragePrecision,
    NodeMetricsAt,
)
from labeltree.metrics.modular.retrieval_metrics import (
    HAP,
    NDCG,
    AverageHierarchicalPrecision,
    AverageSetIntersection,
    HierarchicalPrecisionAtK,
    MAPAtR,
    MeanAveragePrecision,
    RecallAtK,
    RetrievalMetrics,
)
from labeltree.metrics.modular.structure import (
    CopheneticCorrelation,
    NormalizedMutualInformation,
    PairViolations,
    ParentOrderAccuracy,
    ParentViolations,
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
    "MAPAtR",
    "MeanAveragePrecision",
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
    "RetrievalMetrics",
    "TreeAccuracy",
]

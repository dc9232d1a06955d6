"""The metrics as torchmetrics classes: state over batches and ranks, thin over the functions."""

from labeltree.metrics.modular.averages import (
    AccuracyByDepth,
    HierarchicalF1,
    MistakeSeverity,
    ParentOrderAccuracy,
    ParentViolations,
    TreeAccuracy,
)
from labeltree.metrics.modular.collected import (
    AverageHierarchicalPrecision,
    HierarchicalPrecisionAtK,
    MAPAtR,
    MeanAveragePrecision,
    NormalizedMutualInformation,
    PairViolations,
    RecallAtK,
    RetrievalMetrics,
)

__all__ = [
    "AccuracyByDepth",
    "AverageHierarchicalPrecision",
    "HierarchicalF1",
    "HierarchicalPrecisionAtK",
    "MAPAtR",
    "MeanAveragePrecision",
    "MistakeSeverity",
    "NormalizedMutualInformation",
    "PairViolations",
    "ParentOrderAccuracy",
    "ParentViolations",
    "RecallAtK",
    "RetrievalMetrics",
    "TreeAccuracy",
]

"""Metrics as pure functions, tensors in, tensors out.

In all functions, labels are nodes of a taxonomy, -1 where a label is missing. With `reduction="none"`,
samples that a metric leaves out get NaN, so that they can be counted. Without any sample the metric is NaN.
"""

from labeltree.metrics.functional.class_order import hops, hops_at_ks
from labeltree.metrics.functional.classification import (
    accuracy_by_depth,
    classification_metrics,
    hierarchical_f1,
    mistake_severity,
    tree_accuracy,
)
from labeltree.metrics.functional.cluster_agreement import (
    adjusted_mutual_information,
    normalized_mutual_information,
)
from labeltree.metrics.functional.distance_correlation import cophenetic_correlation
from labeltree.metrics.functional.flat_retrieval import map_at_r, mean_average_precision, recall_at_k
from labeltree.metrics.functional.graded_retrieval import (
    average_precision_at_depths,
    average_set_intersection,
    h_ap,
    ndcg,
)
from labeltree.metrics.functional.hierarchical_retrieval import (
    average_hierarchical_precision,
    hierarchical_precision_at_k,
    retrieval_metrics,
)
from labeltree.metrics.functional.nearest_neighbours import nearest_neighbour_labels
from labeltree.metrics.functional.node_decisions import (
    node_decision_metrics,
    node_metrics_at,
    node_rates,
    node_thresholds,
)
from labeltree.metrics.functional.node_labels import node_scores
from labeltree.metrics.functional.node_ranking import (
    node_auroc,
    node_average_precision,
    node_ranking_metrics,
)
from labeltree.metrics.functional.pair_order import pair_violations
from labeltree.metrics.functional.parent_prototypes import (
    class_prototypes,
    parent_metrics,
    parent_order_accuracy,
    parent_violations,
)
from labeltree.metrics.functional.pool_groups import group_labels, group_probabilities
from labeltree.metrics.functional.risk_coverage import h_aurc, risk_coverage_curve
from labeltree.metrics.functional.separate_answers import (
    answers_by_depth,
    consistency_by_depth,
    full_path_accuracy,
)
from labeltree.metrics.functional.set_metrics import nearest_labels, set_overlap, set_retrieval
from labeltree.metrics.labels_at_depth import nodes_at_depth

__all__ = [
    "accuracy_by_depth",
    "adjusted_mutual_information",
    "answers_by_depth",
    "average_hierarchical_precision",
    "average_precision_at_depths",
    "average_set_intersection",
    "class_prototypes",
    "classification_metrics",
    "consistency_by_depth",
    "cophenetic_correlation",
    "full_path_accuracy",
    "group_labels",
    "group_probabilities",
    "h_ap",
    "h_aurc",
    "hierarchical_f1",
    "hierarchical_precision_at_k",
    "hops",
    "hops_at_ks",
    "map_at_r",
    "mean_average_precision",
    "mistake_severity",
    "ndcg",
    "nearest_labels",
    "nearest_neighbour_labels",
    "node_auroc",
    "node_average_precision",
    "node_decision_metrics",
    "node_metrics_at",
    "node_ranking_metrics",
    "node_rates",
    "node_scores",
    "node_thresholds",
    "nodes_at_depth",
    "normalized_mutual_information",
    "pair_violations",
    "parent_metrics",
    "parent_order_accuracy",
    "parent_violations",
    "recall_at_k",
    "retrieval_metrics",
    "risk_coverage_curve",
    "set_overlap",
    "set_retrieval",
    "tree_accuracy",
]

"""Decisions from class scores: calibrated probabilities, selective hierarchical answers, expected costs."""

from labeltree.decisions.answers import Answers, Paths, find_paths, holds_truth, information
from labeltree.decisions.calibration_error import (
    DepthCalibration,
    Reliability,
    calibration_by_depth,
    expected_calibration_error,
)
from labeltree.decisions.calibrators import CALIBRATIONS, Calibration, Calibrator, fit_calibrator
from labeltree.decisions.class_nodes import ClassNodes, node_probabilities
from labeltree.decisions.conformal import Promise, conformal_scores, samples_needed, threshold
from labeltree.decisions.costs import (
    METRIC_COSTS,
    TreeCost,
    cheapest,
    cost_matrix,
    expected_costs,
    read_costs,
)
from labeltree.decisions.node_sets import NodeSets, best_node_sets
from labeltree.decisions.novelty import Fit, NoveltyRule, fit_novelty, mark_unknown
from labeltree.decisions.posterior_space import posterior_embeddings
from labeltree.decisions.rule import DecisionRule, Fitted, fit_rule
from labeltree.taxonomy.label_sets import finest_classes

__all__ = [
    "CALIBRATIONS",
    "METRIC_COSTS",
    "Answers",
    "Calibration",
    "Calibrator",
    "ClassNodes",
    "DecisionRule",
    "DepthCalibration",
    "Fit",
    "Fitted",
    "NodeSets",
    "NoveltyRule",
    "Paths",
    "Promise",
    "Reliability",
    "TreeCost",
    "best_node_sets",
    "calibration_by_depth",
    "cheapest",
    "conformal_scores",
    "cost_matrix",
    "expected_calibration_error",
    "expected_costs",
    "find_paths",
    "finest_classes",
    "fit_calibrator",
    "fit_novelty",
    "fit_rule",
    "holds_truth",
    "information",
    "mark_unknown",
    "node_probabilities",
    "posterior_embeddings",
    "read_costs",
    "samples_needed",
    "threshold",
]

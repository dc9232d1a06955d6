"""The scores of predicted nodes, the same for every classifier."""

from __future__ import annotations

import math

from torch import Tensor

from labeltree.metrics.functional import accuracy_by_depth, hierarchical_f1, mistake_severity, tree_accuracy
from labeltree.taxonomy import Taxonomy

__all__ = ["classification_scores"]


def classification_scores(
    predicted: Tensor, target: Tensor, decided: Tensor, taxonomy: Taxonomy
) -> tuple[dict[str, float], list[float]]:
    """Score predicted nodes against the labels.

    Args:
        predicted: ``(n,)`` nodes, none missing.
        target: ``(n,)`` labels, none missing.
        decided: ``(n,)`` bool, which labels are finest; the others count in the accuracy by depth alone.
        taxonomy: of the nodes.

    Returns:
        the scores by name, and the accuracy at depth 1 … L.
    """
    by_depth = accuracy_by_depth(predicted, target, taxonomy).tolist()
    guess, truth = predicted[decided], target[decided]
    if not len(truth):
        return dict.fromkeys(
            ("top1", "hierarchical_f1", "tree_accuracy", "mistake_severity"), math.nan
        ), by_depth
    scores = {
        "top1": float((guess == truth).double().mean()),
        "hierarchical_f1": float(hierarchical_f1(guess, truth, taxonomy)),
        "tree_accuracy": float(tree_accuracy(guess, truth, taxonomy)),
        "mistake_severity": float(mistake_severity(guess, truth, taxonomy)),
    }
    return scores, by_depth

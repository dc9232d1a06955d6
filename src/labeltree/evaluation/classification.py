"""The scores of predicted nodes, the same for every classifier."""

from __future__ import annotations

import math

from torch import Tensor

from labeltree.evaluation.ground import Ground
from labeltree.metrics.functional import accuracy_by_depth, hierarchical_f1, mistake_severity, tree_accuracy
from labeltree.taxonomy.shared_depths import shared_depth

__all__ = ["classification_scores"]


def classification_scores(
    predicted: Tensor, target: Tensor, decided: Tensor, ground: Ground, shared: int | None = None
) -> tuple[dict[str, float], list[float]]:
    """Score predicted nodes against the labels.

    Args:
        predicted: ``(n,)`` nodes, none missing.
        target: ``(n,)`` labels, none missing.
        decided: ``(n,)`` bool, which labels are finest; the others count in the accuracy by depth alone.
        ground: of the nodes.
        shared: down to which depth all that can be answered share one node, so that the accuracy is not
            defined; None takes all leaves of the tree for what can be answered.

    Returns:
        the scores by name, and the accuracy at depth 1 … L.
    """
    by_depth = accuracy_by_depth(predicted, target, ground.tree).tolist()
    shared = shared_depth(ground.tree.leaves, ground.tree) if shared is None else shared
    by_depth[:shared] = [math.nan] * shared
    guess, truth = ground.in_judge(predicted[decided]), ground.in_judge(target[decided])
    if not len(truth):
        return dict.fromkeys(
            ("top1", "hierarchical_f1", "tree_accuracy", "mistake_severity"), math.nan
        ), by_depth
    scores = {
        "top1": float((guess == truth).double().mean()),
        "hierarchical_f1": float(hierarchical_f1(guess, truth, ground.judge)),
        "tree_accuracy": float(tree_accuracy(guess, truth, ground.judge)),
        "mistake_severity": float(mistake_severity(guess, truth, ground.judge)),
    }
    return scores, by_depth

"""What answers are worth where the truth is known."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from labeltree.decisions.answers import holds_truth, information
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["answer_scores"]


def answer_scores(answers: Tensor, labels: Tensor, taxonomy: AnyTaxonomy) -> dict[str, float]:
    """Scores of answers whose labels decide about them (`ClassNodes.judges`).

    Args:
        answers: (n,) nodes.
        labels: (n,) nodes, none missing.
        taxonomy: of the nodes.

    Returns:
        `coverage`, the share that holds the truth; `depth`, the mean depth of the answers, and
        `true_depth`, that of the labels; `information`, see `information`; `right_leaf`, the share that is
        the label itself; `root`, the share that says nothing; `accuracy_below_root`, the coverage of the
        others.
    """
    if not len(answers):
        return dict.fromkeys(
            ("coverage", "depth", "true_depth", "information", "right_leaf", "root", "accuracy_below_root"),
            math.nan,
        )
    holds = holds_truth(answers, labels, taxonomy)
    below = answers > 0
    return {
        "coverage": _mean(holds),
        "depth": _mean(taxonomy.depth[answers]),
        "true_depth": _mean(taxonomy.depth[labels]),
        "information": _mean(information(answers, taxonomy)),
        "right_leaf": _mean(answers == labels),
        "root": _mean(~below),
        "accuracy_below_root": _mean(holds[below]) if bool(below.any()) else math.nan,
    }


def _mean(values: Tensor) -> float:
    return float(values.to(torch.float64).mean())

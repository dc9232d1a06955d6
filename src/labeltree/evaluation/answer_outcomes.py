"""Columns that score a classifier's answers: top-1, hierarchical F1, mistake severity, accuracy by depth."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from labeltree.evaluation.columns import Column
from labeltree.evaluation.judging_taxonomy import JudgingTaxonomy
from labeltree.metrics.functional import (
    hierarchical_f1,
    mistake_severity,
    tree_accuracy,
)
from labeltree.taxonomy.label_sets import shared_depth

__all__ = ["answer_columns", "micro_f1_column"]


def answer_columns(
    predicted: Tensor,
    target: Tensor,
    decided: Tensor,
    judging: JudgingTaxonomy,
    rows: Tensor,
    shared: int | None = None,
) -> list[Column]:
    """The outcomes of a classifier, by name and depth.

    They are ``top1`` with ``balanced_top1`` (the mean over classes), ``hierarchical_f1``, ``tree_accuracy``,
    ``mistake_severity``, and ``accuracy`` by depth.

    Args:
        predicted: ``(n,)`` nodes, none missing.
        target: ``(n,)`` labels, none missing.
        decided: ``(n,)`` bool, which labels are finest; the others count in the accuracy by depth alone.
        judging: of the nodes.
        rows: ``(n,)`` of the table.
        shared: down to which depth all that can be answered share one node, so that the accuracy is not
            defined; None takes all leaves of the tree for what can be answered.
    """
    tree, pair = judging.tree, (judging.in_judge(predicted), judging.in_judge(target))

    def of_decided(values: Tensor) -> Tensor:
        return torch.where(decided, values.double(), torch.nan)

    f1 = of_decided(hierarchical_f1(*pair, judging.judge, reduction="none"))
    accuracy = of_decided(tree_accuracy(*pair, judging.judge, reduction="none"))
    severity = of_decided(mistake_severity(*pair, judging.judge, reduction="none"))
    column = partial(Column, rows=rows, labels=target)
    broken_down = partial(column, by_node=True, by_frequency=True)
    path = tree.paths[target]
    right = torch.where(path >= 0, (tree.paths[predicted] == path).double(), torch.nan)
    right[:, : shared_depth(tree.leaves, tree) if shared is None else shared] = torch.nan
    return [
        broken_down("top1", of_decided(predicted == target), balanced="balanced_top1"),
        broken_down("hierarchical_f1", f1),
        column("tree_accuracy", accuracy),
        column("mistake_severity", severity, larger_is_better=False, share=False),
        *(column("accuracy", depth, kind="by_depth", at=at) for at, depth in enumerate(right.T)),
    ]


def micro_f1_column(f1: Column, predicted: Tensor, judging: JudgingTaxonomy) -> Column:
    """The hierarchical F1 over all samples at once, in which samples with longer paths count for more.

    ``hierarchical_f1_micro`` = 2 Σ |A_y ∩ A_ŷ| / Σ (|A_y| + |A_ŷ|) (Silla and Freitas 2011, Section 5).
    """
    assert f1.labels is not None
    count = judging.judge.ancestor_count
    sizes = count[judging.in_judge(predicted)] + count[judging.in_judge(f1.labels)] - 2
    return Column("hierarchical_f1_micro", f1.values, f1.rows, f1.labels, sizes.double(), kind=None)

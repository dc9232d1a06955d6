"""Sensitivity, specificity and their like, of counts."""

from __future__ import annotations

from torch import Tensor

__all__ = ["node_rates"]


def node_rates(
    true_positives: Tensor, false_positives: Tensor, positives: Tensor, negatives: Tensor
) -> dict[str, Tensor]:
    """The rates that a test is described by, elementwise.

    - sensitivity (recall) = TP / P, specificity = TN / N;
    - PPV, the positive predictive value (precision) = TP / (TP + FP), NPV = TN / (TN + FN). They hold for the
      share of positives among these samples: where a disease is rarer, the PPV is lower;
    - balanced accuracy = (sensitivity + specificity) / 2.

    Args:
        true_positives: positive samples that were said to be positive, of any shape.
        false_positives: negative samples that were.
        positives: P, all positive samples.
        negatives: N, all negative samples.

    Returns:
        float64 "sensitivity", "specificity", "ppv", "npv", "balanced_accuracy", NaN where the denominator is
        0; and the int64 counts "true_positives", "false_positives", "false_negatives", "true_negatives".

    Example:
        >>> import torch
        >>> rates = node_rates(torch.tensor(8), torch.tensor(5), torch.tensor(10), torch.tensor(90))
        >>> rates["sensitivity"].item(), round(rates["ppv"].item(), 4)
        (0.8, 0.6154)

    """
    false_negatives, true_negatives = positives - true_positives, negatives - false_positives
    sensitivity = true_positives.double() / positives
    specificity = true_negatives.double() / negatives
    return {
        "sensitivity": sensitivity,
        "specificity": specificity,
        "ppv": true_positives.double() / (true_positives + false_positives),
        "npv": true_negatives.double() / (true_negatives + false_negatives),
        "balanced_accuracy": (sensitivity + specificity) / 2,
        "true_positives": true_positives,
        "false_positives": false_positives,
        "false_negatives": false_negatives,
        "true_negatives": true_negatives,
    }

"""How probable the labels are: negative log-likelihood over classes, and its smallest value."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from labeltree.decisions.class_nodes import ClassNodes

__all__ = ["best_temperature", "mean_label_loss"]

_ROWS = 4096
_LARGEST = math.log(1e3)  # of a temperature, and of its inverse


def mean_label_loss(scores: Tensor, labels: Tensor, classes: ClassNodes) -> Tensor:
    """Mean of −log p(label) over samples, with p the softmax of the scores (n, C) summed below the label.

    Args:
        scores: (n, C), may carry a gradient.
        labels: (n,) nodes, each with a class at or below it.
        classes: of the scores.
    """
    total = scores.new_zeros(())
    for start in range(0, len(labels), _ROWS):
        rows = slice(start, start + _ROWS)
        unique, inverse = torch.unique(labels[rows], return_inverse=True)
        below = classes.below(unique)[inverse]
        inside = scores[rows].masked_fill(~below, -torch.inf).logsumexp(1)
        total = total + (scores[rows].logsumexp(1) - inside).sum()
    return total / len(labels)


def best_temperature(loss: Callable[[float], float]) -> float:
    """The temperature between 1/1000 and 1000 of least loss."""
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(
        lambda log: loss(math.exp(log)),
        bounds=(-_LARGEST, _LARGEST),
        method="bounded",
        options={"xatol": 1e-7},
    )
    return math.exp(float(found.x))

"""Reductions of row losses: sums over terms, means over labelled rows, NaN for bad input."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from labeltree.pairs import num_ranks, own_rows, sum_over_ranks

__all__ = ["Reduction", "labelled_mean", "propagate_nan", "reduce_terms"]

Reduction = Literal["valid", "all", "pairs", "sum", "none"]


def reduce_terms(
    row: Tensor,
    normaliser: Tensor,
    term_weight: Tensor,
    reduction: Reduction,
    shard: slice | None = None,
) -> Tensor:
    """Sum over terms of weight × the reduced term.

    Args:
        row: `(n, T)` sum of weighted pair losses over each anchor's positives; 0 if it has none.
        normaliser: `(n, T)` the divisor of each anchor: |P(i)|, or the sum of its positives' weights.
        term_weight: `(T,)` weight of each term.
        reduction: Per term, `"valid"`: mean of row/normaliser over the anchors with a positive; `"all"`: mean
            over all anchors, those without a positive counting 0; `"sum"`: sum over anchors; `"pairs"`: Σ
            row / Σ normaliser, the mean over positive pairs. `"none"`: no reduction over anchors.
        shard: The rows of the union of all ranks' batches to return for `"none"`, see `own_rows`; None: all.

    Returns:
        A scalar, `(n,)` for `"none"`. Where no anchor has a positive, exactly 0, connected to the graph.

    Example:
        Three anchors, with two, one and no positives:

        >>> row, normaliser = torch.tensor([[4.0], [1.0], [0.0]]), torch.tensor([[2.0], [1.0], [0.0]])
        >>> [reduce_terms(row, normaliser, torch.ones(1), name).item() for name in ("valid", "all", "sum")]
        [1.5, 1.0, 3.0]
    """
    if reduction == "pairs":
        total = normaliser.sum(0)
        per_term = row.sum(0) / torch.where(total > 0, total, 1.0)
        return (per_term * term_weight).sum()
    valid = normaliser > 0
    mean = row / torch.where(valid, normaliser, 1.0)
    if reduction == "none":
        return own_rows((mean * term_weight).sum(1), shard)
    per_term = mean.sum(0)
    if reduction == "valid":
        per_term = per_term / valid.sum(0).clamp(min=1)
    elif reduction == "all":
        per_term = per_term / max(len(row), 1)
    return (per_term * term_weight).sum()


def propagate_nan(loss: Tensor, *given: Tensor, shard: slice | None = None) -> Tensor:
    """Make the loss NaN if an input holds NaN or infinity, even in rows that the loss does not use.

    Args:
        loss: a scalar; or `(n,)`, a loss for each row: only rows with NaN or infinity become NaN.
        given: The inputs, tensors `(n, d)`.
        shard: The rows of `given` that the losses `(n,)` belong to; None: all.
    """
    for x in given:
        nothing = x.detach() * 0
        if loss.dim():
            nothing = nothing.sum(1) if shard is None else nothing[shard].sum(1)
        else:
            nothing = nothing.sum()
        loss = loss + nothing.to(loss.dtype)
    return loss


def labelled_mean(rows: Tensor, labelled: Tensor, *, over_ranks: bool = False) -> Tensor:
    """The mean over labelled rows; exactly 0, connected to the graph, if there are none.

    NaN where any row is NaN or infinite, labelled or not.

    Args:
        rows: `(n,)` losses of the rows.
        labelled: `(n,)` bool.
        over_ranks: Take the mean over the rows of all ranks, which must all call this. The gradient is
            scaled so that DDP's mean over ranks is the gradient of that mean.
    """
    hidden = (rows.detach().masked_fill(labelled, 0.0) * 0).sum()
    total, count = rows.masked_fill(~labelled, 0.0).sum() + hidden, labelled.sum()
    ranks = num_ranks() if over_ranks else 1
    if ranks == 1:
        return total / count.clamp(min=1)
    count = sum_over_ranks(count).clamp(min=1)
    loss = ranks * total / count
    return loss + (sum_over_ranks(total) / count - loss).detach()

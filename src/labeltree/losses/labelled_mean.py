"""The mean of row losses over the rows that have a label, on one rank or on all."""

from __future__ import annotations

from torch import Tensor

from labeltree.pairs import num_ranks, sum_over_ranks

__all__ = ["labelled_mean"]


def labelled_mean(rows: Tensor, labelled: Tensor, *, over_ranks: bool = False) -> Tensor:
    """The mean over labelled rows; exactly 0, connected to the graph, where there is none.

    NaN where any row is NaN or infinite, labelled or not.

    Args:
        rows: `(n,)` losses of the rows.
        labelled: `(n,)` bool.
        over_ranks: the value is that of the union of all ranks' rows, and the gradient is scaled so that the
            mean over ranks, which DDP takes, is the union's. All ranks must then call this.
    """
    hidden = (rows.detach().masked_fill(labelled, 0.0) * 0).sum()
    total, count = rows.masked_fill(~labelled, 0.0).sum() + hidden, labelled.sum()
    ranks = num_ranks() if over_ranks else 1
    if ranks == 1:
        return total / count.clamp(min=1)
    count = sum_over_ranks(count).clamp(min=1)
    loss = ranks * total / count
    return loss + (sum_over_ranks(total) / count - loss).detach()

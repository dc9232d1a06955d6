"""The gradient of the least similarities, whose keys are looked up again."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.pairs.relation import LabelRows, PairRelation
from labeltree.pairs.streaming.tiles import blocks

__all__ = ["add_least_gradient"]

_BLOCK = 128


def add_least_gradient(of_u: Tensor, u: Tensor, rows: LabelRows, order: Tensor, weight: Tensor) -> None:
    """Add to `of_u (n, d)` the gradient of Σ weight·least cosine, `weight (n, R)`.

    Which key is nearest has not been kept: it is searched for again, for the few rows whose least similarity
    the loss depends on. Of keys that are equally near, the first in the batch has the gradient.

    Args:
        of_u: `(n, d)`.
        u: `(n, d)` unit vectors.
        rows: their labels.
        order: `(n,)` their places in the batch.
        weight: `(n, R)`, mostly 0.
    """
    batch = PairRelation(rows, rows, offset=0)
    row, code = weight.nonzero(as_tuple=True)
    for some in blocks(len(row), _BLOCK):
        i, r = row[some], code[some]
        cosine = (u[i] @ u.T).masked_fill_(batch.codes(i) != r[:, None], torch.inf)
        least = cosine == cosine.amin(1, keepdim=True)
        k = torch.where(least, order, len(u)).argmin(1)
        slope = weight[i, r][:, None]
        u_i, u_k = u[i], u[k]
        of_u.index_add_(0, i, slope * u_k)
        of_u.index_add_(0, k, slope * u_i)

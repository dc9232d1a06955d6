"""Rows of one kind against rows of another, all of them compared: both directions by one product."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from labeltree.geometry.smooth import unit
from labeltree.pairs.similarity import at_least_single, full_precision

__all__ = ["both_ways"]

_TILE = 2**22  # similarities that are kept for the backward pass


def both_ways(
    rows: Tensor, columns: Tensor, row_ids: Tensor, column_ids: Tensor, temperature: float | Tensor
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The row terms and normalisers `(n, 1)` of `rows`, then those `(m, 1)` of `columns`, by cosine over τ.

    Those of the same id are positives, and all of the other side compete. Row i of n has

        row_i = |P(i)|·log Σ_{k ≤ m} exp(s_ik) − Σ_{k ∈ P(i)} s_ik        normaliser_i = |P(i)|

    and column k likewise over the rows. Of more than 4 million pairs the similarities are computed again in
    the backward pass, so that memory grows with n + m.

    Args:
        rows: `(n, d)`, n ≥ 1.
        columns: `(m, d)`, m ≥ 1.
        row_ids: `(n,)` int64.
        column_ids: `(m,)` int64.
        temperature: τ > 0.
    """
    with full_precision(rows.device):
        x, y = (unit(side) for side in at_least_single(rows, columns))
        x = x / temperature
        of_rows, of_columns = _log_sums(x, y)
        ids, place = torch.unique(torch.cat([row_ids, column_ids]), return_inverse=True)
        of_x, of_y = place[: len(x)], place[len(x) :]
        return _terms(x, of_x, y, of_y, of_rows, len(ids)), _terms(y, of_y, x, of_x, of_columns, len(ids))


def _terms(
    side: Tensor, own: Tensor, other: Tensor, of: Tensor, log_sums: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """Row terms and normalisers of a side of ids `own`, against the other of ids `of`, 0 to `count` − 1."""
    positives = torch.bincount(of, minlength=count).to(side.dtype)[own]
    total = other.new_zeros(count, other.shape[1]).index_add(0, of, other)
    return (positives * log_sums - (side * total[own]).sum(1))[:, None], positives[:, None]


def _log_sums(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Log Σ exp of the products of each row with all columns `(n,)`, and of each column with all rows."""
    step = max(1, _TILE // len(y))
    if len(x) <= step:
        return _tile(x, y)
    parts = [checkpoint(_tile, part, y, use_reentrant=False) for part in torch.split(x, step)]
    return torch.cat([part[0] for part in parts]), torch.stack([part[1] for part in parts]).logsumexp(0)


def _tile(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    similarity = x @ y.T
    return similarity.logsumexp(1), similarity.logsumexp(0)

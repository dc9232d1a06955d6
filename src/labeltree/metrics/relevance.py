"""Scores of rankings whose results are relevant or not: recall@k, MAP@R and mAP from one reading."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["RelevanceScores"]


class RelevanceScores:
    """Per-query scores, filled from chunks of rankings.

    A result is relevant if its class is that of the query. A class of -1 takes no part: such queries get no
    score, and such results are skipped as if they were not in the database.

    Args:
        query_classes: (n,) int64.
        key_classes: (m,) int64; the same tensor as `query_classes` when leaving one out.
        leave_one_out: whether the rankings leave out the query itself, which then is none of its own relevant
            items.

    Attributes:
        first: (n,) int64 rank of the first relevant result, from 1; 0 where the ranking holds none.
        average_precision: (n,) float64, NaN without a relevant item; right only if rankings were complete.
        precision_at_r: (n,) float64 AP@R, NaN without a relevant item; right if rankings reach rank R.
        relevant: (n,) int64 number of relevant items R in the database.
        counted: (n,) bool, queries that take part.

    """

    def __init__(self, query_classes: Tensor, key_classes: Tensor, *, leave_one_out: bool) -> None:
        count = query_classes.shape[0]
        _, codes = torch.unique(torch.cat([query_classes, key_classes]), return_inverse=True)
        sizes = torch.bincount(
            codes[count:][key_classes >= 0], minlength=int(codes.max()) + 1 if len(codes) else 0
        )
        self.query_classes = query_classes
        self.key_classes = key_classes
        self.skips = bool((key_classes < 0).any())
        self.counted = query_classes >= 0
        self.relevant = torch.where(self.counted, sizes[codes[:count]] - int(leave_one_out), 0)
        self.first = torch.zeros_like(query_classes)
        self.average_precision = torch.full(
            (count,), torch.nan, dtype=torch.float64, device=query_classes.device
        )
        self.average_precision[self.relevant > 0] = 0.0
        self.precision_at_r = self.average_precision.clone()

    def add(self, start: int, order: Tensor) -> None:
        """Read the rankings `order` (b, w) of the queries `start` to `start + b`."""
        if order.numel() == 0:
            return
        rows = slice(start, start + order.shape[0])
        wanted = self.query_classes[rows, None]
        relevant = self.relevant[rows, None]
        found = torch.take(self.key_classes, order)
        hits = found == wanted
        # at a hit its number among the hits, elsewhere 0; counts are exact where float32 would not be
        numbers = hits.cumsum(dim=1, dtype=torch.int32).mul_(hits)
        if self.skips:
            ranks = (found >= 0).cumsum(dim=1)
        else:
            ranks = torch.arange(1, order.shape[1] + 1, device=order.device).expand(order.shape)
        some, place = hits.max(dim=1)
        self.first[rows] = torch.where(some, ranks.gather(1, place[:, None])[:, 0], 0)
        divisor = relevant[:, 0].clamp(min=1).double()
        self.average_precision[rows] += self._total(numbers, ranks) / divisor
        # the first R results that count may stretch further where some are skipped
        reach = order.shape[1] if self.skips else int(relevant.max())
        numbers, ranks = numbers[:, :reach], ranks[:, :reach]
        self.precision_at_r[rows] += self._total(numbers * (ranks <= relevant), ranks) / divisor

    def _total(self, numbers: Tensor, ranks: Tensor) -> Tensor:
        """(b,) float64: Σ numbers / ranks along each ranking."""
        if self.skips:
            return (numbers.double() / ranks.clamp(min=1)).sum(dim=1)
        return numbers.double() @ (1.0 / ranks[0].double())

    def recall(self, k: int) -> Tensor:
        """(n,) float64: 1 where one of the first `k` results is relevant, else 0; NaN if left out."""
        found = ((self.first > 0) & (self.first <= k)).double()
        return torch.where(self.counted, found, torch.nan)

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
        count = order.shape[0]
        wanted = self.query_classes[start : start + count]
        found = self.key_classes[order]
        hits = (found == wanted[:, None]) & (wanted >= 0)[:, None]
        query, place = hits.nonzero(as_tuple=True)
        rank = place + 1
        if self.skips:
            rank = (found >= 0).cumsum(dim=1)[query, place]
        per_query = torch.bincount(query, minlength=count)
        ends = per_query.cumsum(0)
        # hits come query by query in the order of their ranks, so a hit's number is its distance from the
        # first one
        number = torch.arange(1, len(query) + 1, device=order.device) - (ends - per_query)[query]
        precision = number.double() / rank.double()

        rows = slice(start, start + count)
        relevant = self.relevant[rows]
        some = per_query > 0
        self.first[rows][some] = rank[(ends - per_query)[some]]
        divisor = relevant.clamp(min=1).double()
        total = torch.zeros(count, dtype=torch.float64, device=order.device)
        self.average_precision[rows] += total.index_add(0, query, precision) / divisor
        early = rank <= relevant[query]
        self.precision_at_r[rows] += total.index_add(0, query[early], precision[early]) / divisor

    def recall(self, k: int) -> Tensor:
        """(n,) float64: 1 where one of the first `k` results is relevant, else 0; NaN if left out."""
        found = ((self.first > 0) & (self.first <= k)).double()
        return torch.where(self.counted, found, torch.nan)

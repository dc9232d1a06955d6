"""What the pair statistics are: one table per statistic, a row per anchor, a column per relation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from labeltree.pairs.relation import Rows

__all__ = ["PairStatistics", "PairWeight", "Statistic"]

Statistic = Literal["count", "sum", "lse", "least", "least_index", "weighted"]
PairWeight = Callable[[Rows, Rows], Tensor]


@dataclass(frozen=True, eq=False)
class PairStatistics:
    """Statistics of the similarities s_ik of n anchors, per relation r; None where not asked for.

    Attributes:
        count: `(n, R)` int64, number of keys in relation r to anchor i.
        sum: `(n, R)` Σ s_ik.
        lse: `(n, R)` log Σ exp(ω(r)·s_ik); −∞ where there is no such key.
        least: `(n, R)` min s_ik; +∞ where there is no such key.
        least_index: `(n, R)` int64, the first key that attains it; −1 where there is none.
        weight: `(n,)` Σ w_ik over all keys.
        weighted_sum: `(n,)` Σ w_ik·s_ik over all keys.
    """

    count: Tensor | None = None
    sum: Tensor | None = None
    lse: Tensor | None = None
    least: Tensor | None = None
    least_index: Tensor | None = None
    weight: Tensor | None = None
    weighted_sum: Tensor | None = None

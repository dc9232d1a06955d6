"""What the pair statistics are: one table per statistic, a row per anchor, a column per relation."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from labeltree.pairs.logsumexp import masked_logsumexp
from labeltree.pairs.relation import Rows

__all__ = ["PairStatistics", "PairWeight", "Statistic", "by_relation"]

Statistic = Literal["count", "sum", "lse", "lse_all", "least", "least_index", "weighted"]
PairWeight = Callable[[Rows, Rows], Tensor]


def by_relation(want: Collection[Statistic]) -> frozenset[Statistic]:
    """What is wanted, `lse` in the place of `lse_all`: see `PairStatistics.over_all`."""
    return frozenset("lse" if name == "lse_all" else name for name in want)


@dataclass(frozen=True, eq=False)
class PairStatistics:
    """Statistics of the similarities s_ik of n anchors, per relation r; None where not asked for.

    Attributes:
        count: `(n, R)` int64, number of keys in relation r to anchor i.
        sum: `(n, R)` Σ s_ik.
        lse: `(n, R)` log Σ exp(ω(r)·s_ik); −∞ where there is no such key.
        least: `(n, R)` min s_ik; +∞ where there is no such key.
        least_index: `(n, R)` int64, the first key that attains it; −1 where there is none.
        lse_all: `(n,)` log Σ exp(ω(r_ik)·s_ik) over all keys of whatever relation; −∞ where there are none.
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
    lse_all: Tensor | None = None

    def over_all(self) -> PairStatistics:
        """With `lse_all`, from `lse`."""
        assert self.lse is not None
        some = self.lse != -torch.inf
        found = masked_logsumexp(self.lse, torch.ones_like(some[:1]))
        return replace(self, lse_all=torch.where(some.any(1), found, -torch.inf))

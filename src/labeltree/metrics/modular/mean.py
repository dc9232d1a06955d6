"""A metric that is a mean over samples: a sum and a count are all the state it needs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

__all__ = ["SampleMean"]


class SampleMean(Metric):
    """Mean of values per sample, NaN where a sample is left out.

    State: `total` and `count` of the counted samples, and how many were `left_out`.
    """

    is_differentiable = False
    full_state_update = False
    total: Tensor
    count: Tensor
    left_out: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("total", torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("left_out", torch.tensor(0), dist_reduce_fx="sum")

    def add(self, values: Tensor) -> None:
        """Add values (b,)."""
        left_out = values.isnan()
        self.total += values.nansum()
        self.count += (~left_out).sum()
        self.left_out += left_out.sum()

    def try_out(self) -> None:
        """Add no sample at all, so that arguments that make no sense are refused at once."""
        nothing = torch.empty(0, dtype=torch.int64)
        type(self).update(self, nothing, nothing)

    def compute(self) -> Tensor:
        """Float64 scalar; NaN if no sample counts."""
        return self.total / self.count

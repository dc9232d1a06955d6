"""Log-sum-exps over some of the entries of a table."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["masked_logsumexp"]


def masked_logsumexp(x: Tensor, mask: Tensor) -> Tensor:
    """log Σ exp(x) over the last dimension where `mask`; −∞ entries add nothing; 0 where nothing is left."""
    found: Tensor = _MaskedLogSumExp.apply(x, mask)
    return found


class _MaskedLogSumExp(torch.autograd.Function):
    """Few operations, of which the backward can be differentiated, too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor) -> Tensor:
        found = torch.where(mask, x, -torch.inf).logsumexp(-1)
        found = found.masked_fill_(found == -torch.inf, 0.0)
        ctx.save_for_backward(x, mask, found)
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        x, mask, found = ctx.saved_tensors
        share = torch.where(mask, x - found[..., None], -torch.inf).exp()
        return (share * grad[..., None]).sum_to_size(x.shape), None

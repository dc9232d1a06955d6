"""Values of rows whose gradients are found together with them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labeltree.pairs.streaming.once import by_hand, once

__all__ = ["with_gradient"]


def with_gradient(rows: Tensor, values: Tensor, gradients: Tensor) -> Tensor:
    """`values (n, T)` of `rows (n, d)`, whose derivatives `gradients (n, T, d)` are known already."""
    found: Tensor = _KnownGradient.apply(rows, values, gradients)
    return found


class _KnownGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, values: Tensor, gradients: Tensor) -> Tensor:
        ctx.save_for_backward(gradients)
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (gradients,) = ctx.saved_tensors
        with by_hand(grad.device):
            of_rows = torch.einsum("nt,ntd->nd", grad, gradients)
        return once(of_rows), None, None

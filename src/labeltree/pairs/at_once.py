"""Losses of several sets of embeddings: each is done, its backward too, before the next begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from labeltree.pairs.implementation import planned
from labeltree.pairs.streaming.once import by_hand, once

__all__ = ["at_once"]


def at_once(loss: Callable[[Tensor], Tensor], embeddings: Tensor) -> Tensor:
    """The scalar `loss(embeddings)`, with its gradient found on the way.

    A gradient `(n, d)` is then all that waits for the backward: no tables of rows and relations, no tiles.
    Where that could not be, or could not be exact, it is `loss(embeddings)` as it stands: where no gradient
    is asked for, for half precision (whose gradients may need a scale), and for the dense implementation
    (which can be differentiated twice).

    Args:
        loss: depends on nothing else that has a gradient.
        embeddings: `(n, d)`.
    """
    wanted = embeddings.requires_grad and torch.is_grad_enabled()
    exact = embeddings.dtype in (torch.float32, torch.float64)
    if not (wanted and exact) or planned(embeddings.device, len(embeddings) ** 2).name == "dense":
        return loss(embeddings)
    leaf = embeddings.detach().requires_grad_()
    value = loss(leaf)
    (gradient,) = torch.autograd.grad(value, leaf)
    found: Tensor = _AtOnce.apply(embeddings, value.detach(), gradient)
    return found


class _AtOnce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, embeddings: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        with by_hand(grad.device):
            of_embeddings = gradient * grad
        return once(of_embeddings), None, None

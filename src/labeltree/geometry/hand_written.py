"""Gradients written by hand, which cannot be differentiated again: asking for it raises an error."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

__all__ = ["differentiable_once", "single_backward"]

Backward = Callable[..., tuple[Tensor | None, ...]]


def differentiable_once(backward: Backward) -> Backward:
    """Decorate the backward of an autograd function: it is run without graph, see `single_backward`.

    The function must save its inputs, or those of them that its gradient depends on. torch's
    `once_differentiable` raises no error where the incoming gradient is constant and only what was saved
    depends on the inputs: their second derivatives would be 0 without a word.
    """

    @wraps(backward)
    def once_differentiable(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        with torch.no_grad():
            gradients = backward(ctx, *grads)
        inputs = (*grads, *ctx.saved_tensors)
        return tuple(None if each is None else single_backward(each, *inputs) for each in gradients)

    return once_differentiable


def single_backward(gradient: Tensor, *inputs: Tensor | None) -> Tensor:
    """Mark a hand-written gradient so that differentiating it again raises an error.

    It matters only if a backward runs under `create_graph=True` and its result is differentiated.

    Args:
        gradient: The gradient, without graph.
        inputs: What it depends on. Without a way through the graph to these, autograd would leave its share
            of a second derivative out instead of coming by here.
    """
    if not torch.is_grad_enabled():
        return gradient
    tied: Tensor = _SingleBackward.apply(gradient.detach().requires_grad_(), *inputs)
    return tied


class _SingleBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *inputs: Tensor | None) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        raise RuntimeError(
            "this gradient is written by hand and can be differentiated once, not twice; a loss of pairs by "
            'cosine can within `with labeltree.pairs.implementation("dense"):`, which holds all pairs'
        )

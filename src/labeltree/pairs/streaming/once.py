"""Gradients computed by hand: to be taken once, a second time is an error that says what to do instead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from labeltree.pairs.precision import full_precision

__all__ = ["by_hand", "once"]


@contextmanager
def by_hand(device: torch.device) -> Iterator[None]:
    """For gradients computed by hand: without graph, and in full precision also under autocast."""
    with torch.no_grad(), full_precision(device):
        yield


def once(gradient: Tensor) -> Tensor:
    """A gradient computed by hand, tied to an error for whoever differentiates it again.

    Called in the backward of a function whose gradient has no graph of its own. Nothing happens unless that
    backward runs under `create_graph=True` and its result is differentiated.
    """
    if not torch.is_grad_enabled():
        return gradient
    tied: Tensor = _Once.apply(gradient.detach().requires_grad_())
    return tied


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        raise RuntimeError(
            "pair statistics that are streamed over tiles can be differentiated once, not twice; evaluate "
            'the loss within `with labeltree.pairs.implementation("dense"):`, which holds all pairs'
        )

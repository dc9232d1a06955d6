"""Helpers of hand-written autograd functions, whose gradients cannot be differentiated again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from labeltree.geometry.hand_written import single_backward
from labeltree.geometry.smooth import to_safe_length
from labeltree.pairs.pair_plan import planned
from labeltree.pairs.similarity import full_precision, working_dtype

__all__ = [
    "eager_gradient",
    "gradient_alone",
    "manual_gradient",
    "normalise_backward",
    "unit_rows",
    "with_gradient",
]

_LEAST_NORM = 1e-12  # as in `labeltree.geometry`: a shorter vector has no direction
_BLOCK = 8192


@contextmanager
def manual_gradient(device: torch.device) -> Iterator[None]:
    """Context of a hand-written backward: no graph, and full precision also under autocast."""
    with torch.no_grad(), full_precision(device):
        yield


def unit_rows(z: Tensor, order: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """z/|z| `(n, d)` and 1/|z| `(n, 1)`, the rows in the given order; without graph."""
    u = z.detach() if order is None else z.detach()[order]
    u = u.to(working_dtype(z))
    factor = to_safe_length(u)
    u = u * factor if order is None else u.mul_(factor)
    norm = torch.linalg.vector_norm(u, dim=1, keepdim=True)
    inverse = norm.masked_fill_(norm <= _LEAST_NORM, torch.inf).reciprocal_()
    return u.mul_(inverse), inverse * factor


def normalise_backward(grad_u: Tensor, u: Tensor, inverse: Tensor) -> Tensor:
    """The gradient through u = z/|z|: `grad_u (n, d)` becomes that of z; in place: lowers peak memory."""
    for start in range(0, len(u), _BLOCK):
        rows = slice(start, start + _BLOCK)
        g, x = grad_u[rows], u[rows]
        g.addcmul_((g * x).sum(1, keepdim=True), x, value=-1.0).mul_(inverse[rows])
    return grad_u


def gradient_alone(x: Tensor) -> Tensor:
    """A zero that has the gradient of x where x is finite."""
    return torch.where(x.isfinite(), x - x.detach(), 0.0)


def with_gradient(rows: Tensor, values: Tensor, gradients: Tensor) -> Tensor:
    """Attach known derivatives `gradients (n, T, d)` with respect to `rows (n, d)` to `values (n, T)`."""
    attached: Tensor = _WithGradient.apply(rows, values, gradients)
    return attached


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, values: Tensor, gradients: Tensor) -> Tensor:
        ctx.save_for_backward(gradients, rows)
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        gradients, rows = ctx.saved_tensors
        with manual_gradient(grad.device):
            grad_rows = torch.einsum("nt,ntd->nd", grad, gradients)
        return single_backward(grad_rows, grad, rows), None, None


def eager_gradient(loss: Callable[[Tensor], Tensor], embeddings: Tensor) -> Tensor:
    """Compute the scalar `loss(embeddings)` and its gradient at once.

    This saves memory where several losses are added up: each is finished, its backward included, before the
    next one begins, and only a gradient `(n, d)` is kept, without tables or tiles. It is plain
    `loss(embeddings)` where no gradient is asked for, in half precision (whose gradients may need a scale),
    and with the dense implementation (which can be differentiated twice).

    Args:
        loss: Function of the embeddings that depends on nothing else with a gradient.
        embeddings: `(n, d)`.
    """
    wanted = embeddings.requires_grad and torch.is_grad_enabled()
    exact = embeddings.dtype in (torch.float32, torch.float64)
    if not (wanted and exact) or planned(embeddings.device, len(embeddings) ** 2).name == "dense":
        return loss(embeddings)
    leaf = embeddings.detach().requires_grad_()
    value = loss(leaf)
    (gradient,) = torch.autograd.grad(value, leaf)
    attached: Tensor = _EagerGradient.apply(embeddings, value.detach(), gradient)
    return attached


class _EagerGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, embeddings: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient, embeddings)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        gradient, embeddings = ctx.saved_tensors
        with manual_gradient(grad.device):
            grad_embeddings = gradient * grad
        return single_backward(grad_embeddings, grad, embeddings), None, None

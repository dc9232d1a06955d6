"""Rows of unit length, and the gradient through their normalisation."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.geometry.smooth import to_safe_length
from labeltree.pairs.streaming.tiles import blocks

__all__ = ["take_to_tangent", "unit_rows", "working_dtype"]

_LEAST_NORM = 1e-12  # as in `labeltree.geometry`: a shorter vector has no direction
_BLOCK = 8192


def working_dtype(z: Tensor) -> torch.dtype:
    """float64 of float64, else float32."""
    return torch.float64 if z.dtype == torch.float64 else torch.float32


def unit_rows(z: Tensor, order: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """z/|z| `(n, d)` and 1/|z| `(n, 1)`, the rows in the given order; without graph."""
    u = z.detach() if order is None else z.detach()[order]
    u = u.to(working_dtype(z))
    factor = to_safe_length(u)
    u = u * factor if order is None else u.mul_(factor)
    norm = torch.linalg.vector_norm(u, dim=1, keepdim=True)
    inverse = norm.masked_fill_(norm <= _LEAST_NORM, torch.inf).reciprocal_()
    return u.mul_(inverse), inverse * factor


def take_to_tangent(of_u: Tensor, u: Tensor, inverse: Tensor) -> Tensor:
    """The gradient through u = z/|z|, in place: `of_u (n, d)` becomes that of z, in the order of u.

    In place, so that the caller can let go of u before the rows are put back in the order of the batch.
    """
    for rows in blocks(len(u), _BLOCK):
        g, x = of_u[rows], u[rows]
        g.addcmul_((g * x).sum(1, keepdim=True), x, value=-1.0).mul_(inverse[rows])
    return of_u

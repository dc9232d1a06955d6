"""All distances between two sets of points: exact for close pairs and near the boundary, O(n·m) memory."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from labeltree.geometry.precision import answer_dtype, widen

__all__ = ["pairwise_distance"]

# |x|² + |y|² − 2x·y in float64 is good to about 1e-15·(|x|² + |y|²). Pairs closer than this share of it are
# computed again from their difference.
_CLOSE = {torch.float32: 1e-7, torch.float64: 1e-3}
_PAIRS_AT_ONCE = 1 << 22


def pairwise_distance(
    x: Tensor,
    y: Tensor,
    x_factor: Tensor | None = None,
    y_factor: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Distances (n, m) between the rows of `x` (n, d) and of `y` (m, d).

    Without factors |x − y|. With the conformal factors `x_factor` (n,), `y_factor` (m,) = 1/(1 − |x|²) of points
    in the unit ball their geodesic distance 2·asinh(√(|x − y|²·x_factor·y_factor)): Eq. 2 of Climbing the Label
    Tree in a form that is exact for close pairs. Gradient 0 where two points coincide. `dtype` is that of the
    result, by default that of the points, float32 at least.
    """
    dtype = answer_dtype(x, y) if dtype is None else dtype
    return _PairwiseDistance.apply(x, y, x_factor, y_factor, dtype)  # type: ignore[no-any-return]


def _squared_distances(x: Tensor, y: Tensor, close: float) -> Tensor:
    """|x − y|² (n, m) of float64 rows; relative error below 1e-8 (float32 inputs) or 1e-12 (float64)."""
    x_square, y_square = (x * x).sum(1), (y * y).sum(1)
    result = torch.addmm(x_square[:, None] + y_square[None, :], x, y.T, alpha=-2.0)
    threshold = close * (x_square[:, None] + y_square[None, :])
    rows, columns = (result <= threshold).nonzero(as_tuple=True)
    if 10 * len(rows) > result.numel():  # a collapsed batch: nearly every pair is close
        return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist").square_()
    size = max(1, _PAIRS_AT_ONCE // max(1, x.shape[1]))
    for start in range(0, len(rows), size):
        i, j = rows[start : start + size], columns[start : start + size]
        result[i, j] = (x[i] - y[j]).square_().sum(1)
    return result


class _PairwiseDistance(torch.autograd.Function):
    """Forward keeps one (n, m) tensor in the input's precision for the backward: d distance/d |x − y|²."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        y: Tensor,
        x_factor: Tensor | None,
        y_factor: Tensor | None,
        dtype: torch.dtype,
    ) -> Tensor:
        wide_x, wide_y = widen(x), widen(y)
        square = _squared_distances(wide_x, wide_y, _CLOSE[dtype])
        if x_factor is None or y_factor is None:
            distance = square.sqrt_()
            slope = distance.reciprocal().mul_(0.5)
            scaled = None
        else:
            square *= x_factor[:, None]
            square *= y_factor[None, :]  # z, where distance = 2·asinh(√z) and d distance/dz = 1/√(z(1 + z))
            slope = square.add(1.0).mul_(square).rsqrt_()
            # z·d distance/dz = √(z/(1 + z)): the share of the two factors
            scaled = square.mul(slope).to(dtype)
            slope *= x_factor[:, None]
            slope *= y_factor[None, :]
            distance = square.sqrt_().asinh_().mul_(2.0)
        zero = distance == 0
        slope.masked_fill_(zero, 0.0)
        if scaled is not None:
            scaled.masked_fill_(zero, 0.0)
        ctx.save_for_backward(x, y, x_factor, y_factor, slope.to(dtype), scaled)
        return distance.to(dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, y, x_factor, y_factor, slope, scaled = ctx.saved_tensors
        weight = widen(grad * slope)
        wide_x, wide_y = widen(x), widen(y)
        x_grad = y_grad = x_factor_grad = y_factor_grad = None
        if ctx.needs_input_grad[0]:
            x_grad = torch.addmm(weight.sum(1, keepdim=True) * wide_x, weight, wide_y, alpha=-1.0).mul_(2.0)
            x_grad = x_grad.to(x.dtype)
        if ctx.needs_input_grad[1]:
            y_grad = torch.addmm(weight.sum(0)[:, None] * wide_y, weight.T, wide_x, alpha=-1.0).mul_(2.0)
            y_grad = y_grad.to(y.dtype)
        if scaled is not None:
            share = grad * scaled
            if ctx.needs_input_grad[2]:
                x_factor_grad = share.sum(1, dtype=x_factor.dtype) / x_factor
            if ctx.needs_input_grad[3]:
                y_factor_grad = share.sum(0, dtype=y_factor.dtype) / y_factor
        return x_grad, y_grad, x_factor_grad, y_factor_grad, None
